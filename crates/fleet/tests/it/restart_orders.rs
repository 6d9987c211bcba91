//! Orders to restart, given to instances that are about to end.

use std::sync::Arc;

use greenroom_core::InstanceId;
use greenroom_fleet::{Health, InstanceSettings, PoolSize};

use crate::fixture::{FleetFixture, crash, settle};

/// A pool with one running instance that is never restarted automatically.
async fn alone() -> FleetFixture {
    let fixture = FleetFixture::tuned(1, 1, |settings| {
        let pool = &mut settings.pools[0];
        let made = pool.instance.clone();
        pool.size = PoolSize::Fixed(1);
        pool.instance = Arc::new(move |id| InstanceSettings { restarts: 0, ..made(id) });
    });
    fixture.call_ephemeral("echo").await.unwrap();
    fixture
}

/// An order that comes while a failed instance is still being stopped is carried out when it has stopped.
#[tokio::test(start_paused = true)]
async fn order_during_a_stop_runs_afterwards() {
    let fixture = alone().await;
    fixture.world.stopping.shut();
    fixture.world.lose_instance(InstanceId(0), &crash());
    fixture.world.until(|counts| counts.stops == 1).await;
    assert_eq!(fixture.pool().instances[0].health, Health::Failed);
    fixture.fleet.restart("DEFAULT", None).unwrap();
    settle().await;
    fixture.world.stopping.open();
    fixture.world.until(|counts| counts.started == 2).await;
    fixture.call_ephemeral("echo").await.unwrap();
    fixture.end().await;
}

/// An instance that dies while it waits for its last lease before a restart is restarted.
#[tokio::test(start_paused = true)]
async fn instance_lost_while_draining_is_restarted() {
    let fixture = alone().await;
    let held = fixture.begin("a", "hold").await;
    fixture.fleet.restart("DEFAULT", None).unwrap();
    settle().await;
    assert!(fixture.pool().instances[0].draining);
    fixture.world.lose_instance(InstanceId(0), &crash());
    assert!(held.await.unwrap().is_err());
    fixture.world.until(|counts| counts.started == 2).await;
    fixture.call_ephemeral("echo").await.unwrap();
    fixture.end().await;
}

/// The status of an instance that died a moment ago is consistent: it has failed, and none of its slots is leased.
#[tokio::test(start_paused = true)]
async fn lost_instance_status_is_consistent() {
    let fixture = alone().await;
    let held = fixture.begin("a", "hold").await;
    assert_eq!((fixture.pool().instances[0].leased_slots, fixture.pool().healthy()), (1, 1));
    fixture.world.lose_instance(InstanceId(0), &crash());
    let instance = fixture.pool().instances.swap_remove(0);
    assert_eq!((instance.health, instance.leased_slots, instance.leased_since), (Health::Failed, 0, None));
    assert!(held.await.unwrap().is_err());
    fixture.end().await;
}
