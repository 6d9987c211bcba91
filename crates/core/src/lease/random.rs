//! The ledger under any order of events, compared with a plain model of waiters and free slots: no slot is leased twice,
//! no waiter is passed over or waits for a free slot, a dead instance leases nothing, the counts add up.

use std::collections::{BTreeMap, BTreeSet};

use proptest::{
    prelude::{Just, ProptestConfig, any, prop},
    prop_oneof, proptest,
    strategy::Strategy as Generator,
};

use super::{Asked, Changes, Grant, InternalSlot, LeaseId, Ledger, RestartOutlook, Strategy, WaiterId, Want};
use crate::id::InstanceId;

#[derive(Debug, Clone)]
enum Event {
    Ask { key: Option<u32>, caller: Option<u64> },
    GiveBack(usize),
    Forget(usize),
    Start,
    Started(u32),
    Lost(u32, u8),
    Drain(u32, bool),
    Reopen(u32),
    Withhold(u32),
    AnswersAgain(u32),
    Retire(u32),
    Add { slots: usize, cold: bool },
    Remove(u32),
    Spare(u32),
}

fn event() -> impl Generator<Value = Event> {
    let id = 0..4_u32;
    prop_oneof![
        8 => (prop::option::weighted(0.3, id.clone()), prop::option::of(0..3_u64)).prop_map(|(key, caller)| Event::Ask { key, caller }),
        8 => any::<usize>().prop_map(Event::GiveBack),
        2 => any::<usize>().prop_map(Event::Forget),
        3 => Just(Event::Start),
        3 => id.clone().prop_map(Event::Started),
        1 => (id.clone(), 0..3_u8).prop_map(|(id, hope)| Event::Lost(id, hope)),
        1 => (id.clone(), any::<bool>()).prop_map(|(id, back)| Event::Drain(id, back)),
        1 => id.clone().prop_map(Event::Reopen),
        1 => id.clone().prop_map(Event::Withhold),
        1 => id.clone().prop_map(Event::AnswersAgain),
        1 => id.clone().prop_map(Event::Retire),
        1 => (1..3_usize, any::<bool>()).prop_map(|(slots, cold)| Event::Add { slots, cold }),
        1 => id.clone().prop_map(Event::Remove),
        1 => id.prop_map(Event::Spare),
    ]
}

/// What the model knows of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Withheld,
    Draining,
    Other,
}

#[derive(Default)]
struct Model {
    instances: BTreeMap<u32, (State, usize)>,
    /// Valid leases; the second says whether it is for internal use.
    lent: Vec<(LeaseId, bool)>,
    waiting: BTreeSet<WaiterId>,
    to_start: Vec<InstanceId>,
}

impl Model {
    fn free_in(&self, id: u32) -> usize {
        match self.instances.get(&id) {
            Some((State::Open, slots)) => {
                slots - self.lent.iter().filter(|(lent, _)| lent.instance.0 == id).count()
            }
            _ => 0,
        }
    }

    fn take(&mut self, lent: LeaseId, house: bool) {
        let open = self.instances.get(&lent.instance.0).map(|(state, _)| *state);
        assert_eq!(open, Some(State::Open), "only a running instance lends");
        let twice = |(other, _): &(LeaseId, bool)| (other.instance, other.slot) == (lent.instance, lent.slot);
        assert!(!self.lent.iter().any(twice), "lent twice: {lent:?}");
        self.lent.push((lent, house));
    }

    fn grant(&mut self, grant: Grant) {
        let id = grant.lent.instance;
        let could = |waiter: &&WaiterId| waiter.key.is_none_or(|key| key == id);
        assert_eq!(self.waiting.iter().find(could), Some(&grant.waiter), "passed over");
        self.waiting.remove(&grant.waiter);
        self.take(grant.lent, false);
    }

    fn apply(&mut self, changes: Changes) {
        for (waiter, _) in changes.refused {
            assert!(self.waiting.remove(&waiter), "refused twice, or not waiting: {waiter:?}");
        }
        changes.granted.into_iter().for_each(|grant| self.grant(grant));
    }

    fn end(&mut self, id: u32, state: State) {
        self.lent.retain(|(lent, _)| lent.instance.0 != id);
        if let Some(instance) = self.instances.get_mut(&id) {
            instance.0 = state;
        }
    }

    fn check(&self, ledger: &Ledger) {
        for waiter in &self.waiting {
            let free = match waiter.key {
                Some(id) => self.free_in(id.0),
                None => self.instances.keys().map(|id| self.free_in(*id)).sum(),
            };
            assert_eq!(free, 0, "{waiter:?} waits for what is free");
            assert!(ledger.place_in_line(*waiter).is_some());
        }
        let figures = ledger.figures();
        assert_eq!(figures.waiting, self.waiting.len());
        assert!(figures.leased <= figures.slots, "{figures:?}");
        assert_eq!(figures.leased, self.lent.iter().filter(|(_, house)| !house).count());
        assert_eq!(ledger.room(), self.instances.keys().map(|id| self.free_in(*id)).sum::<usize>());
        for id in self.instances.keys() {
            let out = self.lent.iter().filter(|(lent, _)| lent.instance.0 == *id).count();
            assert_eq!(ledger.out(InstanceId(*id)), out);
        }
        // While cold instances are left, one is on its way for everyone who waits for any slot.
        let unkeyed = self.waiting.iter().filter(|waiter| waiter.key.is_none()).count();
        assert!(unkeyed <= ledger.coming || ledger.cold.is_empty());
    }
}

