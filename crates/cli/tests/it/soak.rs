//! The long tests. They run with GREENROOM_SOAK=1 only, which `make soak` sets.

use crate::real::isolation;

/// Isolation holds over thousands of calls, in one browser and over several.
#[tokio::test]
async fn sessions_stay_apart_for_long() {
    if std::env::var_os("GREENROOM_SOAK").is_none() {
        return;
    }
    isolation::mix(&["--pool-slots", "16"], 2_600).await;
    isolation::mix(&["--pool-slots", "4"], 2_600).await;
}
