//! The client against a browser played by the test, where the order of messages matters, and against a real
//! Chromium, where their shape does.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod attach;
mod chromium;
mod fake_browser;

use std::time::Duration;

/// The longest a test may take: longer than every limit of the client.
const DEADLINE: Duration = Duration::from_secs(60);

async fn within<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, test).await.expect("the test's deadline passed")
}
