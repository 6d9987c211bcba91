//! Sessions that are closed.

use greenroom_core::Owner;
use greenroom_fleet::{EndReason, FleetError, SessionKey};
use tokio::time::Instant;

use crate::fixture::{FleetFixture, MS, connection, crash, named, settle};

/// Closing during a call answers it, and those behind it, at once; the slot is free when the close returns, and a call
/// with that id begins a new session without a note.
#[tokio::test(start_paused = true)]
async fn closing_a_session_answers_its_running_call() {
    let fixture = FleetFixture::new(1, 1);
    let running = fixture.begin("a", "hold").await;
    let queued = fixture.begin("a", "click").await;
    let held = fixture.world.held().await;
    fixture.close("a").await.unwrap();
    assert_eq!((fixture.leased(), fixture.world.counts().closes), (0, 1));
    for call in [running, queued] {
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(error, FleetError::Closed), "{error}");
    }
    assert!(!held.is_awaited());
    let said = fixture.call("a", "click").await.unwrap();
    assert_eq!((said.seat, said.notes), (2, vec![]));
    fixture.end().await;
}

/// A session that the operator closed is never replaced silently: its call gets the error, and the next one a note why
/// its browser is new, once.
#[tokio::test(start_paused = true)]
async fn session_closed_by_the_operator_is_noted() {
    let fixture = FleetFixture::new(1, 1);
    let call = fixture.begin("a", "hold").await;
    let _held = fixture.world.held().await;
    fixture.fleet.evict(&Owner::local(), &named("a")).await.unwrap();
    assert!(matches!(call.await.unwrap(), Err(FleetError::Closed)));
    let said = fixture.call("a", "click").await.unwrap();
    assert_eq!((said.seat, said.restarted()), (2, Some(&EndReason::Evicted)));
    assert_eq!(fixture.call("a", "click").await.unwrap().restarted(), None);
    fixture.end().await;
}

/// A call is answered at once even when its seat closes slowly; the slot is not free before.
#[tokio::test(start_paused = true)]
async fn slow_close_delays_no_answer() {
    let fixture = FleetFixture::new(1, 1);
    let running = fixture.begin("a", "hold").await;
    let _held = fixture.world.held().await;
    fixture.world.closing.shut();
    let closing = tokio::spawn({
        let fixture = fixture.clone();
        async move { fixture.close("a").await }
    });
    assert!(matches!(running.await.unwrap(), Err(FleetError::Closed)));
    settle().await;
    assert!(!closing.is_finished());
    assert_eq!((fixture.leased(), fixture.sessions()), (1, 0));
    let next = fixture.begin("a", "click").await;
    assert_eq!(fixture.waiting(), 1);
    fixture.world.closing.open();
    closing.await.unwrap().unwrap();
    assert_eq!(next.await.unwrap().unwrap().seat, 2);
    assert_eq!(fixture.world.counts().seats_max, 1);
    fixture.end().await;
}

/// A seat that never closes gives its slot up after a while.
#[tokio::test(start_paused = true)]
async fn hanging_close_frees_the_slot() {
    let fixture = FleetFixture::new(1, 1);
    fixture.create("a").await.unwrap();
    fixture.world.closing.shut();
    let began = Instant::now();
    fixture.close("a").await.unwrap();
    assert_eq!((began.elapsed().as_secs(), fixture.leased()), (5, 0));
    fixture.world.closing.open();
    fixture.call("a", "click").await.unwrap();
    fixture.end().await;
}

