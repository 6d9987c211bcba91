//! What differs between pools. A fixed pool keeps a number of instances running. An elastic pool starts an instance
//! when a caller needs it and stops an idle one. The pool of an attached browser has one instance, in a browser that
//! greenroom did not start.
//!
//! A pool's kind is chosen when the pool is made. No other file matches on [`PoolKind`] or asks whether a pool is an
//! attached browser: other files call the methods here. Some differences are settings and not decided here: `Retry`
//! sets the pause between series of tries (`supervisor/retry_policy.rs`), `PoolSize` the number of instance slots
//! (`instances.rs`, `scale.rs`).

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use greenroom_core::{InstanceId, StartError, port::human};

use super::{
    PoolSettings, PoolSize,
    attached::{BrowserConnection, ConnectionState},
    instance_slot::InstanceSlot,
};
use crate::{attached_browsers::BrowserName, error::FleetError};

pub(crate) enum PoolKind {
    Fixed,
    Elastic {
        /// How long an instance without a lease runs.
        idle: Duration,
    },
    Attached(Box<BrowserConnection>),
}

impl PoolKind {
    pub(super) fn new(settings: &PoolSettings, attached: Option<BrowserConnection>) -> Self {
        match (attached, settings.size) {
            (Some(attached), _) => Self::Attached(attached.into()),
            (None, PoolSize::Fixed(_)) => Self::Fixed,
            (None, PoolSize::Elastic { idle, .. }) => Self::Elastic { idle },
        }
    }

    /// Whether the pool starts an instance when the pool itself starts, before a caller needs the instance.
    pub(super) fn starts_with_pool(&self, is_lazy: bool) -> bool {
        matches!(self, Self::Fixed) && !is_lazy
    }

    /// Whether the pool starts its first instance when the pool itself starts, though no setting asks for that.
    pub(super) fn starts_first(&self) -> bool {
        !matches!(self, Self::Fixed)
    }

    /// Whether the pool starts an instance again after a failure or a restart, before a caller needs it.
    pub(super) fn keeps_running(&self) -> bool {
        !matches!(self, Self::Elastic { .. })
    }

    /// How long an instance without a lease runs; `None` if it runs on.
    pub(super) fn idle_limit(&self) -> Option<Duration> {
        if let Self::Elastic { idle } = self { Some(*idle) } else { None }
    }

    /// Whether the pool chooses a caller's slot by the seat in it, and not by its configured strategy.
    pub(super) fn chooses_slots(&self) -> bool {
        matches!(self, Self::Elastic { .. })
    }

    /// Whether the pool lists an instance and takes orders for it. `is_there`: it runs or is being started.
    pub(super) fn lists(&self, is_there: bool) -> bool {
        is_there || self.keeps_running()
    }

    pub(super) fn is_scalable(&self) -> bool {
        self.keeps_running()
    }

    /// How many spares the pool keeps if the settings want this many. An attached browser has none: greenroom opens
    /// nothing unasked in a browser that its user works in.
    pub(super) fn spares(&self, wanted: usize) -> usize {
        if let Self::Attached(_) = self { 0 } else { wanted }
    }

    /// The instance that a caller is bound to if it names this one. An attached browser is the only instance of its
    /// pool, so a caller that names it waits like all others.
    pub(super) fn binds_to(&self, id: InstanceId) -> Option<InstanceId> {
        if let Self::Attached(_) = self { None } else { Some(id) }
    }

    /// Whether starting an instance again counts as a restart. To an attached browser greenroom only connects again.
    pub(super) fn counts_restarts(&self) -> bool {
        self.attached().is_none()
    }

    /// The error for an instance that did not start within its limit.
    pub(super) fn start_timed_out(&self, limit: Duration) -> StartError {
        match self {
            Self::Attached(_) => {
                StartError::new(format!("it could not be connected to within {}", human(limit)))
            }
            Self::Fixed | Self::Elastic { .. } => StartError::new("the instance did not start in time"),
        }
    }

    fn attached(&self) -> Option<&BrowserConnection> {
        if let Self::Attached(attached) = self { Some(attached) } else { None }
    }

    /// The name of the pool's browser, if it is an attached one.
    pub(crate) fn browser(&self) -> Option<Arc<BrowserName>> {
        self.attached().map(|attached| attached.name.clone())
    }

    /// Changes the state of the connection, if the pool has one.
    pub(super) fn update_connection(&self, change: impl FnOnce(&mut ConnectionState)) {
        if let Some(attached) = self.attached() {
            change(&mut attached.lock());
        }
    }

    /// Whether a whole series of attempts to connect has failed. greenroom tries for ever, and need not log each
    /// attempt.
    pub(super) fn is_given_up(&self) -> bool {
        self.attached().is_some_and(|attached| attached.lock().given_up)
    }

    /// The state of the connection to an attached browser. `None` for other pools.
    pub(super) fn connection(&self, instance_slot: &InstanceSlot) -> Option<ConnectionState> {
        self.attached().map(|attached| attached.connection(instance_slot))
    }

    /// The error for an attached browser that greenroom cannot reach now, with this reason or else the last known one.
    /// `None` for other pools.
    pub(super) fn down(&self, instance_slot: &InstanceSlot, why: Option<String>) -> Option<FleetError> {
        self.attached().map(|attached| attached.down(attached.connection(instance_slot), why))
    }

    /// The error for a caller that waited this long for an attached browser that is not connected. `None` if it is
    /// connected, and for other pools.
    pub(super) fn disconnected_error(
        &self,
        instance_slot: &InstanceSlot,
        waited: Duration,
    ) -> Option<FleetError> {
        let attached = self.attached()?;
        let connection = Some(attached.connection(instance_slot)).filter(ConnectionState::is_disconnected)?;
        let why = connection.last_error.clone();
        let why = why.unwrap_or_else(|| format!("no connection within {}", human(waited)));
        Some(attached.down(connection, Some(why)))
    }

    /// The error for an attached browser that was removed from the fleet. `None` if it was not, and for other pools.
    pub(crate) fn why_removed(&self) -> Option<FleetError> {
        let attached = self.attached().filter(|attached| attached.removed.load(Relaxed))?;
        Some(FleetError::BrowserRemoved { browser: attached.name.clone() })
    }

    /// Why the pool leases nothing any more.
    pub(super) fn why_closed(&self) -> FleetError {
        self.why_removed().unwrap_or(FleetError::ShuttingDown)
    }

    /// Marks the attached browser as removed from the fleet.
    pub(super) fn remove(&self) {
        if let Some(attached) = self.attached() {
            attached.removed.store(true, Relaxed);
        }
    }

    /// Reports to the watcher that the supervisor tried to connect to the attached browser, if the pool is one.
    pub(super) fn report_connection_attempt(&self, is_made: bool) {
        if let Some(BrowserConnection { name, watcher, .. }) = self.attached() {
            watcher.tried_to_connect(name.index, is_made);
            if is_made {
                watcher.connected(name.index);
            }
        }
    }

    /// Reports to the watcher that the connection to the attached browser ended, if the pool is one.
    pub(super) fn report_connection_end(&self) {
        if let Some(BrowserConnection { name, watcher, .. }) = self.attached() {
            watcher.disconnected(name.index);
        }
    }
}

/// An error with its hint.
pub(super) fn error_with_hint(error: &StartError) -> String {
    match &error.hint {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    }
}
