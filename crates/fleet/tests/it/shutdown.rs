//! Drains and shutdowns of the whole fleet.

use std::time::Duration;

use greenroom_core::Owner;
use greenroom_fleet::{FleetError, SessionKey};
use tokio::time::Instant;

use crate::stage::{Stage, settle};

/// A shutdown ends sessions that are idle, busy, opening and waiting, and calls without one; each caller learns why, every
/// seat is closed and every instance stopped once, and the fleet accepts nothing more.
#[tokio::test(start_paused = true)]
async fn everything_ends() {
    let stage = Stage::new(2, 2);
    stage.create("idle").await.unwrap();
    stage.call_loose("click").await.unwrap();
    let mut calls = vec![stage.begin("busy", "hold").await, stage.begin("busy", "queued").await];
    let _held = stage.world.held().await;
    stage.world.opening.shut();
    calls.push(stage.begin("opening", "click").await);
    settle().await;
    // The slot of the call without a session goes to the first of these; the second waits.
    calls.push(stage.begin("reclaims", "click").await);
    calls.push(stage.begin("waits", "click").await);
    assert_eq!((stage.leased(), stage.waiting()), (4, 1));
    let began = Instant::now();
    stage.end().await;
    assert_eq!(began.elapsed().as_millis(), 0);
    for call in calls {
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(error, FleetError::ShuttingDown), "{error}");
    }
    for whose in [crate::stage::named("idle"), crate::stage::connection(1), SessionKey::Ephemeral] {
        let late = stage.call_as(&Owner::local(), whose, "click", "{}").await;
        assert!(matches!(late, Err(FleetError::ShuttingDown)));
    }
    assert!(matches!(stage.create("new").await, Err(FleetError::ShuttingDown)));
    assert_eq!((stage.sessions(), stage.world.counts().starts), (0, 2));
    stage.end().await;
}

/// A shutdown ends an instance that is still starting, and those who wait for it.
#[tokio::test(start_paused = true)]
async fn starting_instances_end() {
    let stage = Stage::new(1, 1);
    stage.world.starting.shut();
    let calls = [stage.begin("a", "click").await, stage.begin("b", "click").await];
    stage.end().await;
    for call in calls {
        assert!(matches!(call.await.unwrap(), Err(FleetError::ShuttingDown)));
    }
    assert_eq!((stage.world.counts().starts, stage.world.counts().started), (1, 0));
}

/// A shutdown without anything to end returns.
#[tokio::test(start_paused = true)]
async fn nothing_to_end() {
    Stage::new(1, 1).end().await;
}

/// A seat that does not close holds a shutdown up for a bounded time only, and its instance is stopped after.
#[tokio::test(start_paused = true)]
async fn a_hung_close_does_not_hold_up_a_shutdown() {
    let stage = Stage::new(2, 2);
    for id in ["a", "b", "c"] {
        stage.create(id).await.unwrap();
    }
    stage.world.closing.shut();
    let began = Instant::now();
    stage.end().await;
    assert_eq!(began.elapsed().as_secs(), 5, "all at once, not one after the other");
}

/// A shutdown waits for sessions that are being closed already, and for instances that are being stopped.
#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_what_is_ending() {
    let stage = Stage::new(1, 2);
    stage.create("a").await.unwrap();
    stage.create("b").await.unwrap();
    stage.world.closing.shut();
    stage.world.stopping.shut();
    let close = tokio::spawn({
        let stage = stage.clone();
        async move { stage.close("a").await }
    });
    settle().await;
    let ending = tokio::spawn({
        let stage = stage.clone();
        async move { stage.end().await }
    });
    settle().await;
    assert_eq!((stage.world.counts().closes, stage.world.counts().stops), (2, 0));
    stage.world.closing.open();
    stage.world.until(|counts| counts.stops == 2).await;
    settle().await;
    assert!(close.is_finished() && !ending.is_finished());
    stage.world.stopping.open();
    ending.await.unwrap();
}

