//! Changes the phases of instances: adds, starts, loses, drains and removes them. Each change returns which waiters it
//! serves and which it refuses.

use super::{
    Changes, Grant, INSTANCES_MAX, LeaseRefused, Ledger, RestartOutlook, SLOTS_MAX, Sharing, WaiterId,
    instance_slots::{InstanceSlots, Phase, Slot, Tenant},
    ledger::{index, instance_id},
    line::Line,
};
use crate::id::InstanceId;

impl Ledger {
    /// Adds an instance with the lowest free number, cold or about to be started. `None` if the pool already has
    /// [`INSTANCES_MAX`] instances.
    pub fn add(&mut self, slots: usize, cold: bool) -> Option<InstanceId> {
        let at = self.instances.iter().position(Option::is_none).unwrap_or(self.instances.len());
        let id = u32::try_from(at).ok().filter(|_| at < INSTANCES_MAX).map(InstanceId)?;
        let slots = slots.clamp(1, SLOTS_MAX);
        let instance = InstanceSlots {
            phase: Phase::Down { back: false },
            tenant: Tenant::Nobody,
            slots: vec![Slot::Free; slots],
            leased: 0,
            internal: 0,
            waiters: Line::default(),
        };
        if at == self.instances.len() {
            self.instances.push(None);
        }
        self.instances[at] = Some(instance);
        self.enter(id, if cold { Phase::Cold } else { Phase::Starting });
        self.provide_for_waiters();
        Some(id)
    }

    /// Changes the number of slots of an instance of which none is taken.
    pub fn resize(&mut self, id: InstanceId, slots: usize) {
        let slots = slots.clamp(1, SLOTS_MAX);
        let Some(phase) =
            self.instance(id).filter(|instance| instance.taken() == 0).map(|instance| instance.phase)
        else {
            return;
        };
        if matches!(phase, Phase::Open | Phase::Withheld | Phase::Clearing | Phase::Draining { .. }) {
            return;
        }
        let was_chosen = self.to_start.contains(&id);
        self.leave_phase(id);
        if let Some(instance) = self.instance_mut(id) {
            instance.slots = vec![Slot::Free; slots];
        }
        self.enter(id, phase);
        if was_chosen {
            self.to_start.push_back(id);
        }
    }

    /// Marks an instance that was down or draining as about to be started again.
    pub fn starting(&mut self, id: InstanceId) {
        self.void_leases(id);
        self.enter(id, Phase::Starting);
    }

    /// Marks the instance as running: all its slots are free.
    pub fn started(&mut self, id: InstanceId) -> Changes {
        self.void_leases(id);
        self.enter(id, Phase::Open);
        let at = index(id);
        let Some(instance) = self.instance_mut(id) else { return Changes::default() };
        let slots = instance.slots.len();
        if let Some(free) = self.free_slots_mut(at) {
            (0..slots).for_each(|slot| free.put(at, slot));
            free.set_load(at, Some(0));
        }
        let granted = std::iter::from_fn(|| self.grant_next(at)).collect();
        // Waiters that want only this instance may have got its slots, so the others may need another instance.
        self.rebalanced(Changes { granted, refused: Vec::new() })
    }

    /// Marks the instance as gone, or as failed to start. Voids its leases, and refuses waiters that want only it.
    pub fn lost(&mut self, id: InstanceId, outlook: RestartOutlook) -> Changes {
        self.void_leases(id);
        let phase = match outlook {
            RestartOutlook::OnDemand => Phase::Cold,
            RestartOutlook::Soon => Phase::Down { back: true },
            RestartOutlook::None => Phase::Down { back: false },
        };
        self.enter(id, phase);
        let mut refused = self.refuse_keyed(id, LeaseRefused::Failed(id));
        refused.extend(self.refuse_all_if_none_may_lease());
        self.rebalanced(Changes { granted: Vec::new(), refused })
    }