/// Closing while the seat opens ends the session as soon as the seat is open; while it waits for a slot, at once.
#[tokio::test(start_paused = true)]
async fn session_can_be_closed_while_opening() {
    let fixture = FleetFixture::new(1, 1);
    fixture.world.opening.shut();
    let opening = fixture.begin("a", "click").await;
    let waiting = fixture.begin("b", "click").await;
    fixture.close("b").await.unwrap();
    assert!(matches!(waiting.await.unwrap(), Err(FleetError::Closed)));
    let closing = tokio::spawn({
        let fixture = fixture.clone();
        async move { fixture.close("a").await }
    });
    settle().await;
    fixture.world.opening.open();
    closing.await.unwrap().unwrap();
    assert!(matches!(opening.await.unwrap(), Err(FleetError::Closed)));
    let counts = fixture.world.counts();
    assert_eq!((counts.opened, counts.closes, counts.calls), (1, 1, 0));
    assert_eq!((fixture.leased(), fixture.waiting()), (0, 0));
    fixture.end().await;
}

/// Closing a session that does not exist, is another owner's or was never begun gives the matching error.
#[tokio::test(start_paused = true)]
async fn closing_an_unknown_session_is_an_error() {
    let fixture = FleetFixture::new(2, 1);
    fixture.create("a").await.unwrap();
    let error = fixture.close("b").await.unwrap_err();
    assert_eq!(error.to_string(), "no such session: \"b\"");
    let ann = Owner::new("ann");
    assert!(matches!(fixture.fleet.close(&ann, &named("a")).await, Err(FleetError::NoSession(_))));
    assert!(matches!(fixture.fleet.renew(&ann, &named("a")), Err(FleetError::NoSession(_))));
    let local = Owner::local();
    assert!(matches!(
        fixture.fleet.close(&local, &connection(1)).await,
        Err(FleetError::NoConnectionSession)
    ));
    assert!(matches!(
        fixture.fleet.close(&local, &SessionKey::Ephemeral).await,
        Err(FleetError::NoConnectionSession)
    ));
    assert_eq!(fixture.sessions(), 1);
    fixture.close("a").await.unwrap();
    assert!(matches!(fixture.close("a").await, Err(FleetError::NoSession(_))));
    fixture.end().await;
}

/// A session that dies while it is closed leaves no note for the next one with its name.
#[tokio::test(start_paused = true)]
async fn session_lost_during_close_leaves_no_note() {
    let fixture = FleetFixture::new(1, 1);
    for _ in 0..20 {
        let running = fixture.begin("a", "hold").await;
        let held = fixture.world.held().await;
        fixture.world.lose_seat(held.seat, crash());
        fixture.close("a").await.unwrap();
        running.await.unwrap().unwrap_err();
        let said = fixture.call("a", "click").await.unwrap();
        assert_eq!(said.notes, []);
        // The same between calls, with a call that came at the same moment: it belonged to the closed session.
        fixture.world.lose_seat(said.seat, crash());
        let late = fixture.call("a", "click");
        let (late, closed) = tokio::join!(late, fixture.close("a"));
        closed.unwrap();
        assert!(matches!(late, Err(FleetError::Closed)), "{late:?}");
        assert_eq!(fixture.call("a", "click").await.unwrap().notes, []);
        fixture.close("a").await.unwrap();
    }
    fixture.end().await;
}

/// A thousand sessions, opened and closed, leave nothing behind.
#[tokio::test(start_paused = true)]
async fn a_thousand_sessions_leave_nothing() {
    let fixture = FleetFixture::new(10, 10);
    for round in 0..10 {
        let mut calls = Vec::new();
        for n in 0..100 {
            let fixture = fixture.clone();
            calls.push(tokio::spawn(async move {
                let id = format!("session {round}/{n}");
                fixture.call(&id, "click").await.unwrap();
                tokio::time::sleep(MS * n).await;
                fixture.close(&id).await.unwrap();
            }));
        }
        for call in calls {
            call.await.unwrap();
        }
    }
    let counts = fixture.world.counts();
    assert_eq!((counts.opened, counts.closes, counts.calls, counts.dropped), (1000, 1000, 1000, 0));
    assert_eq!((counts.started, counts.seats_max), (10, 10));
    let figures = fixture.pool();
    assert_eq!((figures.leased_slots, figures.waiting, figures.instances.len()), (0, 0, 10));
    assert_eq!((fixture.sessions(), fixture.world.open_seats().len()), (0, 0));
    fixture.end().await;
}
