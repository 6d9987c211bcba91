//! Leasing: a caller that asks gets a slot, or waits in a queue; a slot that is returned goes to the next waiter.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::{
    Grant, InternalSlot, LeaseId, LeaseRefused, SlotAnswer, SlotRequest, Strategy, WaiterId,
    free::FreeSlots,
    instance_slots::{InstanceSlots, Phase, Slot, SlotHolder},
};
use crate::id::InstanceId;

/// How many callers' last slots are remembered. One costs some 50 bytes; a forgotten caller gets any slot.
const REMEMBERED_MAX: usize = 4096;

#[derive(Debug)]
pub struct Ledger {
    pub(super) strategy: Strategy,
    /// By number; a removed instance leaves its number free.
    pub(super) instances: Vec<Option<InstanceSlots>>,
    pub(super) free: FreeSlots,
    /// The waiters that take any slot.
    pub(super) waiters: BTreeSet<WaiterId>,
    /// How many wait in all: for any slot, and for certain instances.
    pub(super) waiting: usize,
    /// Numbers waiters and leases.
    pub(super) next_ticket: u64,
    pub(super) cold: BTreeSet<usize>,
    /// Slots of instances that are being started.
    pub(super) starting_slots: usize,
    pub(super) to_start: VecDeque<InstanceId>,
    /// How many instances may still lease something.
    pub(super) leasable: usize,
    pub(super) last_slots: HashMap<u64, (InstanceId, usize)>,
}

impl Ledger {
    pub fn new(strategy: Strategy) -> Self {
        Self {
            strategy,
            instances: Vec::new(),
            free: FreeSlots::default(),
            waiters: BTreeSet::new(),
            waiting: 0,
            next_ticket: 0,
            cold: BTreeSet::new(),
            starting_slots: 0,
            to_start: VecDeque::new(),
            leasable: 0,
            last_slots: HashMap::new(),
        }
    }

    pub fn set_strategy(&mut self, strategy: Strategy) {
        self.strategy = strategy;
    }

    /// Leases one slot, or queues the request if none is free.
    pub fn request(&mut self, request: SlotRequest) -> SlotAnswer {
        if let Some(refused) = self.refusal(request.key) {
            return SlotAnswer::Refused(refused);
        }
        if let Some((instance, slot)) = self.choose(request) {
            return SlotAnswer::Leased(self.lease(instance, slot, request.caller));
        }
        let waiter = WaiterId { ticket: self.next_ticket, key: request.key };
        self.next_ticket += 1;
        self.wait(waiter);
        SlotAnswer::Wait(waiter)
    }

    /// Asks once more for a waiter that was granted a slot which turned out to be unusable: it goes before all others.
    pub fn request_again(&mut self, waiter: WaiterId) -> SlotAnswer {
        if let Some(refused) = self.refusal(waiter.key) {
            return SlotAnswer::Refused(refused);
        }
        if let Some((instance, slot)) = self.choose(SlotRequest { key: waiter.key, ..SlotRequest::default() })
        {
            return SlotAnswer::Leased(self.lease(instance, slot, None));
        }
        self.wait(waiter);
        SlotAnswer::Wait(waiter)
    }

    /// Takes this slot for internal use (not for a caller) if it is free. Also of a withheld instance: an open seat
    /// there may have to be closed.
    pub fn take(&mut self, instance: InstanceId, slot: usize) -> Option<LeaseId> {
        let is_withheld = |instance: &InstanceSlots| {
            instance.phase == Phase::Withheld && instance.slots.get(slot) == Some(&Slot::Free)
        };
        if !self.free.take(index(instance), slot) && !self.instance(instance).is_some_and(is_withheld) {
            return None;
        }
        Some(self.mark(instance, slot, SlotHolder::Internal))
    }

    /// Takes a slot that `suits` for internal use, the next one by the strategy; makes no caller wait for it. Without such a
    /// slot a cold instance is started that will have one, if there is a cold one.
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

    /// The free slot that `suits` and that the strategy would lease next. Looks at one after the other.
    pub fn find_free(&self, suits: impl Fn(InstanceId, usize) -> bool) -> Option<(InstanceId, usize)> {
        let named = |(at, slot)| Some((instance_id(at)?, slot));
        let suits = |found: &(InstanceId, usize)| suits(found.0, found.1);
        match self.strategy {
            Strategy::Fill => {
                let slots = |at| self.free.slots_of(at).map(move |slot| (at, slot));
                (0..self.instances.len()).flat_map(slots).filter_map(named).find(suits)
            }
            _ => self.free.iter().filter_map(named).find(suits),
        }
    }

    /// Notes which slot a caller that had to wait got, for [`Strategy::Sticky`].
    pub fn remember(&mut self, caller: u64, lease: LeaseId) {
        if self.strategy != Strategy::Sticky {
            return;
        }
        if self.last_slots.len() >= REMEMBERED_MAX {
            self.last_slots.clear();
        }
        self.last_slots.insert(caller, (lease.instance, lease.slot));
    }

    /// Returns a slot. The waiter that has waited longest for it gets it.
    pub fn release(&mut self, lease: LeaseId) -> Option<Grant> {
        let at = index(lease.instance);
        let instance = self.instances.get_mut(at)?.as_mut()?;
        let before = instance.taken();
        let slot = instance.slots.get_mut(lease.slot)?;
        match *slot {
            Slot::Leased { serial, holder: SlotHolder::Caller } if serial == lease.serial => {
                instance.leased -= 1;
            }
            Slot::Leased { serial, holder: SlotHolder::Internal } if serial == lease.serial => {
                instance.internal -= 1;
            }
            Slot::Leased { .. } | Slot::Free => return None,
        }
        *slot = Slot::Free;
        if instance.phase != Phase::Open {
            return None;
        }
        self.free.put(at, lease.slot);
        self.free.set_load(at, Some(before - 1));
        self.serve_one(at)
    }

