//! Instances that fail are started again: how soon, how often, and how it is counted.

use std::time::Duration;

use greenroom_core::InstanceId;
use greenroom_fleet::{FleetError, Health, Readiness, SessionKey};
use tokio::time::{Instant, sleep};

use crate::fixture::{FleetFixture, MS, at, crash, settle, with_instances};

const S: Duration = Duration::from_secs(1);

/// Loses the instance as soon as it is up, and returns how long it took until the pool started it again.
async fn pause_after_loss(fixture: &FleetFixture, id: u32) -> Option<Duration> {
    let starts = fixture.world.counts().starts;
    let began = Instant::now();
    fixture.world.lose_instance(InstanceId(id), &crash());
    settle().await;
    assert_eq!(fixture.instance(id).health, Health::Failed, "it leaves at once");
    sleep(Duration::from_secs(100)).await;
    settle().await;
    (fixture.world.counts().starts > starts).then(|| fixture.world.starts()[starts].1 - began)
}

/// A crashed instance leaves the pool at once and is started again after 1, 2 and 4 s; then it stays failed, though the
/// others go on. The status and the watcher count each restart.
#[tokio::test(start_paused = true)]
async fn instance_is_restarted_three_times() {
    let fixture = FleetFixture::fixed_with(2, 1, |settings| settings.starts_max = 1).await;
    for (nth, pause) in [Some(S), Some(S * 2), Some(S * 4)].into_iter().enumerate() {
        // Do not use `pause_after_loss` here, which waits longer: all losses must be within the five minutes.
        let starts = fixture.world.counts().starts;
        let began = Instant::now();
        fixture.world.lose_instance(InstanceId(1), &crash());
        fixture.world.until(|counts| counts.started > starts).await;
        assert_eq!(Some(began.elapsed()), pause);
        settle().await;
        assert_eq!(
            (fixture.instance(1).health, fixture.instance(1).restarts),
            (Health::Healthy, nth as u64 + 1)
        );
    }
    assert_eq!(pause_after_loss(&fixture, 1).await, None);
    let failed = fixture.instance(1);
    assert_eq!((failed.health, failed.restarts, failed.check.responsive), (Health::Failed, 3, false));
    assert_eq!(failed.check.error.as_deref(), Some("the browser ended (signal 9)"));
    assert_eq!(fixture.watcher.events().restarted, vec![("DEFAULT".to_owned(), 1); 3]);
    assert!(matches!(fixture.fleet.readiness(), Readiness::Ready));
    sleep(Duration::from_secs(3600)).await;
    assert_eq!((fixture.instance(1).health, fixture.world.counts().starts), (Health::Failed, 5), "for good");
    for _ in 0..4 {
        assert_eq!(fixture.call_ephemeral("click").await.unwrap().instance, 0);
    }
    fixture.end().await;
}

/// Restarts older than five minutes do not count: an instance that crashes now and then is always started again, after a
/// second.
#[tokio::test(start_paused = true)]
async fn restarts_older_than_five_minutes_do_not_count() {
    let fixture = FleetFixture::fixed(1, 1).await;
    for _ in 0..10 {
        assert_eq!(pause_after_loss(&fixture, 0).await, Some(S));
        sleep(Duration::from_secs(300)).await;
    }
    assert_eq!(fixture.instance(0).restarts, 10);
    fixture.end().await;
}

/// Failed starts count towards the same limit as crashes; with a limit of 0, the first failure is final.
#[tokio::test(start_paused = true)]
async fn failed_starts_count_as_restarts() {
    let fixture = FleetFixture::fixed_with(2, 1, |settings| {
        with_instances(&mut settings.pools[0], |id, instance| {
            instance.restarts = if id == 1 { 0 } else { 3 }
        });
    })
    .await;
    fixture.world.lose_instance(InstanceId(1), &crash());
    assert_eq!(pause_after_loss(&fixture, 0).await, Some(S));
    fixture.world.break_instance(0);
    fixture.world.lose_instance(InstanceId(0), &crash());
    let began = Instant::now();
    sleep(Duration::from_secs(60)).await;
    let tries: Vec<_> = fixture.world.starts().into_iter().filter(|(_, at)| *at > began).collect();
    assert_eq!(tries, [(0, began + S * 2), (0, began + S * 6)], "after 2 s, and 4 s after that one failed");
    assert_eq!((fixture.instance(0).restarts, fixture.instance(1).restarts), (3, 0));
    assert_eq!(fixture.instance(0).check.error.as_deref(), Some("it is broken"));
    assert_eq!(fixture.health(), [Health::Failed; 2]);
    fixture.end().await;
}

