//! The ledger's state, slots for internal use, and waiters that leave. `grant.rs` leases slots to callers, `phases.rs`
//! changes the phases of instances, `sharing.rs` keeps owners apart, `figures.rs` reads the ledger.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::{
    Grant, InternalSlot, LeaseId, LeaseRefused, Sharing, Strategy, WaiterId,
    free::FreeSlotsByOwner,
    instance_slots::{InstanceSlots, Phase, Slot, SlotHolder},
    line::Line,
};
use crate::id::{InstanceId, Owner};

#[derive(Debug)]
pub struct Ledger {
    pub(super) strategy: Strategy,
    pub(super) sharing: Sharing,
    /// The instances by number. A removed instance leaves a gap, which the next added instance fills.
    pub(super) instances: Vec<Option<InstanceSlots>>,
    pub(super) free: FreeSlotsByOwner,
    /// The waiters that accept a slot of any instance.
    pub(super) waiters: Line,
    /// How many wait in all: for any slot, and for certain instances.
    pub(super) waiting: usize,
    /// The number of the next waiter or lease; the first is 1.
    pub(super) next_ticket: u64,
    pub(super) cold: BTreeSet<usize>,
    /// The instances that are to be restarted for another owner when their last lease is back.
    pub(super) clearing: BTreeSet<usize>,
    /// Instances that had no lease when their clearing began.
    pub(super) cleared: VecDeque<InstanceId>,
    /// How many slots the instances have that are being started.
    pub(super) starting_slots: usize,
    pub(super) to_start: VecDeque<InstanceId>,
    /// How many instances may still lease something.
    pub(super) leasable: usize,
    pub(super) last_slots: HashMap<u64, (InstanceId, usize)>,
    /// The serial number of each owner's latest lease: the owner with the lowest is served next.
    pub(super) last_leases: HashMap<Owner, u64>,
}

impl Ledger {
    pub fn new(strategy: Strategy) -> Self {
        Self {
            strategy,
            sharing: Sharing::default(),
            instances: Vec::new(),
            free: FreeSlotsByOwner::default(),
            waiters: Line::default(),
            waiting: 0,
            next_ticket: 1,
            cold: BTreeSet::new(),
            clearing: BTreeSet::new(),
            cleared: VecDeque::new(),
            starting_slots: 0,
            to_start: VecDeque::new(),
            leasable: 0,
            last_slots: HashMap::new(),
            last_leases: HashMap::new(),
        }
    }

    pub fn set_strategy(&mut self, strategy: Strategy) {
        self.strategy = strategy;
    }

    /// Takes this slot for internal use (not for a caller) if it is free. The instance may be withheld or clearing: the
    /// pool may have to close an open seat there.
    pub fn take(&mut self, instance: InstanceId, slot: usize) -> Option<LeaseId> {
        let is_free = |instance: &InstanceSlots| {
            matches!(instance.phase, Phase::Open | Phase::Withheld | Phase::Clearing)
                && instance.slots.get(slot) == Some(&Slot::Free)
        };
        if !self.instance(instance).is_some_and(is_free) {
            return None;
        }
        if let Some(free) = self.free_slots_mut(index(instance)) {
            free.take(index(instance), slot);
        }
        Some(self.mark(instance, slot, SlotHolder::Internal))
    }

    /// Takes the next free slot that `suits` for internal use, in the strategy's order, if no caller has to wait
    /// because of it. If there is none, the ledger asks the pool to start a cold instance.
    pub fn take_spare(&mut self, suits: impl Fn(InstanceId, usize) -> bool) -> InternalSlot {
        if let Some((id, slot)) = self.find_free(suits)
            && let Some(lease) = self.take(id, slot)
        {
            return InternalSlot::Slot(lease);
        }
        if self.starting_slots > self.waiters.len() {
            return InternalSlot::Soon;
        }
        if self.start_one() { InternalSlot::Soon } else { InternalSlot::NoRoom }
    }

    /// The next free slot that `suits`, in the strategy's order. The cost grows with the number of free
    /// slots.
    pub fn find_free(&self, suits: impl Fn(InstanceId, usize) -> bool) -> Option<(InstanceId, usize)> {
        let named = |(at, slot)| Some((instance_id(at)?, slot));
        let suits = |found: &(InstanceId, usize)| suits(found.0, found.1);
        match self.strategy {
            Strategy::Fill => {
                let slots = |at| {
                    self.free_slots(at)
                        .into_iter()
                        .flat_map(move |free| free.slots_of(at))
                        .map(move |slot| (at, slot))
                };
                (0..self.instances.len()).flat_map(slots).filter_map(named).find(suits)
            }
            _ => self.free.iter().filter_map(named).find(suits),
        }
    }

    /// Removes a waiter that gave up. An instance that was being cleared for it may serve its own owner's waiters again.
    pub fn remove_waiter(&mut self, waiter: &WaiterId) -> Vec<Grant> {
        let left = match waiter.key {
            None => self.waiters.remove(waiter),
            Some(id) => self.instance_mut(id).is_some_and(|instance| instance.waiters.remove(waiter)),
        };
        if !left {
            return Vec::new();
        }
        self.waiting -= 1;
        self.reopen_unneeded()
    }

    /// The next instance that the pool must start. The ledger already counts it as starting.
    pub fn take_start(&mut self) -> Option<InstanceId> {
        self.to_start.pop_front()
    }

    /// Refuses all waiters for any slot, because starting an instance cannot serve them.
    pub fn refuse_all(&mut self) -> Vec<WaiterId> {
        let refused = self.waiters.take_all();
        self.waiting -= refused.len();
        refused.into_iter().collect()
    }

    pub(super) fn instance(&self, id: InstanceId) -> Option<&InstanceSlots> {
        self.instances.get(index(id))?.as_ref()
    }

    pub(super) fn instance_mut(&mut self, id: InstanceId) -> Option<&mut InstanceSlots> {
        self.instances.get_mut(index(id))?.as_mut()
    }

    /// Why a caller can never get a slot of the instance `key`, or of any instance; `None` if it can.
    pub fn refusal(&self, key: Option<InstanceId>) -> Option<LeaseRefused> {
        let Some(id) = key else { return self.can_never_lease().then_some(LeaseRefused::NoInstanceLeases) };
        let Some(instance) = self.instance(id) else { return Some(LeaseRefused::Gone(id)) };
        match instance.phase {
            Phase::Down { back: false } => Some(LeaseRefused::Failed(id)),
            Phase::Draining { back: false } => Some(LeaseRefused::Draining(id)),
            _ => None,
        }
    }
}

pub(super) fn index(id: InstanceId) -> usize {
    id.0 as usize
}

pub(super) fn instance_id(at: usize) -> Option<InstanceId> {
    u32::try_from(at).ok().map(InstanceId)
}
