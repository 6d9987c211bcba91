//! Runs the ledger through random orders of events and compares it with a plain model of waiters and free slots: no
//! slot is leased twice, owners take turns, no waiter is passed over or waits while a slot is free, a dead instance leases
//! nothing, the counts add up. Where owners share no instance, each serves one owner until it is restarted, and every owner
//! that waits gets one.

use std::collections::{BTreeMap, BTreeSet};

use proptest::{
    prelude::{Just, ProptestConfig, any, prop},
    prop_oneof, proptest,
    strategy::Strategy as Generator,
};

use super::{
    Changes, Grant, InternalSlot, LeaseId, Ledger, RestartOutlook, Sharing, SlotAnswer, SlotRequest,
    Strategy, WaiterId, instance_slots::Phase,
};
use crate::id::{InstanceId, Owner};

#[derive(Debug, Clone)]
enum LedgerEvent {
    Ask {
        owner: u8,
        key: Option<u32>,
        caller: Option<u64>,
    },
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
    Add {
        slots: usize,
        cold: bool,
    },
    Remove(u32),
    Spare(u32),
    /// The supervisors restart the instances that have been cleared.
    Recycle,
    Share(Sharing),
}

fn event() -> impl Generator<Value = LedgerEvent> {
    let id = 0..4_u32;
    prop_oneof![
        8 => (0..3_u8, prop::option::weighted(0.3, id.clone()), prop::option::of(0..3_u64)).prop_map(|(owner, key, caller)| LedgerEvent::Ask { owner, key, caller }),
        8 => any::<usize>().prop_map(LedgerEvent::GiveBack),
        2 => any::<usize>().prop_map(LedgerEvent::Forget),
        3 => Just(LedgerEvent::Start),
        3 => id.clone().prop_map(LedgerEvent::Started),
        1 => (id.clone(), 0..3_u8).prop_map(|(id, outlook)| LedgerEvent::Lost(id, outlook)),
        1 => (id.clone(), any::<bool>()).prop_map(|(id, back)| LedgerEvent::Drain(id, back)),
        1 => id.clone().prop_map(LedgerEvent::Reopen),
        1 => id.clone().prop_map(LedgerEvent::Withhold),
        1 => id.clone().prop_map(LedgerEvent::AnswersAgain),
        1 => id.clone().prop_map(LedgerEvent::Retire),
        1 => (1..3_usize, any::<bool>()).prop_map(|(slots, cold)| LedgerEvent::Add { slots, cold }),
        1 => id.clone().prop_map(LedgerEvent::Remove),
        1 => id.prop_map(LedgerEvent::Spare),
        3 => Just(LedgerEvent::Recycle),
        1 => any::<bool>().prop_map(|all| LedgerEvent::Share(if all { Sharing::All } else { Sharing::OneOwner })),
    ]
}

/// What the model knows of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ModelInstance {
    Open,
    Withheld,
    Draining,
    Other,
}

#[derive(Default)]
struct LedgerModel {
    instances: BTreeMap<u32, (ModelInstance, usize)>,
    sharing: Sharing,
    /// The owners that each instance has served since it started.
    served: BTreeMap<u32, BTreeSet<Owner>>,
    /// The valid leases, each with its owner; without one it is for internal use.
    leases: Vec<(LeaseId, Option<Owner>)>,
    waiting: BTreeSet<WaiterId>,
    /// The owners that had a lease, the one with the latest lease last.
    turns: Vec<Owner>,
    to_start: Vec<InstanceId>,
}

impl LedgerModel {
    fn free_in(&self, id: u32) -> usize {
        match self.instances.get(&id) {
            Some((ModelInstance::Open, slots)) => {
                slots - self.leases.iter().filter(|(lease, _)| lease.instance.0 == id).count()
            }
            _ => 0,
        }
    }

    fn end_turn(&mut self, owner: &Owner) {
        self.turns.retain(|other| other != owner);
        self.turns.push(owner.clone());
    }

    /// Whether this owner's callers may get a slot of the instance.
    fn may_serve(&self, id: u32, owner: &Owner) -> bool {
        let others = |served: &BTreeSet<Owner>| served.iter().any(|other| other != owner);
        self.sharing == Sharing::All || !self.served.get(&id).is_some_and(others)
    }

