//! Limits how often a page calls the functions that the engine, or the proxy's clipboard, has put into it. A page can find
//! such a function and call it without end; one Node process serves all sessions of a browser. Calls beyond the limit are
//! dropped.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

/// The event of such a call.
const BINDING_CALLED: &str = "Runtime.bindingCalled";

/// How many calls of a page pass in each [`SECOND`]. The engine's own scripts make a few for each call of an agent.
const CALLS_MAX: u32 = 500;
const SECOND: Duration = Duration::from_secs(1);

/// The calls of each page: since when they are counted, and how many there were.
#[derive(Default)]
pub(super) struct BindingLimit(HashMap<String, (Instant, u32)>);

impl BindingLimit {
    /// Whether an event of a page, or of one of its frames or workers, passes.
    pub(super) fn admits(&mut self, page: &str, name: &str, now: Instant) -> bool {
        if name != BINDING_CALLED {
            return true;
        }
        let (since, count) = match self.0.get_mut(page) {
            Some(counted) => counted,
            None => self.0.entry(page.to_owned()).or_insert((now, 0)),
        };
        if now.duration_since(*since) >= SECOND {
            *since = now;
            *count = 0;
        }
        *count = count.saturating_add(1);
        if *count == CALLS_MAX + 1 {
            tracing::debug!("a page calls functions of its engine without end; calls are dropped");
        }
        *count <= CALLS_MAX
    }

    pub(super) fn detached(&mut self, session: &str) {
        self.0.remove(session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page's calls beyond the limit are dropped until the second is over. Other pages and other events do not count.
    #[tokio::test(start_paused = true)]
    async fn calls_beyond_the_limit_are_dropped() {
        let mut limit = BindingLimit::default();
        let now = Instant::now();
        let passed = (0..10 * CALLS_MAX).filter(|_| limit.admits("P", BINDING_CALLED, now)).count();
        assert_eq!(passed, CALLS_MAX as usize);
        assert!(limit.admits("Q", BINDING_CALLED, now) && limit.admits("P", "Page.frameNavigated", now));
        assert!(limit.admits("P", BINDING_CALLED, now + SECOND));
        limit.admits("P", BINDING_CALLED, now);
        limit.detached("P");
        assert_eq!(limit.0.len(), 1);
    }
}
