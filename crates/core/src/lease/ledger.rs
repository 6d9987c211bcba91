//! Leasing: a caller that asks gets a slot or a place in a line; a slot that is returned goes to the next waiter.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::{
    Asked, Grant, InternalSlot, LeaseId, LeaseRefused, Strategy, WaiterId, Want,
    free::Free,
    instance_slots::{Phase, Place, Slot, To},
};
use crate::id::InstanceId;

/// How many callers' last slots are remembered. One costs some 50 bytes; a forgotten caller gets any slot.
const REMEMBERED_MAX: usize = 4096;

#[derive(Debug)]
pub struct Ledger {
    pub(super) strategy: Strategy,
    /// By number; a removed instance leaves its number free.
    pub(super) places: Vec<Option<Place>>,
    pub(super) free: Free,
    /// The waiters that take any slot.
    pub(super) line: BTreeSet<WaiterId>,
    /// How many wait in all lines.
    pub(super) waiting: usize,
    /// Numbers waiters and leases.
    pub(super) next_ticket: u64,
    pub(super) cold: BTreeSet<usize>,
    /// Slots of instances that are being started.
    pub(super) coming: usize,
    pub(super) to_start: VecDeque<InstanceId>,
    /// How many instances may still lease something.
    pub(super) hopeful: usize,
    pub(super) last_slots: HashMap<u64, (InstanceId, usize)>,
}

impl Ledger {
    pub fn new(strategy: Strategy) -> Self {
        Self {
            strategy,
            places: Vec::new(),
            free: Free::default(),
            line: BTreeSet::new(),
            waiting: 0,
            next_ticket: 0,
            cold: BTreeSet::new(),
            coming: 0,
            to_start: VecDeque::new(),
            hopeful: 0,
            last_slots: HashMap::new(),
        }
    }

    pub fn set_strategy(&mut self, strategy: Strategy) {
        self.strategy = strategy;
    }

    /// Asks for one slot.
    pub fn ask(&mut self, want: Want) -> Asked {
        if let Some(refused) = self.refusal(want.key) {
            return Asked::Refused(refused);
        }
        if let Some((instance, slot)) = self.choose(want) {
            return Asked::Leased(self.lend(instance, slot, want.caller));
        }
        let waiter = WaiterId { ticket: self.next_ticket, key: want.key };
        self.next_ticket += 1;
        self.wait(waiter);
        Asked::Wait(waiter)
    }

    /// Asks once more for a waiter that was granted a slot which turned out to be unusable: it goes before all others.
    pub fn ask_again(&mut self, waiter: WaiterId) -> Asked {
        if let Some(refused) = self.refusal(waiter.key) {
            return Asked::Refused(refused);
        }
        if let Some((instance, slot)) = self.choose(Want { key: waiter.key, ..Want::default() }) {
            return Asked::Leased(self.lend(instance, slot, None));
        }
        self.wait(waiter);
        Asked::Wait(waiter)
    }

    /// Takes this slot for internal use (not for a caller) if it is free. Also of a withheld instance: an open seat
    /// there may have to be closed.
    pub fn take(&mut self, instance: InstanceId, slot: usize) -> Option<LeaseId> {
        let is_withheld =
            |place: &Place| place.phase == Phase::Withheld && place.slots.get(slot) == Some(&Slot::Free);
        if !self.free.take(index(instance), slot) && !self.place(instance).is_some_and(is_withheld) {
            return None;
        }
        Some(self.mark(instance, slot, To::Internal))
    }

    /// Takes a slot that `suits` for internal use, the next one by the strategy; makes no caller wait for it. Without such a
    /// slot a cold instance is started that will have one, if there is a cold one.
    pub fn spare(&mut self, suits: impl Fn(InstanceId, usize) -> bool) -> InternalSlot {
        if let Some((id, slot)) = self.find_free(suits)
            && let Some(lent) = self.take(id, slot)
        {
            return InternalSlot::Slot(lent);
        }
        if self.coming > self.line.len() {
            return InternalSlot::Soon;
        }
        if self.start_one() { InternalSlot::Soon } else { InternalSlot::NoRoom }
    }

    /// The free slot that `suits` and that the strategy would lease next. Looks at one after the other.
    pub fn find_free(&self, suits: impl Fn(InstanceId, usize) -> bool) -> Option<(InstanceId, usize)> {
        let named = |(at, slot)| Some((number(at)?, slot));
        let suits = |found: &(InstanceId, usize)| suits(found.0, found.1);
        match self.strategy {
            Strategy::Fill => {
                let slots = |at| self.free.of(at).map(move |slot| (at, slot));
                (0..self.places.len()).flat_map(slots).filter_map(named).find(suits)
            }
            _ => self.free.iter().filter_map(named).find(suits),
        }
    }

    /// Notes which slot a caller that had to wait got, for [`Strategy::Sticky`].
    pub fn remember(&mut self, caller: u64, lent: LeaseId) {
        if self.strategy != Strategy::Sticky {
            return;
        }
        if self.last_slots.len() >= REMEMBERED_MAX {
            self.last_slots.clear();
        }
        self.last_slots.insert(caller, (lent.instance, lent.slot));
    }

