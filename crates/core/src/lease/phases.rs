//! The phases of instances: they are added, started, lost, drained and removed. Each change returns what it means to the
//! waiters.

use std::collections::BTreeSet;

use super::{
    Changes, INSTANCES_MAX, LeaseRefused, Ledger, RestartOutlook, SLOTS_MAX, WaiterId,
    instance_slots::{Phase, Place, Slot},
    ledger::{index, number},
};
use crate::id::InstanceId;

impl Ledger {
    /// Adds an instance with the lowest free number: cold, or about to be started. `None` if the pool already has the most
    /// instances that a pool can have.
    pub fn add(&mut self, slots: usize, cold: bool) -> Option<InstanceId> {
        let at = self.places.iter().position(Option::is_none).unwrap_or(self.places.len());
        let id = u32::try_from(at).ok().filter(|_| at < INSTANCES_MAX).map(InstanceId)?;
        let slots = slots.clamp(1, SLOTS_MAX);
        let place = Place {
            phase: Phase::Down { back: false },
            slots: vec![Slot::Free; slots],
            lent: 0,
            upkeep: 0,
            line: BTreeSet::new(),
        };
        if at == self.places.len() {
            self.places.push(None);
        }
        self.places[at] = Some(place);
        self.enter(id, if cold { Phase::Cold } else { Phase::Starting });
        self.start_if_short();
        Some(id)
    }

    /// Changes the number of slots of an instance of which none is taken.
    pub fn resize(&mut self, id: InstanceId, slots: usize) {
        let slots = slots.clamp(1, SLOTS_MAX);
        let Some(phase) = self.place(id).filter(|place| place.out() == 0).map(|place| place.phase) else {
            return;
        };
        if matches!(phase, Phase::Open | Phase::Withheld | Phase::Draining { .. }) {
            return;
        }
        let was_chosen = self.to_start.contains(&id);
        self.leave_phase(id);
        if let Some(place) = self.place_mut(id) {
            place.slots = vec![Slot::Free; slots];
        }
        self.enter(id, phase);
        if was_chosen {
            self.to_start.push_back(id);
        }
    }

    /// Marks an instance that was down or draining as about to be started again.
    pub fn starting(&mut self, id: InstanceId) {
        self.end_life(id);
        self.enter(id, Phase::Starting);
    }

    /// Marks the instance as running: all its slots are free.
    pub fn started(&mut self, id: InstanceId) -> Changes {
        self.end_life(id);
        self.enter(id, Phase::Open);
        let at = index(id);
        let Some(place) = self.place_mut(id) else { return Changes::default() };
        let slots = place.slots.len();
        (0..slots).for_each(|slot| self.free.put(at, slot));
        self.free.set_load(at, Some(0));
        let granted = std::iter::from_fn(|| self.serve_one(at)).collect();
        // Its slots may have gone to waiters that wanted no other instance.
        self.start_if_short();
        Changes { granted, refused: Vec::new() }
    }

    /// Marks the instance as gone, or as failed to start. Voids its leases, and refuses those who wait for it alone.
    pub fn lost(&mut self, id: InstanceId, hope: RestartOutlook) -> Changes {
        self.end_life(id);
        let phase = match hope {
            RestartOutlook::OnDemand => Phase::Cold,
            RestartOutlook::Soon => Phase::Down { back: true },
            RestartOutlook::None => Phase::Down { back: false },
        };
        self.enter(id, phase);
        let mut refused = self.refuse_keyed(id, LeaseRefused::Failed(id));
        refused.extend(self.refuse_all_if_hopeless());
        self.start_if_short();
        Changes { granted: Vec::new(), refused }
    }

    /// Stops leasing slots of the instance. Refuses those who wait for it alone, unless it comes back.
    pub fn drain(&mut self, id: InstanceId, back: bool) -> Changes {
        match self.place(id).map(|place| place.phase) {
            Some(Phase::Open) => self.clear_free(id),
            Some(Phase::Withheld | Phase::Draining { .. }) => {}
            _ => self.end_life(id),
        }
        self.enter(id, Phase::Draining { back });
        let mut refused = if back { Vec::new() } else { self.refuse_keyed(id, LeaseRefused::Draining(id)) };
        refused.extend(self.refuse_all_if_hopeless());
        self.start_if_short();
        Changes { granted: Vec::new(), refused }
    }

    /// Marks the instance as silent: it failed its health check. It leases nothing until [`Ledger::answers_again`].
    /// Those who wait for it alone go on waiting; for the others a cold instance is started if there is one.
    pub fn withhold(&mut self, id: InstanceId) {
        if self.place(id).is_some_and(|place| place.phase == Phase::Open) {
            self.clear_free(id);
            self.enter(id, Phase::Withheld);
            self.start_if_short();
        }
    }

    /// Makes a withheld instance that has answered lease again.
    pub fn answers_again(&mut self, id: InstanceId) -> Changes {
        self.lend_again(id, |phase| phase == Phase::Withheld)
    }