/// Calls that race with a shutdown on many threads are answered, one way or the other, and leave nothing.
#[test]
fn calls_racing_with_a_shutdown() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
    runtime.block_on(async {
        for _ in 0..50 {
            let stage = Stage::new(2, 2);
            let mut calls = tokio::task::JoinSet::new();
            for n in 0..20 {
                let stage = stage.clone();
                calls.spawn(async move {
                    match n % 3 {
                        0 => stage.call_loose("click").await,
                        _ => stage.call(&(n % 4).to_string(), "click").await,
                    }
                });
            }
            tokio::task::yield_now().await;
            stage.end().await;
            while let Some(call) = calls.join_next().await {
                match call.unwrap() {
                    Ok(_) | Err(FleetError::ShuttingDown) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            stage.end().await;
        }
    });
}

/// Draining accepts no more calls, lets those that run or wait end, and returns whether they did in time.
#[tokio::test(start_paused = true)]
async fn calls_are_drained() {
    let stage = Stage::fixed(1, 1).await;
    let running = stage.begin("a", "hold").await;
    let held = stage.world.held().await;
    let queued = stage.begin("a", "click").await;
    let fleet = stage.fleet.clone();
    let drained = tokio::spawn(async move { fleet.drain_calls(Duration::from_secs(60)).await });
    settle().await;
    for whose in [crate::stage::named("a"), crate::stage::named("b"), SessionKey::Ephemeral] {
        let late = stage.call_as(&Owner::local(), whose, "click", "{}").await;
        assert!(matches!(late, Err(FleetError::ShuttingDown)));
    }
    assert!(matches!(stage.create("new").await, Err(FleetError::ShuttingDown)));
    assert!(!drained.is_finished());
    held.answer();
    assert!(drained.await.unwrap());
    running.await.unwrap().unwrap();
    queued.await.unwrap().unwrap();
    stage.end().await;
}

/// A drain waits for calls for a limited time; the shutdown then ends them.
#[tokio::test(start_paused = true)]
async fn draining_is_bounded() {
    let stage = Stage::fixed(1, 1).await;
    let running = stage.begin("a", "hold").await;
    let _held = stage.world.held().await;
    let began = Instant::now();
    assert!(!stage.fleet.drain_calls(Duration::from_secs(7)).await);
    assert_eq!(began.elapsed().as_secs(), 7);
    stage.end().await;
    assert!(matches!(running.await.unwrap(), Err(FleetError::ShuttingDown)));
}

/// A call that was accepted before the drain and whose session dies before its turn gets the error that greenroom is
/// shutting down: no browser is lent to it any more, and it does not hold up the drain.
#[tokio::test(start_paused = true)]
async fn a_call_whose_session_dies_in_a_drain() {
    let stage = Stage::fixed(1, 1).await;
    stage.create("a").await.unwrap();
    // All before the session's task sees any of it: a call is queued, the browser dies, the drain begins.
    let mut call = Box::pin(stage.call("a", "click"));
    tokio::select! {
        biased;
        outcome = &mut call => panic!("{outcome:?}"),
        () = std::future::ready(()) => {}
    }
    stage.world.lose_seat(stage.world.open_seats()[0], crate::stage::crash());
    let (drained, outcome) = tokio::join!(biased; stage.fleet.drain_calls(Duration::from_secs(60)), call);
    assert!(drained && matches!(outcome, Err(FleetError::ShuttingDown)));
    assert_eq!(stage.world.counts().opens, 1);
    stage.end().await;
}

/// Callers that wait in line when a drain begins are refused at once and hold nothing up; calls that run end, and the pools
/// accept no more orders.
#[tokio::test(start_paused = true)]
async fn waiters_do_not_hold_up_a_drain() {
    let stage = Stage::fixed(1, 1).await;
    let running = stage.begin("a", "hold").await;
    let held = stage.world.held().await;
    let waiting = stage.begin("b", "click").await;
    let began = Instant::now();
    let fleet = stage.fleet.clone();
    let draining = tokio::spawn(async move { fleet.drain_calls(Duration::from_secs(60)).await });
    assert!(matches!(waiting.await.unwrap(), Err(FleetError::ShuttingDown)));
    assert_eq!(began.elapsed().as_millis(), 0);
    assert!(stage.fleet.is_stopping());
    assert!(matches!(stage.fleet.scale("DEFAULT", 2), Err(FleetError::ShuttingDown)));
    assert!(matches!(stage.fleet.restart("DEFAULT", None), Err(FleetError::ShuttingDown)));
    held.answer();
    running.await.unwrap().unwrap();
    assert!(draining.await.unwrap());
    stage.end().await;
}

/// All pools end at the same time: a browser that does not stop delays only its own pool.
#[tokio::test(start_paused = true)]
async fn pools_end_together() {
    let (stage, other) = crate::declared::two_pools(3, 3, |_| {});
    stage.fleet.start();
    settle().await;
    stage.world.stopping.shut();
    other.stopping.shut();
    let ending = tokio::spawn({
        let stage = stage.clone();
        async move { stage.end().await }
    });
    settle().await;
    assert_eq!((stage.world.counts().stops, other.counts().stops), (3, 3));
    assert!(!ending.is_finished());
    stage.world.stopping.open();
    other.stopping.open();
    ending.await.unwrap();
    other.assert_empty();
}
