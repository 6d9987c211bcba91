//! Leases on a certain instance, by number or alias, together with leases on any.

use std::sync::Arc;

use greenroom_core::{InstanceId, Owner};
use greenroom_fleet::{FleetError, SessionKey};
use tokio::time::Instant;

use crate::{
    agents::FakeAgent,
    stage::{LEASE, Stage, at, named, settle, with_instances},
};

async fn aliased(instances: usize) -> Stage {
    Stage::fixed_with(instances, 1, |settings| {
        with_instances(&mut settings.pools[0], |id, instance| {
            instance.alias = Some(["debug", "Debug"][id as usize % 2].to_owned()).filter(|_| id < 2);
        });
    })
    .await
}

/// A number and an alias name the same instance, and aliases are case-sensitive.
#[tokio::test(start_paused = true)]
async fn by_number_and_by_alias() {
    let stage = aliased(3).await;
    for (name, instance) in [("0", 0), ("debug", 0), ("1", 1), ("Debug", 1), ("2", 2)] {
        assert_eq!(
            stage.call_at(SessionKey::Ephemeral, at("", name), "click").await.unwrap().instance,
            instance
        );
    }
    for name in ["DEBUG", "3", "00", " 0"] {
        let error = stage.call_at(SessionKey::Ephemeral, at("", name), "click").await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "no such instance in pool \"DEFAULT\": \"{name}\"; there are \"0\", \"debug\", \"1\", \"Debug\", \"2\""
            )
        );
    }
    stage.end().await;
}

/// An instance with an alias is one slot, never two: a caller that asks by number waits for the one that has it by alias,
/// and is served when it comes back.
#[tokio::test(start_paused = true)]
async fn an_alias_is_no_second_slot() {
    let stage = aliased(2).await;
    stage.call_at(named("a"), at("", "debug"), "click").await.unwrap();
    let by_number = stage.begin_at(named("b"), at("", "0"), "click").await;
    let by_alias = stage.begin_at(named("c"), at("", "debug"), "click").await;
    let any = stage.begin("d", "click").await;
    assert_eq!(any.await.unwrap().unwrap().instance, 1, "the other one is free");
    assert_eq!((stage.leased(), stage.waiting(), stage.pool().slots), (2, 2, 2));
    assert_eq!(stage.world.open_seats().len(), 2);
    stage.close("a").await.unwrap();
    assert_eq!(by_number.await.unwrap().unwrap().instance, 0);
    stage.close("b").await.unwrap();
    assert_eq!(by_alias.await.unwrap().unwrap().instance, 0);
    assert_eq!(stage.world.counts().seats_max, 1);
    stage.end().await;
}

/// Callers for any slot and callers for a certain one are served in the order in which they came.
#[tokio::test(start_paused = true)]
async fn fair_between_keyed_and_any() {
    let stage = Stage::fixed(2, 1).await;
    stage.call_at(named("on 0"), at("", "0"), "click").await.unwrap();
    stage.call_at(named("on 1"), at("", "1"), "click").await.unwrap();
    let first_any = stage.begin("first", "click").await;
    let keyed = stage.begin_at(named("keyed"), at("", "1"), "click").await;
    let second_any = stage.begin("second", "click").await;
    stage.close("on 1").await.unwrap();
    assert_eq!(first_any.await.unwrap().unwrap().instance, 1, "it came first");
    settle().await;
    assert!(!keyed.is_finished() && !second_any.is_finished());
    stage.close("on 0").await.unwrap();
    assert_eq!(second_any.await.unwrap().unwrap().instance, 0, "the slot does not suit the caller before it");
    stage.close("first").await.unwrap();
    assert_eq!(keyed.await.unwrap().unwrap().instance, 1);
    stage.end().await;
}

/// Calls without a session get the slot that was returned first.
#[tokio::test(start_paused = true)]
async fn first_in_first_out_by_return() {
    let stage = Stage::fixed(3, 1).await;
    let mut calls = Vec::new();
    let mut held = Vec::new();
    for _ in 0..3 {
        calls.push(stage.begin_at(SessionKey::Ephemeral, at("", ""), "hold").await);
        held.push(stage.world.held().await);
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
        assert_eq!(stage.call_loose("click").await.unwrap().instance, returned[round % 3], "round {round}");
    }
    stage.end().await;
}

