//! New settings of a running pool: what takes effect at once, and what with the next start of an instance.

use std::{sync::Arc, time::Duration};

use greenroom_core::lease::Strategy;
use greenroom_fleet::{FleetError, Health, PoolSettings, SessionKey};
use tokio::time::{Instant, sleep};

use crate::{
    fake::World,
    fixture::{FleetFixture, HEALTH, MS, at, fixed_pool, named, settle, with_instances},
};

/// The settings of the first pool, changed.
fn changed(world: &Arc<World>, size: usize, change: impl FnOnce(&mut PoolSettings)) -> PoolSettings {
    let mut pool = fixed_pool(world, "DEFAULT", size, 1);
    change(&mut pool);
    pool
}

/// Description, strategy, lease timeout and call deadline take effect at once, under the same sessions.
#[tokio::test(start_paused = true)]
async fn pool_settings_apply_at_once() {
    let fixture = FleetFixture::fixed(2, 1).await;
    let said = fixture.call("a", "click").await.unwrap();
    let pool = changed(&fixture.world, 2, |pool| {
        pool.description = "for tests".to_owned();
        pool.lease_timeout = Duration::from_millis(70);
        pool.strategy = Strategy::RoundRobin;
        with_instances(pool, |id, instance| {
            instance.alias = (id == 1).then(|| "main".to_owned());
            instance.call_timeout = Duration::from_secs(3);
        });
    });
    fixture.fleet.apply(pool).unwrap();
    assert_eq!(fixture.pool().description, "for tests");
    assert_eq!(fixture.call("a", "click").await.unwrap().seat, said.seat);
    assert_eq!(fixture.call_at(named("b"), at("", "main"), "click").await.unwrap().instance, 1);
    let began = Instant::now();
    let FleetError::Lease(late) = fixture.call("c", "click").await.unwrap_err() else {
        panic!("it was served")
    };
    assert_eq!((began.elapsed().as_millis(), late.waited.as_millis()), (70, 70));
    let began = Instant::now();
    assert!(matches!(fixture.call("b", "hold").await, Err(FleetError::Lost(_))));
    assert_eq!(began.elapsed().as_secs(), 3);
    fixture.close("a").await.unwrap();
    settle().await;
    let mut ran = Vec::new();
    for _ in 0..4 {
        ran.push(fixture.call_ephemeral("click").await.unwrap().instance);
    }
    assert_ne!(ran[0], ran[1]);
    assert_eq!(ran[..2], ran[2..], "in turn");
    assert_eq!(fixture.world.counts().starts, 2, "no instance was restarted");
    fixture.end().await;
}

/// Interval and limit of health checks take effect at once, not after the next check.
#[tokio::test(start_paused = true)]
async fn health_settings_apply_at_once() {
    let fixture = FleetFixture::fixed(1, 1).await;
    sleep(Duration::from_secs(2)).await;
    let pool = changed(&fixture.world, 1, |pool| {
        with_instances(pool, |_, instance| instance.health_interval = Duration::from_secs(1));
    });
    fixture.fleet.apply(pool).unwrap();
    settle().await;
    assert_eq!(fixture.world.counts().pings, 1, "one is due");
    sleep(Duration::from_secs(5) + MS * 50).await;
    settle().await;
    assert_eq!(fixture.world.counts().pings, 6);
    fixture.fleet.apply(changed(&fixture.world, 1, |_| {})).unwrap();
    sleep(HEALTH - MS * 100).await;
    settle().await;
    assert_eq!(fixture.world.counts().pings, 6);
    fixture.end().await;
}