    fn take(&mut self, lease: LeaseId, owner: Option<&Owner>) {
        let open = self.instances.get(&lease.instance.0).map(|(state, _)| *state);
        assert_eq!(open, Some(ModelInstance::Open), "only a running instance leases slots");
        let twice = |(other, _): &(LeaseId, Option<Owner>)| {
            (other.instance, other.slot) == (lease.instance, lease.slot)
        };
        assert!(!self.leases.iter().any(twice), "leased twice: {lease:?}");
        if let Some(owner) = owner {
            assert!(self.may_serve(lease.instance.0, owner), "{owner} shares instance {}", lease.instance);
            self.served.entry(lease.instance.0).or_default().insert(owner.clone());
        }
        self.leases.push((lease, owner.cloned()));
    }

    fn grant(&mut self, grant: &Grant) {
        let id = grant.lease.instance;
        let could = |waiter: &&WaiterId| {
            waiter.key.is_none_or(|key| key == id) && self.may_serve(id.0, &waiter.owner)
        };
        // `None`, for an owner that never had a lease, comes first.
        let turn = |waiter: &&WaiterId| self.turns.iter().position(|owner| *owner == waiter.owner);
        // An instance that no owner has used yet goes to an owner that has the fewest.
        let is_new = self.sharing == Sharing::OneOwner && !self.served.contains_key(&id.0);
        let held = |owner: &Owner| self.served.values().filter(|served| served.iter().eq([owner])).count();
        let order =
            |waiter: &&WaiterId| (if is_new { held(&waiter.owner) } else { 0 }, turn(waiter), waiter.ticket);
        let next = self.waiting.iter().filter(could).min_by_key(order);
        assert_eq!(next, Some(&grant.waiter), "passed over");
        self.waiting.remove(&grant.waiter);
        self.end_turn(&grant.waiter.owner);
        self.take(grant.lease, Some(&grant.waiter.owner));
    }

    fn apply(&mut self, changes: Changes) {
        for (waiter, _) in changes.refused {
            assert!(self.waiting.remove(&waiter), "refused twice, or not waiting: {waiter:?}");
        }
        changes.granted.iter().for_each(|grant| self.grant(grant));
    }

    fn end(&mut self, id: u32, state: ModelInstance) {
        self.leases.retain(|(lease, _)| lease.instance.0 != id);
        self.served.remove(&id);
        if let Some(instance) = self.instances.get_mut(&id) {
            instance.0 = state;
        }
    }

    fn check(&self, ledger: &Ledger) {
        let is_leasing = |id: &u32| !ledger.clearing.contains(&(*id as usize));
        let free_for = |id: u32, owner: &Owner| {
            if is_leasing(&id) && self.may_serve(id, owner) { self.free_in(id) } else { 0 }
        };
        for waiter in &self.waiting {
            let free = match waiter.key {
                Some(id) => free_for(id.0, &waiter.owner),
                None => self.instances.keys().map(|id| free_for(*id, &waiter.owner)).sum(),
            };
            assert_eq!(free, 0, "{waiter:?} waits for what is free");
            assert!(ledger.queue_position(waiter).is_some());
        }
        let figures = ledger.figures();
        assert_eq!(figures.waiting, self.waiting.len());
        assert!(figures.leased <= figures.slots, "{figures:?}");
        assert_eq!(figures.leased, self.leases.iter().filter(|(_, owner)| owner.is_some()).count());
        let mixed = |id: &u32| self.served.get(id).is_some_and(|served| served.len() > 1);
        let serves = |id: &&u32| is_leasing(id) && (self.sharing == Sharing::All || !mixed(id));
        assert_eq!(
            ledger.room(),
            self.instances.keys().filter(serves).map(|id| self.free_in(*id)).sum::<usize>()
        );
        for id in self.instances.keys() {
            let out = self.leases.iter().filter(|(lease, _)| lease.instance.0 == *id).count();
            assert_eq!(ledger.taken(InstanceId(*id)), out);
        }
        match self.sharing {
            // While cold instances are left, enough slots are starting for all waiters that accept any instance.
            Sharing::All => {
                let unkeyed = self.waiting.iter().filter(|waiter| waiter.key.is_none()).count();
                assert!(unkeyed <= ledger.starting_slots || ledger.cold.is_empty());
                assert!(ledger.clearing.is_empty());
            }
            Sharing::OneOwner => self.check_owners(ledger),
        }
    }

