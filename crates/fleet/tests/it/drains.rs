//! Instances that an operator drains or restarts while they run.

use std::time::Duration;

use greenroom_core::InstanceId;
use greenroom_fleet::{FleetError, Health, PoolSize, Readiness, SessionKey};
use tokio::time::{Instant, sleep};

use crate::fixture::{FleetFixture, at, crash, named, settle, with_instances};

/// A drained instance leases nothing more, stops when its leases are back, and stays stopped until it is restarted.
#[tokio::test(start_paused = true)]
async fn drained_instance_stays_stopped_until_restarted() {
    let fixture = FleetFixture::fixed(2, 1).await;
    let said = fixture.call_at(named("a"), at("", "1"), "click").await.unwrap();
    let waiting = fixture.begin_at(named("b"), at("", "1"), "click").await;
    assert_eq!(fixture.fleet.drain("DEFAULT", Some("1")).unwrap(), [InstanceId(1)]);
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "instance 1 of pool \"DEFAULT\" is not available: it is being drained");
    settle().await;
    let instance = fixture.instance(1);
    assert_eq!((instance.draining, instance.health, instance.leased_slots), (true, Health::Healthy, 1));
    assert_eq!(fixture.call("a", "click").await.unwrap().seat, said.seat);
    assert_eq!(fixture.pool().slots, 2, "one lease is still out");
    fixture.close("a").await.unwrap();
    settle().await;
    assert_eq!(fixture.world.stopped(), [InstanceId(1)]);
    let instance = fixture.instance(1);
    assert_eq!((instance.draining, instance.health, instance.restarts), (false, Health::Failed, 0));
    assert_eq!(instance.check.error.as_deref(), Some("it was drained; restart it to have it back"));
    let error = fixture.call_at(named("b"), at("", "1"), "click").await.unwrap_err();
    assert!(error.to_string().ends_with("it was drained; restart it to have it back"), "{error}");
    sleep(Duration::from_secs(600)).await;
    assert_eq!(fixture.world.counts().starts, 2, "it stays drained");
    fixture.fleet.restart("DEFAULT", Some("1")).unwrap();
    settle().await;
    assert_eq!(fixture.call_at(named("b"), at("", "1"), "click").await.unwrap().instance, 1);
    fixture.end().await;
}

/// A drained pool refuses calls, at once and with the reason, waiting ones too; current leases go on; a restart brings it
/// back.
#[tokio::test(start_paused = true)]
async fn drained_pool_refuses_calls_until_restarted() {
    let fixture = FleetFixture::fixed(2, 1).await;
    fixture.create("a").await.unwrap();
    fixture.create("b").await.unwrap();
    let waiting = fixture.begin("c", "click").await;
    let began = Instant::now();
    assert_eq!(fixture.fleet.drain("DEFAULT", None).unwrap().len(), 2);
    for error in [waiting.await.unwrap().unwrap_err(), fixture.call("d", "click").await.unwrap_err()] {
        let FleetError::NoHealthy { why, .. } = error else { panic!("{error}") };
        assert_eq!(why.as_deref(), Some("it is being drained"));
    }
    assert!(matches!(fixture.fleet.readiness(), Readiness::Failed(_)));
    fixture.call("a", "click").await.unwrap();
    fixture.close("a").await.unwrap();
    fixture.close("b").await.unwrap();
    settle().await;
    assert_eq!(fixture.world.counts().stops, 2);
    let FleetError::NoHealthy { why, .. } = fixture.call("d", "click").await.unwrap_err() else { panic!() };
    assert_eq!(why.as_deref(), Some("it was drained; restart it to have it back"));
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(fixture.fleet.restart("DEFAULT", None).unwrap().len(), 2);
    fixture.call("d", "click").await.unwrap();
    settle().await;
    assert_eq!(fixture.health(), [Health::Healthy; 2]);
    fixture.end().await;
}