    /// Stops leasing slots of the instance. Refuses waiters that want only this instance, unless it comes `back`.
    pub fn drain(&mut self, id: InstanceId, back: bool) -> Changes {
        match self.instance(id).map(|instance| instance.phase) {
            Some(Phase::Open) => self.clear_free(id),
            Some(Phase::Withheld | Phase::Clearing | Phase::Draining { .. }) => {}
            _ => self.void_leases(id),
        }
        self.enter(id, Phase::Draining { back });
        let mut refused = if back { Vec::new() } else { self.refuse_keyed(id, LeaseRefused::Draining(id)) };
        refused.extend(self.refuse_all_if_none_may_lease());
        self.rebalanced(Changes { granted: Vec::new(), refused })
    }

    /// Withholds the instance, because it failed its health check: it leases nothing until [`Ledger::responds_again`].
    /// Waiters that want only this instance go on waiting; for the others the pool starts a cold instance if there is
    /// one.
    pub fn withhold(&mut self, id: InstanceId) {
        let leases = |instance: &InstanceSlots| matches!(instance.phase, Phase::Open | Phase::Clearing);
        if self.instance(id).is_some_and(leases) {
            self.clear_free(id);
            self.enter(id, Phase::Withheld);
            self.provide_for_waiters();
        }
    }

    /// Makes a withheld instance that has answered lease again.
    pub fn responds_again(&mut self, id: InstanceId) -> Changes {
        self.lease_again(id, |phase| phase == Phase::Withheld)
    }

    /// Makes a draining instance lease again.
    pub fn reopen(&mut self, id: InstanceId) -> Changes {
        self.lease_again(id, |phase| matches!(phase, Phase::Draining { .. }))
    }

    fn lease_again(&mut self, id: InstanceId, is_due: impl Fn(Phase) -> bool) -> Changes {
        if !self.instance(id).is_some_and(|instance| is_due(instance.phase)) {
            return Changes::default();
        }
        let granted = self.open_again(id);
        self.rebalanced(Changes { granted, refused: Vec::new() })
    }

    /// Lets a running instance lease its free slots again.
    pub(super) fn open_again(&mut self, id: InstanceId) -> Vec<Grant> {
        let at = index(id);
        self.enter(id, Phase::Open);
        self.put_free(id);
        std::iter::from_fn(|| self.grant_next(at)).collect()
    }

    /// Puts the free slots of a running instance among those that can be leased.
    pub(super) fn put_free(&mut self, id: InstanceId) {
        let at = index(id);
        let Some(instance) = self.instance(id) else { return };
        let out = instance.taken();
        let is_free = |(slot, state): (usize, &Slot)| (*state == Slot::Free).then_some(slot);
        let slots: Vec<_> = instance.slots.iter().enumerate().filter_map(is_free).collect();
        if let Some(free) = self.free_slots_mut(at) {
            slots.iter().for_each(|slot| free.put(at, *slot));
            free.set_load(at, (!slots.is_empty()).then_some(out));
        }
    }

    /// Makes an instance cold if no slot of it is taken and no caller waits, not even one of another owner. Returns whether it did.
    pub fn retire(&mut self, id: InstanceId) -> bool {
        let is_idle = |instance: &InstanceSlots| instance.phase == Phase::Open && instance.taken() == 0;
        let idle = self.waiters.len() == 0 && self.instance(id).is_some_and(is_idle);
        if idle {
            self.void_leases(id);
            self.enter(id, Phase::Cold);
        }
        idle
    }

    /// Takes an instance out of the pool, whatever its phase. Its number is free again.
    pub fn remove(&mut self, id: InstanceId) -> Changes {
        self.void_leases(id);
        self.leave_phase(id);
        let mut refused = self.refuse_keyed(id, LeaseRefused::Gone(id));
        if let Some(instance) = self.instances.get_mut(index(id)) {
            *instance = None;
        }
        while self.instances.last().is_some_and(Option::is_none) {
            self.instances.pop();
        }
        refused.extend(self.refuse_all_if_none_may_lease());
        self.rebalanced(Changes { granted: Vec::new(), refused })
    }

