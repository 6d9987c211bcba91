//! Pools that grow and shrink while they run.

use std::time::Duration;

use greenroom_core::InstanceId;
use greenroom_fleet::{FleetError, Health, PoolSize, Scaled, SessionKey};
use tokio::time::sleep;

use crate::fixture::{FleetFixture, at, crash, named, settle, with_instances};

fn ids(fixture: &FleetFixture) -> Vec<u32> {
    fixture.pool().instances.iter().map(|instance| instance.id.0).collect()
}

fn numbers(ids: impl IntoIterator<Item = u32>) -> Vec<InstanceId> {
    ids.into_iter().map(InstanceId).collect()
}

/// New instances start at once and serve those who wait.
#[tokio::test(start_paused = true)]
async fn new_instances_serve_waiters() {
    let fixture = FleetFixture::fixed(1, 1).await;
    fixture.create("a").await.unwrap();
    let waiting = [fixture.begin("b", "click").await, fixture.begin("c", "click").await];
    let scaled = fixture.fleet.scale("DEFAULT", 3).unwrap();
    assert_eq!(scaled, Scaled { from: 1, to: 3, draining: vec![] });
    for (call, instance) in waiting.into_iter().zip([1, 2]) {
        assert_eq!(call.await.unwrap().unwrap().instance, instance);
    }
    assert_eq!((ids(&fixture), fixture.health()), (vec![0, 1, 2], vec![Health::Healthy; 3]));
    assert_eq!(fixture.pool().slots, 3);
    assert_eq!(fixture.fleet.scale("DEFAULT", 3).unwrap(), Scaled { from: 3, to: 3, draining: vec![] });
    fixture.end().await;
}

/// Shrinking drains the highest numbers and cuts no lease: idle ones leave at once, a session goes on and its instance
/// stops when the session ends; meanwhile the instance leases nothing more, and the status says so.
#[tokio::test(start_paused = true)]
async fn shrinking_drains_the_highest_instances() {
    let fixture = FleetFixture::fixed(4, 2).await;
    let said = fixture.call_at(named("a"), at("", "2"), "click").await.unwrap();
    let running = fixture.begin_at(SessionKey::Ephemeral, at("", "2"), "hold").await;
    let held = fixture.world.held().await;
    let scaled = fixture.fleet.scale("DEFAULT", 2).unwrap();
    assert_eq!(scaled, Scaled { from: 4, to: 2, draining: numbers([3, 2]) });
    settle().await;
    assert_eq!((ids(&fixture), fixture.world.stopped()), (vec![0, 1, 2], numbers([3])), "the idle one left");
    assert_eq!((fixture.instance(2).draining, fixture.instance(2).leased_slots), (true, 2));
    assert!(!fixture.instance(2).is_available());
    sleep(Duration::from_secs(20)).await;
    let again = fixture.call("a", "click").await.unwrap();
    assert_eq!((again.seat, again.notes), (said.seat, vec![]), "the session goes on");
    held.answer();
    running.await.unwrap().unwrap();
    settle().await;
    let error = fixture.call_at(SessionKey::Ephemeral, at("", "2"), "click").await.unwrap_err();
    assert_eq!(error.to_string(), "instance 2 of pool \"DEFAULT\" is not available: it is being drained");
    for _ in 0..6 {
        assert!(fixture.call_ephemeral("click").await.unwrap().instance < 2, "though a slot of it is free");
    }
    assert_eq!(fixture.world.stopped(), numbers([3]));
    fixture.close("a").await.unwrap();
    settle().await;
    assert_eq!((ids(&fixture), fixture.world.stopped()), (vec![0, 1], numbers([3, 2])));
    assert_eq!((fixture.pool().slots, fixture.world.counts().calls_on_lost), (4, 0));
    let gone = fixture.call_at(SessionKey::Ephemeral, at("", "2"), "click").await.unwrap_err();
    assert!(matches!(gone, FleetError::NoInstance { .. }), "{gone}");
    fixture.end().await;
}