/// A restart of a running instance waits for its leases; those who wait for the instance wait for the new one, and the
/// restart counts as no failure.
#[tokio::test(start_paused = true)]
async fn restart_waits_for_leases() {
    let fixture = FleetFixture::fixed(1, 2).await;
    let said = fixture.call("a", "click").await.unwrap();
    fixture.fleet.restart("DEFAULT", Some("0")).unwrap();
    settle().await;
    assert!(fixture.instance(0).draining);
    let waiting =
        [fixture.begin("b", "click").await, fixture.begin_at(named("c"), at("", "0"), "click").await];
    assert_eq!((fixture.waiting(), fixture.world.counts().stops), (2, 0), "a slot is free, but not leased");
    assert_eq!(fixture.call("a", "click").await.unwrap().seat, said.seat);
    fixture.close("a").await.unwrap();
    for call in waiting {
        call.await.unwrap().unwrap();
    }
    let counts = fixture.world.counts();
    assert_eq!((counts.starts, counts.stops, fixture.instance(0).restarts), (2, 1, 0));
    assert!(!fixture.instance(0).draining);
    fixture.end().await;
}

/// Pages that calls without a session left do not delay a restart.
#[tokio::test(start_paused = true)]
async fn idle_seats_delay_no_restart() {
    let fixture = FleetFixture::fixed_with(1, 2, |settings| settings.pools[0].warm = 1).await;
    fixture.call_ephemeral("click").await.unwrap();
    settle().await;
    fixture.fleet.restart("DEFAULT", None).unwrap();
    settle().await;
    assert_eq!((fixture.world.counts().stops, fixture.world.counts().started), (1, 2));
    assert_eq!(
        (fixture.pool().spares, fixture.world.open_seats().len()),
        (1, 1),
        "and there is a spare again"
    );
    fixture.end().await;
}

/// The last order counts: a restart after a drain, and a drain after a restart, before the lease is back.
#[tokio::test(start_paused = true)]
async fn last_of_drain_and_restart_wins() {
    let fixture = FleetFixture::fixed(1, 1).await;
    fixture.create("a").await.unwrap();
    fixture.fleet.drain("DEFAULT", None).unwrap();
    settle().await;
    fixture.fleet.restart("DEFAULT", None).unwrap();
    settle().await;
    let waiting = fixture.begin("b", "click").await;
    assert!(!waiting.is_finished(), "it comes back");
    fixture.fleet.drain("DEFAULT", None).unwrap();
    assert!(matches!(waiting.await.unwrap(), Err(FleetError::NoHealthy { .. })), "it does not come back");
    fixture.fleet.restart("DEFAULT", None).unwrap();
    fixture.close("a").await.unwrap();
    fixture.call("c", "click").await.unwrap();
    fixture.end().await;
}

/// Orders work in every state: while an instance starts, when that fails, and before the pool was used.
#[tokio::test(start_paused = true)]
async fn orders_work_in_every_instance_state() {
    for broken in [false, true] {
        let fixture = FleetFixture::tuned(1, 1, |settings| settings.pools[0].size = PoolSize::Fixed(1));
        fixture.world.starting.shut();
        fixture.fleet.start();
        settle().await;
        if broken {
            fixture.world.break_instance(0);
        }
        fixture.fleet.drain("DEFAULT", None).unwrap();
        settle().await;
        fixture.world.starting.open();
        sleep(Duration::from_secs(60)).await;
        settle().await;
        assert_eq!(
            (fixture.health(), fixture.world.counts().starts),
            (vec![Health::Failed], 1),
            "broken: {broken}"
        );
        fixture.end().await;
    }
    let fixture = FleetFixture::tuned(1, 1, |settings| settings.pools[0].size = PoolSize::Fixed(2));
    fixture.fleet.drain("DEFAULT", Some("1")).unwrap();
    settle().await;
    assert_eq!(fixture.health(), [Health::Healthy, Health::Failed]);
    assert!(fixture.world.starts().iter().all(|(id, _)| *id == 0), "a drained instance is not started first");
    fixture.end().await;
}

/// An instance that dies while it waits for its restart comes back at once, and the loss does not count as a failure.
#[tokio::test(start_paused = true)]
async fn instance_lost_before_its_restart_starts_at_once() {
    let fixture = FleetFixture::fixed_with(1, 1, |settings| {
        with_instances(&mut settings.pools[0], |_, instance| instance.restarts = 0);
    })
    .await;
    fixture.create("a").await.unwrap();
    fixture.fleet.restart("DEFAULT", None).unwrap();
    settle().await;
    fixture.world.lose_instance(InstanceId(0), &crash());
    settle().await;
    assert_eq!((fixture.health(), fixture.instance(0).restarts), (vec![Health::Healthy], 0));
    fixture.end().await;
}

