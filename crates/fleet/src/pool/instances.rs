//! The instances of a pool and the leases on their slots: what the parts of a pool share. [`Instances`] starts nothing
//! and opens nothing; it has the instance slots, changes the ledger, and wakes the supervisors whose instances are
//! needed.

use std::{collections::BTreeMap, sync::Arc};

use greenroom_core::{
    InstanceId, StartError,
    lease::{Changes, Ledger},
};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};

use super::{
    DRAINING, Lease, PoolKind, PoolSettings, PoolSize, attached::ConnectionState,
    instance_slot::InstanceSlot, lock,
};
use crate::{error::FleetError, queue::Queue, target::Watcher};

pub(crate) struct Instances {
    pub(super) name: Arc<str>,
    pub(super) kind: Arc<PoolKind>,
    /// The configured size; scaling by hand does not change it here.
    settings: Mutex<Arc<PoolSettings>>,
    pub(super) queue: Arc<Queue>,
    instance_slots: Mutex<BTreeMap<InstanceId, Arc<InstanceSlot>>>,
    /// How the latest start of an instance ended. Also sent when an instance is lost, so that waiting callers look again.
    pub(super) last_start: watch::Sender<Option<Result<(), StartError>>>,
    /// Wakes the task that opens spares: a slot may be free, or a spare is missing.
    pub(super) room: Notify,
    pub(super) watcher: Arc<dyn Watcher>,
}

impl Instances {
    pub(super) fn new(settings: PoolSettings, kind: Arc<PoolKind>, watcher: Arc<dyn Watcher>) -> Arc<Self> {
        let count = match settings.size {
            PoolSize::Elastic { instances_max, .. } => instances_max,
            PoolSize::Fixed(count) => count,
        };
        let mut ledger = Ledger::new(settings.strategy);
        ledger.set_sharing(settings.sharing);
        let mut instance_slots = BTreeMap::new();
        for number in 0..u32::try_from(count).unwrap_or(u32::MAX) {
            let made = (settings.instance)(InstanceId(number));
            // No instance starts before the pool does.
            let Some(id) = ledger.add(made.slots, true) else { break };
            instance_slots.insert(id, InstanceSlot::new(id, made));
        }
        Arc::new(Self {
            name: settings.name.as_str().into(),
            kind,
            settings: Mutex::new(Arc::new(settings)),
            queue: Queue::new(ledger),
            instance_slots: Mutex::new(instance_slots),
            last_start: watch::Sender::default(),
            room: Notify::new(),
            watcher,
        })
    }

    pub(super) fn settings(&self) -> Arc<PoolSettings> {
        lock(&self.settings).clone()
    }

    pub(super) fn set_settings(&self, settings: PoolSettings) {
        *lock(&self.settings) = Arc::new(settings);
    }

    pub(super) fn instance_slots(&self) -> MutexGuard<'_, BTreeMap<InstanceId, Arc<InstanceSlot>>> {
        lock(&self.instance_slots)
    }

    pub(super) fn instance_slot(&self, id: InstanceId) -> Option<Arc<InstanceSlot>> {
        self.instance_slots().get(&id).cloned()
    }

    /// The first instance slot; an attached browser has only this one.
    pub(super) fn first_instance_slot(&self) -> Option<Arc<InstanceSlot>> {
        self.instance_slots().values().next().cloned()
    }

    /// The instance with this number or alias.
    pub(super) fn resolve(&self, name: &str) -> Result<InstanceId, FleetError> {
        let instance_slots = self.instance_slots();
        if let Some(instance_slot) =
            instance_slots.values().find(|instance_slot| instance_slot.has_name(name))
        {
            return Ok(instance_slot.id);
        }
        let known = instance_slots.values().flat_map(|instance_slot| {
            [Some(instance_slot.id.to_string()), instance_slot.settings().alias].into_iter().flatten()
        });
        Err(FleetError::NoInstance {
            pool: self.name.to_string(),
            browser: self.kind.browser(),
            name: name.to_owned(),
            known: known.collect(),
        })
    }

    /// The state of the connection to an attached browser. `None` for other pools.
    pub(super) fn connection(&self) -> Option<ConnectionState> {
        self.kind.connection(self.first_instance_slot()?.as_ref())
    }

    /// Whether the pool is an attached browser that is not connected.
    pub(super) fn is_disconnected(&self) -> bool {
        self.connection().as_ref().is_some_and(ConnectionState::is_disconnected)
    }

    /// The error for an attached browser that greenroom cannot reach, with this reason or else the last known one.
    /// `None` for other pools.
    pub(super) fn down(&self, why: Option<String>) -> Option<FleetError> {
        self.kind.down(self.first_instance_slot()?.as_ref(), why)
    }

    /// Whether an instance runs or is being started.
    pub(super) fn is_there(&self, instance_slot: &InstanceSlot) -> bool {
        instance_slot.lock().instance.is_some()
            || self.queue.with(|ledger| ledger.is_starting(instance_slot.id))
    }

    /// Why the pool leases no slot: the failure reason of the first instance that has one.
    fn failure_reason(&self) -> Option<String> {
        self.instance_slots().values().find_map(|instance_slot| {
            let is_draining = instance_slot.lock().draining;
            instance_slot.failure_reason().or_else(|| is_draining.then(|| DRAINING.to_owned()))
        })
    }

    /// The error for a pool without a healthy instance.
    pub(super) fn no_healthy(&self) -> FleetError {
        let pool = self.name.to_string();
        let is_default = self.settings().is_default;
        FleetError::NoHealthy { pool, is_default, why: self.failure_reason() }
    }

    /// Changes the ledger, and wakes the waiters and supervisors that the change concerns.
    pub(super) fn change(&self, change: impl FnOnce(&mut Ledger) -> Changes) {
        self.queue.change(change);
        self.start_wanted();
    }

    /// Wakes the supervisors of the instances that the ledger needs now, or has cleared for another owner.
    pub(super) fn start_wanted(&self) {
        while let Some(id) = self.queue.with(Ledger::take_cleared) {
            if let Some(instance_slot) = self.instance_slot(id) {
                instance_slot.emptied.notify_one();
            }
        }
        while let Some(id) = self.queue.with(Ledger::take_start) {
            if let Some(instance_slot) = self.instance_slot(id) {
                instance_slot.wanted.notify_one();
            }
        }
    }

    /// Starts an instance, if none runs or is being started.
    pub(super) fn start_first(self: &Arc<Self>) {
        if self.queue.figures().instances == 0 {
            // Asking for a spare's slot makes the ledger start an instance; the lease itself is not needed.
            drop(self.lease_spare(|_, _| true));
        }
    }

    /// Leases a free slot for internal use, if one suits and leasing it makes no caller wait. If there is none, an
    /// instance may be started for it.
    pub(super) fn lease_spare(self: &Arc<Self>, suits: impl Fn(InstanceId, usize) -> bool) -> Option<Lease> {
        let spare = self.queue.take_spare(suits);
        self.start_wanted();
        Lease::new(self, spare?)
    }
}
