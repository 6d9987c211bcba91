//! Sessions that are closed.

use greenroom_core::Owner;
use greenroom_fleet::{Ended, FleetError, SessionKey};
use tokio::time::Instant;

use crate::stage::{MS, Stage, connection, crash, named, settle};

/// Closing during a call answers it, and those behind it, at once; the slot is free when the close returns, and a call
/// with that id begins a new session without a note.
#[tokio::test(start_paused = true)]
async fn closed_under_a_call() {
    let stage = Stage::new(1, 1);
    let running = stage.begin("a", "hold").await;
    let queued = stage.begin("a", "click").await;
    let held = stage.world.held().await;
    stage.close("a").await.unwrap();
    assert_eq!((stage.leased(), stage.world.counts().closes), (0, 1));
    for call in [running, queued] {
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(error, FleetError::Closed), "{error}");
    }
    assert!(!held.is_awaited());
    let said = stage.call("a", "click").await.unwrap();
    assert_eq!((said.seat, said.notes), (2, vec![]));
    stage.end().await;
}

/// A session that the operator closed is never replaced silently: its call gets the error, and the next one a note why
/// its browser is new, once.
#[tokio::test(start_paused = true)]
async fn evicted_under_a_call() {
    let stage = Stage::new(1, 1);
    let call = stage.begin("a", "hold").await;
    let _held = stage.world.held().await;
    stage.fleet.evict(&Owner::local(), &named("a")).await.unwrap();
    assert!(matches!(call.await.unwrap(), Err(FleetError::Closed)));
    let said = stage.call("a", "click").await.unwrap();
    assert_eq!((said.seat, said.restarted()), (2, Some(&Ended::Evicted)));
    assert_eq!(stage.call("a", "click").await.unwrap().restarted(), None);
    stage.end().await;
}

/// A call is answered at once even when its seat closes slowly; the slot is not free before.
#[tokio::test(start_paused = true)]
async fn a_slow_close_holds_up_no_answer() {
    let stage = Stage::new(1, 1);
    let running = stage.begin("a", "hold").await;
    let _held = stage.world.held().await;
    stage.world.closing.shut();
    let closing = tokio::spawn({
        let stage = stage.clone();
        async move { stage.close("a").await }
    });
    assert!(matches!(running.await.unwrap(), Err(FleetError::Closed)));
    settle().await;
    assert!(!closing.is_finished());
    assert_eq!((stage.leased(), stage.sessions()), (1, 0));
    let next = stage.begin("a", "click").await;
    assert_eq!(stage.waiting(), 1);
    stage.world.closing.open();
    closing.await.unwrap().unwrap();
    assert_eq!(next.await.unwrap().unwrap().seat, 2);
    assert_eq!(stage.world.counts().seats_max, 1);
    stage.end().await;
}

/// A seat that never closes gives its slot up after a while.
#[tokio::test(start_paused = true)]
async fn a_hung_close_gives_the_slot_up() {
    let stage = Stage::new(1, 1);
    stage.create("a").await.unwrap();
    stage.world.closing.shut();
    let began = Instant::now();
    stage.close("a").await.unwrap();
    assert_eq!((began.elapsed().as_secs(), stage.leased()), (5, 0));
    stage.world.closing.open();
    stage.call("a", "click").await.unwrap();
    stage.end().await;
}

/// Closing while the seat opens ends the session as soon as the seat is open; while it waits for a slot, at once.
#[tokio::test(start_paused = true)]
async fn closed_before_it_began() {
    let stage = Stage::new(1, 1);
    stage.world.opening.shut();
    let opening = stage.begin("a", "click").await;
    let waiting = stage.begin("b", "click").await;
    stage.close("b").await.unwrap();
    assert!(matches!(waiting.await.unwrap(), Err(FleetError::Closed)));
    let closing = tokio::spawn({
        let stage = stage.clone();
        async move { stage.close("a").await }
    });
    settle().await;
    stage.world.opening.open();
    closing.await.unwrap().unwrap();
    assert!(matches!(opening.await.unwrap(), Err(FleetError::Closed)));
    let counts = stage.world.counts();
    assert_eq!((counts.opened, counts.closes, counts.calls), (1, 1, 0));
    assert_eq!((stage.leased(), stage.waiting()), (0, 0));
    stage.end().await;
}

/// Closing a session that does not exist, is another owner's or was never begun gives the matching error.
#[tokio::test(start_paused = true)]
async fn unknown_sessions() {
    let stage = Stage::new(2, 1);
    stage.create("a").await.unwrap();
    let error = stage.close("b").await.unwrap_err();
    assert_eq!(error.to_string(), "no such session: \"b\"");
    let ann = Owner::new("ann");
    assert!(matches!(stage.fleet.close(&ann, &named("a")).await, Err(FleetError::NoSession(_))));
    assert!(matches!(stage.fleet.renew(&ann, &named("a")), Err(FleetError::NoSession(_))));
    let local = Owner::local();
    assert!(matches!(stage.fleet.close(&local, &connection(1)).await, Err(FleetError::NoConnectionSession)));
    assert!(matches!(
        stage.fleet.close(&local, &SessionKey::Ephemeral).await,
        Err(FleetError::NoConnectionSession)
    ));
    assert_eq!(stage.sessions(), 1);
    stage.close("a").await.unwrap();
    assert!(matches!(stage.close("a").await, Err(FleetError::NoSession(_))));
    stage.end().await;
}

/// A session that dies while it is closed leaves no note for the next one with its name.
#[tokio::test(start_paused = true)]
async fn closed_while_it_died() {
    let stage = Stage::new(1, 1);
    for _ in 0..20 {
        let running = stage.begin("a", "hold").await;
        let held = stage.world.held().await;
        stage.world.lose_seat(held.seat, crash());
        stage.close("a").await.unwrap();
        running.await.unwrap().unwrap_err();
        let said = stage.call("a", "click").await.unwrap();
        assert_eq!(said.notes, []);
        // The same between calls, with a call that came at the same moment: it belonged to the closed session.
        stage.world.lose_seat(said.seat, crash());
        let late = stage.call("a", "click");
        let (late, closed) = tokio::join!(late, stage.close("a"));
        closed.unwrap();
        assert!(matches!(late, Err(FleetError::Closed)), "{late:?}");
        assert_eq!(stage.call("a", "click").await.unwrap().notes, []);
        stage.close("a").await.unwrap();
    }
    stage.end().await;
}

/// A thousand sessions, opened and closed, leave nothing behind.
#[tokio::test(start_paused = true)]
async fn a_thousand_sessions_leave_nothing() {
    let stage = Stage::new(10, 10);
    for round in 0..10 {
        let mut calls = Vec::new();
        for n in 0..100 {
            let stage = stage.clone();
            calls.push(tokio::spawn(async move {
                let id = format!("session {round}/{n}");
                stage.call(&id, "click").await.unwrap();
                tokio::time::sleep(MS * n).await;
                stage.close(&id).await.unwrap();
            }));
        }
        for call in calls {
            call.await.unwrap();
        }
    }
    let counts = stage.world.counts();
    assert_eq!((counts.opened, counts.closes, counts.calls, counts.dropped), (1000, 1000, 1000, 0));
    assert_eq!((counts.started, counts.seats_max), (10, 10));
    let figures = stage.pool();
    assert_eq!((figures.leased_slots, figures.waiting, figures.instances.len()), (0, 0, 10));
    assert_eq!((stage.sessions(), stage.world.open_seats().len()), (0, 0));
    stage.end().await;
}
