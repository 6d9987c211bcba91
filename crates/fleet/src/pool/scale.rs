//! Changes a pool while it runs: its size, its instances, its settings. No lease that is out is ever cut.

use greenroom_core::{InstanceId, lease::INSTANCES_MAX};

use super::{
    InstanceSettings, Pool, PoolSettings, Size,
    instance_slot::{Goal, Place},
};
use crate::{error::FleetError, target::Scaled};

impl Pool {
    /// Makes a pool so many instances big. New ones start at once; those with the highest numbers leave, each when its
    /// leases are back.
    pub(crate) fn scale(&self, count: usize) -> Result<Scaled, FleetError> {
        let settings = self.instances.settings();
        if !self.kind.is_scalable() {
            return Err(FleetError::NotFixed { pool: self.name.to_string() });
        }
        let count = count.clamp(1, INSTANCES_MAX);
        self.supervisors.open();
        let mut places = self.instances.places();
        let staying = |place: &Place| place.orders.borrow().goal != Goal::Leave;
        let from = places.values().filter(|place| staying(place)).count();
        let mut scaled = Scaled { from, to: count, draining: Vec::new() };
        let belongs = |id: InstanceId| (id.0 as usize) < count;
        // One that is about to leave stays if it is needed after all.
        for place in places.values().filter(|place| belongs(place.id) && !staying(place)) {
            place.orders.send_modify(|orders| orders.goal = Goal::Run);
        }
        // What an instance is made of goes by its number: so there are no gaps, also while others still leave.
        let missing: Vec<_> = (0..)
            .map(InstanceId)
            .take_while(|id| belongs(*id))
            .filter(|id| !places.contains_key(id))
            .collect();
        for number in missing {
            let made = (settings.instance)(number);
            let Some(id) = self.instances.queue.with(|ledger| ledger.add(made.slots, true)) else { break };
            let place = Place::new(id, made);
            places.insert(id, place.clone());
            self.supervisors.supervise(&place);
        }
        for place in places.values().rev().filter(|place| !belongs(place.id)) {
            if staying(place) {
                place.orders.send_modify(|orders| orders.goal = Goal::Leave);
                scaled.draining.push(place.id);
            }
        }
        drop(places);
        self.instances.start_wanted();
        Ok(scaled)
    }

    /// Has an instance, or all of them, started anew: one that has failed or was drained at once, one that runs when its
    /// leases are back.
    pub(crate) fn restart(&self, instance: Option<&str>) -> Result<Vec<InstanceId>, FleetError> {
        self.order(instance, Goal::Run)
    }

    /// Has an instance, or all of them, lend nothing more and stop when its leases are back.
    pub(crate) fn drain(&self, instance: Option<&str>) -> Result<Vec<InstanceId>, FleetError> {
        self.order(instance, Goal::Drain)
    }

    fn order(&self, instance: Option<&str>, goal: Goal) -> Result<Vec<InstanceId>, FleetError> {
        let key = instance.map(|name| self.instances.resolve(name)).transpose()?;
        self.supervisors.open();
        // Held throughout: one that is about to leave is told nothing, and none comes or goes meanwhile.
        let places = self.instances.places();
        let mut told = Vec::new();
        for place in places.values().filter(|place| key.is_none_or(|key| place.id == key)) {
            let before = place.orders.borrow().goal;
            // Of a pool that comes and goes, what does not run has nothing to be started anew. It may be had again after a
            // drain, but is not there to be named.
            let is_there = self.kind.lists(self.instances.is_there(place));
            if before == Goal::Leave || (goal == Goal::Run && !is_there && before != Goal::Drain) {
                continue;
            }
            place.orders.send_modify(|orders| {
                orders.goal = goal;
                orders.restarts += u64::from(goal == Goal::Run);
            });
            if is_there {
                told.push(place.id);
            }
        }
        Ok(told)
    }

    /// Takes on new settings, as far as they can change while the pool runs: what instances are made of holds for those
    /// that are started from now on.
    pub(crate) fn apply(&self, settings: PoolSettings) -> Result<(), FleetError> {
        let (before, warm, instance) = (self.instances.settings(), settings.warm, settings.instance.clone());
        // What was scaled by hand stays so, until the configuration itself says another number.
        let size = match (before.size, settings.size) {
            (Size::Fixed(configured), Size::Fixed(count)) if configured != count => Some(count),
            _ => None,
        };
        self.instances.queue.with(|ledger| ledger.set_strategy(settings.strategy));
        // Which pool is the default one is settled when the fleet is made; and what an owner left in browsers that
        // still run is that owner's.
        let (is_default, local_only) = (before.is_default, before.local_only || settings.local_only);
        self.instances.set_settings(PoolSettings { is_default, local_only, ..settings });
        for place in self.instances.places().values() {
            let made = instance(place.id);
            let mut state = place.lock();
            // What the instance that runs was made of stays with it.
            let InstanceSettings { slots, engine, browser, headless, .. } = state.settings.clone();
            state.settings = InstanceSettings { slots, engine, browser, headless, ..made };
            drop(state);
            place.reset.notify_one();
        }
        if self.supervisors.is_open() {
            self.spares.keep(self.kind.spares(warm));
        }
        size.map_or(Ok(()), |count| self.scale(count).map(|_| ()))
    }
}
