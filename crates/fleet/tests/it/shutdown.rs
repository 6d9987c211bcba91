//! Drains and shutdowns of the whole fleet.

use std::time::Duration;

use greenroom_core::Owner;
use greenroom_fleet::{FleetError, SessionKey};
use tokio::time::Instant;

use crate::fixture::{FleetFixture, settle};

/// A shutdown ends sessions that are idle, busy, opening and waiting, and calls without one; each caller learns why, every
/// seat is closed and every instance stopped once, and the fleet accepts nothing more.
#[tokio::test(start_paused = true)]
async fn shutdown_ends_all_sessions_and_calls() {
    let fixture = FleetFixture::new(2, 2);
    fixture.create("idle").await.unwrap();
    fixture.call_ephemeral("click").await.unwrap();
    let mut calls = vec![fixture.begin("busy", "hold").await, fixture.begin("busy", "queued").await];
    let _held = fixture.world.held().await;
    fixture.world.opening.shut();
    calls.push(fixture.begin("opening", "click").await);
    settle().await;
    // The slot of the call without a session goes to the first of these; the second waits.
    calls.push(fixture.begin("reclaims", "click").await);
    calls.push(fixture.begin("waits", "click").await);
    assert_eq!((fixture.leased(), fixture.waiting()), (4, 1));
    let began = Instant::now();
    fixture.end().await;
    assert_eq!(began.elapsed().as_millis(), 0);
    for call in calls {
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(error, FleetError::ShuttingDown), "{error}");
    }
    for session_key in [crate::fixture::named("idle"), crate::fixture::connection(1), SessionKey::Ephemeral] {
        let late = fixture.call_as(&Owner::local(), session_key, "click", "{}").await;
        assert!(matches!(late, Err(FleetError::ShuttingDown)));
    }
    assert!(matches!(fixture.create("new").await, Err(FleetError::ShuttingDown)));
    assert_eq!((fixture.sessions(), fixture.world.counts().starts), (0, 2));
    fixture.end().await;
}

/// A shutdown ends an instance that is still starting, and those who wait for it.
#[tokio::test(start_paused = true)]
async fn shutdown_ends_starting_instances() {
    let fixture = FleetFixture::new(1, 1);
    fixture.world.starting.shut();
    let calls = [fixture.begin("a", "click").await, fixture.begin("b", "click").await];
    fixture.end().await;
    for call in calls {
        assert!(matches!(call.await.unwrap(), Err(FleetError::ShuttingDown)));
    }
    assert_eq!((fixture.world.counts().starts, fixture.world.counts().started), (1, 0));
}

/// A shutdown without anything to end returns.
#[tokio::test(start_paused = true)]
async fn shutdown_of_an_empty_fleet_returns() {
    FleetFixture::new(1, 1).end().await;
}

/// A seat that does not close holds a shutdown up for a bounded time only, and its instance is stopped after.
#[tokio::test(start_paused = true)]
async fn hanging_close_delays_shutdown_for_a_bounded_time() {
    let fixture = FleetFixture::new(2, 2);
    for id in ["a", "b", "c"] {
        fixture.create(id).await.unwrap();
    }
    fixture.world.closing.shut();
    let began = Instant::now();
    fixture.end().await;
    assert_eq!(began.elapsed().as_secs(), 5, "all at once, not one after the other");
}

/// A shutdown waits for sessions that are being closed already, and for instances that are being stopped.
#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_closing_sessions() {
    let fixture = FleetFixture::new(1, 2);
    fixture.create("a").await.unwrap();
    fixture.create("b").await.unwrap();
    fixture.world.closing.shut();
    fixture.world.stopping.shut();
    let close = tokio::spawn({
        let fixture = fixture.clone();
        async move { fixture.close("a").await }
    });
    settle().await;
    let ending = tokio::spawn({
        let fixture = fixture.clone();
        async move { fixture.end().await }
    });
    settle().await;
    assert_eq!((fixture.world.counts().closes, fixture.world.counts().stops), (2, 0));
    fixture.world.closing.open();
    fixture.world.until(|counts| counts.stops == 2).await;
    settle().await;
    assert!(close.is_finished() && !ending.is_finished());
    fixture.world.stopping.open();
    ending.await.unwrap();
}