    /// Every owner that waits and has no instance gets one: it starts, or one is cleared. No instance is cleared that no other
    /// owner waits for.
    fn check_owners(&self, ledger: &Ledger) {
        let instances = || (0..).zip(&ledger.instances).filter_map(|(id, slot)| Some((id, slot.as_ref()?)));
        let is_foreign = |id: u32, owner: &Owner| !self.may_serve(id, owner);
        for at in &ledger.clearing {
            let id = *at as u32;
            let wants =
                |waiter: &WaiterId| waiter.key.is_none_or(|key| key.0 == id) && is_foreign(id, &waiter.owner);
            assert!(self.waiting.iter().any(wants), "instance {id} is cleared although no owner waits");
        }
        for waiter in self.waiting.iter().filter_map(|waiter| Some((waiter.key?.0, &waiter.owner))) {
            let (id, owner) = waiter;
            let is_open = self.instances.get(&id).is_some_and(|(state, _)| *state == ModelInstance::Open);
            assert!(!is_open || !is_foreign(id, owner) || ledger.clearing.contains(&(id as usize)));
        }
        let owners: BTreeSet<_> =
            self.waiting.iter().filter(|waiter| waiter.key.is_none()).map(|waiter| &waiter.owner).collect();
        let is_coming = |phase: Phase| matches!(phase, Phase::Starting | Phase::Down { back: true });
        let coming =
            instances().filter(|(_, instance)| is_coming(instance.phase) || instance.internal > 0).count();
        assert!(
            owners.len() <= coming || ledger.cold.is_empty(),
            "a cold instance is started for each owner"
        );
        let has_none = |owner: &&&Owner| !self.served.values().any(|served| served.contains(**owner));
        let without = owners.iter().filter(has_none).count();
        let others = self.instances.iter().filter(|(id, (state, _))| {
            *state == ModelInstance::Open && self.served.get(id).is_some_and(|served| !served.is_empty())
        });
        assert!(
            ledger.clearing.len() + coming >= without.min(others.count()),
            "{without} owners wait for an instance, {coming} start, {:?} are cleared",
            ledger.clearing
        );
    }

    /// Restarts the instances that have been cleared.
    fn recycle(&mut self, ledger: &mut Ledger) {
        let ids: Vec<_> = self.instances.keys().copied().collect();
        for id in ids.into_iter().filter(|id| ledger.recycle(InstanceId(*id))) {
            assert!(!self.leases.iter().any(|(lease, _)| lease.instance.0 == id), "it was leased");
            self.end(id, ModelInstance::Other);
            self.to_start.push(InstanceId(id));
        }
    }
}