/// A caller that waits too long for a certain instance learns which, who holds it as far as it may know, and how many wait.
#[tokio::test(start_paused = true)]
async fn too_late_names_the_holders() {
    let stage = Stage::fixed(2, 2).await;
    let bob = Owner::new("bob");
    let agent = || Arc::new(FakeAgent);
    stage.call_at(named("mine"), at("", "0"), "click").await.unwrap();
    stage.call_for(&bob, named("secret"), at("", "0"), "click", agent()).await.unwrap();
    stage.call_at(named("elsewhere"), at("", "1"), "click").await.unwrap();
    let began = Instant::now();
    let keyed = stage.begin_at(named("late"), at("", "0"), "click").await;
    let other = stage.begin_for(&bob, named("later"), at("", "0"), "click", agent()).await;
    let error = keyed.await.unwrap().unwrap_err();
    assert_eq!(began.elapsed(), LEASE);
    let FleetError::Lease(late) = error else { panic!("{error}") };
    assert_eq!((late.instance, late.leased, late.slots), (Some(InstanceId(0)), 2, 2));
    assert_eq!((late.waiting, late.waited), (1, LEASE));
    assert_eq!(late.holders, ["session \"mine\"", "1 of other owners"]);
    let FleetError::Lease(late) = other.await.unwrap().unwrap_err() else { panic!("it was served") };
    assert_eq!(late.holders, ["session \"secret\"", "1 of other owners"], "each lists its own holders");
    // For any slot: all holders, calls without a session too.
    let call = stage.begin_at(SessionKey::Ephemeral, at("", ""), "hold").await;
    let held = stage.world.held().await;
    let FleetError::Lease(late) = stage.call("late", "click").await.unwrap_err() else {
        panic!("it was served")
    };
    assert_eq!((late.instance, late.leased, late.slots, late.waiting), (None, 4, 4, 0));
    assert_eq!(late.holders.len(), 4, "{late:?}");
    assert!(late.holders.contains(&"session \"elsewhere\"".to_owned()), "{late:?}");
    held.answer();
    call.await.unwrap().unwrap();
    stage.end().await;
}

/// A request that left the queue or timed out starts no browser and opens none, also not later.
#[tokio::test(start_paused = true)]
async fn nothing_is_started_for_those_who_left() {
    let stage = Stage::fixed_with(1, 1, |settings| settings.pools[0].lease_timeout = LEASE).await;
    stage.create("a").await.unwrap();
    let before = stage.world.counts();
    let cancelled = stage.begin("b", "click").await;
    let keyed = stage.begin_at(named("c"), at("", "0"), "click").await;
    let late = stage.begin("d", "click").await;
    cancelled.abort();
    keyed.abort();
    settle().await;
    assert_eq!(stage.waiting(), 1);
    assert!(matches!(late.await.unwrap(), Err(FleetError::Lease(_))));
    stage.close("a").await.unwrap();
    settle().await;
    let after = stage.world.counts();
    assert_eq!((after.starts, after.opens, after.calls), (before.starts, before.opens, before.calls));
    assert_eq!((stage.leased(), stage.waiting()), (0, 0));
    stage.end().await;
}

/// A caller that leaves just as its slot comes, at any point on the way, leaves the slot to others.
#[tokio::test(start_paused = true)]
async fn a_keyed_wait_is_cancel_safe_in_the_moment_of_the_grant() {
    let stage = Stage::fixed(1, 1).await;
    for turns in 0..12 {
        stage.create("a").await.unwrap();
        let waiting = stage.begin_at(named("b"), at("", "0"), "click").await;
        let closing = tokio::spawn({
            let stage = stage.clone();
            async move { stage.close("a").await }
        });
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        waiting.abort();
        closing.await.unwrap().unwrap();
        settle().await;
        if stage.sessions() > 0 {
            stage.close("b").await.unwrap();
        }
        assert_eq!((stage.leased(), stage.waiting()), (0, 0), "after {turns} turns");
    }
    stage.end().await;
}
