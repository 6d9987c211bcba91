//! Deadlines for tests. A test that waits for ever reports nothing: every wait of the kit ends here.
//!
//! These run on tokio's clock. Under `tokio::time::pause` an idle runtime jumps straight to the next timer, so
//! tests that pause the clock must not wait for processes or sockets with them.

use std::{
    future::Future,
    panic::Location,
    pin::Pin,
    time::{Duration, Instant},
};

/// How long the kit waits for anything. Far more than any event takes on a quiet machine, so that on a noisy one only
/// events that never happen exceed it; short enough that a broken build still reports within minutes.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// How often the kit polls where the kernel offers no event to wait for. Below what a person or a test
/// notices, and cheap: one poll is one `stat` or one read of a small file.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// After a poll that takes long itself (a walk through `/proc`, a question to a browser) the kit pauses for so many
/// times the poll's length, up to [`PAUSE_MAX`]: tests share few cores, and a waiting test must leave them to the
/// others.
const PAUSE_FACTOR: u32 = 3;

/// The longest pause between two polls: a test loses at most this by polling less often.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Awaits `future` for at most `limit`, then panics, naming the line that waited.
#[track_caller]
pub fn within<F: Future>(limit: Duration, future: F) -> impl Future<Output = F::Output> {
    let caller = Location::caller();
    async move {
        match tokio::time::timeout(limit, future).await {
            Ok(output) => output,
            Err(_) => panic!("nothing happened within {limit:?}: awaited at {caller}"),
        }
    }
}

/// Polls until `poll` returns something, for at most [`TEST_TIMEOUT`]. For facts outside this process that come without an
/// event (a file, a line of `/proc`); `what` names the fact.
#[track_caller]
pub fn eventually<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> impl Future<Output = T> {
    until_some(what, async move || poll())
}

/// The same for an async `poll`, such as a question to another process that sends no events.
#[track_caller]
pub fn until_some<T>(what: &str, mut poll: impl AsyncFnMut() -> Option<T>) -> impl Future<Output = T> {
    let caller = Location::caller();
    async move {
        let deadline = tokio::time::Instant::now() + TEST_TIMEOUT;
        loop {
            let begun = Instant::now();
            // A `poll` that hangs counts as one that finds nothing.
            if let Ok(Some(found)) = tokio::time::timeout_at(deadline, poll()).await {
                return found;
            }
            assert!(
                tokio::time::Instant::now() < deadline,
                "never saw {what} within {TEST_TIMEOUT:?}: awaited at {caller}"
            );
            tokio::time::sleep((begun.elapsed() * PAUSE_FACTOR).clamp(POLL_INTERVAL, PAUSE_MAX)).await;
        }
    }
}

/// Runs one of several cases that share a fixture which takes long to start. The output of a failed test ends with the
/// name of the case that failed. The future is boxed: a test of many cases would be one very large future otherwise.
#[allow(
    clippy::print_stdout,
    reason = "the test runner keeps what a test prints, and shows it when the test fails"
)]
pub fn case<'a>(
    name: &'a str,
    case: impl Future<Output = ()> + 'a,
) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
    Box::pin(async move {
        println!("case: {name}");
        case.await;
    })
}

/// Panics unless long tests are wanted. A long test that is run by mistake fails, instead of taking an hour or passing
/// without having run.
pub fn require_long_tests() {
    let wanted = std::env::var_os("GREENROOM_SOAK").is_some();
    assert!(wanted, "this test takes long: `make soak` runs it, with GREENROOM_SOAK=1");
}
