//! Leases on a certain instance, by number or alias, together with leases on any.

use std::sync::Arc;

use greenroom_core::{InstanceId, Owner};
use greenroom_fleet::{FleetError, SessionKey};
use tokio::time::Instant;

use crate::{
    agents::FakeAgent,
    fixture::{FleetFixture, LEASE, at, named, settle, with_instances},
};

async fn aliased(instances: usize) -> FleetFixture {
    FleetFixture::fixed_with(instances, 1, |settings| {
        with_instances(&mut settings.pools[0], |id, instance| {
            instance.alias = Some(["debug", "Debug"][id as usize % 2].to_owned()).filter(|_| id < 2);
        });
    })
    .await
}

/// A number and an alias name the same instance, and aliases are case-sensitive.
#[tokio::test(start_paused = true)]
async fn number_and_alias_name_the_same_instance() {
    let fixture = aliased(3).await;
    for (name, instance) in [("0", 0), ("debug", 0), ("1", 1), ("Debug", 1), ("2", 2)] {
        assert_eq!(
            fixture.call_at(SessionKey::Ephemeral, at("", name), "click").await.unwrap().instance,
            instance
        );
    }
    for name in ["DEBUG", "3", "00", " 0"] {
        let error = fixture.call_at(SessionKey::Ephemeral, at("", name), "click").await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "no such instance in pool \"DEFAULT\": \"{name}\"; there are \"0\", \"debug\", \"1\", \"Debug\", \"2\""
            )
        );
    }
    fixture.end().await;
}

/// Number and alias name one slot, never two: a caller that asks by number waits for the holder that asked by alias,
/// and is served when the slot comes back.
#[tokio::test(start_paused = true)]
async fn number_and_alias_share_one_slot() {
    let fixture = aliased(2).await;
    fixture.call_at(named("a"), at("", "debug"), "click").await.unwrap();
    let by_number = fixture.begin_at(named("b"), at("", "0"), "click").await;
    let by_alias = fixture.begin_at(named("c"), at("", "debug"), "click").await;
    let any = fixture.begin("d", "click").await;
    assert_eq!(any.await.unwrap().unwrap().instance, 1, "the other one is free");
    assert_eq!((fixture.leased(), fixture.waiting(), fixture.pool().slots), (2, 2, 2));
    assert_eq!(fixture.world.open_seats().len(), 2);
    fixture.close("a").await.unwrap();
    assert_eq!(by_number.await.unwrap().unwrap().instance, 0);
    fixture.close("b").await.unwrap();
    assert_eq!(by_alias.await.unwrap().unwrap().instance, 0);
    assert_eq!(fixture.world.counts().seats_max, 1);
    fixture.end().await;
}

/// Callers for any slot and callers for a certain one are served in the order in which they came.
#[tokio::test(start_paused = true)]
async fn keyed_and_unkeyed_callers_are_served_in_order() {
    let fixture = FleetFixture::fixed(2, 1).await;
    fixture.call_at(named("on 0"), at("", "0"), "click").await.unwrap();
    fixture.call_at(named("on 1"), at("", "1"), "click").await.unwrap();
    let first_any = fixture.begin("first", "click").await;
    let keyed = fixture.begin_at(named("keyed"), at("", "1"), "click").await;
    let second_any = fixture.begin("second", "click").await;
    fixture.close("on 1").await.unwrap();
    assert_eq!(first_any.await.unwrap().unwrap().instance, 1, "it came first");
    settle().await;
    assert!(!keyed.is_finished() && !second_any.is_finished());
    fixture.close("on 0").await.unwrap();
    assert_eq!(second_any.await.unwrap().unwrap().instance, 0, "the slot does not suit the caller before it");
    fixture.close("first").await.unwrap();
    assert_eq!(keyed.await.unwrap().unwrap().instance, 1);
    fixture.end().await;
}

/// Calls without a session get the slot that was returned first.
#[tokio::test(start_paused = true)]
async fn slot_returned_first_is_leased_first() {
    let fixture = FleetFixture::fixed(3, 1).await;
    let mut calls = Vec::new();
    let mut held = Vec::new();
    for _ in 0..3 {
        calls.push(fixture.begin_at(SessionKey::Ephemeral, at("", ""), "hold").await);
        held.push(fixture.world.held().await);
    }
    for nth in [1, 1, 0] {
        held.remove(nth).answer();
        settle().await;
    }
    let ran: Vec<_> = {
        let mut ran = Vec::new();
        for call in calls {
            ran.push(call.await.unwrap().unwrap().instance);
        }
        ran
    };
    let returned = [ran[1], ran[2], ran[0]];
    for round in 0..9 {
        assert_eq!(
            fixture.call_ephemeral("click").await.unwrap().instance,
            returned[round % 3],
            "round {round}"
        );
    }
    fixture.end().await;
}

