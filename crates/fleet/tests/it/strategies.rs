//! Which instance a lease is on, by the pool's strategy.

use greenroom_core::lease::Strategy;
use greenroom_fleet::SessionKey;

use crate::fixture::{FleetFixture, at, named, settle};

async fn pool(instances: usize, slots: usize, strategy: Strategy) -> FleetFixture {
    FleetFixture::fixed_with(instances, slots, |settings| settings.pools[0].strategy = strategy).await
}

/// `round_robin` takes instances in turn.
#[tokio::test(start_paused = true)]
async fn round_robin_takes_instances_in_turn() {
    let fixture = pool(3, 2, Strategy::RoundRobin).await;
    let mut ran = Vec::new();
    for _ in 0..7 {
        ran.push(fixture.call_ephemeral("click").await.unwrap().instance);
    }
    assert_eq!(ran, [0, 1, 2, 0, 1, 2, 0]);
    fixture.end().await;
}

/// `least_used` takes the instance with the fewest leases.
#[tokio::test(start_paused = true)]
async fn least_used_takes_the_instance_with_the_fewest_leases() {
    let fixture = pool(3, 3, Strategy::LeastUsed).await;
    for (id, instance) in [("a", "0"), ("b", "0"), ("c", "2")] {
        fixture.call_at(named(id), at("", instance), "click").await.unwrap();
    }
    let mut ran = Vec::new();
    for id in ["d", "e", "f"] {
        ran.push(fixture.call(id, "click").await.unwrap().instance);
    }
    assert_eq!(ran[0], 1);
    ran[1..].sort_unstable();
    assert_eq!(ran, [1, 1, 2], "two each");
    assert_eq!((0..3).map(|id| fixture.instance(id).leased_slots).collect::<Vec<_>>(), [2, 2, 2]);
    fixture.end().await;
}

/// `sticky` takes the instance that the same session had last, even one for which it had waited; a new session gets the
/// instance that was returned first.
#[tokio::test(start_paused = true)]
async fn sticky_takes_the_last_instance_of_the_session() {
    let fixture = pool(2, 1, Strategy::Sticky).await;
    let home = fixture.call("a", "click").await.unwrap().instance;
    let other = fixture.call("b", "click").await.unwrap().instance;
    assert_ne!(home, other);
    for id in ["b", "a"] {
        fixture.close(id).await.unwrap();
    }
    for _ in 0..3 {
        assert_eq!(
            fixture.call("a", "click").await.unwrap().instance,
            home,
            "though the other came back first"
        );
        fixture.close("a").await.unwrap();
    }
    fixture.create("x").await.unwrap();
    fixture.create("y").await.unwrap();
    let waited = fixture.begin("c", "click").await;
    fixture.close("y").await.unwrap();
    let granted = waited.await.unwrap().unwrap().instance;
    fixture.close("x").await.unwrap();
    fixture.close("c").await.unwrap();
    settle().await;
    assert_eq!(fixture.call("c", "click").await.unwrap().instance, granted, "it had waited for this one");
    fixture.end().await;
}

/// With `sticky`, an owner's calls without a session come back to the same instance.
#[tokio::test(start_paused = true)]
async fn sticky_takes_the_last_instance_of_the_owner() {
    let fixture = pool(3, 1, Strategy::Sticky).await;
    let first = fixture.call_ephemeral("click").await.unwrap();
    for _ in 0..3 {
        let said = fixture.call_at(SessionKey::Ephemeral, at("", ""), "click").await.unwrap();
        assert_eq!((said.instance, said.seat), (first.instance, first.seat));
    }
    fixture.end().await;
}
