//! Health checks of instances, at intervals, independent of the queue and the calls.

use std::time::Duration;

use greenroom_core::{InstanceId, Lost};
use greenroom_fleet::{FleetError, Health, Readiness};
use tokio::time::{Instant, sleep};

use crate::{
    fake::HealthProbe,
    fixture::{FleetFixture, HEALTH, MS, crash, settle, with_instances},
};

/// Every instance is checked every 20 s, even while all slots are leased and calls run in them.
#[tokio::test(start_paused = true)]
async fn health_checks_run_while_all_slots_are_leased() {
    let fixture = FleetFixture::fixed(2, 1).await;
    let calls = [fixture.begin("a", "hold").await, fixture.begin("b", "hold").await];
    let held = [fixture.world.held().await, fixture.world.held().await];
    let waiting = fixture.begin("c", "click").await;
    assert_eq!(fixture.world.counts().pings, 0);
    sleep(HEALTH - MS).await;
    settle().await;
    assert_eq!(fixture.world.counts().pings, 0);
    sleep(MS * 2).await;
    settle().await;
    assert_eq!(fixture.world.counts().pings, 2);
    assert!(waiting.is_finished(), "it waited 5 s for a slot");
    held.into_iter().for_each(crate::fake::Held::answer);
    for call in calls {
        call.await.unwrap().unwrap();
    }
    sleep(HEALTH * 3).await;
    settle().await;
    assert_eq!(fixture.world.counts().pings, 8);
    fixture.end().await;
}

/// The status shows one miss, and the instance leases nothing until it answers; open seats stay open.
#[tokio::test(start_paused = true)]
async fn instance_leases_nothing_after_a_missed_check() {
    let fixture = FleetFixture::fixed(1, 1).await;
    fixture.call("a", "click").await.unwrap();
    let check = fixture.instance(0).check;
    assert_eq!((check.responsive, check.error, check.last.is_some()), (true, None, true));
    fixture.world.set_pulse(0, Some(HealthProbe::HealthCheckFailed));
    for _ in 0..2 {
        sleep(HEALTH + MS).await;
        settle().await;
        let instance = fixture.instance(0);
        assert_eq!((instance.health, instance.check.responsive), (Health::Healthy, false));
        assert_eq!(instance.check.error.as_deref(), Some("it feels faint"));
        assert!(!fixture.instance(0).is_available());
        fixture.call("a", "click").await.unwrap();
    }
    fixture.world.set_pulse(0, None);
    sleep(HEALTH + MS).await;
    settle().await;
    assert_eq!((fixture.instance(0).check.responsive, fixture.instance(0).check.error), (true, None));
    // The count starts again: two more misses are two, not four.
    fixture.world.set_pulse(0, Some(HealthProbe::HealthCheckFailed));
    sleep(HEALTH * 2 + MS * 9).await;
    settle().await;
    assert_eq!((fixture.instance(0).health, fixture.world.counts().stops), (Health::Healthy, 0));
    fixture.end().await;
}

/// While no running instance answers, the fleet is not ready, and says why; one that answers is enough.
#[tokio::test(start_paused = true)]
async fn fleet_is_not_ready_without_a_responsive_instance() {
    let elastic = FleetFixture::new(1, 2);
    elastic.create("a").await.unwrap();
    for fixture in [FleetFixture::fixed(1, 1).await, elastic] {
        assert!(matches!(fixture.fleet.readiness(), Readiness::Ready));
        fixture.world.set_pulse(0, Some(HealthProbe::Hangs));
        sleep(HEALTH + Duration::from_secs(5) + MS).await;
        settle().await;
        let Readiness::Unresponsive(why) = fixture.fleet.readiness() else { panic!("it is ready") };
        assert_eq!(why, "no answer within 5 s: the browser did not answer");
        fixture.world.set_pulse(0, None);
        sleep(HEALTH + MS).await;
        settle().await;
        assert!(matches!(fixture.fleet.readiness(), Readiness::Ready));
        fixture.end().await;
    }
    let two = FleetFixture::fixed(2, 1).await;
    two.world.set_pulse(0, Some(HealthProbe::HealthCheckFailed));
    sleep(HEALTH + MS).await;
    settle().await;
    assert!(matches!(two.fleet.readiness(), Readiness::Ready), "the other one answers");
    two.world.set_pulse(1, Some(HealthProbe::HealthCheckFailed));
    sleep(HEALTH).await;
    settle().await;
    let Readiness::Unresponsive(why) = two.fleet.readiness() else { panic!("it is ready") };
    assert_eq!(why, "it feels faint");
    two.end().await;
}

