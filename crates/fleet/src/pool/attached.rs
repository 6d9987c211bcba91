//! The browser of a pool that is an attached browser: what it is called, how its connection is, and that it may be taken
//! out of the fleet.

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

/// Which browser it is.
pub(crate) struct Attached {
    pub(super) name: Arc<BrowserName>,
    pub(super) url: String,
    /// How the connection was last tried; kept up by the task that makes it.
    link: Mutex<Link>,
    /// It was taken out of the fleet.
    pub(super) removed: AtomicBool,
    pub(super) watcher: Arc<dyn Watcher>,
}

/// The connection to it, as its supervisor knows it. Others read it; nothing is decided by it.
#[derive(Debug, Clone, Default)]
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

    /// That it cannot be had now, for this reason, or else for the last that is known.
    pub(super) fn down(&self, link: Link, why: Option<String>) -> FleetError {
        FleetError::BrowserDown {
            index: self.name.index,
            url: self.url.clone(),
            why: why.or(link.last_error),
            retry_in: link.retry_at.map(|at| at.saturating_duration_since(Instant::now())),
        }
    }

    /// How the connection is, also if its task has not noticed yet that it is lost.
    pub(super) fn link(&self, place: &Place) -> Link {
        // Held until the instance is read, too: the two belong together.
        let current = self.lock();
        let mut link = current.clone();
        if link.is_away() {
            return link;
        }
        let state = place.lock();
        match state.instance.as_ref().map(|instance| instance.lost().borrow().clone()) {
            // It may have missed a check.
            Some(None) => link.last_error.clone_from(&state.check.error),
            Some(Some(why)) => {
                (link.state, link.last_error) = (BrowserState::Disconnected, Some(why.to_string()));
            }
            None => link.state = BrowserState::Disconnected,
        }
        link
    }
}
