//! Declared pools: a fixed number of instances, started at once or with the first call that needs them.

use std::{sync::Arc, time::Duration};

use greenroom_fleet::{FleetSettings, Health, PoolSize, Readiness, SessionKey};

use crate::{
    fake::World,
    fixture::{FleetFixture, at, fixed_pool, named, settings_of, settle, with_instances},
};

/// The instances of a declared pool start in parallel, but never more at a time than are allowed.
#[tokio::test(start_paused = true)]
async fn starts_are_parallel_and_bounded() {
    let fixture = FleetFixture::tuned(1, 1, |settings| {
        settings.pools[0].size = PoolSize::Fixed(10);
        settings.starts_max = 4;
    });
    fixture.world.starting.shut();
    fixture.fleet.start();
    settle().await;
    assert_eq!((fixture.world.counts().starting, fixture.pool().instances.len()), (4, 10));
    fixture.world.starting.open();
    settle().await;
    assert_eq!((fixture.world.counts().started, fixture.world.counts().starting_max), (10, 4));
    fixture.end().await;
}

/// The limit holds over all pools together, and a slow start holds up only those behind it.
#[tokio::test(start_paused = true)]
async fn starts_are_bounded_over_all_pools() {
    let (fixture, world) = two_pools(3, 3, |settings| settings.starts_max = 2);
    for world in [&fixture.world, &world] {
        world.starting.shut();
    }
    fixture.fleet.start();
    settle().await;
    assert_eq!(fixture.world.counts().starting + world.counts().starting, 2);
    assert!(matches!(fixture.fleet.readiness(), Readiness::Starting));
    fixture.world.starting.open();
    world.starting.open();
    settle().await;
    assert_eq!((fixture.world.counts().started, world.counts().started), (3, 3));
    assert!(matches!(fixture.fleet.readiness(), Readiness::Ready));
    assert_eq!(fixture.fleet.pool("OTHER").unwrap().healthy(), 3);
    fixture.end().await;
    world.assert_empty();
}

/// Lazy instances start with the first calls that need them, as many as are needed; until then they are `starting`, and
/// the pool can take calls.
#[tokio::test(start_paused = true)]
async fn lazy_instances_start_when_needed() {
    let fixture = FleetFixture::fixed_with(3, 1, |settings| {
        with_instances(&mut settings.pools[0], |_, instance| instance.lazy = true);
    })
    .await;
    assert_eq!(fixture.world.counts().starts, 0);
    assert_eq!(fixture.health(), [Health::Starting; 3]);
    assert!(matches!(fixture.fleet.readiness(), Readiness::Ready));
    fixture.create("a").await.unwrap();
    assert_eq!((fixture.world.counts().starts, fixture.leased()), (1, 1));
    // A call for a certain instance starts that one.
    fixture.call_at(named("b"), at("", "2"), "click").await.unwrap();
    assert_eq!(fixture.world.starts().iter().map(|(id, _)| *id).collect::<Vec<_>>(), [0, 2]);
    assert_eq!(fixture.health(), [Health::Healthy, Health::Starting, Health::Healthy]);
    // A free slot is taken before another instance is started.
    fixture.close("a").await.unwrap();
    fixture.create("c").await.unwrap();
    assert_eq!(fixture.world.counts().starts, 2);
    fixture.end().await;
}

/// Lazy and eager pools together: each instance follows its own setting.
#[tokio::test(start_paused = true)]
async fn each_instance_follows_its_lazy_setting() {
    let fixture = FleetFixture::fixed_with(3, 1, |settings| {
        with_instances(&mut settings.pools[0], |id, instance| instance.lazy = id == 1);
    })
    .await;
    assert_eq!(fixture.health(), [Health::Healthy, Health::Starting, Health::Healthy]);
    for id in ["a", "b"] {
        fixture.create(id).await.unwrap();
    }
    assert_eq!(fixture.world.counts().starts, 2);
    fixture.create("c").await.unwrap();
    assert_eq!((fixture.world.counts().starts, fixture.health()), (3, vec![Health::Healthy; 3]));
    fixture.end().await;
}

/// A call that comes before the instances have started waits for them, even longer than for a slot, and gets one.
#[tokio::test(start_paused = true)]
async fn call_waits_for_the_instance_start() {
    let fixture = FleetFixture::tuned(1, 1, |settings| {
        let pool = &mut settings.pools[0];
        pool.size = PoolSize::Fixed(2);
        pool.lease_timeout = Duration::from_secs(1);
    });
    fixture.world.starting.shut();
    let call = fixture.begin_at(SessionKey::Ephemeral, at("", ""), "click").await;
    assert_eq!(fixture.world.counts().starts, 2, "the first call starts the pool");
    tokio::time::sleep(Duration::from_secs(10)).await;
    fixture.world.starting.open();
    assert_eq!(call.await.unwrap().unwrap().seat, 1);
    fixture.end().await;
}

/// A second pool, "OTHER", in a world of its own.
pub fn two_pools(
    first: usize,
    second: usize,
    tune: impl FnOnce(&mut FleetSettings),
) -> (FleetFixture, Arc<World>) {
    let one = World::new();
    let two = World::new();
    let mut settings = settings_of(&one, 1, 1);
    settings.pools = vec![fixed_pool(&two, "OTHER", second, 1), fixed_pool(&one, "DEFAULT", first, 1)];
    tune(&mut settings);
    (FleetFixture::with_settings(settings, one), two)
}
