//! Keeps owners apart, under [`Sharing::OneOwner`]: an instance serves the owner that got its first slot, until it is
//! restarted.
//!
//! For an owner that waits, cold instances are started first. If there are none, an instance that has served another
//! owner is cleared: it leases nothing more, and its supervisor restarts it when its last lease is back. An owner without any
//! instance may have one cleared that is in use, so that no owner waits for ever. An owner that has instances gets those
//! that are not in use, and those in use of an owner that has at least two more; without that limit two owners would take
//! the same instance from each other over and over.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    Changes, Grant, Ledger, Sharing,
    free::FreeSlots,
    instance_slots::{InstanceSlots, Phase, Tenant},
    ledger::{index, instance_id},
};
use crate::id::{InstanceId, Owner};

impl Ledger {
    /// Changes whether owners share instances. An instance that has served several owners serves none of them any more
    /// under [`Sharing::OneOwner`], until it is restarted; its leases stay valid.
    pub fn set_sharing(&mut self, sharing: Sharing) -> Changes {
        if self.sharing == sharing {
            return Changes::default();
        }
        let open: Vec<_> =
            self.ids(|instance| matches!(instance.phase, Phase::Open | Phase::Clearing)).collect();
        open.iter().for_each(|id| self.clear_free(*id));
        self.sharing = sharing;
        for id in &open {
            self.enter(*id, Phase::Open);
            self.put_free(*id);
        }
        let granted =
            open.iter().flat_map(|id| std::iter::from_fn(|| self.grant_next(index(*id))).collect::<Vec<_>>());
        let granted = granted.collect();
        self.provide_for_waiters();
        Changes { granted, refused: Vec::new() }
    }

    /// The next instance that has no lease and is to be restarted for another owner.
    pub fn take_cleared(&mut self) -> Option<InstanceId> {
        self.cleared.pop_front()
    }

    /// Takes an instance out of use whose last lease is back and that another owner waits for: from now on it counts as
    /// starting. Returns whether it did; the supervisor then restarts the instance.
    pub fn recycle(&mut self, id: InstanceId) -> bool {
        let is_due = self
            .instance(id)
            .is_some_and(|instance| instance.phase == Phase::Clearing && instance.taken() == 0);
        if is_due {
            self.void_leases(id);
            self.enter(id, Phase::Starting);
        }
        is_due
    }

    /// Whether a free slot of this instance is among those that a caller of this owner gets first: one of an instance that
    /// has served this owner; if these have none, one of an instance that has served no owner.
    pub fn offers(&self, id: InstanceId, owner: &Owner) -> bool {
        let Some(instance) = self.instance(id) else { return false };
        match (self.sharing, &instance.tenant) {
            (Sharing::All, _) => true,
            (Sharing::OneOwner, Tenant::Nobody) => self.free.get(owner).is_none_or(FreeSlots::is_empty),
            (Sharing::OneOwner, _) => instance.is_clean_for(owner),
        }
    }

    pub(super) fn may_serve(&self, instance: &InstanceSlots, owner: &Owner) -> bool {
        self.sharing == Sharing::All || instance.is_clean_for(owner)
    }

    /// The set of free slots in which this instance's slots are. `None` if no owner may lease them.
    pub(super) fn free_slots(&self, at: usize) -> Option<&FreeSlots> {
        match (self.sharing, &self.instances.get(at)?.as_ref()?.tenant) {
            (Sharing::All, _) | (_, Tenant::Nobody) => Some(&self.free.shared),
            (_, Tenant::Owner(owner)) => self.free.get(owner),
            (_, Tenant::Several) => None,
        }
    }

    pub(super) fn free_slots_mut(&mut self, at: usize) -> Option<&mut FreeSlots> {
        match (self.sharing, &self.instances.get(at)?.as_ref()?.tenant) {
            (Sharing::All, _) | (_, Tenant::Nobody) => Some(&mut self.free.shared),
            (_, Tenant::Owner(owner)) => Some(self.free.of(owner)),
            (_, Tenant::Several) => None,
        }
    }

    /// Notes that a caller of this owner gets a slot of the instance.
    pub(super) fn occupy(&mut self, id: InstanceId, owner: &Owner) {
        let sharing = self.sharing;
        let Some(instance) = self.instance_mut(id) else { return };
        let tenant = match &instance.tenant {
            Tenant::Nobody => Tenant::Owner(owner.clone()),
            Tenant::Owner(tenant) if tenant != owner => Tenant::Several,
            Tenant::Owner(_) | Tenant::Several => return,
        };
        if sharing == Sharing::All {
            instance.tenant = tenant;
            return;
        }
        self.clear_free(id);
        if let Some(instance) = self.instance_mut(id) {
            instance.tenant = tenant;
        }
        self.put_free(id);
    }

    /// Starts and clears the instances that owners wait for.
    pub(super) fn clear_for_waiters(&mut self) {
        if self.waiting == 0 {
            return;
        }
        while let Demand { starts: true, .. } = self.demand() {
            if !self.start_one() {
                break;
            }
        }
        for at in self.demand().clear {
            let Some(id) = instance_id(at) else { continue };
            if self.clearing.contains(&at) {
                continue;
            }
            self.clear_free(id);
            self.enter(id, Phase::Clearing);
            if self.taken(id) == 0 {
                self.cleared.push_back(id);
            }
        }
    }