/// A new size takes effect at once, by the rules of scaling, also when it changes back and forth.
#[tokio::test(start_paused = true)]
async fn pool_size_applies_at_once() {
    let fixture = FleetFixture::fixed(1, 1).await;
    for size in [3, 2, 4, 1] {
        fixture.fleet.apply(changed(&fixture.world, size, |_| {})).unwrap();
        settle().await;
        assert_eq!(fixture.health(), vec![Health::Healthy; size]);
    }
    fixture.fleet.scale("DEFAULT", 2).unwrap();
    fixture.fleet.apply(changed(&fixture.world, 1, |_| {})).unwrap();
    settle().await;
    assert_eq!(
        fixture.pool().instances.len(),
        2,
        "a size set by hand stays while the configured number is unchanged"
    );
    fixture.fleet.apply(changed(&fixture.world, 3, |_| {})).unwrap();
    settle().await;
    assert_eq!(fixture.pool().instances.len(), 3, "a new configured number replaces it");
    fixture.end().await;
}

/// Spares come and go with the setting, at once.
#[tokio::test(start_paused = true)]
async fn spare_count_applies_at_once() {
    let fixture = FleetFixture::fixed(4, 1).await;
    for warm in [2, 0, 3, 1, 0, 2] {
        fixture.fleet.apply(changed(&fixture.world, 4, |pool| pool.warm = warm)).unwrap();
        settle().await;
        assert_eq!((fixture.pool().spares, fixture.world.open_seats().len()), (warm, warm));
    }
    // Change the number several times before any task runs: there is still one task for spares, and no spare too many.
    for warm in [0, 3, 0, 1] {
        fixture.fleet.apply(changed(&fixture.world, 4, |pool| pool.warm = warm)).unwrap();
    }
    settle().await;
    assert_eq!((fixture.pool().spares, fixture.leased()), (1, 0));
    fixture.end().await;
}

/// Engine, browser and slots take effect with the next start of an instance; an existing session goes on until then.
#[tokio::test(start_paused = true)]
async fn engine_settings_apply_at_the_next_start() {
    let fixture = FleetFixture::fixed(2, 1).await;
    let said = fixture.call_at(named("a"), at("", "1"), "click").await.unwrap();
    let new_world = World::new();
    let pool = changed(&new_world, 2, |pool| {
        with_instances(pool, |_, instance| {
            instance.slots = 3;
            instance.browser = "firefox".to_owned();
            instance.headless = false;
        });
    });
    fixture.fleet.apply(pool).unwrap();
    settle().await;
    let before = fixture.instance(0);
    assert_eq!((before.slots, before.browser.as_str(), before.headless), (1, "chromium", true));
    assert_eq!(fixture.call("a", "click").await.unwrap().seat, said.seat);
    fixture.fleet.restart("DEFAULT", Some("0")).unwrap();
    settle().await;
    let after = fixture.instance(0);
    assert_eq!((after.slots, after.browser.as_str(), after.headless), (3, "firefox", false));
    assert_eq!((new_world.counts().started, fixture.pool().slots), (1, 4));
    for id in ["b", "c", "d"] {
        assert_eq!(fixture.call(id, "click").await.unwrap().instance, 0);
    }
    assert_eq!(new_world.counts().opened, 3);
    // An instance that crashes is started again with the new settings.
    fixture.world.lose_instance(greenroom_core::InstanceId(1), &crate::fixture::crash());
    new_world.until(|counts| counts.started == 2).await;
    settle().await;
    assert_eq!(fixture.instance(1).slots, 3);
    fixture.end().await;
    new_world.assert_empty();
}

/// A pool that does not exist gets no settings; an elastic pool does not become a fixed one.
#[tokio::test(start_paused = true)]
async fn unknown_pool_and_pool_kind_cannot_change() {
    let fixture = FleetFixture::new(1, 3);
    let unknown = changed(&fixture.world, 1, |pool| pool.name = "NEW".to_owned());
    assert!(matches!(fixture.fleet.apply(unknown), Err(FleetError::NoPool { .. })));
    fixture.fleet.apply(changed(&fixture.world, 2, |_| {})).unwrap();
    settle().await;
    assert!(fixture.pool().elastic);
    assert_eq!(fixture.world.counts().starts, 0);
    fixture.call_at(SessionKey::Ephemeral, at("", ""), "click").await.unwrap();
    fixture.end().await;
}