fn run(strategy: Strategy, sharing: Sharing, events: Vec<LedgerEvent>) {
    let mut ledger = Ledger::new(strategy);
    let mut model = LedgerModel { sharing, ..LedgerModel::default() };
    ledger.set_sharing(sharing);
    for event in events {
        match event {
            LedgerEvent::Ask { owner, key, caller } => {
                let owner = Owner::new(&format!("owner {owner}"));
                let request = SlotRequest { key: key.map(InstanceId), caller, ..SlotRequest::any(&owner) };
                match ledger.request(request) {
                    SlotAnswer::Leased(lease) => {
                        model.end_turn(&owner);
                        assert!(key.is_none_or(|key| key == lease.instance.0));
                        model.take(lease, Some(&owner));
                    }
                    SlotAnswer::Wait(waiter) => {
                        model.waiting.insert(waiter);
                    }
                    SlotAnswer::Refused(_) => {}
                }
            }
            LedgerEvent::GiveBack(which) if !model.leases.is_empty() => {
                let (lease, _) = model.leases.swap_remove(which % model.leases.len());
                ledger.release(lease).iter().for_each(|grant| model.grant(grant));
                assert_eq!(ledger.release(lease), [], "returned twice");
            }
            LedgerEvent::Forget(which) if !model.waiting.is_empty() => {
                let waiter = model.waiting.iter().nth(which % model.waiting.len()).unwrap().clone();
                model.waiting.remove(&waiter);
                ledger.remove_waiter(&waiter).iter().for_each(|grant| model.grant(grant));
                assert_eq!(ledger.remove_waiter(&waiter), []);
            }
            LedgerEvent::Start => {
                while let Some(id) = ledger.take_start() {
                    model.to_start.push(id);
                }
            }
            LedgerEvent::Started(id) if model.to_start.contains(&InstanceId(id)) => {
                model.to_start.retain(|other| other.0 != id);
                model.end(id, ModelInstance::Open);
                model.apply(ledger.started(InstanceId(id)));
            }
            LedgerEvent::Lost(id, outlook) if model.instances.contains_key(&id) => {
                model.to_start.retain(|other| other.0 != id);
                model.end(id, ModelInstance::Other);
                let outlook = [RestartOutlook::OnDemand, RestartOutlook::Soon, RestartOutlook::None]
                    [usize::from(outlook)];
                model.apply(ledger.lost(InstanceId(id), outlook));
                if outlook != RestartOutlook::OnDemand {
                    ledger.starting(InstanceId(id));
                    model.to_start.push(InstanceId(id));
                }
            }
            LedgerEvent::Drain(id, back) if model.instances.contains_key(&id) => {
                model.to_start.retain(|other| other.0 != id);
                if model.instances[&id].0 == ModelInstance::Other {
                    model.end(id, ModelInstance::Draining);
                }
                model.instances.insert(id, (ModelInstance::Draining, model.instances[&id].1));
                model.apply(ledger.drain(InstanceId(id), back));
            }
            LedgerEvent::Reopen(id)
                if model.instances.get(&id).is_some_and(|(state, _)| *state == ModelInstance::Draining) =>
            {
                model.instances.insert(id, (ModelInstance::Open, model.instances[&id].1));
                model.apply(ledger.reopen(InstanceId(id)));
            }
            LedgerEvent::Withhold(id) => {
                ledger.withhold(InstanceId(id));
                if let Some(instance) =
                    model.instances.get_mut(&id).filter(|(state, _)| *state == ModelInstance::Open)
                {
                    instance.0 = ModelInstance::Withheld;
                }
            }
            LedgerEvent::AnswersAgain(id) => {
                if let Some(instance) =
                    model.instances.get_mut(&id).filter(|(state, _)| *state == ModelInstance::Withheld)
                {
                    instance.0 = ModelInstance::Open;
                }
                model.apply(ledger.responds_again(InstanceId(id)));
            }
            LedgerEvent::Retire(id) if ledger.retire(InstanceId(id)) => {
                assert!(!model.leases.iter().any(|(lease, _)| lease.instance.0 == id), "it was leased");
                model.end(id, ModelInstance::Other);
            }
            LedgerEvent::Add { slots, cold } if model.instances.len() < 4 => {
                let id = ledger.add(slots, cold).unwrap();
                model.instances.insert(id.0, (ModelInstance::Other, slots));
                if !cold {
                    model.to_start.push(id);
                }
            }
            LedgerEvent::Remove(id) if model.instances.contains_key(&id) => {
                model.to_start.retain(|other| other.0 != id);
                model.end(id, ModelInstance::Other);
                model.instances.remove(&id);
                model.apply(ledger.remove(InstanceId(id)));
            }
            LedgerEvent::Spare(id) => match ledger.take_spare(|instance, _| instance.0 == id) {
                InternalSlot::Slot(lease) => model.take(lease, None),
                InternalSlot::Soon | InternalSlot::NoRoom => {}
            },
            LedgerEvent::Recycle => model.recycle(&mut ledger),
            LedgerEvent::Share(sharing) => {
                model.sharing = sharing;
                model.apply(ledger.set_sharing(sharing));
            }
            _ => {}
        }
        model.check(&ledger);
    }
    every_waiter_is_served(ledger, model);
}

/// Once instances start and leases come back, every waiter is served.
fn every_waiter_is_served(mut ledger: Ledger, mut model: LedgerModel) {
    for _ in 0..10_000 {
        model.recycle(&mut ledger);
        let unstarted: Vec<_> = model
            .instances
            .iter()
            .filter(|(_, (state, _))| *state != ModelInstance::Open)
            .map(|(id, _)| *id)
            .collect();
        for id in unstarted {
            model.end(id, ModelInstance::Open);
            ledger.starting(InstanceId(id));
            model.apply(ledger.started(InstanceId(id)));
        }
        match model.leases.pop() {
            Some((lease, _)) => ledger.release(lease).iter().for_each(|grant| model.grant(grant)),
            None if model.waiting.is_empty() || model.instances.is_empty() => break,
            None => {}
        }
        model.check(&ledger);
    }
    assert!(model.waiting.is_empty() || model.instances.is_empty(), "{:?}", model.waiting);
    assert_eq!(ledger.figures().leased, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// The ledger agrees with the model after any order of requests, returns, starts, losses, drains, additions and
    /// removals, with any strategy, whether or not owners share instances.
    #[test]
    fn ledger_agrees_with_the_model(
        events in prop::collection::vec(event(), 1..120),
        strategy in 0..5_usize,
        apart in any::<bool>(),
    ) {
        let strategies = [Strategy::Fifo, Strategy::RoundRobin, Strategy::LeastUsed, Strategy::Sticky, Strategy::Fill];
        run(strategies[strategy], if apart { Sharing::OneOwner } else { Sharing::All }, events);
    }
}
