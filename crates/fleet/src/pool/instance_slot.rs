//! An instance slot: a pool's numbered position for one instance, with its settings, state and orders. It stays when
//! the instance dies and is started again.

use std::{collections::HashMap, sync::Arc, time::SystemTime};

use greenroom_core::{Engine, Instance, InstanceId, Owner};
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

use super::{InstanceSettings, supervisor::Reconnect};
use crate::pool_status::{Check, Health};

pub(super) struct InstanceSlot {
    pub(super) id: InstanceId,
    /// The orders that the slot's supervisor carries out.
    pub(super) orders: watch::Sender<Orders>,
    /// Orders to connect now; the supervisor carries them out.
    pub(super) reconnect: Reconnect,
    /// Wakes the supervisor: the instance is needed.
    pub(super) wanted: Notify,
    /// Wakes the supervisor: the last lease is back.
    pub(super) emptied: Notify,
    /// Wakes the health check: the settings have changed, or another task has just checked the instance.
    pub(super) reset: Notify,
    state: Mutex<InstanceSlotState>,
}

/// The orders of an instance slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Orders {
    pub(super) goal: Goal,
    /// How many orders to restart there have been.
    pub(super) restarts: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Goal {
    #[default]
    Run,
    /// Stop when the last lease is back.
    Drain,
    /// Stop when the last lease is back, and leave the pool.
    Leave,
}

pub(super) struct InstanceSlotState {
    pub(super) settings: InstanceSettings,
    pub(super) instance: Option<Arc<dyn Instance>>,
    pub(super) health: Health,
    pub(super) draining: bool,
    /// The instance is being restarted only because another owner gets it.
    pub(super) changes_owner: bool,
    /// Why the instance failed, or was stopped.
    pub(super) why: Option<String>,
    pub(super) check: Check,
    pub(super) restarts: u64,
    /// When each current lease began, and whose it is, by slot.
    pub(super) leased: HashMap<usize, (SystemTime, Owner)>,
    /// Since when no slot is leased.
    pub(super) idle_since: Instant,
}

impl InstanceSlot {
    pub(super) fn new(id: InstanceId, settings: InstanceSettings) -> Arc<Self> {
        Arc::new(Self {
            id,
            orders: watch::Sender::default(),
            reconnect: Reconnect::default(),
            wanted: Notify::new(),
            emptied: Notify::new(),
            reset: Notify::new(),
            state: Mutex::new(InstanceSlotState {
                settings,
                instance: None,
                health: Health::Starting,
                draining: false,
                changes_owner: false,
                why: None,
                check: Check::default(),
                restarts: 0,
                leased: HashMap::new(),
                idle_since: Instant::now(),
            }),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, InstanceSlotState> {
        self.state.lock()
    }

    pub(super) fn settings(&self) -> InstanceSettings {
        self.lock().settings.clone()
    }

    pub(super) fn engine(&self) -> Arc<dyn Engine> {
        self.lock().settings.engine.clone()
    }

    /// The instance, if it runs and is not known to be lost.
    pub(super) fn instance(&self) -> Option<Arc<dyn Instance>> {
        self.lock().instance.clone().filter(|instance| instance.lost().borrow().is_none())
    }

    /// Why the instance failed or was stopped, even if the supervisor has not yet noticed.
    pub(super) fn failure_reason(&self) -> Option<String> {
        let state = self.lock();
        let lost = || state.instance.as_ref()?.lost().borrow().as_ref().map(ToString::to_string);
        state.why.clone().or_else(lost)
    }

    /// Whether `name` is the number or the alias of this slot.
    pub(super) fn has_name(&self, name: &str) -> bool {
        self.id.to_string() == name || self.lock().settings.alias.as_deref() == Some(name)
    }

    /// Whether the instance runs and is not ordered to stop. It need not answer.
    pub(super) fn is_up(&self) -> bool {
        let state = self.lock();
        state.health == Health::Healthy && !state.draining
    }

    pub(super) fn mark_starting(&self, settings: InstanceSettings) {
        let mut state = self.lock();
        state.settings = settings;
        state.health = Health::Starting;
        state.draining = false;
    }

    pub(super) fn mark_running(&self, instance: Arc<dyn Instance>) {
        let mut state = self.lock();
        state.instance = Some(instance);
        state.health = Health::Healthy;
        state.changes_owner = false;
        state.why = None;
        // The start counts as the first successful health check.
        state.check = Check { last: Some(SystemTime::now()), responsive: true, error: None };
        state.idle_since = Instant::now();
    }

    /// Notes that the instance is gone.
    pub(super) fn mark_gone(&self, health: Health, why: Option<String>) {
        let mut state = self.lock();
        state.health = health;
        if why.is_some() {
            state.check = Check { last: Some(SystemTime::now()), responsive: false, error: why.clone() };
        } else {
            state.check = Check::default();
        }
        state.why = why;
        state.draining = false;
        state.changes_owner = false;
        state.leased.clear();
        state.instance = None;
    }

    pub(super) fn record_check(&self, outcome: Result<(), String>) {
        let responsive = outcome.is_ok();
        let error = outcome.err();
        self.lock().check = Check { last: Some(SystemTime::now()), responsive, error };
    }
}
