//! The pool of an attached browser: one instance, in a browser that somebody else runs. What is different from other
//! pools stands here: what it is called, how its connection is, and that it may be taken out of the fleet.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use greenroom_core::StartError;
use tokio::time::Instant;

use super::{Pool, link::Link};
use crate::{
    browsers::{BrowserName, BrowserState},
    error::FleetError,
    seat::NoSeat,
};

/// Which browser it is.
pub(crate) struct Attached {
    pub(crate) name: Arc<BrowserName>,
    pub(crate) url: String,
    /// It was taken out of the fleet.
    removed: AtomicBool,
}

impl Attached {
    pub(crate) fn new(name: BrowserName, url: String) -> Self {
        Self { name: Arc::new(name), url, removed: AtomicBool::new(false) }
    }
}

/// What can be told of a connection that came or went.
pub(super) enum Event {
    /// One was tried, and made or not.
    Tried {
        is_made: bool,
    },
    Ended,
}

impl Pool {
    pub(crate) fn is_attached(&self) -> bool {
        self.attached.is_some()
    }

    /// What its browser is called, if it is an attached one.
    pub(crate) fn browser(&self) -> Option<Arc<BrowserName>> {
        self.attached.as_ref().map(|attached| attached.name.clone())
    }

    /// How the connection to its browser is.
    pub(crate) fn link(&self) -> Link {
        let Some(place) = self.any_place().and_then(|id| self.place(id)) else { return Link::default() };
        let state = place.lock();
        let mut link = state.link.clone();
        if link.state == BrowserState::Connected {
            let lost = state.instance.as_ref().map(|instance| instance.lost().borrow().clone());
            match lost {
                // It may have missed a check.
                Some(None) => link.last_error.clone_from(&state.check.error),
                // Its task has not come to it yet.
                Some(Some(why)) => {
                    (link.state, link.last_error) = (BrowserState::Disconnected, Some(why.to_string()));
                }
                None => link.state = BrowserState::Disconnected,
            }
        }
        link
    }

    /// Begins to connect a browser that nobody has needed yet. No spares are kept: nothing is opened unasked in a browser
    /// that somebody uses.
    pub(crate) fn connect_now(self: &Arc<Self>) {
        self.open();
        // What is wanted for a spare starts an instance that is cold, whether or not it comes to a spare.
        if self.queue.figures().instances == 0 {
            drop(self.queue.spare(|_, _| true));
        }
        self.start_wanted();
    }

    /// Its browser cannot be had now. Says why, as far as the caller does not know better.
    pub(crate) fn down(&self, why: Option<String>) -> FleetError {
        let Some(attached) = &self.attached else { return FleetError::ShuttingDown };
        let link = self.link();
        FleetError::BrowserDown {
            index: attached.name.index,
            url: attached.url.clone(),
            why: why.or(link.last_error),
            retry_in: link.retry_at.map(|at| at.saturating_duration_since(Instant::now())),
        }
    }

    /// Why a call has no seat in an instance that it had a slot of.
    pub(crate) fn no_seat(&self, why: NoSeat) -> FleetError {
        match why {
            NoSeat::Instance(error) | NoSeat::Late(error) | NoSeat::Failed(error) if self.is_attached() => {
                self.down(Some(told(&error)))
            }
            NoSeat::Late(error) => FleetError::Late(error),
            NoSeat::Instance(error) | NoSeat::Failed(error) => error.into(),
        }
    }

    /// Takes the pool out of the fleet: it lends nothing more, and those who wait hear so.
    pub(crate) fn remove(&self) {
        if let Some(attached) = &self.attached {
            attached.removed.store(true, Ordering::Relaxed);
        }
        self.queue.close();
    }

    /// What is said of it once it is out of the fleet.
    pub(crate) fn why_removed(&self) -> Option<FleetError> {
        let attached = self.attached.as_ref().filter(|attached| attached.removed.load(Ordering::Relaxed))?;
        Some(FleetError::BrowserRemoved { browser: attached.name.clone() })
    }

    /// Why it lends nothing any more.
    pub(super) fn why_closed(&self) -> FleetError {
        self.why_removed().unwrap_or(FleetError::ShuttingDown)
    }

    /// Tells whoever counts.
    pub(super) fn tell(&self, event: &Event) {
        let Some(index) = self.attached.as_ref().map(|attached| attached.name.index) else { return };
        match event {
            Event::Tried { is_made } => {
                self.watcher.tried_to_connect(index, *is_made);
                if *is_made {
                    self.watcher.connected(index);
                }
            }
            Event::Ended => self.watcher.disconnected(index),
        }
    }
}

/// An error with what to do about it.
pub(super) fn told(error: &StartError) -> String {
    match &error.hint {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    }
}
