//! Deadlines for tests. A test that waits for ever reports nothing: every wait of the kit ends here.
//!
//! These run on tokio's clock. Under `tokio::time::pause` an idle runtime jumps straight to the next timer, so
//! tests that pause the clock must not wait for processes or sockets with them.

use std::{future::Future, panic::Location, time::Duration};

/// How long the kit waits for anything. Far more than any event takes on a quiet machine, so that on a noisy one only
/// events that never happen exceed it; short enough that a broken build still reports within minutes.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How often the kit polls where the kernel offers no event to wait for. Below what a person or a test
/// notices, and cheap: one poll is one `stat` or one read of a small file.
const LOOK_EVERY: Duration = Duration::from_millis(5);

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

/// Polls until `look` returns something, for at most [`PATIENCE`]. For facts outside this process that come without an
/// event (a file, a line of `/proc`); `what` names the fact.
#[track_caller]
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> impl Future<Output = T> {
    until_some(what, async move || look())
}

/// The same for a `look` that takes a while itself: a question to another process, which sends no events.
#[track_caller]
pub fn until_some<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> impl Future<Output = T> {
    let caller = Location::caller();
    async move {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            // A `look` that hangs counts as one that finds nothing.
            if let Ok(Some(found)) = tokio::time::timeout_at(deadline, look()).await {
                return found;
            }
            assert!(
                tokio::time::Instant::now() < deadline,
                "never saw {what} within {PATIENCE:?}: awaited at {caller}"
            );
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// Panics unless long tests are wanted. A long test that is run by mistake fails, instead of taking an hour or passing
/// unrun.
pub fn long_test() {
    let wanted = std::env::var_os("GREENROOM_SOAK").is_some();
    assert!(wanted, "this test takes long: `make soak` runs it, with GREENROOM_SOAK=1");
}