/// A caller that waits too long for a certain instance learns which, who holds it as far as it may know, and how many wait.
#[tokio::test(start_paused = true)]
async fn timeout_for_a_named_instance_names_the_holders() {
    let fixture = FleetFixture::fixed(2, 2).await;
    let bob = Owner::new("bob");
    let agent = || Arc::new(FakeAgent);
    fixture.call_at(named("mine"), at("", "0"), "click").await.unwrap();
    fixture.call_for(&bob, named("secret"), at("", "0"), "click", agent()).await.unwrap();
    fixture.call_at(named("elsewhere"), at("", "1"), "click").await.unwrap();
    let began = Instant::now();
    let keyed = fixture.begin_at(named("late"), at("", "0"), "click").await;
    let other = fixture.begin_for(&bob, named("later"), at("", "0"), "click", agent()).await;
    let error = keyed.await.unwrap().unwrap_err();
    assert_eq!(began.elapsed(), LEASE);
    let FleetError::Lease(late) = error else { panic!("{error}") };
    assert_eq!((late.instance, late.leased, late.slots), (Some(InstanceId(0)), 2, 2));
    assert_eq!((late.waiting, late.waited), (1, LEASE));
    assert_eq!(late.holders, ["session \"mine\"", "1 of other owners"]);
    let FleetError::Lease(late) = other.await.unwrap().unwrap_err() else { panic!("it was served") };
    assert_eq!(late.holders, ["session \"secret\"", "1 of other owners"], "each lists its own holders");
    // The error for a caller of any slot names all holders, calls without a session too.
    let call = fixture.begin_at(SessionKey::Ephemeral, at("", ""), "hold").await;
    let held = fixture.world.held().await;
    let FleetError::Lease(late) = fixture.call("late", "click").await.unwrap_err() else {
        panic!("it was served")
    };
    assert_eq!((late.instance, late.leased, late.slots, late.waiting), (None, 4, 4, 0));
    assert_eq!(late.holders.len(), 4, "{late:?}");
    assert!(late.holders.contains(&"session \"elsewhere\"".to_owned()), "{late:?}");
    held.answer();
    call.await.unwrap().unwrap();
    fixture.end().await;
}

/// A request that left the queue or timed out starts no browser and opens no seat, not even later.
#[tokio::test(start_paused = true)]
async fn departed_callers_start_nothing() {
    let fixture = FleetFixture::fixed_with(1, 1, |settings| settings.pools[0].lease_timeout = LEASE).await;
    fixture.create("a").await.unwrap();
    let before = fixture.world.counts();
    let cancelled = fixture.begin("b", "click").await;
    let keyed = fixture.begin_at(named("c"), at("", "0"), "click").await;
    let late = fixture.begin("d", "click").await;
    cancelled.abort();
    keyed.abort();
    settle().await;
    assert_eq!(fixture.waiting(), 1);
    assert!(matches!(late.await.unwrap(), Err(FleetError::Lease(_))));
    fixture.close("a").await.unwrap();
    settle().await;
    let after = fixture.world.counts();
    assert_eq!((after.starts, after.opens, after.calls), (before.starts, before.opens, before.calls));
    assert_eq!((fixture.leased(), fixture.waiting()), (0, 0));
    fixture.end().await;
}

/// A caller that leaves just as its slot comes, at any point on the way, leaves the slot to others.
#[tokio::test(start_paused = true)]
async fn keyed_waiter_leaving_at_the_grant_returns_the_slot() {
    let fixture = FleetFixture::fixed(1, 1).await;
    for turns in 0..12 {
        fixture.create("a").await.unwrap();
        let waiting = fixture.begin_at(named("b"), at("", "0"), "click").await;
        let closing = tokio::spawn({
            let fixture = fixture.clone();
            async move { fixture.close("a").await }
        });
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        waiting.abort();
        closing.await.unwrap().unwrap();
        settle().await;
        if fixture.sessions() > 0 {
            fixture.close("b").await.unwrap();
        }
        assert_eq!((fixture.leased(), fixture.waiting()), (0, 0), "after {turns} turns");
    }
    fixture.end().await;
}