    /// Removes a waiter that gave up.
    pub fn remove_waiter(&mut self, waiter: WaiterId) {
        let left = match waiter.key {
            None => self.waiters.remove(&waiter),
            Some(id) => self.instance_mut(id).is_some_and(|instance| instance.waiters.remove(&waiter)),
        };
        if left {
            self.waiting -= 1;
        }
    }

    /// The instance that is to be started next, if one is. It counts as being started from the moment it was chosen.
    pub fn take_start(&mut self) -> Option<InstanceId> {
        self.to_start.pop_front()
    }

    /// Refuses all waiters for any slot, because starting an instance cannot serve them.
    pub fn refuse_all(&mut self) -> Vec<WaiterId> {
        let refused = std::mem::take(&mut self.waiters);
        self.waiting -= refused.len();
        refused.into_iter().collect()
    }

    pub(super) fn instance(&self, id: InstanceId) -> Option<&InstanceSlots> {
        self.instances.get(index(id))?.as_ref()
    }

    pub(super) fn instance_mut(&mut self, id: InstanceId) -> Option<&mut InstanceSlots> {
        self.instances.get_mut(index(id))?.as_mut()
    }

    /// Why a caller would wait in vain, if so: with a key, for that instance.
    pub fn refusal(&self, key: Option<InstanceId>) -> Option<LeaseRefused> {
        let Some(id) = key else { return self.can_never_lease().then_some(LeaseRefused::Hopeless) };
        let Some(instance) = self.instance(id) else { return Some(LeaseRefused::Gone(id)) };
        match instance.phase {
            Phase::Down { back: false } => Some(LeaseRefused::Failed(id)),
            Phase::Draining { back: false } => Some(LeaseRefused::Draining(id)),
            _ => None,
        }
    }

    /// A free slot. There is none while a waiter is left that could have it.
    pub(super) fn choose(&mut self, request: SlotRequest) -> Option<(InstanceId, usize)> {
        if let Some(id) = request.key {
            let preferred =
                request.prefer.filter(|(instance, slot)| *instance == id && self.is_free(id, *slot));
            return preferred.or_else(|| Some((id, self.free.first_of(index(id))?)));
        }
        let is_free = |(id, slot): &(InstanceId, usize)| self.is_free(*id, *slot);
        let last = || {
            request
                .caller
                .filter(|_| self.strategy == Strategy::Sticky)
                .and_then(|caller| self.last_slots.get(&caller).copied())
        };
        if let Some(found) = request.prefer.filter(is_free).or_else(|| last().filter(is_free)) {
            return Some(found);
        }
        let (at, slot) = self.free.next(self.strategy)?;
        Some((instance_id(at)?, slot))
    }

    pub(super) fn is_free(&self, id: InstanceId, slot: usize) -> bool {
        self.instance(id).is_some_and(|instance| {
            instance.phase == Phase::Open && instance.slots.get(slot) == Some(&Slot::Free)
        })
    }

    pub(super) fn lease(&mut self, id: InstanceId, slot: usize, caller: Option<u64>) -> LeaseId {
        self.free.take(index(id), slot);
        let lease = self.mark(id, slot, SlotHolder::Caller);
        if let Some(caller) = caller {
            self.remember(caller, lease);
        }
        lease
    }

    /// Notes the holder of a slot that was just taken.
    pub(super) fn mark(&mut self, id: InstanceId, slot: usize, holder: SlotHolder) -> LeaseId {
        let at = index(id);
        let serial = self.next_ticket;
        self.next_ticket += 1;
        if let Some(instance) = self.instances.get_mut(at).and_then(Option::as_mut) {
            let before = instance.taken();
            if let Some(slot) = instance.slots.get_mut(slot) {
                *slot = Slot::Leased { serial, holder };
            }
            match holder {
                SlotHolder::Caller => instance.leased += 1,
                SlotHolder::Internal => instance.internal += 1,
            }
            let has_room = instance.phase == Phase::Open && instance.taken() < instance.slots.len();
            let load = has_room.then_some(before + 1);
            self.free.set_load(at, load);
        }
        LeaseId { instance: id, slot, serial }
    }

    pub(super) fn wait(&mut self, waiter: WaiterId) {
        self.waiting += 1;
        match waiter.key {
            None => drop(self.waiters.insert(waiter)),
            Some(id) => {
                if let Some(instance) = self.instance_mut(id) {
                    instance.waiters.insert(waiter);
                    if instance.phase == Phase::Cold {
                        self.enter(id, Phase::Starting);
                        self.to_start.push_back(id);
                    }
                }
            }
        }
        self.start_if_short();
    }

    /// Hands a free slot of the instance to the waiter that has waited longest for it.
    pub(super) fn serve_one(&mut self, at: usize) -> Option<Grant> {
        let id = instance_id(at)?;
        let slot = self.free.first_of(at)?;
        let instance = self.instances.get_mut(at)?.as_mut()?;
        let waiter = match (self.waiters.first(), instance.waiters.first()) {
            (Some(any), Some(keyed)) if any < keyed => self.waiters.pop_first(),
            (_, Some(_)) => instance.waiters.pop_first(),
            (Some(_), None) => self.waiters.pop_first(),
            (None, None) => None,
        }?;
        self.waiting -= 1;
        Some(Grant { waiter, lease: self.lease(id, slot, None) })
    }
}

pub(super) fn index(id: InstanceId) -> usize {
    id.0 as usize
}

pub(super) fn instance_id(at: usize) -> Option<InstanceId> {
    u32::try_from(at).ok().map(InstanceId)
}
