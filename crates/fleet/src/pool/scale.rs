//! Changes a pool while it runs: its size, its instances, its settings. No change cuts a lease short.

use greenroom_core::{InstanceId, lease::INSTANCES_MAX};

use super::{
    InstanceSettings, Pool, PoolSettings, PoolSize,
    instance_slot::{Goal, InstanceSlot},
};
use crate::{error::FleetError, target::Scaled};

impl Pool {
    /// Changes the pool to this number of instances. New ones start at once; those with the highest numbers leave, each when
    /// its leases are back.
    pub(crate) fn scale(&self, count: usize) -> Result<Scaled, FleetError> {
        let settings = self.instances.settings();
        if !self.kind.is_scalable() {
            return Err(FleetError::NotFixed { pool: self.name.to_string() });
        }
        let count = count.clamp(1, INSTANCES_MAX);
        self.supervisors.open();
        let mut instance_slots = self.instances.instance_slots();
        let staying = |instance_slot: &InstanceSlot| instance_slot.orders.borrow().goal != Goal::Leave;
        let from = instance_slots.values().filter(|instance_slot| staying(instance_slot)).count();
        let mut scaled = Scaled { from, to: count, draining: Vec::new() };
        let belongs = |id: InstanceId| (id.0 as usize) < count;
        // An instance that is about to leave stays if it is needed after all.
        for instance_slot in instance_slots
            .values()
            .filter(|instance_slot| belongs(instance_slot.id) && !staying(instance_slot))
        {
            instance_slot.orders.send_modify(|orders| orders.goal = Goal::Run);
        }
        // An instance's settings depend on its number, so numbers have no gaps, even while other instances still leave.
        let missing: Vec<_> = (0..)
            .map(InstanceId)
            .take_while(|id| belongs(*id))
            .filter(|id| !instance_slots.contains_key(id))
            .collect();
        for number in missing {
            let made = (settings.instance)(number);
            let Some(id) = self.instances.queue.with(|ledger| ledger.add(made.slots, true)) else { break };
            let instance_slot = InstanceSlot::new(id, made);
            instance_slots.insert(id, instance_slot.clone());
            self.supervisors.supervise(&instance_slot);
        }
        for instance_slot in instance_slots.values().rev().filter(|instance_slot| !belongs(instance_slot.id))
        {
            if staying(instance_slot) {
                instance_slot.orders.send_modify(|orders| orders.goal = Goal::Leave);
                scaled.draining.push(instance_slot.id);
            }
        }
        drop(instance_slots);
        self.instances.start_wanted();
        Ok(scaled)
    }

    /// Restarts an instance, or all: failed and drained ones at once, running ones when their leases are back.
    pub(crate) fn restart(&self, instance: Option<&str>) -> Result<Vec<InstanceId>, FleetError> {
        self.order(instance, Goal::Run)
    }

    /// Drains an instance, or all: each leases nothing more, and stops when its leases are back.
    pub(crate) fn drain(&self, instance: Option<&str>) -> Result<Vec<InstanceId>, FleetError> {
        self.order(instance, Goal::Drain)
    }

    fn order(&self, instance: Option<&str>, goal: Goal) -> Result<Vec<InstanceId>, FleetError> {
        let key = instance.map(|name| self.instances.resolve(name)).transpose()?;
        self.supervisors.open();
        // Hold the lock throughout: no instance slot may come or go meanwhile, and one about to leave gets no order.
        let instance_slots = self.instances.instance_slots();
        let mut ordered = Vec::new();
        for instance_slot in
            instance_slots.values().filter(|instance_slot| key.is_none_or(|key| instance_slot.id == key))
        {
            let before = instance_slot.orders.borrow().goal;
            // An elastic pool lists no instance that does not run, so a caller can neither name nor restart such an
            // instance. An order to the whole pool reaches it, to end its drain.
            let is_there = self.kind.lists(self.instances.is_there(instance_slot));
            if before == Goal::Leave || (goal == Goal::Run && !is_there && before != Goal::Drain) {
                continue;
            }
            instance_slot.orders.send_modify(|orders| {
                orders.goal = goal;
                orders.restarts += u64::from(goal == Goal::Run);
            });
            if is_there {
                ordered.push(instance_slot.id);
            }
        }
        Ok(ordered)
    }

    /// Applies new settings, as far as they can change while the pool runs: new settings of instances apply to instances
    /// that start from now on.
    pub(crate) fn apply(&self, settings: PoolSettings) -> Result<(), FleetError> {
        let before = self.instances.settings();
        let warm = settings.warm;
        let instance = settings.instance.clone();
        // A size set by hand stays until the configuration itself changes the number.
        let size = match (before.size, settings.size) {
            (PoolSize::Fixed(configured), PoolSize::Fixed(count)) if configured != count => Some(count),
            _ => None,
        };
        self.instances.change(|ledger| {
            ledger.set_strategy(settings.strategy);
            ledger.set_sharing(settings.sharing)
        });
        // The default pool is chosen when the fleet is made. Browsers that still run keep their owner's data, so a pool
        // that served one owner only stays that owner's.
        let is_default = before.is_default;
        let local_only = before.local_only || settings.local_only;
        // Its proxy keeps the policy with which greenroom was started.
        let network = before.network.clone();
        self.instances.set_settings(PoolSettings { is_default, local_only, network, ..settings });
        for instance_slot in self.instances.instance_slots().values() {
            let made = instance(instance_slot.id);
            let mut state = instance_slot.lock();
            // The running instance keeps the settings with which it was started.
            let InstanceSettings { slots, engine, browser, headless, .. } = state.settings.clone();
            state.settings = InstanceSettings { slots, engine, browser, headless, ..made };
            drop(state);
            instance_slot.reset.notify_one();
        }
        if self.supervisors.is_open() {
            self.spares.keep(self.kind.spares(warm));
        }
        size.map_or(Ok(()), |count| self.scale(count).map(|_| ()))
    }
}
