//! Spares that cannot be opened, and those that die before a caller takes them.

use std::time::Duration;

use greenroom_core::{InstanceId, StartError};
use greenroom_fleet::{FleetError, Readiness};
use tokio::time::{advance, sleep};

use crate::{
    fixture::{FleetFixture, MS, crash, settle},
    spares::{spares, warm},
};

/// A lost spare is closed and replaced after a pause. A session that comes at the moment of the loss gets another seat and
/// no note.
#[tokio::test(start_paused = true)]
async fn lost_spare_is_replaced() {
    let fixture = warm(1, 2, 1).await;
    fixture.world.lose_seat(1, crash());
    let said = fixture.call("a", "click").await.unwrap();
    assert_eq!((said.seat, said.notes), (2, vec![]));
    settle().await;
    assert_eq!((spares(&fixture), fixture.leased(), fixture.world.open_seats()), (0, 1, vec![2]));
    advance(Duration::from_secs(1) - MS).await;
    settle().await;
    assert_eq!(spares(&fixture), 0);
    advance(MS).await;
    settle().await;
    assert_eq!((spares(&fixture), fixture.leased()), (1, 1));
    fixture.end().await;
}

/// A spare that is lost as it is handed over is not called: the session gets another seat and no note.
#[tokio::test(start_paused = true)]
async fn spare_lost_at_the_handover_is_not_called() {
    let fixture = warm(1, 2, 1).await;
    fixture.world.lose_when_looked_at(1);
    let said = fixture.call("a", "click").await.unwrap();
    assert_eq!((said.seat, said.notes), (2, vec![]));
    fixture.end().await;
    for turns in 0..30 {
        let fixture = warm(1, 2, 2).await;
        let call = tokio::spawn({
            let fixture = fixture.clone();
            async move { fixture.call("a", "click").await }
        });
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        fixture.world.lose_instance(InstanceId(0), &crash());
        assert_eq!(call.await.unwrap().unwrap().notes, [], "after {turns} turns");
        fixture.end().await;
    }
}

/// A lost instance takes its spares along; a session that comes at that moment gets another instance, without a note.
#[tokio::test(start_paused = true)]
async fn spares_end_with_their_instance() {
    for told in [false, true] {
        let fixture = warm(2, 4, 1).await;
        fixture.world.lose_instance(InstanceId(0), &crash());
        if told {
            settle().await;
            assert_eq!((spares(&fixture), fixture.leased()), (0, 0));
        }
        let said = fixture.call("a", "click").await.unwrap();
        assert_eq!((said.seat, said.notes), (3, vec![]));
        sleep(Duration::from_secs(1)).await;
        settle().await;
        assert_eq!((spares(&fixture), fixture.world.counts().starts), (2, 2));
        fixture.end().await;
    }
}

/// Spares that cannot be opened are tried again after 1, 2, 4 … s, at most 60 s; sessions may try meanwhile. Once a spare
/// is handed out, the pauses begin at 1 s again.
#[tokio::test(start_paused = true)]
async fn failing_spares_back_off() {
    let fixture = FleetFixture::warm(1, 4, 1);
    for _ in 0..9 {
        fixture.world.fail_open(StartError::new("no context"));
    }
    fixture.fleet.start();
    settle().await;
    for (tries, pause) in (1..).zip([1, 2, 4, 8, 16, 32, 60, 60, 60]) {
        assert_eq!(fixture.world.counts().opens, tries);
        let Readiness::Failed(error) = fixture.fleet.readiness() else { panic!("no spare can be opened") };
        assert_eq!(error.message, "no context");
        advance(Duration::from_secs(pause) - MS).await;
        settle().await;
        assert_eq!(fixture.world.counts().opens, tries, "before {pause} s are over");
        advance(MS).await;
        settle().await;
    }
    assert_eq!((spares(&fixture), fixture.world.counts().opens), (1, 10));
    assert!(matches!(fixture.fleet.readiness(), Readiness::Ready));
    fixture.world.fail_open(StartError::new("no context"));
    fixture.create("a").await.unwrap();
    settle().await;
    assert_eq!(spares(&fixture), 0);
    sleep(Duration::from_secs(1)).await;
    settle().await;
    assert_eq!(spares(&fixture), 1, "one was handed out meanwhile");
    fixture.end().await;
}

/// Instances that cannot start are tried again with the same pauses, and a call meanwhile makes its own attempt.
#[tokio::test(start_paused = true)]
async fn failing_starts_back_off() {
    let fixture = FleetFixture::warm(3, 4, 2);
    assert!(matches!(fixture.fleet.readiness(), Readiness::Starting));
    for _ in 0..3 {
        fixture.world.fail_start("no chromium");
    }
    fixture.fleet.start();
    settle().await;
    assert_eq!(fixture.world.counts().starts, 1, "three spares, one failure");
    assert!(matches!(fixture.fleet.readiness(), Readiness::Failed(_)));
    sleep(Duration::from_secs(1)).await;
    settle().await;
    assert_eq!(fixture.world.counts().starts, 2);
    assert!(matches!(fixture.create("a").await, Err(FleetError::Start(_))));
    assert_eq!(fixture.world.counts().starts, 3);
    fixture.create("a").await.unwrap();
    assert!(matches!(fixture.fleet.readiness(), Readiness::Ready));
    sleep(Duration::from_secs(2)).await;
    settle().await;
    assert_eq!((spares(&fixture), fixture.world.counts().starts), (3, 4));
    fixture.end().await;
}

/// Seats that die soon after they were opened are replaced more and more slowly; after a long life the pauses begin anew.
#[tokio::test(start_paused = true)]
async fn dying_spares_back_off() {
    let fixture = warm(1, 1, 1).await;
    for (seat, pause) in [(1, 1), (2, 2), (3, 4)] {
        fixture.world.lose_seat(seat, crash());
        settle().await;
        advance(Duration::from_secs(pause) - MS).await;
        settle().await;
        assert_eq!(fixture.world.counts().opened, seat as usize);
        advance(MS).await;
        settle().await;
        assert_eq!(fixture.world.counts().opened, seat as usize + 1);
    }
    sleep(Duration::from_secs(60)).await;
    fixture.world.lose_seat(4, crash());
    sleep(Duration::from_secs(1)).await;
    settle().await;
    assert_eq!(spares(&fixture), 1);
    fixture.end().await;
}

/// A session never gets a spare that is lost while it is handed over. Runs on real threads, so that the loss meets
/// every point of the handover.
#[test]
fn session_never_gets_a_lost_spare() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
    runtime.block_on(async {
        for _ in 0..100 {
            let fixture = FleetFixture::warm(2, 4, 2);
            fixture.fleet.start();
            fixture.world.until(|counts| counts.opened == 2).await;
            let lose = tokio::spawn({
                let fixture = fixture.clone();
                async move {
                    for seat in fixture.world.open_seats() {
                        fixture.world.lose_if_open(seat, crash());
                    }
                }
            });
            for id in ["a", "b", "c"] {
                match fixture.create(id).await {
                    Ok(()) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            lose.await.unwrap();
            fixture.fleet.shutdown().await;
            let counts = fixture.world.counts();
            assert_eq!((counts.opened, counts.dropped), (counts.closes, 0), "{counts:?}");
        }
    });
}