fn run(strategy: Strategy, events: Vec<Event>) {
    let (mut ledger, mut model) = (Ledger::new(strategy), Model::default());
    for event in events {
        match event {
            Event::Ask { key, caller } => {
                match ledger.ask(Want { key: key.map(InstanceId), prefer: None, caller }) {
                    Asked::Leased(lent) => {
                        assert!(key.is_none_or(|key| key == lent.instance.0));
                        model.take(lent, false);
                    }
                    Asked::Wait(waiter) => {
                        model.waiting.insert(waiter);
                    }
                    Asked::Refused(_) => {}
                }
            }
            Event::GiveBack(which) if !model.lent.is_empty() => {
                let (lent, _) = model.lent.swap_remove(which % model.lent.len());
                if let Some(grant) = ledger.give_back(lent) {
                    model.grant(grant);
                }
                assert_eq!(ledger.give_back(lent).map(|grant| model.grant(grant)), None, "returned twice");
            }
            Event::Forget(which) if !model.waiting.is_empty() => {
                let waiter = *model.waiting.iter().nth(which % model.waiting.len()).unwrap();
                model.waiting.remove(&waiter);
                ledger.forget(waiter);
                ledger.forget(waiter);
            }
            Event::Start => {
                while let Some(id) = ledger.take_start() {
                    model.to_start.push(id);
                }
            }
            Event::Started(id) if model.to_start.contains(&InstanceId(id)) => {
                model.to_start.retain(|other| other.0 != id);
                model.end(id, State::Open);
                model.apply(ledger.started(InstanceId(id)));
            }
            Event::Lost(id, hope) if model.instances.contains_key(&id) => {
                model.to_start.retain(|other| other.0 != id);
                model.end(id, State::Other);
                let hope =
                    [RestartOutlook::OnDemand, RestartOutlook::Soon, RestartOutlook::None][usize::from(hope)];
                model.apply(ledger.lost(InstanceId(id), hope));
                if hope != RestartOutlook::OnDemand {
                    ledger.starting(InstanceId(id));
                    model.to_start.push(InstanceId(id));
                }
            }
            Event::Drain(id, back) if model.instances.contains_key(&id) => {
                model.to_start.retain(|other| other.0 != id);
                if model.instances[&id].0 == State::Other {
                    model.end(id, State::Draining);
                }
                model.instances.insert(id, (State::Draining, model.instances[&id].1));
                model.apply(ledger.drain(InstanceId(id), back));
            }
            Event::Reopen(id)
                if model.instances.get(&id).is_some_and(|(state, _)| *state == State::Draining) =>
            {
                model.instances.insert(id, (State::Open, model.instances[&id].1));
                model.apply(ledger.reopen(InstanceId(id)));
            }
            Event::Withhold(id) => {
                ledger.withhold(InstanceId(id));
                if let Some(instance) =
                    model.instances.get_mut(&id).filter(|(state, _)| *state == State::Open)
                {
                    instance.0 = State::Withheld;
                }
            }
            Event::AnswersAgain(id) => {
                if let Some(instance) =
                    model.instances.get_mut(&id).filter(|(state, _)| *state == State::Withheld)
                {
                    instance.0 = State::Open;
                }
                model.apply(ledger.answers_again(InstanceId(id)));
            }
            Event::Retire(id) if ledger.retire(InstanceId(id)) => {
                assert!(!model.lent.iter().any(|(lent, _)| lent.instance.0 == id), "it was lent");
                model.end(id, State::Other);
            }
            Event::Add { slots, cold } if model.instances.len() < 4 => {
                let id = ledger.add(slots, cold).unwrap();
                model.instances.insert(id.0, (State::Other, slots));
                if !cold {
                    model.to_start.push(id);
                }
            }
            Event::Remove(id) if model.instances.contains_key(&id) => {
                model.to_start.retain(|other| other.0 != id);
                model.end(id, State::Other);
                model.instances.remove(&id);
                model.apply(ledger.remove(InstanceId(id)));
            }
            Event::Spare(id) => match ledger.spare(|instance, _| instance.0 == id) {
                InternalSlot::Slot(lent) => model.take(lent, true),
                InternalSlot::Soon | InternalSlot::NoRoom => {}
            },
            _ => {}
        }
        model.check(&ledger);
    }
    nobody_starves(ledger, model);
}

/// Once instances start and leases come back, every waiter is served.
fn nobody_starves(mut ledger: Ledger, mut model: Model) {
    for _ in 0..10_000 {
        let unstarted: Vec<_> = model
            .instances
            .iter()
            .filter(|(_, (state, _))| *state != State::Open)
            .map(|(id, _)| *id)
            .collect();
        for id in unstarted {
            model.end(id, State::Open);
            ledger.starting(InstanceId(id));
            model.apply(ledger.started(InstanceId(id)));
        }
        let Some((lent, _)) = model.lent.pop() else { break };
        if let Some(grant) = ledger.give_back(lent) {
            model.grant(grant);
        }
        model.check(&ledger);
    }
    assert!(model.waiting.is_empty() || model.instances.is_empty(), "{:?}", model.waiting);
    assert_eq!(ledger.figures().leased, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Any order of asking, returning, leaving, starting, dying, draining, growing and shrinking, by any strategy.
    #[test]
    fn any_order_of_events(events in prop::collection::vec(event(), 1..120), strategy in 0..5_usize) {
        let strategies = [Strategy::Fifo, Strategy::RoundRobin, Strategy::LeastUsed, Strategy::Sticky, Strategy::Fill];
        run(strategies[strategy], events);
    }
}
