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
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How often the kit polls where the kernel offers no event to wait for. Below what a person or a test
/// notices, and cheap: one poll is one `stat` or one read of a small file.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A look that takes long itself (a walk through `/proc`, a question to a browser) is followed by a pause of so many times its
/// length, up to [`PAUSE_MAX`]: tests share few processors, and those that wait leave them to those that work.
const PAUSE_FACTOR: u32 = 3;

/// The longest pause between two looks: what a test may lose by looking less often.
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
            let begun = Instant::now();
            // One that hangs is as good as one that never sees it.
            if let Ok(Some(found)) = tokio::time::timeout_at(deadline, look()).await {
                return found;
            }
            assert!(
                tokio::time::Instant::now() < deadline,
                "never saw {what} within {PATIENCE:?}: awaited at {caller}"
            );
            tokio::time::sleep((begun.elapsed() * PAUSE_FACTOR).clamp(LOOK_EVERY, PAUSE_MAX)).await;
        }
    }
}

/// Runs one of several cases that share what takes long to start. The output of a failed test ends with the name of the case
/// that failed. Boxed, since a test of many cases would be one very large future otherwise.
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

/// Panics unless long tests are wanted. One that is run by mistake fails, instead of taking an hour or passing unrun.
pub fn long_test() {
    let wanted = std::env::var_os("GREENROOM_SOAK").is_some();
    assert!(wanted, "this test takes long: `make soak` runs it, with GREENROOM_SOAK=1");
}