    /// Changes an instance's phase, and updates the sums.
    pub(super) fn enter(&mut self, id: InstanceId, phase: Phase) {
        self.leave_phase(id);
        let Some(instance) = self.instance_mut(id) else { return };
        instance.phase = phase;
        let slots = instance.slots.len();
        let leasable = instance.may_lease();
        self.leasable += usize::from(leasable);
        match phase {
            Phase::Cold => {
                self.cold.insert(index(id));
            }
            Phase::Clearing => {
                self.clearing.insert(index(id));
            }
            Phase::Starting => self.starting_slots += slots,
            Phase::Open | Phase::Withheld | Phase::Down { .. } | Phase::Draining { .. } => {}
        }
    }

    pub(super) fn leave_phase(&mut self, id: InstanceId) {
        let Some(instance) = self.instance_mut(id) else { return };
        let phase = instance.phase;
        let slots = instance.slots.len();
        let leasable = instance.may_lease();
        // `Down` without `back` counts in no sum, so it stands for "no phase" until `enter` sets the next.
        instance.phase = Phase::Down { back: false };
        self.leasable -= usize::from(leasable);
        match phase {
            Phase::Cold => {
                self.cold.remove(&index(id));
            }
            Phase::Clearing => {
                self.clearing.remove(&index(id));
                self.cleared.retain(|other| *other != id);
            }
            Phase::Starting => {
                self.starting_slots -= slots;
                self.to_start.retain(|other| *other != id);
            }
            Phase::Open | Phase::Withheld | Phase::Down { .. } | Phase::Draining { .. } => {}
        }
    }

    /// Voids every lease of the instance, whose processes have ended or are about to: nothing of its owner is left.
    pub(super) fn void_leases(&mut self, id: InstanceId) {
        self.clear_free(id);
        let Some(instance) = self.instance_mut(id) else { return };
        instance.tenant = Tenant::Nobody;
        instance.slots.fill(Slot::Free);
        instance.leased = 0;
        instance.internal = 0;
    }

    /// Removes the instance's slots from the free ones.
    pub(super) fn clear_free(&mut self, id: InstanceId) {
        let Some(instance) = self.instance(id) else { return };
        let slots = instance.slots.len();
        let tenant = instance.tenant.clone();
        if let Some(free) = self.free_slots_mut(index(id)) {
            for slot in 0..slots {
                free.take(index(id), slot);
            }
            free.set_load(index(id), None);
        }
        if let Tenant::Owner(owner) = tenant {
            self.free.forget_if_empty(&owner);
        }
    }

    pub(super) fn refuse_keyed(
        &mut self,
        id: InstanceId,
        why: LeaseRefused,
    ) -> Vec<(WaiterId, LeaseRefused)> {
        let Some(instance) = self.instance_mut(id) else { return Vec::new() };
        let refused = instance.waiters.take_all();
        self.waiting -= refused.len();
        refused.into_iter().map(|waiter| (waiter, why)).collect()
    }

    pub(super) fn refuse_all_if_none_may_lease(&mut self) -> Vec<(WaiterId, LeaseRefused)> {
        if !self.can_never_lease() {
            return Vec::new();
        }
        self.refuse_all().into_iter().map(|waiter| (waiter, LeaseRefused::NoInstanceLeases)).collect()
    }

    /// Adds to a change of an instance what follows from it for the other instances and for waiters.
    fn rebalanced(&mut self, mut changes: Changes) -> Changes {
        self.provide_for_waiters();
        changes.granted.extend(self.reopen_unneeded());
        changes
    }

    /// Starts cold instances for the waiters that accept any; if owners share no instance, also clears instances that
    /// other owners have used.
    pub(super) fn provide_for_waiters(&mut self) {
        match self.sharing {
            Sharing::All => while self.waiters.len() > self.starting_slots && self.start_one() {},
            Sharing::OneOwner => self.clear_for_waiters(),
        }
    }

    pub(super) fn start_one(&mut self) -> bool {
        let Some(id) = self.cold.first().and_then(|at| instance_id(*at)) else { return false };
        self.enter(id, Phase::Starting);
        self.to_start.push_back(id);
        true
    }
}
