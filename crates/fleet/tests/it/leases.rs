//! The pool: who gets a slot, and when instances start and stop.

use greenroom_core::InstanceId;
use greenroom_fleet::FleetError;
use tokio::time::{Instant, advance, sleep};

use crate::stage::{INSTANCE_IDLE, LEASE, MS, Stage, settle};

/// A caller that got no slot in time learns how full the pool is and how many still wait.
#[tokio::test(start_paused = true)]
async fn a_lease_times_out_with_figures() {
    let stage = Stage::new(2, 2);
    for id in ["a", "b", "c", "d"] {
        stage.create(id).await.unwrap();
    }
    let began = Instant::now();
    let waiting = stage.begin("e", "click").await;
    advance(MS).await;
    let others = [stage.begin("f", "click").await, stage.begin("g", "click").await];
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(began.elapsed().as_secs(), LEASE.as_secs());
    assert_eq!(error.to_string(), "no browser free within 5 s: pool \"DEFAULT\"");
    let FleetError::Lease(timeout) = error else { panic!("{error}") };
    assert_eq!((timeout.leased, timeout.slots, timeout.waiting, timeout.waited), (4, 4, 2, LEASE));
    for call in others {
        assert!(matches!(call.await.unwrap(), Err(FleetError::Lease(_))));
    }
    assert_eq!((stage.sessions(), stage.waiting()), (4, 0));
    stage.close("a").await.unwrap();
    stage.call("e", "click").await.unwrap();
    stage.end().await;
}

/// Waiters are served in the order in which they came, and a newcomer does not overtake.
#[tokio::test(start_paused = true)]
async fn waiters_are_served_in_order() {
    let stage = Stage::new(1, 1);
    stage.create("0").await.unwrap();
    let mut waiting = Vec::new();
    for id in ["1", "2", "3", "4"] {
        waiting.push(stage.begin(id, "hold").await);
    }
    for (at, call) in waiting.into_iter().enumerate() {
        stage.close(&at.to_string()).await.unwrap();
        let newcomer = stage.begin("newcomer", "click").await;
        stage.world.held().await.answer();
        assert_eq!(call.await.unwrap().unwrap().seat, at as u64 + 2);
        newcomer.abort();
        settle().await;
    }
    stage.end().await;
}

/// A pool grows by one instance at a time, only when all slots are lent, up to its maximum.
#[tokio::test(start_paused = true)]
async fn a_pool_grows_to_its_maximum() {
    let stage = Stage::new(2, 3);
    for (id, instances) in [("a", 1), ("b", 1), ("c", 2), ("d", 2), ("e", 3), ("f", 3)] {
        stage.create(id).await.unwrap();
        assert_eq!(stage.pool().instances.len(), instances, "{id}");
    }
    assert!(matches!(stage.create("g").await, Err(FleetError::Lease(_))));
    assert_eq!((stage.world.counts().starts, stage.world.counts().seats_max), (3, 2));
    stage.end().await;
}

/// First calls that come at once while the instance starts share it.
#[tokio::test(start_paused = true)]
async fn a_starting_instance_is_shared() {
    let stage = Stage::new(3, 3);
    stage.world.starting.shut();
    let calls = [stage.begin("a", "x").await, stage.begin("b", "x").await, stage.begin("c", "x").await];
    stage.world.starting.open();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(stage.world.counts().starts, 1);
    stage.end().await;
}

/// An instance without leases is stopped after its idle time, exactly, and a later call starts a new one.
#[tokio::test(start_paused = true)]
async fn an_idle_instance_retires() {
    let stage = Stage::new(2, 1);
    stage.create("a").await.unwrap();
    stage.create("b").await.unwrap();
    stage.close("a").await.unwrap();
    sleep(INSTANCE_IDLE * 2).await;
    assert_eq!(stage.world.counts().stops, 0, "one slot is still lent");
    stage.close("b").await.unwrap();
    advance(INSTANCE_IDLE - MS).await;
    settle().await;
    assert_eq!(stage.world.counts().stops, 0);
    stage.create("c").await.unwrap();
    stage.close("c").await.unwrap();
    advance(INSTANCE_IDLE - MS).await;
    settle().await;
    assert_eq!(stage.world.counts().stops, 0, "its idle time restarted with its use");
    advance(MS).await;
    settle().await;
    assert_eq!((stage.world.stopped(), stage.pool().instances.len()), (vec![InstanceId(0)], 0));
    stage.call("d", "click").await.unwrap();
    assert_eq!(stage.world.counts().starts, 2);
    stage.end().await;
}

/// A call that comes as its instance retires is served, by that instance or by another.
#[tokio::test(start_paused = true)]
async fn a_call_racing_with_retirement_is_served() {
    let stage = Stage::new(1, 1);
    for round in 0..100 {
        stage.create("a").await.unwrap();
        stage.close("a").await.unwrap();
        let at = Instant::now() + INSTANCE_IDLE;
        let call = tokio::spawn({
            let stage = stage.clone();
            async move {
                tokio::time::sleep_until(at).await;
                for _ in 0..round % 5 {
                    tokio::task::yield_now().await;
                }
                stage.call("b", "click").await
            }
        });
        call.await.unwrap().unwrap();
        stage.close("b").await.unwrap();
    }
    stage.end().await;
}

/// An instance whose caller left before it had started retires as well.
#[tokio::test(start_paused = true)]
async fn an_instance_started_for_nobody_retires() {
    let stage = Stage::new(1, 1);
    stage.world.starting.shut();
    stage.begin("a", "click").await.abort();
    settle().await;
    stage.world.starting.open();
    stage.world.until(|counts| counts.stops == 1).await;
    assert_eq!(stage.pool().instances.len(), 0);
    stage.end().await;
}

/// Callers that wait for an instance that fails to start all get the error at once; the next call tries anew.
#[tokio::test(start_paused = true)]
async fn waiters_hear_of_a_failed_start() {
    let stage = Stage::new(1, 1);
    stage.world.starting.shut();
    stage.world.fail_start("no chromium");
    let first = stage.begin("a", "click").await;
    let second = stage.begin("b", "click").await;
    stage.world.starting.open();
    for waiter in [first, second] {
        assert!(matches!(waiter.await.unwrap(), Err(FleetError::Start(_))));
    }
    assert_eq!(stage.call("b", "click").await.unwrap().seat, 1);
    assert_eq!(stage.world.counts().starts, 2);
    stage.end().await;
}

/// A line has its limit: a caller that comes to a full one is refused at once, those in it keep their places.
#[tokio::test(start_paused = true)]
async fn a_line_has_its_bound() {
    let stage = Stage::new(1, 1);
    stage.create("holder").await.unwrap();
    let mut waiting = Vec::new();
    for n in 0..4096 {
        let stage = stage.clone();
        waiting.push(tokio::spawn(async move { stage.call(&format!("w{n}"), "click").await }));
    }
    settle().await;
    assert_eq!(stage.waiting(), 4096);
    assert!(matches!(stage.call("late", "click").await, Err(FleetError::LineFull { max: 4096, .. })));
    assert_eq!(stage.waiting(), 4096);
    stage.close("holder").await.unwrap();
    let first = waiting.remove(0).await.unwrap().unwrap();
    assert_eq!(first.seat, 2);
    for waiter in waiting {
        waiter.abort();
    }
    settle().await;
    stage.end().await;
}
