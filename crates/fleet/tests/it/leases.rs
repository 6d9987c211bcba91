//! The pool: which caller gets a slot, and when instances start and stop.

use greenroom_core::InstanceId;
use greenroom_fleet::FleetError;
use tokio::time::{Instant, advance, sleep};

use crate::fixture::{FleetFixture, INSTANCE_IDLE, LEASE, MS, settle};

/// A caller that got no slot in time learns how full the pool is and how many still wait.
#[tokio::test(start_paused = true)]
async fn lease_timeout_error_has_figures() {
    let fixture = FleetFixture::new(2, 2);
    for id in ["a", "b", "c", "d"] {
        fixture.create(id).await.unwrap();
    }
    let began = Instant::now();
    let waiting = fixture.begin("e", "click").await;
    advance(MS).await;
    let others = [fixture.begin("f", "click").await, fixture.begin("g", "click").await];
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(began.elapsed().as_secs(), LEASE.as_secs());
    assert_eq!(error.to_string(), "no browser free within 5 s: pool \"DEFAULT\"");
    let FleetError::Lease(timeout) = error else { panic!("{error}") };
    assert_eq!((timeout.leased, timeout.slots, timeout.waiting, timeout.waited), (4, 4, 2, LEASE));
    for call in others {
        assert!(matches!(call.await.unwrap(), Err(FleetError::Lease(_))));
    }
    assert_eq!((fixture.sessions(), fixture.waiting()), (4, 0));
    fixture.close("a").await.unwrap();
    fixture.call("e", "click").await.unwrap();
    fixture.end().await;
}

/// Waiters are served in the order in which they came, and a newcomer does not overtake.
#[tokio::test(start_paused = true)]
async fn waiters_are_served_in_order() {
    let fixture = FleetFixture::new(1, 1);
    fixture.create("0").await.unwrap();
    let mut waiting = Vec::new();
    for id in ["1", "2", "3", "4"] {
        waiting.push(fixture.begin(id, "hold").await);
    }
    for (at, call) in waiting.into_iter().enumerate() {
        fixture.close(&at.to_string()).await.unwrap();
        let newcomer = fixture.begin("newcomer", "click").await;
        fixture.world.held().await.answer();
        assert_eq!(call.await.unwrap().unwrap().seat, at as u64 + 2);
        newcomer.abort();
        settle().await;
    }
    fixture.end().await;
}

/// A pool grows by one instance at a time, only when all slots are leased, up to its maximum.
#[tokio::test(start_paused = true)]
async fn pool_grows_to_its_maximum() {
    let fixture = FleetFixture::new(2, 3);
    for (id, instances) in [("a", 1), ("b", 1), ("c", 2), ("d", 2), ("e", 3), ("f", 3)] {
        fixture.create(id).await.unwrap();
        assert_eq!(fixture.pool().instances.len(), instances, "{id}");
    }
    assert!(matches!(fixture.create("g").await, Err(FleetError::Lease(_))));
    assert_eq!((fixture.world.counts().starts, fixture.world.counts().seats_max), (3, 2));
    fixture.end().await;
}

/// First calls that come at once while the instance starts share it.
#[tokio::test(start_paused = true)]
async fn starting_instance_is_shared() {
    let fixture = FleetFixture::new(3, 3);
    fixture.world.starting.shut();
    let calls = [fixture.begin("a", "x").await, fixture.begin("b", "x").await, fixture.begin("c", "x").await];
    fixture.world.starting.open();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(fixture.world.counts().starts, 1);
    fixture.end().await;
}

