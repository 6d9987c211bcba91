//! The slots that can be lent now, kept in every order that somebody may ask for. Whatever the strategy, finding the
//! next slot, taking one and putting one back cost the same however many instances there are.

use super::{Strategy, bits::Bits, lists::Lists};

/// The most slots an instance can have, so that a slot's number in its pool follows from its instance's.
pub const SLOTS_MAX: usize = 256;

/// The one list of [`Free::order`].
const ALL: usize = 0;

#[derive(Debug, Default)]
pub(super) struct Free {
    /// Every free slot, the one returned first before the others.
    order: Lists,
    /// The same, a list per instance.
    own: Lists,
    /// Instances with a free slot.
    room: Bits,
    /// Instances with a free slot, a list per number of slots that are lent; in it, those first that came to it first.
    loads: Lists,
    /// Which of those lists are not empty.
    load_used: Bits,
    /// Where the round goes on.
    next: usize,
}

impl Free {
    pub(super) fn put(&mut self, instance: usize, slot: usize) {
        let node = instance * SLOTS_MAX + slot;
        self.order.push(ALL, node);
        self.own.push(instance, node);
        self.room.insert(instance);
    }

    /// Takes a slot out. Says whether it was free.
    pub(super) fn take(&mut self, instance: usize, slot: usize) -> bool {
        let node = instance * SLOTS_MAX + slot;
        let was_free = self.order.contains(node);
        self.order.remove(node);
        self.own.remove(node);
        if self.own.first(instance).is_none() {
            self.room.remove(instance);
        }
        was_free
    }

    /// Notes how many slots of an instance are lent; `None` when it has no room.
    pub(super) fn set_load(&mut self, instance: usize, before: usize, load: Option<usize>) {
        self.loads.remove(instance);
        if self.loads.first(before).is_none() {
            self.load_used.remove(before);
        }
        if let Some(load) = load {
            self.loads.push(load, instance);
            self.load_used.insert(load);
        }
    }

    /// The slot that the strategy would lend next.
    pub(super) fn next(&mut self, strategy: Strategy) -> Option<(usize, usize)> {
        let instance = match strategy {
            Strategy::Fifo | Strategy::Sticky => return self.order.first(ALL).map(split),
            Strategy::Fill => self.room.first()?,
            Strategy::RoundRobin => {
                let instance = self.room.next_from(self.next)?;
                self.next = instance + 1;
                instance
            }
            Strategy::LeastUsed => self.loads.first(self.load_used.first()?)?,
        };
        self.first_of(instance).map(|slot| (instance, slot))
    }

    /// The instance's slot that was returned first.
    pub(super) fn first_of(&self, instance: usize) -> Option<usize> {
        self.own.first(instance).map(|node| split(node).1)
    }

    /// The instance's free slots, the one returned first before the others.
    pub(super) fn of(&self, instance: usize) -> impl Iterator<Item = usize> {
        self.own.iter(instance).map(|node| split(node).1)
    }

    /// All free slots, the one returned first before the others.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, usize)> {
        self.order.iter(ALL).map(split)
    }
}

fn split(node: usize) -> (usize, usize) {
    (node / SLOTS_MAX, node % SLOTS_MAX)
}