/// Callers that wait for an instance that is to leave are refused at once; those who take any are served by the rest.
#[tokio::test(start_paused = true)]
async fn waiters_for_a_removed_instance_are_refused() {
    let fixture = FleetFixture::fixed(2, 1).await;
    fixture.call_at(named("a"), at("", "0"), "click").await.unwrap();
    fixture.call_at(named("b"), at("", "1"), "click").await.unwrap();
    let keyed = fixture.begin_at(named("c"), at("", "1"), "click").await;
    let any = fixture.begin("d", "click").await;
    fixture.fleet.scale("DEFAULT", 1).unwrap();
    assert!(matches!(keyed.await.unwrap(), Err(FleetError::InstanceDown { .. })));
    fixture.close("b").await.unwrap();
    settle().await;
    assert!(!any.is_finished(), "an instance that is to leave is not leased again");
    fixture.close("a").await.unwrap();
    assert_eq!(any.await.unwrap().unwrap().instance, 0);
    fixture.end().await;
}

/// A pool that shrinks and grows again before the lease is back keeps its instance, and leases its other slots again.
#[tokio::test(start_paused = true)]
async fn regrown_pool_keeps_its_leased_instance() {
    let fixture = FleetFixture::fixed(2, 2).await;
    let said = fixture.call_at(named("a"), at("", "1"), "click").await.unwrap();
    fixture.fleet.scale("DEFAULT", 1).unwrap();
    settle().await;
    assert!(fixture.instance(1).draining);
    let scaled = fixture.fleet.scale("DEFAULT", 3).unwrap();
    assert_eq!((scaled.from, scaled.to), (1, 3));
    settle().await;
    assert_eq!((ids(&fixture), fixture.instance(1).draining), (vec![0, 1, 2], false));
    assert_eq!(fixture.call_at(named("b"), at("", "1"), "click").await.unwrap().instance, 1);
    assert_eq!(fixture.call("a", "click").await.unwrap().seat, said.seat);
    fixture.close("a").await.unwrap();
    fixture.close("b").await.unwrap();
    settle().await;
    assert_eq!(
        (fixture.world.counts().starts, fixture.world.counts().stops),
        (3, 0),
        "no instance was restarted"
    );
    fixture.end().await;
}

/// A pool of two has the instances 0 and 1, even while others still leave: an instance's settings go by its number.
#[tokio::test(start_paused = true)]
async fn instance_numbers_have_no_gaps() {
    let fixture = FleetFixture::fixed(3, 1).await;
    fixture.call_at(named("a"), at("", "2"), "click").await.unwrap();
    fixture.fleet.scale("DEFAULT", 1).unwrap();
    settle().await;
    assert_eq!(ids(&fixture), [0, 2]);
    fixture.fleet.scale("DEFAULT", 2).unwrap();
    settle().await;
    assert_eq!((ids(&fixture), fixture.instance(2).draining), (vec![0, 1, 2], true));
    fixture.close("a").await.unwrap();
    settle().await;
    assert_eq!((ids(&fixture), fixture.health()), (vec![0, 1], vec![Health::Healthy; 2]));
    fixture.end().await;
}

/// If the pool grows again while the instance is being stopped, the instance starts again after the stop.
#[tokio::test(start_paused = true)]
async fn regrown_instance_starts_after_its_stop() {
    let fixture = FleetFixture::fixed(2, 1).await;
    fixture.world.stopping.shut();
    fixture.fleet.scale("DEFAULT", 1).unwrap();
    settle().await;
    assert_eq!(fixture.world.counts().stops, 1);
    fixture.fleet.scale("DEFAULT", 2).unwrap();
    settle().await;
    fixture.world.stopping.open();
    settle().await;
    assert_eq!((ids(&fixture), fixture.health()), (vec![0, 1], vec![Health::Healthy; 2]));
    fixture.call_at(named("a"), at("", "1"), "click").await.unwrap();
    assert_eq!(fixture.fleet.scale("DEFAULT", 1).unwrap().from, 2);
    fixture.close("a").await.unwrap();
    settle().await;
    assert_eq!(ids(&fixture), [0]);
    fixture.end().await;
}

