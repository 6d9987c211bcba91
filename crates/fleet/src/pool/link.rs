//! The connection to an attached browser, as the task that makes it knows it. Others read it; nothing is decided by it.

use std::time::SystemTime;

use tokio::time::Instant;

use crate::browsers::BrowserState;

#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) state: BrowserState,
    /// Why there is none.
    pub(crate) last_error: Option<String>,
    /// When one was last tried.
    pub(crate) last_attempt: Option<SystemTime>,
    /// When one is tried next, by itself.
    pub(crate) retry_at: Option<Instant>,
    /// How many there have been.
    pub(crate) made: u64,
    /// A whole series of tries has failed since there was one.
    pub(crate) given_up: bool,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            state: BrowserState::Pending,
            last_error: None,
            last_attempt: None,
            retry_at: None,
            made: 0,
            given_up: false,
        }
    }
}

impl Link {
    /// There is no connection now.
    pub(super) fn is_away(&self) -> bool {
        self.state != BrowserState::Connected
    }

    /// One is being made.
    pub(super) fn tries(&mut self) {
        (self.state, self.retry_at) = (BrowserState::Connecting, None);
        self.last_attempt = Some(SystemTime::now());
    }

    pub(super) fn is_made(&mut self) {
        (self.state, self.retry_at) = (BrowserState::Connected, None);
        (self.last_error, self.given_up) = (None, false);
        self.made += 1;
    }

    /// There is none, and the next one is tried then; `rests`, if not soon.
    pub(super) fn failed(&mut self, why: String, again: Option<Instant>, rests: bool) {
        self.state = BrowserState::Disconnected;
        (self.last_error, self.retry_at) = (Some(why), again);
        self.given_up |= rests;
    }

    /// There is none, and there will be none.
    pub(super) fn is_over(&mut self) {
        (self.state, self.retry_at) = (BrowserState::Disconnected, None);
    }
}
