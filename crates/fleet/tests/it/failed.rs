//! The errors of callers when instances fail: waiting callers, new ones, and those of other pools.

use std::time::Duration;

use greenroom_core::InstanceId;
use greenroom_fleet::{FleetError, Health, Readiness, SessionKey};
use tokio::time::{Instant, sleep};

use crate::{
    declared::two_pools,
    fixture::{FleetFixture, LEASE, at, crash, named, settle, with_instances},
};

const WORDS: &str =
    "Default pool 'DEFAULT' has no healthy instances. Specify explicit pool or restart failed instances.";

fn no_restarts(settings: &mut greenroom_fleet::FleetSettings) {
    for pool in &mut settings.pools {
        with_instances(pool, |id, instance| {
            instance.restarts = 0;
            instance.alias = (id == 1).then(|| "main".to_owned());
        });
    }
}

/// Callers that wait for a crashed instance, by number or alias, get the error at once; others are served elsewhere.
#[tokio::test(start_paused = true)]
async fn waiters_for_a_crashed_instance_get_the_error() {
    for restarts in [0, 3] {
        let fixture = FleetFixture::fixed_with(2, 1, |settings| {
            with_instances(&mut settings.pools[0], move |id, instance| {
                instance.restarts = restarts;
                instance.alias = (id == 1).then(|| "main".to_owned());
            });
        })
        .await;
        fixture.call_at(named("a"), at("", "0"), "click").await.unwrap();
        fixture.call_at(named("b"), at("", "main"), "click").await.unwrap();
        let by_number = fixture.begin_at(named("c"), at("", "1"), "click").await;
        let by_alias = fixture.begin_at(SessionKey::Ephemeral, at("", "main"), "click").await;
        let any = fixture.begin("d", "click").await;
        assert_eq!(fixture.waiting(), 3);
        let began = Instant::now();
        fixture.world.lose_instance(InstanceId(1), &crash());
        for keyed in [by_number, by_alias] {
            let error = keyed.await.unwrap().unwrap_err();
            assert!(matches!(&error, FleetError::InstanceDown { instance: InstanceId(1), .. }), "{error}");
            assert_eq!(
                error.to_string(),
                "instance 1 of pool \"DEFAULT\" is not available: the browser ended (signal 9)"
            );
        }
        assert_eq!((began.elapsed(), fixture.waiting()), (Duration::ZERO, 1));
        fixture.close("a").await.unwrap();
        assert_eq!(any.await.unwrap().unwrap().instance, 0);
        fixture.end().await;
    }
}

/// A caller that takes any slot is served by the restarted instance; so is one that asks for that instance while it is
/// down.
#[tokio::test(start_paused = true)]
async fn restarted_instance_serves_waiters() {
    let fixture = FleetFixture::fixed(1, 2).await;
    fixture.create("a").await.unwrap();
    fixture.create("b").await.unwrap();
    let any = fixture.begin("c", "click").await;
    let began = Instant::now();
    fixture.world.lose_instance(InstanceId(0), &crash());
    settle().await;
    assert!(!any.is_finished());
    let keyed = fixture.begin_at(named("d"), at("", "0"), "click").await;
    any.await.unwrap().unwrap();
    keyed.await.unwrap().unwrap();
    assert_eq!(began.elapsed().as_secs(), 1);
    // The sessions that were there carry a note in their next answers, once there is room for them.
    fixture.close("c").await.unwrap();
    let said = fixture.call("a", "click").await.unwrap();
    assert!(said.restarted().is_some(), "{said:?}");
    fixture.end().await;
}

