//! The lease ledger against an explicit model: every slot of every living instance, and who holds it.

use std::collections::{BTreeMap, VecDeque};

use greenroom_core::{
    InstanceId,
    lease::{Asked, Figures, Grant, Ledger, Limits, Spared, WaiterId},
};
use proptest::{collection::vec, prelude::*, sample::Index};

/// What may happen to a pool. An index picks among what there is.
#[derive(Debug, Clone)]
enum Step {
    Ask,
    /// A spare takes a slot, if it may. From then on it is a slot like every other.
    Spare,
    GiveBack(Index),
    Leave(Index),
    /// The instance died or failed to start; leases on it are returned later, if ever.
    Die(Index),
    Retire(Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => Just(Step::Ask),
        2 => Just(Step::Spare),
        4 => any::<Index>().prop_map(Step::GiveBack),
        2 => any::<Index>().prop_map(Step::Leave),
        1 => any::<Index>().prop_map(Step::Die),
        1 => any::<Index>().prop_map(Step::Retire),
    ]
}

/// The truth as a bystander writes it down.
struct Model {
    limits: Limits,
    /// Leases out per living instance.
    living: BTreeMap<InstanceId, usize>,
    /// Every lease that somebody holds, on dead instances too.
    held: Vec<InstanceId>,
    waiting: VecDeque<WaiterId>,
    /// The highest instance number so far: none is used again.
    last: Option<InstanceId>,
}

impl Model {
    /// A slot was lent: it must have been free, and nobody may have been passed over.
    fn lent(&mut self, instance: InstanceId, start: bool) {
        let with_room = self.living.iter().find(|(_, out)| **out < self.limits.slots).map(|(id, _)| *id);
        if start {
            assert_eq!(with_room, None, "no instance is started while a slot is free");
            assert!(self.living.len() < self.limits.instances_max, "more instances than allowed");
            assert!(self.last < Some(instance), "an instance's number is used twice");
            self.last = Some(instance);
            self.living.insert(instance, 0);
        } else {
            assert_eq!(Some(instance), with_room, "the oldest with room, and never a dead one");
        }
        let out = self.living.get_mut(&instance).unwrap();
        *out += 1;
        assert!(*out <= self.limits.slots, "a slot is lent twice");
        self.held.push(instance);
    }

    fn granted(&mut self, Grant { waiter, instance, start }: Grant) {
        assert_eq!(self.waiting.pop_front(), Some(waiter), "served out of turn");
        self.lent(instance, start);
    }

    fn is_full(&self) -> bool {
        self.living.len() == self.limits.instances_max
            && self.living.values().all(|out| *out == self.limits.slots)
    }

    fn check(&self, ledger: &Ledger) {
        let (instances, leased) = (self.living.len(), self.living.values().sum());
        let slots = self.limits.slots * self.limits.instances_max;
        let figures = Figures { instances, leased, slots, waiting: self.waiting.len() };
        assert_eq!(ledger.figures(), figures);
        assert!(self.waiting.is_empty() || self.is_full(), "somebody waits though there is room");
        for (id, out) in &self.living {
            assert_eq!(ledger.is_idle(*id, 0), *out == 0);
        }
    }
}

fn pick<T: Copy>(index: &Index, from: &[T]) -> Option<T> {
    (!from.is_empty()).then(|| *index.get(from))
}

fn play(limits: Limits, steps: &[Step]) {
    let mut ledger = Ledger::new(limits);
    let mut model =
        Model { limits, living: BTreeMap::new(), held: Vec::new(), waiting: VecDeque::new(), last: None };
    for step in steps {
        let living: Vec<_> = model.living.keys().copied().collect();
        match step {
            Step::Ask => {
                let may_lend = model.waiting.is_empty() && !model.is_full();
                match ledger.ask() {
                    Asked::Lent(instance) => model.lent(instance, false),
                    Asked::Start(instance) => model.lent(instance, true),
                    Asked::Wait(waiter) => {
                        assert!(!may_lend, "made to wait though there is room");
                        model.waiting.push_back(waiter);
                    }
                }
            }
            Step::Spare => {
                let may = model.waiting.is_empty() && !model.is_full();
                let spared = ledger.spare();
                assert_eq!(spared.is_some(), may, "a spare is made where there is room, and only there");
                if let Some(Spared { instance, start }) = spared {
                    model.lent(instance, start);
                }
            }
            Step::GiveBack(index) => {
                if model.held.is_empty() {
                    continue;
                }
                let instance = model.held.swap_remove(index.index(model.held.len()));
                if let Some(out) = model.living.get_mut(&instance) {
                    *out -= 1;
                }
                if let Some(grant) = ledger.give_back(instance) {
                    model.granted(grant);
                }
            }
            Step::Leave(index) => {
                let waiting: Vec<_> = model.waiting.iter().copied().collect();
                let Some(waiter) = pick(index, &waiting) else { continue };
                ledger.forget(waiter);
                model.waiting.retain(|other| *other != waiter);
            }
            Step::Die(index) => {
                let Some(instance) = pick(index, &living) else { continue };
                ledger.remove(instance);
                model.living.remove(&instance);
                while let Some(grant) = ledger.serve() {
                    model.granted(grant);
                }
            }
            Step::Retire(index) => {
                let Some(instance) = pick(index, &living) else { continue };
                let idle = model.living[&instance] == 0;
                assert_eq!(ledger.retire(instance, 0), idle, "only an idle instance retires");
                if idle {
                    model.living.remove(&instance);
                }
            }
        }
        model.check(&ledger);
    }
}

proptest! {
    /// Over any history of asking, returning, leaving, dying and retiring: no slot is lent twice, no dead instance
    /// is lent, those who wait are served in order, and nobody waits while there is room.
    #[test]
    fn the_ledger_keeps_its_promises(
        slots in 1_usize..4,
        instances_max in 1_usize..4,
        steps in vec(step(), 1..200),
    ) {
        play(Limits { slots, instances_max }, &steps);
    }
}
