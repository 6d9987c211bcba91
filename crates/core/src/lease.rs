//! The lease ledger: which instance lends how many slots, and who waits. A pure state machine; the fleet
//! wraps it with a mutex and channels.
//!
//! Waiters are served strictly in order of arrival. A slot returned while somebody waits goes to the first
//! waiter and never back to the shelf. A dead instance lends nothing, whatever is still returned to it.
//!
//! A spare, a seat that is kept ready for nobody in particular, takes a slot like everybody else, but never by
//! waiting. Which of the slots out are spares the fleet knows, and says where it matters.

use std::collections::{BTreeMap, VecDeque};

use crate::id::InstanceId;

/// A place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaiterId(u64);

/// What a request for a slot comes to.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    /// A slot of this instance is lent.
    Lent(InstanceId),
    /// A slot of this instance is lent, and the instance has to be started first.
    Start(InstanceId),
    /// All slots are lent and no instance may be added: wait for a [`Grant`].
    Wait(WaiterId),
}

/// A slot handed to somebody who waited.
#[derive(Debug, PartialEq, Eq)]
pub struct Grant {
    pub waiter: WaiterId,
    pub instance: InstanceId,
    /// The instance is new and has to be started.
    pub start: bool,
}

/// A slot taken for a spare.
#[derive(Debug, PartialEq, Eq)]
pub struct Spared {
    pub instance: InstanceId,
    /// The instance is new and has to be started.
    pub start: bool,
}

/// Sizes of a pool.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub slots: usize,
    pub instances_max: usize,
}

/// How full a pool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    pub instances: usize,
    pub leased: usize,
    pub slots: usize,
    pub waiting: usize,
}

#[derive(Debug)]
pub struct Ledger {
    limits: Limits,
    /// Slots out, per living instance.
    instances: BTreeMap<InstanceId, usize>,
    waiting: VecDeque<WaiterId>,
    next_instance: u32,
    next_waiter: u64,
}

