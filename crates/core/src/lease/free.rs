//! The slots that can be leased now, sorted in every order that a strategy needs. Finding, taking and returning a slot
//! cost about the same however many instances there are.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Strategy;
use crate::id::Owner;

/// The most slots an instance can have.
pub const SLOTS_MAX: usize = 256;

/// The free slots, apart by who may lease them.
#[derive(Debug, Default)]
pub(super) struct FreeSlotsByOwner {
    /// Slots that callers of any owner may lease.
    pub(super) shared: FreeSlots,
    /// Slots of instances that serve one owner only.
    own: BTreeMap<Owner, FreeSlots>,
}

impl FreeSlotsByOwner {
    /// The slots that only this owner may lease.
    pub(super) fn of(&mut self, owner: &Owner) -> &mut FreeSlots {
        self.own.entry(owner.clone()).or_default()
    }

    pub(super) fn get(&self, owner: &Owner) -> Option<&FreeSlots> {
        self.own.get(owner)
    }

    pub(super) fn get_mut(&mut self, owner: &Owner) -> Option<&mut FreeSlots> {
        self.own.get_mut(owner)
    }

    /// Forgets an owner that has no free slot.
    pub(super) fn forget_if_empty(&mut self, owner: &Owner) {
        if self.own.get(owner).is_some_and(FreeSlots::is_empty) {
            self.own.remove(owner);
        }
    }

    /// All free slots: those that any owner may lease first, each part in the order of their return.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, usize)> {
        self.shared.iter().chain(self.own.values().flat_map(FreeSlots::iter))
    }
}

#[derive(Debug, Default)]
pub(super) struct FreeSlots {
    /// Counts the calls of `put` and `set_load`; the count serves as their time.
    clock: u64,
    /// When each free slot of each instance came back.
    since: HashMap<(usize, usize), u64>,
    /// Every free slot, in the order of their return.
    order: BTreeMap<u64, (usize, usize)>,
    /// The free slots of each instance that has any, in the same order.
    own: BTreeMap<usize, BTreeMap<u64, usize>>,
    /// Instances with a free slot, those with the fewest leased slots first; among equals, the one whose
    /// number changed longest ago.
    loads: BTreeSet<(usize, u64, usize)>,
    /// The entry of each instance in `loads`.
    load_of: HashMap<usize, (usize, u64)>,
    /// The instance that the round-robin strategy tries next.
    next: usize,
}

impl FreeSlots {
    pub(super) fn put(&mut self, instance: usize, slot: usize) {
        self.take(instance, slot);
        let now = self.tick();
        self.since.insert((instance, slot), now);
        self.order.insert(now, (instance, slot));
        self.own.entry(instance).or_default().insert(now, slot);
    }

    /// Takes a slot out. Returns whether it was free.
    pub(super) fn take(&mut self, instance: usize, slot: usize) -> bool {
        let Some(since) = self.since.remove(&(instance, slot)) else { return false };
        self.order.remove(&since);
        if let Some(own) = self.own.get_mut(&instance) {
            own.remove(&since);
            if own.is_empty() {
                self.own.remove(&instance);
            }
        }
        true
    }

    /// Sets how many slots of an instance are leased; `None` for an instance without a free slot.
    pub(super) fn set_load(&mut self, instance: usize, load: Option<usize>) {
        if let Some((load, since)) = self.load_of.remove(&instance) {
            self.loads.remove(&(load, since, instance));
        }
        if let Some(load) = load {
            let now = self.tick();
            self.load_of.insert(instance, (load, now));
            self.loads.insert((load, now, instance));
        }
    }

    /// The slot that the strategy would lease next.
    pub(super) fn next(&mut self, strategy: Strategy) -> Option<(usize, usize)> {
        let instance = match strategy {
            Strategy::Fifo | Strategy::Sticky => return self.iter().next(),
            Strategy::Fill => *self.own.first_key_value()?.0,
            Strategy::RoundRobin => {
                let later = self.own.range(self.next..).next();
                let instance = *later.or_else(|| self.own.first_key_value())?.0;
                self.next = instance + 1;
                instance
            }
            Strategy::LeastUsed => self.loads.first()?.2,
        };
        self.first_of(instance).map(|slot| (instance, slot))
    }

    /// The instance's slot that was returned first.
    pub(super) fn first_of(&self, instance: usize) -> Option<usize> {
        self.slots_of(instance).next()
    }

    /// The instance's free slots, in the order of their return.
    pub(super) fn slots_of(&self, instance: usize) -> impl Iterator<Item = usize> {
        self.own.get(&instance).into_iter().flat_map(|own| own.values().copied())
    }

    /// All free slots, in the order of their return.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, usize)> {
        self.order.values().copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}
