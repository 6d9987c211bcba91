//! The browser of a pool that is an attached browser: its name, the state of its connection, and whether it was removed
//! from the fleet.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::SystemTime,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::{instance_slot::Place, lock};
use crate::{
    attached_browsers::{BrowserName, BrowserSettings, BrowserState},
    error::FleetError,
    target::Watcher,
};

/// The attached browser of a pool.
pub(crate) struct Attached {
    pub(super) name: Arc<BrowserName>,
    pub(super) url: String,
    /// The state of the connection; the supervisor keeps it up to date.
    link: Mutex<Link>,
    /// The browser was removed from the fleet.
    pub(super) removed: AtomicBool,
    pub(super) watcher: Arc<dyn Watcher>,
}

/// The state of the connection, as the supervisor knows it. It is for readers only; nothing is decided by it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Link {
    pub(crate) state: BrowserState,
    /// Why there is no connection.
    pub(crate) last_error: Option<String>,
    /// When the supervisor last tried to connect.
    pub(crate) last_attempt: Option<SystemTime>,
    /// When the supervisor tries next on its own.
    pub(crate) retry_at: Option<Instant>,
    /// How many connections were made.
    pub(crate) made: u64,
    /// A whole series of attempts has failed since the last connection.
    pub(crate) given_up: bool,
}

impl Link {
    /// There is no connection now.
    pub(super) fn is_away(&self) -> bool {
        self.state != BrowserState::Connected
    }

    /// The supervisor tries to connect.
    pub(super) fn tries(&mut self) {
        (self.state, self.retry_at) = (BrowserState::Connecting, None);
        self.last_attempt = Some(SystemTime::now());
    }

    pub(super) fn is_made(&mut self) {
        (self.state, self.retry_at) = (BrowserState::Connected, None);
        (self.last_error, self.given_up) = (None, false);
        self.made += 1;
    }

    /// There is no connection, and the next attempt is at `again`; `rests` if that is not soon.
    pub(super) fn failed(&mut self, why: String, again: Option<Instant>, rests: bool) {
        self.state = BrowserState::Disconnected;
        (self.last_error, self.retry_at) = (Some(why), again);
        self.given_up |= rests;
    }

    /// There is no connection, and the supervisor makes no more.
    pub(super) fn is_over(&mut self) {
        (self.state, self.retry_at) = (BrowserState::Disconnected, None);
    }
}

impl Attached {
    pub(crate) fn new(name: BrowserName, settings: &BrowserSettings, watcher: Arc<dyn Watcher>) -> Self {
        Self {
            name: Arc::new(name),
            url: settings.url.clone(),
            link: Mutex::default(),
            removed: AtomicBool::new(false),
            watcher,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Link> {
        lock(&self.link)
    }

    /// The error that it cannot be reached now, with this reason or else the last known one.
    pub(super) fn down(&self, link: Link, why: Option<String>) -> FleetError {
        FleetError::BrowserDown {
            index: self.name.index,
            url: self.url.clone(),
            why: why.or(link.last_error),
            retry_in: link.retry_at.map(|at| at.saturating_duration_since(Instant::now())),
        }
    }

    /// The state of the connection, even if the supervisor has not yet noticed a loss.
    pub(super) fn link(&self, place: &Place) -> Link {
        // Hold the lock until the instance is read: the two belong together.
        let current = self.lock();
        let mut link = current.clone();
        if link.is_away() {
            return link;
        }
        let state = place.lock();
        match state.instance.as_ref().map(|instance| instance.lost().borrow().clone()) {
            // The instance may have missed a health check.
            Some(None) => link.last_error.clone_from(&state.check.error),
            Some(Some(why)) => {
                (link.state, link.last_error) = (BrowserState::Disconnected, Some(why.to_string()));
            }
            None => link.state = BrowserState::Disconnected,
        }
        link
    }
}
