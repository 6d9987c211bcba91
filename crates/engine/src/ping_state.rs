//! Whether an engine or a browser was pinged and has not answered. A health check that has timed out reads this to name
//! the one that is silent.

use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Default)]
pub(crate) struct PingState(AtomicBool);

impl PingState {
    /// Waits for the answer to a ping. A cancelled wait leaves the ping unanswered.
    pub(crate) async fn track<T>(&self, answer: impl Future<Output = T>) -> T {
        self.0.store(true, Ordering::Relaxed);
        let answer = answer.await;
        self.0.store(false, Ordering::Relaxed);
        answer
    }

    pub(crate) fn is_unanswered(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