/// Calls that race with a shutdown on many threads are answered, one way or the other, and leave nothing.
#[test]
fn calls_racing_with_a_shutdown_are_answered() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
    runtime.block_on(async {
        for _ in 0..50 {
            let fixture = FleetFixture::new(2, 2);
            let mut calls = tokio::task::JoinSet::new();
            for n in 0..20 {
                let fixture = fixture.clone();
                calls.spawn(async move {
                    match n % 3 {
                        0 => fixture.call_ephemeral("click").await,
                        _ => fixture.call(&(n % 4).to_string(), "click").await,
                    }
                });
            }
            tokio::task::yield_now().await;
            fixture.end().await;
            while let Some(call) = calls.join_next().await {
                match call.unwrap() {
                    Ok(_) | Err(FleetError::ShuttingDown) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            fixture.end().await;
        }
    });
}

/// Draining accepts no more calls, lets those that run or wait end, and returns whether they did in time.
#[tokio::test(start_paused = true)]
async fn drain_lets_running_calls_end() {
    let fixture = FleetFixture::fixed(1, 1).await;
    let running = fixture.begin("a", "hold").await;
    let held = fixture.world.held().await;
    let queued = fixture.begin("a", "click").await;
    let fleet = fixture.fleet.clone();
    let drained = tokio::spawn(async move { fleet.drain_calls(Duration::from_secs(60)).await });
    settle().await;
    for session_key in [crate::fixture::named("a"), crate::fixture::named("b"), SessionKey::Ephemeral] {
        let late = fixture.call_as(&Owner::local(), session_key, "click", "{}").await;
        assert!(matches!(late, Err(FleetError::ShuttingDown)));
    }
    assert!(matches!(fixture.create("new").await, Err(FleetError::ShuttingDown)));
    assert!(!drained.is_finished());
    held.answer();
    assert!(drained.await.unwrap());
    running.await.unwrap().unwrap();
    queued.await.unwrap().unwrap();
    fixture.end().await;
}

/// A drain waits for calls for a limited time; the shutdown then ends them.
#[tokio::test(start_paused = true)]
async fn drain_time_is_bounded() {
    let fixture = FleetFixture::fixed(1, 1).await;
    let running = fixture.begin("a", "hold").await;
    let _held = fixture.world.held().await;
    let began = Instant::now();
    assert!(!fixture.fleet.drain_calls(Duration::from_secs(7)).await);
    assert_eq!(began.elapsed().as_secs(), 7);
    fixture.end().await;
    assert!(matches!(running.await.unwrap(), Err(FleetError::ShuttingDown)));
}

/// A call that was accepted before the drain and whose session dies before its turn gets the error that greenroom is
/// shutting down: it gets no lease any more, and does not hold up the drain.
#[tokio::test(start_paused = true)]
async fn call_whose_session_dies_in_a_drain_gets_the_error() {
    let fixture = FleetFixture::fixed(1, 1).await;
    fixture.create("a").await.unwrap();
    // A call is queued, the browser dies and the drain begins, all before the session's task sees any of it.
    let mut call = Box::pin(fixture.call("a", "click"));
    tokio::select! {
        biased;
        outcome = &mut call => panic!("{outcome:?}"),
        () = std::future::ready(()) => {}
    }
    fixture.world.lose_seat(fixture.world.open_seats()[0], crate::fixture::crash());
    let (drained, outcome) = tokio::join!(biased; fixture.fleet.drain_calls(Duration::from_secs(60)), call);
    assert!(drained && matches!(outcome, Err(FleetError::ShuttingDown)));
    assert_eq!(fixture.world.counts().opens, 1);
    fixture.end().await;
}

/// Callers that wait in line when a drain begins are refused at once and hold nothing up; calls that run end, and the pools
/// accept no more orders.
#[tokio::test(start_paused = true)]
async fn waiters_do_not_delay_a_drain() {
    let fixture = FleetFixture::fixed(1, 1).await;
    let running = fixture.begin("a", "hold").await;
    let held = fixture.world.held().await;
    let waiting = fixture.begin("b", "click").await;
    let began = Instant::now();
    let fleet = fixture.fleet.clone();
    let draining = tokio::spawn(async move { fleet.drain_calls(Duration::from_secs(60)).await });
    assert!(matches!(waiting.await.unwrap(), Err(FleetError::ShuttingDown)));
    assert_eq!(began.elapsed().as_millis(), 0);
    assert!(fixture.fleet.is_stopping());
    assert!(matches!(fixture.fleet.scale("DEFAULT", 2), Err(FleetError::ShuttingDown)));
    assert!(matches!(fixture.fleet.restart("DEFAULT", None), Err(FleetError::ShuttingDown)));
    held.answer();
    running.await.unwrap().unwrap();
    assert!(draining.await.unwrap());
    fixture.end().await;
}

/// All pools end at the same time: a browser that does not stop delays only its own pool.
#[tokio::test(start_paused = true)]
async fn pools_end_in_parallel() {
    let (fixture, other) = crate::declared::two_pools(3, 3, |_| {});
    fixture.fleet.start();
    settle().await;
    fixture.world.stopping.shut();
    other.stopping.shut();
    let ending = tokio::spawn({
        let fixture = fixture.clone();
        async move { fixture.end().await }
    });
    settle().await;
    assert_eq!((fixture.world.counts().stops, other.counts().stops), (3, 3));
    assert!(!ending.is_finished());
    fixture.world.stopping.open();
    other.stopping.open();
    ending.await.unwrap();
    other.assert_empty();
}