/// An instance without leases is stopped after its idle time, exactly, and a later call starts a new one.
#[tokio::test(start_paused = true)]
async fn idle_instance_retires() {
    let fixture = FleetFixture::new(2, 1);
    fixture.create("a").await.unwrap();
    fixture.create("b").await.unwrap();
    fixture.close("a").await.unwrap();
    sleep(INSTANCE_IDLE * 2).await;
    assert_eq!(fixture.world.counts().stops, 0, "one slot is still leased");
    fixture.close("b").await.unwrap();
    advance(INSTANCE_IDLE - MS).await;
    settle().await;
    assert_eq!(fixture.world.counts().stops, 0);
    fixture.create("c").await.unwrap();
    fixture.close("c").await.unwrap();
    advance(INSTANCE_IDLE - MS).await;
    settle().await;
    assert_eq!(fixture.world.counts().stops, 0, "its idle time restarted with its use");
    advance(MS).await;
    settle().await;
    assert_eq!((fixture.world.stopped(), fixture.pool().instances.len()), (vec![InstanceId(0)], 0));
    fixture.call("d", "click").await.unwrap();
    assert_eq!(fixture.world.counts().starts, 2);
    fixture.end().await;
}

/// A call that comes as its instance retires is served, by that instance or by another.
#[tokio::test(start_paused = true)]
async fn call_racing_with_retirement_is_served() {
    let fixture = FleetFixture::new(1, 1);
    for round in 0..100 {
        fixture.create("a").await.unwrap();
        fixture.close("a").await.unwrap();
        let at = Instant::now() + INSTANCE_IDLE;
        let call = tokio::spawn({
            let fixture = fixture.clone();
            async move {
                tokio::time::sleep_until(at).await;
                for _ in 0..round % 5 {
                    tokio::task::yield_now().await;
                }
                fixture.call("b", "click").await
            }
        });
        call.await.unwrap().unwrap();
        fixture.close("b").await.unwrap();
    }
    fixture.end().await;
}

/// An instance whose caller left before it had started retires as well.
#[tokio::test(start_paused = true)]
async fn instance_of_a_departed_caller_retires() {
    let fixture = FleetFixture::new(1, 1);
    fixture.world.starting.shut();
    fixture.begin("a", "click").await.abort();
    settle().await;
    fixture.world.starting.open();
    fixture.world.until(|counts| counts.stops == 1).await;
    assert_eq!(fixture.pool().instances.len(), 0);
    fixture.end().await;
}

/// Callers that wait for an instance that fails to start all get the error at once; the next call tries anew.
#[tokio::test(start_paused = true)]
async fn waiters_get_the_error_of_a_failed_start() {
    let fixture = FleetFixture::new(1, 1);
    fixture.world.starting.shut();
    fixture.world.fail_start("no chromium");
    let first = fixture.begin("a", "click").await;
    let second = fixture.begin("b", "click").await;
    fixture.world.starting.open();
    for waiter in [first, second] {
        assert!(matches!(waiter.await.unwrap(), Err(FleetError::Start(_))));
    }
    assert_eq!(fixture.call("b", "click").await.unwrap().seat, 1);
    assert_eq!(fixture.world.counts().starts, 2);
    fixture.end().await;
}

/// The queue has a limit: a caller that comes to a full queue is refused at once, and waiting callers keep their
/// places.
#[tokio::test(start_paused = true)]
async fn pool_queue_is_bounded() {
    let fixture = FleetFixture::new(1, 1);
    fixture.create("holder").await.unwrap();
    let mut waiting = Vec::new();
    for n in 0..4096 {
        let fixture = fixture.clone();
        waiting.push(tokio::spawn(async move { fixture.call(&format!("w{n}"), "click").await }));
    }
    settle().await;
    assert_eq!(fixture.waiting(), 4096);
    assert!(matches!(fixture.call("late", "click").await, Err(FleetError::LineFull { max: 4096, .. })));
    assert_eq!(fixture.waiting(), 4096);
    fixture.close("holder").await.unwrap();
    let first = waiting.remove(0).await.unwrap().unwrap();
    assert_eq!(first.seat, 2);
    for waiter in waiting {
        waiter.abort();
    }
    settle().await;
    fixture.end().await;
}
