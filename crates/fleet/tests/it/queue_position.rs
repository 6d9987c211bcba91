//! The positions in the queue that a caller receives.

use std::{sync::Arc, time::Duration};

use greenroom_core::Owner;
use greenroom_fleet::SessionKey;
use tokio::time::{Instant, sleep};

use crate::{
    agents::Listener,
    fixture::{FleetFixture, MS, at, named, settle, with_instances},
};

/// A caller in the queue receives its position at once, then at every change, and every position in turn.
#[tokio::test(start_paused = true)]
async fn queue_position_counts_down() {
    let fixture = FleetFixture::fixed(1, 1).await;
    fixture.create("0").await.unwrap();
    let mut calls = Vec::new();
    for id in ["1", "2"] {
        calls.push(fixture.begin(id, "click").await);
    }
    let agent = Arc::new(Listener::default());
    let began = Instant::now();
    calls.push(fixture.begin_for(&Owner::local(), named("3"), at("", ""), "click", agent.clone()).await);
    assert_eq!((agent.positions(), agent.times()), (vec![(3, 3)], vec![began]));
    for id in ["0", "1"] {
        fixture.close(id).await.unwrap();
        sleep(Duration::from_secs(1)).await;
        settle().await;
    }
    assert_eq!(agent.positions(), [(3, 3), (2, 2), (1, 1)]);
    fixture.close("2").await.unwrap();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(agent.positions().len(), 3, "nothing after its turn came");
    fixture.end().await;
}

/// However fast the queue moves, a caller receives its position at most every 250 ms, and not if nothing has changed.
#[tokio::test(start_paused = true)]
async fn queue_position_is_sent_at_most_every_250_ms() {
    let fixture =
        FleetFixture::fixed_with(1, 1, |settings| settings.pools[0].lease_timeout = Duration::from_secs(60))
            .await;
    fixture.create("0").await.unwrap();
    let mut calls: Vec<_> = Vec::new();
    for n in 1..=40 {
        calls.push(fixture.begin(&n.to_string(), "click").await);
    }
    let agent = Arc::new(Listener::default());
    calls.push(fixture.begin_for(&Owner::local(), named("last"), at("", ""), "click", agent.clone()).await);
    for n in 0..=40 {
        fixture.close(&n.to_string()).await.unwrap();
        sleep(MS * 20).await;
        settle().await;
    }
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let times = agent.times();
    assert!((2..=5).contains(&times.len()), "{times:?}");
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= MS * 250), "{times:?}");
    assert!(agent.positions().windows(2).all(|pair| pair[1].0 < pair[0].0));
    fixture.end().await;
}

/// A caller that only waits for a browser to start stands in no queue and receives no position: for a lazy instance, for
/// one that is started for it, for one that it names.
#[tokio::test(start_paused = true)]
async fn caller_waiting_for_a_start_gets_no_position() {
    for (session_key, target) in [(named("a"), at("", "")), (SessionKey::Ephemeral, at("", "1"))] {
        let fixture = FleetFixture::fixed_with(2, 1, |settings| {
            with_instances(&mut settings.pools[0], |_, instance| instance.lazy = true);
        })
        .await;
        fixture.world.starting.shut();
        let agent = Arc::new(Listener::default());
        let call = fixture.begin_for(&Owner::local(), session_key, target, "click", agent.clone()).await;
        sleep(Duration::from_secs(3)).await;
        fixture.world.starting.open();
        call.await.unwrap().unwrap();
        assert_eq!(agent.positions(), []);
        fixture.end().await;
    }
}

/// A caller for a certain instance counts those before it who want that one or any.
#[tokio::test(start_paused = true)]
async fn named_instance_has_its_own_queue_position() {
    let fixture = FleetFixture::fixed(2, 1).await;
    fixture.call_at(named("on 0"), at("", "0"), "click").await.unwrap();
    fixture.call_at(named("on 1"), at("", "1"), "click").await.unwrap();
    let other = fixture.begin_at(named("other"), at("", "0"), "click").await;
    let any = fixture.begin("any", "click").await;
    let agent = Arc::new(Listener::default());
    let keyed = fixture.begin_for(&Owner::local(), named("keyed"), at("", "1"), "click", agent.clone()).await;
    assert_eq!(agent.positions(), [(2, 3)]);
    fixture.close("on 1").await.unwrap();
    any.await.unwrap().unwrap();
    fixture.close("any").await.unwrap();
    keyed.await.unwrap().unwrap();
    other.abort();
    settle().await;
    fixture.end().await;
}
