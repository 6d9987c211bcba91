//! The long tests. They run with GREENROOM_SOAK=1 only, which `make soak` sets.

use std::time::Duration;

use greenroom_testkit::long_test;

use crate::{
    real::{isolation, pool::kills_under_load::kill_under_load, random::Random},
    records::{killed, many},
};

/// Isolation holds over thousands of calls, in one browser and over several.
#[tokio::test]
async fn sessions_stay_isolated_over_thousands_of_calls() {
    long_test();
    isolation::mix(&["--pool-slots", "16"], 2_600).await;
    isolation::mix(&["--pool-slots", "4"], 2_600).await;
}

/// A dozen agents share three instances, one of which is killed every ten seconds for a minute: every call ends, the pool's
/// status is right throughout, and all instances are healthy afterwards.
#[tokio::test]
async fn pool_survives_a_minute_of_killed_instances() {
    long_test();
    kill_under_load(6, Duration::from_secs(10)).await;
}

/// greenroom is killed hundreds of times on one data folder, and nothing that it acknowledged is lost.
#[tokio::test]
async fn acknowledged_records_survive_hundreds_of_kills() {
    long_test();
    killed::cycles(Random::new(), 550).await;
}

/// A million records slow no call down.
#[tokio::test]
async fn million_records_slow_no_call() {
    long_test();
    many::time_calls_with_records(1_000_000).await;
}