    /// Lets the instances lease again that no other owner waits for any more.
    pub(super) fn reopen_unneeded(&mut self) -> Vec<Grant> {
        let mut granted = Vec::new();
        while !self.clearing.is_empty() {
            let needed = self.demand().clear;
            let unneeded: Vec<_> =
                self.clearing.difference(&needed).filter_map(|at| instance_id(*at)).collect();
            let before = granted.len();
            granted.extend(unneeded.into_iter().flat_map(|id| self.open_again(id)));
            // Callers that have a slot now may have been the ones for whom another instance is being cleared.
            if granted.len() == before {
                break;
            }
        }
        granted
    }

    /// How many instances have served this owner and no other.
    pub(super) fn instances_of(&self, owner: &Owner) -> usize {
        let is_own =
            |instance: &&InstanceSlots| matches!(&instance.tenant, Tenant::Owner(tenant) if tenant == owner);
        self.instances.iter().flatten().filter(is_own).count()
    }

    fn ids(&self, of: impl Fn(&InstanceSlots) -> bool) -> impl Iterator<Item = InstanceId> {
        let numbered = self.instances.iter().enumerate();
        numbered.filter(move |(_, slot)| slot.as_ref().is_some_and(&of)).filter_map(|(at, _)| instance_id(at))
    }

    /// Which instances the waiters need, owner by owner: those with the fewest instances first, in the order of their turns.
    fn demand(&self) -> Demand {
        let mut clear = BTreeSet::new();
        let mut held: BTreeMap<&Owner, usize> = BTreeMap::new();
        let mut coming = Vec::new();
        let mut others = Vec::new();
        for (at, instance) in
            self.instances.iter().enumerate().filter_map(|(at, slot)| Some((at, slot.as_ref()?)))
        {
            match (&instance.phase, &instance.tenant) {
                (Phase::Starting | Phase::Down { back: true }, _) => coming.push(instance.slots.len()),
                (Phase::Open, Tenant::Nobody) => {
                    coming.extend((instance.internal > 0).then_some(instance.internal));
                }
                (Phase::Open | Phase::Clearing, tenant) => {
                    // A waiter that wants only this instance can be served by no other.
                    if instance.waiters.heads().any(|waiter| !instance.is_clean_for(&waiter.owner)) {
                        clear.insert(at);
                    } else {
                        others.push((at, instance));
                        if let Tenant::Owner(owner) = tenant {
                            *held.entry(owner).or_default() += 1;
                        }
                    }
                }
                _ => {}
            }
        }
        let mut waiting: Vec<_> = self.waiters.heads_and_counts().collect();
        waiting.sort_by_key(|(head, _)| (self.instances_of(&head.owner), self.turn_of(head)));
        for (head, count) in waiting {
            let owner = &head.owner;
            let mut missing = count;
            while missing > 0 {
                let slots = match coming.pop() {
                    Some(slots) => slots,
                    None if !self.cold.is_empty() => return Demand { starts: true, clear },
                    None => {
                        let Some(found) = next_to_clear(owner, &others, &held, &self.clearing) else { break };
                        let (at, instance) = others.swap_remove(found);
                        clear.insert(at);
                        if let Tenant::Owner(tenant) = &instance.tenant
                            && let Some(count) = held.get_mut(tenant)
                        {
                            *count -= 1;
                        }
                        instance.slots.len()
                    }
                };
                *held.entry(owner).or_default() += 1;
                missing = missing.saturating_sub(slots);
            }
        }
        Demand { starts: false, clear }
    }
}

/// What the waiters need.
struct Demand {
    /// A cold instance is to be started; what else is needed is not known yet.
    starts: bool,
    /// The instances that are to be restarted for another owner.
    clear: BTreeSet<usize>,
}

/// Which of the instances that other owners have used is cleared for this owner: one without a lease; else one of the owner
/// that has the most, the one that is being cleared already, or else the one with the fewest leases.
fn next_to_clear(
    owner: &Owner,
    others: &[(usize, &InstanceSlots)],
    held: &BTreeMap<&Owner, usize>,
    clearing: &BTreeSet<usize>,
) -> Option<usize> {
    let held = |owner: &Owner| held.get(owner).copied().unwrap_or_default();
    let own = held(owner);
    let order = |at: usize, instance: &InstanceSlots| {
        let tenants = match &instance.tenant {
            Tenant::Owner(tenant) if tenant != owner => held(tenant),
            // It serves no owner until its restart.
            Tenant::Several => usize::MAX,
            Tenant::Owner(_) | Tenant::Nobody => return None,
        };
        let is_idle = instance.leased == 0;
        let may_be_cleared = is_idle || own == 0 || tenants >= own.saturating_add(2);
        may_be_cleared.then_some((!is_idle, Reverse(tenants), !clearing.contains(&at), instance.leased, at))
    };
    let numbered = others.iter().enumerate();
    let orders = numbered.filter_map(|(position, (at, instance))| Some((order(*at, instance)?, position)));
    orders.min().map(|(_, position)| position)
}
