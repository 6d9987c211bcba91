//! Orders to restart, given to instances that are about to end.

use std::sync::Arc;

use greenroom_core::InstanceId;
use greenroom_fleet::{Health, InstanceSettings, Size};

use crate::stage::{Stage, crash, settle};

/// A pool with one running instance that is never restarted automatically.
async fn alone() -> Stage {
    let stage = Stage::tuned(1, 1, |settings| {
        let pool = &mut settings.pools[0];
        let made = pool.instance.clone();
        pool.size = Size::Fixed(1);
        pool.instance = Arc::new(move |id| InstanceSettings { restarts: 0, ..made(id) });
    });
    stage.call_loose("echo").await.unwrap();
    stage
}

/// An order that comes while a failed instance is still being stopped is carried out when it has stopped.
#[tokio::test(start_paused = true)]
async fn while_it_stops() {
    let stage = alone().await;
    stage.world.stopping.shut();
    stage.world.lose_instance(InstanceId(0), &crash());
    stage.world.until(|counts| counts.stops == 1).await;
    assert_eq!(stage.pool().instances[0].health, Health::Failed);
    stage.fleet.restart("DEFAULT", None).unwrap();
    settle().await;
    stage.world.stopping.open();
    stage.world.until(|counts| counts.started == 2).await;
    stage.call_loose("echo").await.unwrap();
    stage.end().await;
}

/// An instance that dies while it waits for its last lease before a restart is restarted.
#[tokio::test(start_paused = true)]
async fn while_it_is_drained() {
    let stage = alone().await;
    let held = stage.begin("a", "hold").await;
    stage.fleet.restart("DEFAULT", None).unwrap();
    settle().await;
    assert!(stage.pool().instances[0].draining);
    stage.world.lose_instance(InstanceId(0), &crash());
    assert!(held.await.unwrap().is_err());
    stage.world.until(|counts| counts.started == 2).await;
    stage.call_loose("echo").await.unwrap();
    stage.end().await;
}

/// The status of an instance that died a moment ago is consistent: it has failed, and nothing of it is lent.
#[tokio::test(start_paused = true)]
async fn shown_at_once() {
    let stage = alone().await;
    let held = stage.begin("a", "hold").await;
    assert_eq!((stage.pool().instances[0].leased_slots, stage.pool().healthy()), (1, 1));
    stage.world.lose_instance(InstanceId(0), &crash());
    let instance = stage.pool().instances.swap_remove(0);
    assert_eq!((instance.health, instance.leased_slots, instance.leased_since), (Health::Failed, 0, None));
    assert!(held.await.unwrap().is_err());
    stage.end().await;
}