/// An instance that is to leave while it is being started, fails to start, or waits for its next try, leaves.
#[tokio::test(start_paused = true)]
async fn instance_can_be_removed_in_every_state() {
    let fixture = FleetFixture::fixed_with(1, 1, |settings| {
        with_instances(&mut settings.pools[0], |id, instance| {
            instance.lazy = id == 4;
            instance.restarts = if id == 3 { 0 } else { 3 };
        });
    })
    .await;
    fixture.world.break_instance(2);
    fixture.world.break_instance(3);
    fixture.fleet.scale("DEFAULT", 5).unwrap();
    settle().await;
    assert_eq!(
        fixture.health(),
        [Health::Healthy, Health::Healthy, Health::Failed, Health::Failed, Health::Starting]
    );
    fixture.fleet.scale("DEFAULT", 1).unwrap();
    settle().await;
    assert_eq!(ids(&fixture), [0]);
    // The order comes during the start, whether that succeeds or not.
    for broken in [false, true] {
        fixture.world.mend();
        if broken {
            fixture.world.break_instance(1);
        }
        fixture.world.starting.shut();
        fixture.fleet.scale("DEFAULT", 2).unwrap();
        settle().await;
        fixture.fleet.scale("DEFAULT", 1).unwrap();
        settle().await;
        fixture.world.starting.open();
        settle().await;
        assert_eq!(ids(&fixture), [0], "broken: {broken}");
    }
    sleep(Duration::from_secs(60)).await;
    assert_eq!(fixture.world.counts().started, fixture.world.counts().stops + 1);
    fixture.end().await;
}

/// A pool that no call has used yet can be scaled; it takes the new size at its start.
#[tokio::test(start_paused = true)]
async fn unused_pool_can_be_scaled() {
    let fixture = FleetFixture::tuned(1, 1, |settings| settings.pools[0].size = PoolSize::Fixed(3));
    fixture.fleet.scale("DEFAULT", 1).unwrap();
    settle().await;
    assert_eq!(ids(&fixture), [0]);
    fixture.fleet.scale("DEFAULT", 2).unwrap();
    settle().await;
    assert_eq!((ids(&fixture), fixture.health()), (vec![0, 1], vec![Health::Healthy; 2]));
    fixture.end().await;
}

/// A session whose instance dies before it leaves gets a note and goes on elsewhere; the instance is not started again.
#[tokio::test(start_paused = true)]
async fn instance_lost_while_draining_is_not_restarted() {
    let fixture = FleetFixture::fixed(2, 1).await;
    fixture.call_at(named("a"), at("", "1"), "click").await.unwrap();
    fixture.fleet.scale("DEFAULT", 1).unwrap();
    settle().await;
    fixture.world.lose_instance(InstanceId(1), &crash());
    sleep(Duration::from_secs(60)).await;
    settle().await;
    assert_eq!((ids(&fixture), fixture.world.counts().starts), (vec![0], 2));
    fixture.end().await;
}

/// An elastic pool is not scaled; a size is never below one.
#[tokio::test(start_paused = true)]
async fn invalid_scaling_is_refused() {
    let fixture = FleetFixture::new(1, 4);
    let error = fixture.fleet.scale("DEFAULT", 2).unwrap_err();
    assert!(matches!(error, FleetError::NotFixed { .. }), "{error}");
    let fixed = FleetFixture::fixed(2, 1).await;
    assert_eq!(fixed.fleet.scale("DEFAULT", 0).unwrap().to, 1);
    settle().await;
    assert_eq!(ids(&fixed), [0]);
    fixed.end().await;
}

/// An instance that dies just as it is to leave is out of the pool at once, even if its cleanup takes long.
#[tokio::test(start_paused = true)]
async fn instance_lost_while_removed_leaves_at_once() {
    let fixture = FleetFixture::fixed(2, 2).await;
    fixture.call_at(named("a"), at("", "1"), "click").await.unwrap();
    fixture.world.stopping.shut();
    fixture.fleet.scale("DEFAULT", 1).unwrap();
    fixture.world.lose_instance(InstanceId(1), &crash());
    settle().await;
    assert_eq!((fixture.instance(1).health, fixture.instance(1).leased_slots), (Health::Failed, 0));
    let error = fixture.call_at(named("b"), at("", "1"), "click").await.unwrap_err();
    assert!(error.to_string().ends_with("the browser ended (signal 9)"), "{error}");
    assert_eq!(fixture.pool().slots, 2);
    fixture.world.stopping.open();
    settle().await;
    assert_eq!(ids(&fixture), [0]);
    fixture.end().await;
}
