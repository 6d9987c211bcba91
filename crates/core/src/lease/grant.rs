//! Granting leases: a caller that requests a slot gets a free one or joins the queue, and a slot that comes back is granted
//! to a waiter: owners take turns, and each owner's waiters are served in the order in which they came.

use super::{
    Grant, LeaseId, Ledger, Sharing, SlotAnswer, SlotRequest, Strategy, WaiterId,
    instance_slots::{Phase, Slot, SlotHolder, Tenant},
    ledger::{index, instance_id},
};
use crate::id::{InstanceId, Owner};

/// How many callers' last slots, and how many owners' latest leases, the ledger remembers, at some 50 bytes each. A
/// forgotten caller gets any slot, and a forgotten owner has the next turn.
const REMEMBERED_MAX: usize = 4096;

impl Ledger {
    /// Leases one slot, or queues the request if none is free.
    pub fn request(&mut self, request: SlotRequest) -> SlotAnswer {
        if let Some(refused) = self.refusal(request.key) {
            return SlotAnswer::Refused(refused);
        }
        if let Some((instance, slot)) = self.choose(&request) {
            return SlotAnswer::Leased(self.lease(instance, slot, &request.owner, request.caller));
        }
        let waiter = WaiterId { ticket: self.next_ticket, key: request.key, owner: request.owner };
        self.next_ticket += 1;
        self.wait(waiter.clone());
        SlotAnswer::Wait(waiter)
    }

    /// Requests a slot again for a waiter whose granted slot turned out to be unusable. The waiter keeps its
    /// ticket, so it goes before all later waiters of its owner.
    pub fn request_again(&mut self, waiter: WaiterId) -> SlotAnswer {
        if let Some(refused) = self.refusal(waiter.key) {
            return SlotAnswer::Refused(refused);
        }
        let request = SlotRequest { key: waiter.key, ..SlotRequest::any(&waiter.owner) };
        if let Some((instance, slot)) = self.choose(&request) {
            return SlotAnswer::Leased(self.lease(instance, slot, &waiter.owner, None));
        }
        self.wait(waiter.clone());
        SlotAnswer::Wait(waiter)
    }

    /// Returns a slot. The waiter whose turn it is gets it.
    pub fn release(&mut self, lease: LeaseId) -> Vec<Grant> {
        let granted = self.return_slot(lease);
        let mut granted: Vec<_> = granted.into_iter().collect();
        if self.sharing == Sharing::OneOwner && self.waiting + self.clearing.len() > 0 {
            // The instance may be empty now, and then serves another owner sooner than one that is being cleared.
            self.clear_for_waiters();
            granted.extend(self.reopen_unneeded());
        }
        granted
    }

    fn return_slot(&mut self, lease: LeaseId) -> Option<Grant> {
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
        let free = self.free_slots_mut(at)?;
        free.put(at, lease.slot);
        free.set_load(at, Some(before - 1));
        self.grant_next(at)
    }

    /// Hands a free slot of the instance to the waiter whose turn it is.
    pub(super) fn grant_next(&mut self, at: usize) -> Option<Grant> {
        let id = instance_id(at)?;
        let slot = self.free_slots(at)?.first_of(at)?;
        let waiter = self.next_waiter(at)?.clone();
        let left_line = match waiter.key {
            None => self.waiters.remove(&waiter),
            Some(_) => self.instance_mut(id)?.waiters.remove(&waiter),
        };
        self.waiting -= usize::from(left_line);
        let lease = self.lease(id, slot, &waiter.owner, None);
        Some(Grant { waiter, lease })
    }

    /// The waiter that gets the next slot of this instance: of the owners that have a waiter for it, the one whose latest
    /// lease is longest ago; of that owner's waiters, the one that came first. An instance that is to become one owner's
    /// goes to an owner that has the fewest.
    fn next_waiter(&self, at: usize) -> Option<&WaiterId> {
        let instance = self.instances.get(at)?.as_ref()?;
        let may_have_it = |waiter: &&WaiterId| self.may_serve(instance, &waiter.owner);
        let heads = self.waiters.heads().chain(instance.waiters.heads());
        let becomes_own = self.sharing == Sharing::OneOwner && instance.tenant == Tenant::Nobody;
        let held = |owner: &Owner| if becomes_own { self.instances_of(owner) } else { 0 };
        heads.filter(may_have_it).min_by_key(|waiter| (held(&waiter.owner), self.turn_of(waiter)))
    }