impl Ledger {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            instances: BTreeMap::new(),
            waiting: VecDeque::new(),
            next_instance: 0,
            next_waiter: 0,
        }
    }

    /// Asks for one slot. The oldest instance with room is filled first, so that later ones can empty.
    pub fn ask(&mut self) -> Asked {
        if !self.is_waited_for()
            && let Some((instance, start)) = self.take()
        {
            return if start { Asked::Start(instance) } else { Asked::Lent(instance) };
        }
        let waiter = WaiterId(self.next_waiter);
        self.next_waiter += 1;
        self.waiting.push_back(waiter);
        Asked::Wait(waiter)
    }

    /// Takes a slot for a spare, also of a new instance, unless that would make anybody wait.
    pub fn spare(&mut self) -> Option<Spared> {
        if self.is_waited_for() {
            return None;
        }
        let (instance, start) = self.take()?;
        Some(Spared { instance, start })
    }

    /// A slot comes back; the first waiter gets it.
    pub fn give_back(&mut self, instance: InstanceId) -> Option<Grant> {
        if let Some(out) = self.instances.get_mut(&instance) {
            *out = out.saturating_sub(1);
        }
        self.serve()
    }

    /// A waiter gave up.
    pub fn forget(&mut self, waiter: WaiterId) {
        self.waiting.retain(|other| *other != waiter);
    }

    /// The instance is gone, or failed to start. Its slots out are void. The first waiters may get a new
    /// instance instead; call [`Ledger::serve`] until it returns `None`.
    pub fn remove(&mut self, instance: InstanceId) {
        self.instances.remove(&instance);
    }

    /// Takes an instance out of the pool if none but its spares hold slots.
    pub fn retire(&mut self, instance: InstanceId, spares: usize) -> bool {
        let idle = self.is_idle(instance, spares);
        if idle {
            self.instances.remove(&instance);
        }
        idle
    }

    /// Serves the first waiter if a slot is free or an instance may be added.
    pub fn serve(&mut self) -> Option<Grant> {
        if !self.is_waited_for() {
            return None;
        }
        let (instance, start) = self.take()?;
        let waiter = self.waiting.pop_front()?;
        Some(Grant { waiter, instance, start })
    }

    pub fn figures(&self) -> Figures {
        Figures {
            instances: self.instances.len(),
            leased: self.instances.values().sum(),
            slots: self.limits.slots * self.limits.instances_max,
            waiting: self.waiting.len(),
        }
    }

    /// Whether none but its spares hold slots of the instance.
    pub fn is_idle(&self, instance: InstanceId, spares: usize) -> bool {
        self.instances.get(&instance) == Some(&spares)
    }

    /// Whether somebody waits for a slot.
    pub fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Slots out, per living instance.
    pub fn lent(&self) -> impl Iterator<Item = (InstanceId, usize)> {
        self.instances.iter().map(|(instance, out)| (*instance, *out))
    }

    /// The instance whose slot would be lent next without starting another.
    pub fn next_free(&self) -> Option<InstanceId> {
        self.instances.iter().find(|(_, out)| **out < self.limits.slots).map(|(instance, _)| *instance)
    }

    /// How many slots are free in the other instances.
    pub fn room_beside(&self, instance: InstanceId) -> usize {
        let others = self.instances.iter().filter(|(other, _)| **other != instance);
        others.map(|(_, out)| self.limits.slots.saturating_sub(*out)).sum()
    }

    fn take(&mut self) -> Option<(InstanceId, bool)> {
        match self.take_free() {
            Some(instance) => Some((instance, false)),
            None => Some((self.take_new()?, true)),
        }
    }

    fn take_free(&mut self) -> Option<InstanceId> {
        let instance = self.next_free()?;
        *self.instances.get_mut(&instance)? += 1;
        Some(instance)
    }

    fn take_new(&mut self) -> Option<InstanceId> {
        if self.instances.len() >= self.limits.instances_max {
            return None;
        }
        let instance = InstanceId(self.next_instance);
        self.next_instance += 1;
        self.instances.insert(instance, 1);
        Some(instance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(slots: usize, instances_max: usize) -> Ledger {
        Ledger::new(Limits { slots, instances_max })
    }

    /// One instance is filled before the next is started, and then callers wait.
    #[test]
    fn grows_only_when_full() {
        let mut ledger = ledger(2, 2);
        assert_eq!(ledger.ask(), Asked::Start(InstanceId(0)));
        assert_eq!(ledger.ask(), Asked::Lent(InstanceId(0)));
        assert_eq!(ledger.ask(), Asked::Start(InstanceId(1)));
        assert_eq!(ledger.ask(), Asked::Lent(InstanceId(1)));
        assert!(matches!(ledger.ask(), Asked::Wait(_)));
        assert_eq!(ledger.figures(), Figures { instances: 2, leased: 4, slots: 4, waiting: 1 });
    }

    /// Waiters are served in order, one that gave up is passed over, and newcomers do not overtake.
    #[test]
    fn waiters_are_served_in_order() {
        let mut ledger = ledger(1, 1);
        ledger.ask();
        let Asked::Wait(first) = ledger.ask() else { panic!("the pool is full") };
        let Asked::Wait(second) = ledger.ask() else { panic!("the pool is full") };
        let Asked::Wait(third) = ledger.ask() else { panic!("the pool is full") };
        ledger.forget(second);
        assert_eq!(ledger.give_back(InstanceId(0)).unwrap().waiter, first);
        assert_eq!(ledger.give_back(InstanceId(0)).unwrap().waiter, third);
        assert_eq!(ledger.give_back(InstanceId(0)), None);
        assert_eq!(ledger.ask(), Asked::Lent(InstanceId(0)));
    }

    /// A dead instance lends nothing more, also when its slots come back late; a waiter gets a new one.
    #[test]
    fn a_dead_instance_lends_nothing() {
        let mut ledger = ledger(1, 1);
        ledger.ask();
        let Asked::Wait(waiter) = ledger.ask() else { panic!("the pool is full") };
        ledger.remove(InstanceId(0));
        assert_eq!(ledger.serve(), Some(Grant { waiter, instance: InstanceId(1), start: true }));
        assert_eq!(ledger.give_back(InstanceId(0)), None);
        assert_eq!(ledger.figures().leased, 1);
        assert!(!ledger.retire(InstanceId(1), 0), "it is lent");
        ledger.give_back(InstanceId(1));
        assert!(ledger.retire(InstanceId(1), 0));
    }

    /// A spare takes what is free, a new instance too, but never queues and never overtakes somebody who does.
    /// An instance with nothing but spares is idle.
    #[test]
    fn spares_make_nobody_wait() {
        let mut ledger = ledger(1, 2);
        assert_eq!(ledger.spare(), Some(Spared { instance: InstanceId(0), start: true }));
        assert!(ledger.is_idle(InstanceId(0), 1) && !ledger.is_idle(InstanceId(0), 0));
        assert_eq!(ledger.ask(), Asked::Start(InstanceId(1)));
        assert_eq!((ledger.spare(), ledger.figures().waiting), (None, 0));
        let Asked::Wait(waiter) = ledger.ask() else { panic!("the pool is full") };
        ledger.remove(InstanceId(1));
        assert_eq!(ledger.spare(), None, "somebody waits for that");
        assert_eq!(ledger.serve(), Some(Grant { waiter, instance: InstanceId(2), start: true }));
        assert_eq!((ledger.room_beside(InstanceId(2)), ledger.next_free()), (0, None));
        assert!(ledger.retire(InstanceId(0), 1));
    }
}
