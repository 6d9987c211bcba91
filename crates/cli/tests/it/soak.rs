//! The long tests. They run with GREENROOM_SOAK=1 only, which `make soak` sets.

use std::time::Duration;

use greenroom_testkit::{SnapshotDelivery, require_long_tests};

use crate::{
    real::{isolation, pool::kills_under_load::kill_under_load, random::Random, task},
    records::{killed, many},
};

/// Isolation holds over thousands of calls, in one browser and over several.
#[tokio::test]
async fn sessions_stay_isolated_over_thousands_of_calls() {
    require_long_tests();
    isolation::mix(&["--pool-slots", "16"], 2_600).await;
    isolation::mix(&["--pool-slots", "4"], 2_600).await;
}

/// A dozen agents share three instances, one of which is killed every ten seconds for a minute: every call ends, the pool's
/// status is right throughout, and all instances are healthy afterwards.
#[tokio::test]
async fn pool_survives_a_minute_of_killed_instances() {
    require_long_tests();
    kill_under_load(6, Duration::from_secs(10)).await;
}

/// greenroom is killed hundreds of times on one data folder, and nothing that it acknowledged is lost.
#[tokio::test]
async fn acknowledged_records_survive_hundreds_of_kills() {
    require_long_tests();
    killed::cycles(Random::new(), 550).await;
}

/// A million records slow no call down.
#[tokio::test]
async fn million_records_slow_no_call() {
    require_long_tests();
    many::time_calls_with_records(1_000_000).await;
}

/// The shopping task succeeds with pages of the budget's size, and with names of whole pages, which cost as much as the
/// engine's files.
#[tokio::test]
async fn shopping_task_succeeds_with_large_answers() {
    require_long_tests();
    task::place_orders(&[(SnapshotDelivery::Inline, "inline", 0.5), (SnapshotDelivery::Raw, "raw", 1.05)])
        .await;
}
