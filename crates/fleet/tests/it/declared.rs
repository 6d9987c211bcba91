//! Declared pools: a fixed number of instances, started at once or with the first call that needs them.

use std::{sync::Arc, time::Duration};

use greenroom_fleet::{FleetSettings, Health, Readiness, SessionKey, Size};

use crate::{
    fake::World,
    stage::{Stage, at, fixed_pool, named, settings_of, settle, with_instances},
};

/// The instances of a declared pool start in parallel, but never more at a time than are allowed.
#[tokio::test(start_paused = true)]
async fn starts_are_parallel_and_bounded() {
    let stage = Stage::tuned(1, 1, |settings| {
        (settings.pools[0].size, settings.starts_max) = (Size::Fixed(10), 4);
    });
    stage.world.starting.shut();
    stage.fleet.start();
    settle().await;
    assert_eq!((stage.world.counts().starting, stage.pool().instances.len()), (4, 10));
    stage.world.starting.open();
    settle().await;
    assert_eq!((stage.world.counts().started, stage.world.counts().starting_max), (10, 4));
    stage.end().await;
}

/// The limit holds over all pools together, and a slow start holds up only those behind it.
#[tokio::test(start_paused = true)]
async fn starts_are_bounded_over_all_pools() {
    let (stage, world) = two_pools(3, 3, |settings| settings.starts_max = 2);
    for world in [&stage.world, &world] {
        world.starting.shut();
    }
    stage.fleet.start();
    settle().await;
    assert_eq!(stage.world.counts().starting + world.counts().starting, 2);
    assert!(matches!(stage.fleet.readiness(), Readiness::Starting));
    stage.world.starting.open();
    world.starting.open();
    settle().await;
    assert_eq!((stage.world.counts().started, world.counts().started), (3, 3));
    assert!(matches!(stage.fleet.readiness(), Readiness::Ready));
    assert_eq!(stage.fleet.pool("OTHER").unwrap().healthy(), 3);
    stage.end().await;
    world.assert_empty();
}

/// Lazy instances start with the first calls that need them, as many as are needed; until then they are `starting`, and
/// the pool can take calls.
#[tokio::test(start_paused = true)]
async fn lazy_instances_start_when_needed() {
    let stage = Stage::fixed_with(3, 1, |settings| {
        with_instances(&mut settings.pools[0], |_, instance| instance.lazy = true);
    })
    .await;
    assert_eq!(stage.world.counts().starts, 0);
    assert_eq!(stage.health(), [Health::Starting; 3]);
    assert!(matches!(stage.fleet.readiness(), Readiness::Ready));
    stage.create("a").await.unwrap();
    assert_eq!((stage.world.counts().starts, stage.leased()), (1, 1));
    // A call for a certain instance starts that one.
    stage.call_at(named("b"), at("", "2"), "click").await.unwrap();
    assert_eq!(stage.world.starts().iter().map(|(id, _)| *id).collect::<Vec<_>>(), [0, 2]);
    assert_eq!(stage.health(), [Health::Healthy, Health::Starting, Health::Healthy]);
    // A free slot is taken before another instance is started.
    stage.close("a").await.unwrap();
    stage.create("c").await.unwrap();
    assert_eq!(stage.world.counts().starts, 2);
    stage.end().await;
}

/// Lazy and eager pools together: each instance follows its own setting.
#[tokio::test(start_paused = true)]
async fn lazy_by_instance() {
    let stage = Stage::fixed_with(3, 1, |settings| {
        with_instances(&mut settings.pools[0], |id, instance| instance.lazy = id == 1);
    })
    .await;
    assert_eq!(stage.health(), [Health::Healthy, Health::Starting, Health::Healthy]);
    for id in ["a", "b"] {
        stage.create(id).await.unwrap();
    }
    assert_eq!(stage.world.counts().starts, 2);
    stage.create("c").await.unwrap();
    assert_eq!((stage.world.counts().starts, stage.health()), (3, vec![Health::Healthy; 3]));
    stage.end().await;
}

/// A call that comes before the instances have started waits for them, even longer than for a slot, and gets one.
#[tokio::test(start_paused = true)]
async fn a_call_waits_for_the_start() {
    let stage = Stage::tuned(1, 1, |settings| {
        let pool = &mut settings.pools[0];
        (pool.size, pool.lease_timeout) = (Size::Fixed(2), Duration::from_secs(1));
    });
    stage.world.starting.shut();
    let call = stage.begin_at(SessionKey::Ephemeral, at("", ""), "click").await;
    assert_eq!(stage.world.counts().starts, 2, "the first call starts the pool");
    tokio::time::sleep(Duration::from_secs(10)).await;
    stage.world.starting.open();
    assert_eq!(call.await.unwrap().unwrap().seat, 1);
    stage.end().await;
}

/// A second pool, "OTHER", in a world of its own.
pub fn two_pools(first: usize, second: usize, tune: impl FnOnce(&mut FleetSettings)) -> (Stage, Arc<World>) {
    let (one, two) = (World::new(), World::new());
    let mut settings = settings_of(&one, 1, 1);
    settings.pools = vec![fixed_pool(&two, "OTHER", second, 1), fixed_pool(&one, "DEFAULT", first, 1)];
    tune(&mut settings);
    (Stage::of(settings, one), two)
}
