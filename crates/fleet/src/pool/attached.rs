//! What the pool of an attached browser knows of that browser: its name, the state of greenroom's connection to it, and
//! whether it was removed from the fleet.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::SystemTime,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::{instance_slot::InstanceSlot, lock};
use crate::{
    attached_browsers::{BrowserName, BrowserSettings, BrowserState},
    error::FleetError,
    target::Watcher,
};

/// The attached browser of a pool, and greenroom's connection to it.
pub(crate) struct BrowserConnection {
    pub(super) name: Arc<BrowserName>,
    pub(super) url: String,
    /// The state of the connection; the supervisor keeps it up to date.
    connection: Mutex<ConnectionState>,
    /// The browser was removed from the fleet.
    pub(super) removed: AtomicBool,
    pub(super) watcher: Arc<dyn Watcher>,
}

/// The state of the connection, as the supervisor last set it. Lists and messages show it; callers do not wait past
/// their timeout for a browser that is not connected.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionState {
    pub(crate) state: BrowserState,
    /// Why there is no connection.
    pub(crate) last_error: Option<String>,
    /// When the supervisor last tried to connect.
    pub(crate) last_attempt: Option<SystemTime>,
    /// When the supervisor tries next on its own.
    pub(crate) retry_at: Option<Instant>,
    pub(crate) connections_made: u64,
    /// A whole series of attempts has failed since the last connection.
    pub(crate) given_up: bool,
}

impl ConnectionState {
    /// Whether there is no connection now.
    pub(super) fn is_disconnected(&self) -> bool {
        self.state != BrowserState::Connected
    }

    /// Records that the supervisor tries to connect.
    pub(super) fn mark_connecting(&mut self) {
        self.state = BrowserState::Connecting;
        self.retry_at = None;
        self.last_attempt = Some(SystemTime::now());
    }

    pub(super) fn mark_connected(&mut self) {
        self.state = BrowserState::Connected;
        self.retry_at = None;
        self.last_error = None;
        self.given_up = false;
        self.connections_made += 1;
    }

    /// Records that there is no connection, and when the next attempt is. `rests` says that a whole series of
    /// attempts has failed, and the supervisor pauses before the next series.
    pub(super) fn mark_failed(&mut self, why: String, retry_at: Option<Instant>, rests: bool) {
        self.state = BrowserState::Disconnected;
        self.last_error = Some(why);
        self.retry_at = retry_at;
        self.given_up |= rests;
    }

    /// Records that there is no connection, and that the supervisor makes no further one.
    pub(super) fn mark_closed(&mut self) {
        self.state = BrowserState::Disconnected;
        self.retry_at = None;
    }
}

impl BrowserConnection {
    pub(crate) fn new(name: BrowserName, settings: &BrowserSettings, watcher: Arc<dyn Watcher>) -> Self {
        Self {
            name: Arc::new(name),
            url: settings.url.clone(),
            connection: Mutex::default(),
            removed: AtomicBool::new(false),
            watcher,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, ConnectionState> {
        lock(&self.connection)
    }

    /// The error for a browser that greenroom cannot reach now, with this reason or else the last known one.
    pub(super) fn down(&self, connection: ConnectionState, why: Option<String>) -> FleetError {
        FleetError::BrowserDown {
            index: self.name.index,
            url: self.url.clone(),
            why: why.or(connection.last_error),
            retry_in: connection.retry_at.map(|at| at.saturating_duration_since(Instant::now())),
        }
    }

    /// The state of the connection, even if the supervisor has not yet noticed a loss.
    pub(super) fn connection(&self, instance_slot: &InstanceSlot) -> ConnectionState {
        // Hold the lock while reading the instance, so that connection and instance are of the same moment.
        let current = self.lock();
        let mut connection = current.clone();
        if connection.is_disconnected() {
            return connection;
        }
        let state = instance_slot.lock();
        match state.instance.as_ref().map(|instance| instance.lost().borrow().clone()) {
            // The instance may have missed a health check.
            Some(None) => connection.last_error.clone_from(&state.check.error),
            Some(Some(why)) => {
                connection.state = BrowserState::Disconnected;
                connection.last_error = Some(why.to_string());
            }
            None => connection.state = BrowserState::Disconnected,
        }
        connection
    }
}