/// An elastic pool can be drained and restarted as well.
#[tokio::test(start_paused = true)]
async fn elastic_pool_can_be_drained_and_restarted() {
    let fixture = FleetFixture::new(1, 3);
    fixture.create("a").await.unwrap();
    assert_eq!(fixture.fleet.drain("DEFAULT", None).unwrap(), [InstanceId(0)]);
    settle().await;
    assert!(matches!(fixture.call("b", "click").await, Err(FleetError::NoHealthy { .. })));
    fixture.call("a", "click").await.unwrap();
    fixture.close("a").await.unwrap();
    settle().await;
    assert_eq!((fixture.world.counts().starts, fixture.world.counts().stops), (1, 1));
    assert!(matches!(fixture.fleet.readiness(), Readiness::Failed(_)));
    let drained = fixture.pool();
    assert_eq!(
        (drained.drained, drained.instances.len(), drained.slots),
        (true, 0, 0),
        "nothing can be leased"
    );
    assert_eq!(fixture.fleet.drain("DEFAULT", None).unwrap(), [], "there is nothing to drain");
    assert_eq!(fixture.fleet.restart("DEFAULT", None).unwrap(), [], "no running instance to restart");
    settle().await;
    let back = fixture.pool();
    assert_eq!((back.drained, back.instances.len(), back.slots), (false, 0, 3), "it can be leased again");
    assert_eq!(fixture.world.counts().starts, 1, "no instance runs without need");
    fixture.call_at(SessionKey::Ephemeral, at("", ""), "click").await.unwrap();
    fixture.end().await;
}

/// A slot that is granted and given up at the moment of a drain does not delay the drain. Runs on real threads, so that
/// the drain meets every point of the grant.
#[test]
fn abandoned_grant_does_not_delay_a_drain() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
    runtime.block_on(async {
        for _ in 0..200 {
            let fixture = FleetFixture::fixed(1, 1).await;
            fixture.create("a").await.unwrap();
            let waiting = fixture.begin("b", "click").await;
            let closing = tokio::spawn({
                let fixture = fixture.clone();
                async move { fixture.close("a").await }
            });
            let leaving = tokio::spawn(async move { waiting.abort() });
            fixture.fleet.drain("DEFAULT", None).unwrap();
            closing.await.unwrap().unwrap();
            leaving.await.unwrap();
            let _ = fixture.close("b").await;
            fixture.world.until(|counts| counts.stops == 1).await;
            fixture.end().await;
        }
    });
}

/// An instance that is drained while it starts leases nothing at all, not even to callers that waited for it.
#[tokio::test(start_paused = true)]
async fn instance_drained_while_starting_leases_nothing() {
    let fixture =
        FleetFixture::tuned(1, 1, |settings| settings.pools[0].size = greenroom_fleet::PoolSize::Fixed(2));
    fixture.world.starting.shut();
    fixture.fleet.start();
    settle().await;
    fixture.fleet.drain("DEFAULT", Some("1")).unwrap();
    settle().await;
    let target = greenroom_fleet::CallTarget { pool: None, instance: Some("1".to_owned()), browser: None };
    let permit = crate::fixture::permit(&greenroom_core::Owner::local(), "click");
    let call = crate::fake::call("click", "{}");
    let agent = std::sync::Arc::new(greenroom_core::NoAgent);
    let fleet = fixture.fleet.clone();
    let keyed =
        tokio::spawn(
            async move { fleet.call(permit, crate::fixture::named("k"), target, call, agent).await },
        );
    settle().await;
    fixture.world.starting.open();
    assert!(matches!(keyed.await.unwrap(), Err(greenroom_fleet::FleetError::InstanceDown { .. })));
    settle().await;
    assert_eq!((fixture.pool().healthy(), fixture.world.counts().opens), (1, 0));
    fixture.end().await;
}