/// When every instance has failed for good, waiting and new callers get the error for it at once; the other pool goes on
/// unharmed and keeps its sessions.
#[tokio::test(start_paused = true)]
async fn pool_without_healthy_instances_refuses_callers() {
    let (fixture, other) = two_pools(2, 1, no_restarts);
    fixture.fleet.start();
    fixture.call_at(named("kept"), at("OTHER", ""), "click").await.unwrap();
    fixture.create("a").await.unwrap();
    fixture.create("b").await.unwrap();
    let waiting = [
        fixture.begin("c", "click").await,
        fixture.begin_at(SessionKey::Ephemeral, at("DEFAULT", ""), "x").await,
    ];
    fixture.world.lose_instance(InstanceId(0), &crash());
    settle().await;
    assert_eq!(fixture.waiting(), 2, "one is still healthy");
    assert!(matches!(fixture.fleet.readiness(), Readiness::Ready));
    let began = Instant::now();
    fixture.world.lose_instance(InstanceId(1), &crash());
    for call in waiting {
        assert_eq!(call.await.unwrap().unwrap_err().to_string(), WORDS);
    }
    let error = fixture.call("d", "click").await.unwrap_err();
    assert_eq!(error.to_string(), WORDS);
    let FleetError::NoHealthy { why, is_default: true, .. } = error else { panic!("{error}") };
    assert_eq!(why.as_deref(), Some("the browser ended (signal 9)"));
    let keyed = fixture.call_at(named("d"), at("", "main"), "click").await.unwrap_err();
    assert!(matches!(keyed, FleetError::InstanceDown { .. }), "{keyed}");
    assert_eq!(began.elapsed(), Duration::ZERO);
    let Readiness::Failed(error) = fixture.fleet.readiness() else { panic!("it is ready") };
    assert_eq!(error.message, WORDS);

    let said = fixture.call("kept", "click").await.unwrap();
    assert_eq!((said.seat, said.notes, said.pool.as_str()), (1, vec![], "OTHER"));
    other.lose_instance(InstanceId(0), &crash());
    settle().await;
    let error = fixture.call_at(SessionKey::Ephemeral, at("OTHER", ""), "x").await.unwrap_err().to_string();
    assert!(error.starts_with("Pool 'OTHER' has no healthy instances."), "{error}");
    assert_eq!(fixture.watcher.events().not_leased, 5);

    fixture.fleet.restart("DEFAULT", Some("1")).unwrap();
    settle().await;
    assert!(matches!(fixture.fleet.readiness(), Readiness::Ready));
    assert_eq!(fixture.call("d", "click").await.unwrap().instance, 1);
    fixture.end().await;
    other.assert_empty();
}

/// A pool whose instances all wait for their restart has not failed, and its callers wait, no longer than for a slot.
#[tokio::test(start_paused = true)]
async fn callers_wait_for_a_restart_up_to_the_lease_timeout() {
    let fixture = FleetFixture::fixed(1, 1).await;
    fixture.world.break_instance(0);
    fixture.world.lose_instance(InstanceId(0), &crash());
    sleep(Duration::from_millis(3500)).await;
    assert_eq!((fixture.health(), fixture.instance(0).restarts), (vec![Health::Failed], 2));
    assert!(matches!(fixture.fleet.readiness(), Readiness::Starting));
    let began = Instant::now();
    let waiting = fixture.begin("a", "click").await;
    fixture.world.mend();
    waiting.await.unwrap().unwrap();
    assert!(began.elapsed() < LEASE);
    fixture.end().await;
}

/// No caller gets a slot of a failed instance, in whatever order instances fail and are asked for.
#[tokio::test(start_paused = true)]
async fn failed_instance_leases_no_slot() {
    let fixture = FleetFixture::fixed_with(3, 1, no_restarts).await;
    for dead in [1, 0] {
        fixture.world.lose_instance(InstanceId(dead), &crash());
        // Also before the supervisor has seen the loss.
        for round in 0..6 {
            let said = fixture.call_ephemeral("click").await.unwrap();
            assert!(said.instance != dead, "round {round}: {said:?}");
        }
    }
    let status = fixture.pool();
    let counts = fixture.world.counts();
    assert_eq!((status.healthy(), status.slots, counts.calls_on_lost), (1, 1, 0));
    fixture.end().await;
}

/// A session whose instance dies between calls carries a note in its next call, which runs in another instance.
#[tokio::test(start_paused = true)]
async fn session_moves_when_its_instance_dies() {
    let fixture = FleetFixture::fixed_with(2, 1, no_restarts).await;
    let home = fixture.call("a", "click").await.unwrap().instance;
    fixture.world.lose_instance(InstanceId(home), &crash());
    let said = fixture.call("a", "click").await.unwrap();
    assert_ne!(said.instance, home);
    assert!(said.restarted().is_some());
    fixture.end().await;
}