/// An order restarts a failed instance at once, by number or alias or with the whole pool, and gives it its whole
/// number of restarts again.
#[tokio::test(start_paused = true)]
async fn restart_order_resets_the_restart_limit() {
    let fixture = FleetFixture::fixed_with(2, 1, |settings| {
        with_instances(&mut settings.pools[0], |id, instance| {
            instance.restarts = 1;
            instance.alias = (id == 1).then(|| "main".to_owned());
        });
    })
    .await;
    for name in ["1", "main", ""] {
        let name = Some(name).filter(|name| !name.is_empty());
        assert!(pause_after_loss(&fixture, 1).await.is_some(), "{name:?}");
        assert_eq!(pause_after_loss(&fixture, 1).await, None);
        let began = Instant::now();
        let starts = fixture.world.counts().starts;
        let told = fixture.fleet.restart("DEFAULT", name).unwrap();
        assert_eq!(told.contains(&InstanceId(0)), name.is_none());
        assert!(told.contains(&InstanceId(1)));
        fixture.world.until(|counts| counts.started > starts).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        settle().await;
        assert_eq!(fixture.health(), [Health::Healthy; 2]);
    }
    assert!(matches!(fixture.fleet.restart("DEFAULT", Some("2")), Err(FleetError::NoInstance { .. })));
    assert!(matches!(fixture.fleet.restart("NONE", None), Err(FleetError::NoPool { .. })));
    fixture.end().await;
}

/// An order to restart cuts the pause before the next attempt short.
#[tokio::test(start_paused = true)]
async fn restart_order_ends_the_pause() {
    let fixture = FleetFixture::fixed(1, 1).await;
    for _ in 0..5 {
        fixture.world.lose_instance(InstanceId(0), &crash());
        settle().await;
        let began = Instant::now();
        let starts = fixture.world.counts().starts;
        fixture.fleet.restart("DEFAULT", None).unwrap();
        fixture.world.until(|counts| counts.started > starts).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        settle().await;
    }
    assert_eq!((fixture.health(), fixture.instance(0).restarts), (vec![Health::Healthy], 0));
    fixture.end().await;
}

/// If the order to restart comes while the old instance is still being stopped, the new one starts as soon as that is
/// done.
#[tokio::test(start_paused = true)]
async fn restart_order_during_a_stop_starts_afterwards() {
    let fixture = FleetFixture::fixed_with(1, 1, |settings| {
        with_instances(&mut settings.pools[0], |_, instance| instance.restarts = 0);
    })
    .await;
    fixture.world.stopping.shut();
    fixture.world.lose_instance(InstanceId(0), &crash());
    settle().await;
    fixture.fleet.restart("DEFAULT", None).unwrap();
    settle().await;
    assert_eq!(fixture.world.counts().starts, 1, "not while the old one is being stopped");
    fixture.world.stopping.open();
    settle().await;
    assert_eq!((fixture.health(), fixture.world.counts().starts), (vec![Health::Healthy], 2));
    fixture.end().await;
}

/// One start serves both a call and an order that ask for a lazy instance, whichever comes first; an instance that then
/// fails for good is not started again.
#[tokio::test(start_paused = true)]
async fn call_and_order_share_one_start() {
    for turns in 0..12 {
        let fixture = FleetFixture::fixed_with(1, 1, |settings| {
            with_instances(&mut settings.pools[0], |_, one| (one.lazy, one.restarts) = (true, 0));
        })
        .await;
        let call = tokio::spawn({
            let fixture = fixture.clone();
            async move { fixture.call_at(SessionKey::Ephemeral, at("", "0"), "click").await }
        });
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        fixture.fleet.restart("DEFAULT", None).unwrap();
        call.await.unwrap().unwrap();
        settle().await;
        let starts = fixture.world.counts().starts;
        fixture.world.lose_instance(InstanceId(0), &crash());
        sleep(MS).await;
        settle().await;
        assert_eq!(
            (fixture.health(), fixture.world.counts().starts),
            (vec![Health::Failed], starts),
            "{turns}"
        );
        fixture.end().await;
    }
}