    /// Returns a slot. The waiter that has waited longest for it gets it.
    pub fn give_back(&mut self, lent: LeaseId) -> Option<Grant> {
        let at = index(lent.instance);
        let place = self.places.get_mut(at)?.as_mut()?;
        let before = place.out();
        let slot = place.slots.get_mut(lent.slot)?;
        match *slot {
            Slot::Out { serial, to: To::Caller } if serial == lent.serial => place.lent -= 1,
            Slot::Out { serial, to: To::Internal } if serial == lent.serial => place.upkeep -= 1,
            Slot::Out { .. } | Slot::Free => return None,
        }
        *slot = Slot::Free;
        if place.phase != Phase::Open {
            return None;
        }
        self.free.put(at, lent.slot);
        self.free.set_load(at, Some(before - 1));
        self.serve_one(at)
    }

    /// Removes a waiter that gave up.
    pub fn forget(&mut self, waiter: WaiterId) {
        let left = match waiter.key {
            None => self.line.remove(&waiter),
            Some(id) => self.place_mut(id).is_some_and(|place| place.line.remove(&waiter)),
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
        let refused = std::mem::take(&mut self.line);
        self.waiting -= refused.len();
        refused.into_iter().collect()
    }

    pub(super) fn place(&self, id: InstanceId) -> Option<&Place> {
        self.places.get(index(id))?.as_ref()
    }

    pub(super) fn place_mut(&mut self, id: InstanceId) -> Option<&mut Place> {
        self.places.get_mut(index(id))?.as_mut()
    }

    /// Why a caller would wait in vain, if so: with a key, for that instance.
    pub fn refusal(&self, key: Option<InstanceId>) -> Option<LeaseRefused> {
        let Some(id) = key else { return self.can_never_lease().then_some(LeaseRefused::Hopeless) };
        let Some(place) = self.place(id) else { return Some(LeaseRefused::Gone(id)) };
        match place.phase {
            Phase::Down { back: false } => Some(LeaseRefused::Failed(id)),
            Phase::Draining { back: false } => Some(LeaseRefused::Draining(id)),
            _ => None,
        }
    }

    /// A free slot. There is none while a waiter is left that could have it.
    pub(super) fn choose(&mut self, want: Want) -> Option<(InstanceId, usize)> {
        if let Some(id) = want.key {
            let preferred = want.prefer.filter(|(instance, slot)| *instance == id && self.is_free(id, *slot));
            return preferred.or_else(|| Some((id, self.free.first_of(index(id))?)));
        }
        let is_free = |(id, slot): &(InstanceId, usize)| self.is_free(*id, *slot);
        let last = || {
            want.caller
                .filter(|_| self.strategy == Strategy::Sticky)
                .and_then(|caller| self.last_slots.get(&caller).copied())
        };
        if let Some(found) = want.prefer.filter(is_free).or_else(|| last().filter(is_free)) {
            return Some(found);
        }
        let (at, slot) = self.free.next(self.strategy)?;
        Some((number(at)?, slot))
    }

    pub(super) fn is_free(&self, id: InstanceId, slot: usize) -> bool {
        self.place(id)
            .is_some_and(|place| place.phase == Phase::Open && place.slots.get(slot) == Some(&Slot::Free))
    }

    pub(super) fn lend(&mut self, id: InstanceId, slot: usize, caller: Option<u64>) -> LeaseId {
        self.free.take(index(id), slot);
        let lent = self.mark(id, slot, To::Caller);
        if let Some(caller) = caller {
            self.remember(caller, lent);
        }
        lent
    }

    /// Notes the holder of a slot that was just taken.
    pub(super) fn mark(&mut self, id: InstanceId, slot: usize, to: To) -> LeaseId {
        let at = index(id);
        let serial = self.next_ticket;
        self.next_ticket += 1;
        if let Some(place) = self.places.get_mut(at).and_then(Option::as_mut) {
            let before = place.out();
            if let Some(slot) = place.slots.get_mut(slot) {
                *slot = Slot::Out { serial, to };
            }
            match to {
                To::Caller => place.lent += 1,
                To::Internal => place.upkeep += 1,
            }
            let has_room = place.phase == Phase::Open && place.out() < place.slots.len();
            let load = has_room.then_some(before + 1);
            self.free.set_load(at, load);
        }
        LeaseId { instance: id, slot, serial }
    }

    pub(super) fn wait(&mut self, waiter: WaiterId) {
        self.waiting += 1;
        match waiter.key {
            None => drop(self.line.insert(waiter)),
            Some(id) => {
                if let Some(place) = self.place_mut(id) {
                    place.line.insert(waiter);
                    if place.phase == Phase::Cold {
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
        let id = number(at)?;
        let slot = self.free.first_of(at)?;
        let place = self.places.get_mut(at)?.as_mut()?;
        let waiter = match (self.line.first(), place.line.first()) {
            (Some(any), Some(keyed)) if any < keyed => self.line.pop_first(),
            (_, Some(_)) => place.line.pop_first(),
            (Some(_), None) => self.line.pop_first(),
            (None, None) => None,
        }?;
        self.waiting -= 1;
        Some(Grant { waiter, lent: self.lend(id, slot, None) })
    }
}

pub(super) fn index(id: InstanceId) -> usize {
    id.0 as usize
}

pub(super) fn number(at: usize) -> Option<InstanceId> {
    u32::try_from(at).ok().map(InstanceId)
}