    /// Makes a draining instance lease again.
    pub fn reopen(&mut self, id: InstanceId) -> Changes {
        self.lend_again(id, |phase| matches!(phase, Phase::Draining { .. }))
    }

    fn lend_again(&mut self, id: InstanceId, is_due: impl Fn(Phase) -> bool) -> Changes {
        let at = index(id);
        let Some(place) = self.place(id).filter(|place| is_due(place.phase)) else {
            return Changes::default();
        };
        let out = place.out();
        let is_free = |(slot, state): (usize, &Slot)| (*state == Slot::Free).then_some(slot);
        let free: Vec<_> = place.slots.iter().enumerate().filter_map(is_free).collect();
        self.enter(id, Phase::Open);
        free.iter().for_each(|slot| self.free.put(at, *slot));
        self.free.set_load(at, (!free.is_empty()).then_some(out));
        let granted = std::iter::from_fn(|| self.serve_one(at)).collect();
        self.start_if_short();
        Changes { granted, refused: Vec::new() }
    }

    /// Makes an instance cold if no slot of it is taken. Returns whether it did.
    pub fn retire(&mut self, id: InstanceId) -> bool {
        let idle = self.place(id).is_some_and(|place| place.phase == Phase::Open && place.out() == 0);
        if idle {
            self.end_life(id);
            self.enter(id, Phase::Cold);
        }
        idle
    }

    /// Takes an instance out of the pool, whatever its phase. Its number is free again.
    pub fn remove(&mut self, id: InstanceId) -> Changes {
        self.end_life(id);
        self.leave_phase(id);
        let mut refused = self.refuse_keyed(id, LeaseRefused::Gone(id));
        if let Some(place) = self.places.get_mut(index(id)) {
            *place = None;
        }
        while self.places.last().is_some_and(Option::is_none) {
            self.places.pop();
        }
        refused.extend(self.refuse_all_if_hopeless());
        self.start_if_short();
        Changes { granted: Vec::new(), refused }
    }

    /// Changes an instance's phase, and updates the sums.
    pub(super) fn enter(&mut self, id: InstanceId, phase: Phase) {
        self.leave_phase(id);
        let Some(place) = self.place_mut(id) else { return };
        place.phase = phase;
        let slots = place.slots.len();
        let hopeful = place.is_hopeful();
        self.hopeful += usize::from(hopeful);
        match phase {
            Phase::Cold => {
                self.cold.insert(index(id));
            }
            Phase::Starting => self.coming += slots,
            Phase::Open | Phase::Withheld | Phase::Down { .. } | Phase::Draining { .. } => {}
        }
    }

    pub(super) fn leave_phase(&mut self, id: InstanceId) {
        let Some(place) = self.place_mut(id) else { return };
        let phase = place.phase;
        let slots = place.slots.len();
        let hopeful = place.is_hopeful();
        // Counted nowhere until it enters another phase.
        place.phase = Phase::Down { back: false };
        self.hopeful -= usize::from(hopeful);
        match phase {
            Phase::Cold => {
                self.cold.remove(&index(id));
            }
            Phase::Starting => {
                self.coming -= slots;
                self.to_start.retain(|other| *other != id);
            }
            Phase::Open | Phase::Withheld | Phase::Down { .. } | Phase::Draining { .. } => {}
        }
    }

    /// Voids every lease of the instance.
    pub(super) fn end_life(&mut self, id: InstanceId) {
        self.clear_free(id);
        let Some(place) = self.place_mut(id) else { return };
        place.slots.fill(Slot::Free);
        (place.lent, place.upkeep) = (0, 0);
    }

    /// Takes the instance's free slots out of those that can be leased.
    pub(super) fn clear_free(&mut self, id: InstanceId) {
        let Some(place) = self.place(id) else { return };
        let slots = place.slots.len();
        for slot in 0..slots {
            self.free.take(index(id), slot);
        }
        self.free.set_load(index(id), None);
    }

    pub(super) fn refuse_keyed(
        &mut self,
        id: InstanceId,
        why: LeaseRefused,
    ) -> Vec<(WaiterId, LeaseRefused)> {
        let Some(place) = self.place_mut(id) else { return Vec::new() };
        let refused = std::mem::take(&mut place.line);
        self.waiting -= refused.len();
        refused.into_iter().map(|waiter| (waiter, why)).collect()
    }

    pub(super) fn refuse_all_if_hopeless(&mut self) -> Vec<(WaiterId, LeaseRefused)> {
        if !self.can_never_lease() {
            return Vec::new();
        }
        self.refuse_all().into_iter().map(|waiter| (waiter, LeaseRefused::Hopeless)).collect()
    }

    /// Starts cold instances as long as there are more waiters than those being started will have room for.
    pub(super) fn start_if_short(&mut self) {
        while self.line.len() > self.coming && self.start_one() {}
    }

    pub(super) fn start_one(&mut self) -> bool {
        let Some(id) = self.cold.first().and_then(|at| number(*at)) else { return false };
        self.enter(id, Phase::Starting);
        self.to_start.push_back(id);
        true
    }
}
