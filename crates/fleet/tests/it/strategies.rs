//! Which instance a lease is on, by the pool's strategy.

use greenroom_core::lease::Strategy;
use greenroom_fleet::SessionKey;

use crate::stage::{Stage, at, named, settle};

async fn pool(instances: usize, slots: usize, strategy: Strategy) -> Stage {
    Stage::fixed_with(instances, slots, |settings| settings.pools[0].strategy = strategy).await
}

/// In turn, the one that was returned first.
#[tokio::test(start_paused = true)]
async fn round_robin() {
    let stage = pool(3, 2, Strategy::RoundRobin).await;
    let mut ran = Vec::new();
    for _ in 0..7 {
        ran.push(stage.call_loose("click").await.unwrap().instance);
    }
    assert_eq!(ran, [0, 1, 2, 0, 1, 2, 0]);
    stage.end().await;
}

/// The one with the fewest leases.
#[tokio::test(start_paused = true)]
async fn least_used() {
    let stage = pool(3, 3, Strategy::LeastUsed).await;
    for (id, instance) in [("a", "0"), ("b", "0"), ("c", "2")] {
        stage.call_at(named(id), at("", instance), "click").await.unwrap();
    }
    let mut ran = Vec::new();
    for id in ["d", "e", "f"] {
        ran.push(stage.call(id, "click").await.unwrap().instance);
    }
    assert_eq!(ran[0], 1);
    ran[1..].sort_unstable();
    assert_eq!(ran, [1, 1, 2], "two each");
    assert_eq!((0..3).map(|id| stage.instance(id).leased_slots).collect::<Vec<_>>(), [2, 2, 2]);
    stage.end().await;
}

/// The instance that the same session had last, even if it has to wait for it; for a new session, the first returned.
#[tokio::test(start_paused = true)]
async fn sticky() {
    let stage = pool(2, 1, Strategy::Sticky).await;
    let home = stage.call("a", "click").await.unwrap().instance;
    let other = stage.call("b", "click").await.unwrap().instance;
    assert_ne!(home, other);
    for id in ["b", "a"] {
        stage.close(id).await.unwrap();
    }
    for _ in 0..3 {
        assert_eq!(
            stage.call("a", "click").await.unwrap().instance,
            home,
            "though the other came back first"
        );
        stage.close("a").await.unwrap();
    }
    stage.create("x").await.unwrap();
    stage.create("y").await.unwrap();
    let waited = stage.begin("c", "click").await;
    stage.close("y").await.unwrap();
    let granted = waited.await.unwrap().unwrap().instance;
    stage.close("x").await.unwrap();
    stage.close("c").await.unwrap();
    settle().await;
    assert_eq!(stage.call("c", "click").await.unwrap().instance, granted, "it had waited for this one");
    stage.end().await;
}

/// Without a session the owner comes back to its instance.
#[tokio::test(start_paused = true)]
async fn sticky_without_a_session() {
    let stage = pool(3, 1, Strategy::Sticky).await;
    let first = stage.call_loose("click").await.unwrap();
    for _ in 0..3 {
        let said = stage.call_at(SessionKey::Ephemeral, at("", ""), "click").await.unwrap();
        assert_eq!((said.instance, said.seat), (first.instance, first.seat));
    }
    stage.end().await;
}