    /// The order in which the first waiters of owners are served: by their owner's latest lease, then by arrival.
    pub(super) fn turn_of(&self, waiter: &WaiterId) -> (u64, u64) {
        (self.last_leases.get(&waiter.owner).copied().unwrap_or_default(), waiter.ticket)
    }

    /// Chooses a free slot for the request. That passes over no waiter: [`Ledger::release`] would have granted the
    /// slot to a waiter that could use it.
    pub(super) fn choose(&mut self, request: &SlotRequest) -> Option<(InstanceId, usize)> {
        let owner = &request.owner;
        let is_free = |(id, slot): &(InstanceId, usize)| self.is_free(*id, *slot, owner);
        if let Some(id) = request.key {
            let preferred = request.prefer.filter(|(instance, _)| *instance == id).filter(is_free);
            let first = || Some((id, self.free_slots(index(id))?.first_of(index(id))?));
            return preferred.or_else(first).filter(is_free);
        }
        let last = || {
            request
                .caller
                .filter(|_| self.strategy == Strategy::Sticky)
                .and_then(|caller| self.last_slots.get(&caller).copied())
        };
        if let Some(found) = request.prefer.filter(is_free).or_else(|| last().filter(is_free)) {
            return Some(found);
        }
        // An owner fills its own instances first, and leaves the others to other owners.
        let own = self.free.get_mut(owner).and_then(|free| free.next(self.strategy));
        let (at, slot) = own.or_else(|| self.free.shared.next(self.strategy))?;
        Some((instance_id(at)?, slot))
    }

    /// Whether the slot is free and may be leased to this owner.
    pub(super) fn is_free(&self, id: InstanceId, slot: usize, owner: &Owner) -> bool {
        self.instance(id).is_some_and(|instance| {
            instance.phase == Phase::Open
                && instance.slots.get(slot) == Some(&Slot::Free)
                && self.may_serve(instance, owner)
        })
    }

    pub(super) fn lease(
        &mut self,
        id: InstanceId,
        slot: usize,
        owner: &Owner,
        caller: Option<u64>,
    ) -> LeaseId {
        self.occupy(id, owner);
        if let Some(free) = self.free_slots_mut(index(id)) {
            free.take(index(id), slot);
        }
        let lease = self.mark(id, slot, SlotHolder::Caller);
        self.end_turn(owner, lease.serial);
        if let Some(caller) = caller {
            self.remember(caller, lease);
        }
        lease
    }

    /// Marks a slot that was just taken as leased, and gives the lease its serial number.
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
            if let Some(free) = self.free_slots_mut(at) {
                free.set_load(at, load);
            }
        }
        LeaseId { instance: id, slot, serial }
    }

    pub(super) fn wait(&mut self, waiter: WaiterId) {
        self.waiting += 1;
        match waiter.key {
            None => self.waiters.insert(waiter),
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
        self.provide_for_waiters();
    }

    /// Notes that the owner got a lease: its next turn comes after those of all other owners that wait.
    fn end_turn(&mut self, owner: &Owner, serial: u64) {
        if let Some(last) = self.last_leases.get_mut(owner) {
            *last = serial;
            return;
        }
        if self.last_leases.len() >= REMEMBERED_MAX {
            self.last_leases.clear();
        }
        self.last_leases.insert(owner.clone(), serial);
    }

    /// Remembers which slot a caller got, for [`Strategy::Sticky`].
    pub fn remember(&mut self, caller: u64, lease: LeaseId) {
        if self.strategy != Strategy::Sticky {
            return;
        }
        if self.last_slots.len() >= REMEMBERED_MAX {
            self.last_slots.clear();
        }
        self.last_slots.insert(caller, (lease.instance, lease.slot));
    }
}
