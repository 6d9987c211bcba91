//! The browser of a pool that is an attached browser: what it is called, how its connection is, and that it may be taken
//! out of the fleet.

use std::sync::{Arc, Mutex, MutexGuard, atomic::AtomicBool};

use super::{link::Link, lock, lost_seats::LostSeats, place::Place};
use crate::{
    browsers::{BrowserName, BrowserSettings, BrowserState},
    target::Watcher,
};

/// Which browser it is.
pub(crate) struct Attached {
    pub(super) name: Arc<BrowserName>,
    pub(super) url: String,
    /// How the connection was last tried; kept up by the task that makes it.
    link: Mutex<Link>,
    /// It keeps its cookies and logins when a session ends.
    pub(super) keeps_logins: bool,
    pub(super) lost_seats: Mutex<LostSeats>,
    /// It was taken out of the fleet.
    pub(super) removed: AtomicBool,
    pub(super) watcher: Arc<dyn Watcher>,
}

impl Attached {
    pub(crate) fn new(name: BrowserName, settings: &BrowserSettings, watcher: Arc<dyn Watcher>) -> Self {
        Self {
            name: Arc::new(name),
            url: settings.url.clone(),
            link: Mutex::default(),
            keeps_logins: settings.pool.local_only,
            lost_seats: Mutex::default(),
            removed: AtomicBool::new(false),
            watcher,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Link> {
        lock(&self.link)
    }

    /// How the connection is, also if its task has not noticed yet that it is lost.
    pub(super) fn link(&self, place: &Place) -> Link {
        // Held until the instance is read, too: the two belong together.
        let current = self.lock();
        let mut link = current.clone();
        if link.state == BrowserState::Connected {
            let state = place.lock();
            let lost = state.instance.as_ref().map(|instance| instance.lost().borrow().clone());
            match lost {
                // It may have missed a check.
                Some(None) => link.last_error.clone_from(&state.check.error),
                Some(Some(why)) => {
                    (link.state, link.last_error) = (BrowserState::Disconnected, Some(why.to_string()));
                }
                None => link.state = BrowserState::Disconnected,
            }
        }
        link
    }
}