/// After three misses in a row the instance has failed: it is stopped, its session is lost and says so, and it is started
/// again.
#[tokio::test(start_paused = true)]
async fn three_missed_checks_fail_the_instance() {
    let fixture = FleetFixture::fixed(1, 1).await;
    fixture.create("a").await.unwrap();
    let began = Instant::now();
    fixture.world.set_pulse(0, Some(HealthProbe::HealthCheckFailed));
    fixture.world.until(|counts| counts.stops == 1).await;
    assert_eq!(began.elapsed().as_secs(), 60);
    fixture.world.set_pulse(0, None);
    settle().await;
    let instance = fixture.instance(0);
    assert_eq!((instance.health, instance.check.responsive), (Health::Failed, false));
    assert_eq!(instance.check.error.as_deref(), Some("it did not answer 3 times in a row: it feels faint"));
    fixture.world.until(|counts| counts.started == 2).await;
    assert_eq!(began.elapsed().as_secs(), 61);
    let said = fixture.call("a", "click").await.unwrap();
    assert!(said.restarted().is_some());
    assert_eq!(fixture.instance(0).restarts, 1);
    fixture.end().await;
}

/// An instance that does not answer at all misses a check after 5 s, and the error says who was silent.
#[tokio::test(start_paused = true)]
async fn hanging_check_counts_as_missed() {
    let fixture = FleetFixture::fixed(1, 1).await;
    let call = fixture.begin("a", "hold").await;
    let held = fixture.world.held().await;
    fixture.world.set_pulse(0, Some(HealthProbe::Hangs));
    sleep(HEALTH + MS).await;
    settle().await;
    assert!(fixture.instance(0).check.responsive, "it still has time");
    sleep(Duration::from_secs(5)).await;
    settle().await;
    let error = fixture.instance(0).check.error;
    assert_eq!(error.as_deref(), Some("no answer within 5 s: the browser did not answer"));
    fixture.world.until(|counts| counts.stops == 1).await;
    assert!(matches!(call.await.unwrap(), Err(FleetError::Lost(_))));
    drop(held);
    fixture.end().await;
}

/// A dead process is noticed at once, not with the next check.
#[tokio::test(start_paused = true)]
async fn dead_process_is_noticed_at_once() {
    let fixture = FleetFixture::fixed(1, 1).await;
    sleep(HEALTH / 2).await;
    let status = "exit status: 1".into();
    fixture.world.lose_instance(InstanceId(0), &Lost::Process { status, stderr_tail: "".into() });
    // The status shows it before the supervisor has seen it.
    assert_eq!(fixture.instance(0).health, Health::Failed);
    settle().await;
    let instance = fixture.instance(0);
    assert_eq!((instance.health, instance.process_id), (Health::Failed, None));
    assert_eq!(instance.check.error.as_deref(), Some("the engine process ended (exit status: 1)"));
    fixture.end().await;
}

/// After the machine woke up every instance is checked now, and earlier misses do not count.
#[tokio::test(start_paused = true)]
async fn instances_are_checked_after_sleep() {
    let fixture = FleetFixture::fixed(2, 1).await;
    fixture.world.set_pulse(0, Some(HealthProbe::HealthCheckFailed));
    sleep(HEALTH * 2 + MS * 9).await;
    settle().await;
    let before = fixture.world.counts().pings;
    fixture.fleet.check_after_sleep();
    settle().await;
    assert_eq!(fixture.world.counts().pings, before + 2, "at once");
    // Two misses before, two since: four, but not three in a row.
    sleep(HEALTH + MS).await;
    settle().await;
    assert_eq!((fixture.health(), fixture.world.counts().stops), (vec![Health::Healthy; 2], 0));
    sleep(HEALTH + MS).await;
    settle().await;
    assert_eq!(fixture.world.counts().stops, 1);
    fixture.end().await;
}

/// Each instance is checked by its own settings.
#[tokio::test(start_paused = true)]
async fn each_instance_is_checked_by_its_own_settings() {
    let fixture = FleetFixture::fixed_with(2, 1, |settings| {
        with_instances(&mut settings.pools[0], |id, instance| {
            instance.health_interval = Duration::from_secs(if id == 0 { 1 } else { 1000 });
        });
    })
    .await;
    sleep(Duration::from_secs(10) + MS * 50).await;
    settle().await;
    assert_eq!(fixture.world.counts().pings, 10);
    fixture.world.lose_instance(InstanceId(0), &crash());
    fixture.end().await;
}
