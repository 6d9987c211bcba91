//! Read-only views of a ledger.

use std::collections::BTreeSet;

use super::{
    Figures, LeaseId, Ledger, WaiterId,
    instance_slots::{InstanceSlots, Phase, Slot},
    ledger::{index, instance_id},
};
use crate::id::InstanceId;

impl Ledger {
    pub fn figures(&self) -> Figures {
        let instances = || self.instances.iter().flatten();
        Figures {
            instances: instances()
                .filter(|instance| !matches!(instance.phase, Phase::Cold | Phase::Down { .. }))
                .count(),
            leased: instances().map(|instance| instance.leased).sum(),
            slots: instances()
                .map(|instance| if instance.may_lease() { instance.slots.len() } else { instance.leased })
                .sum(),
            waiting: self.waiting,
        }
    }

    /// How many slots of an instance are leased to callers, and how many it has.
    pub fn leased_in(&self, id: InstanceId) -> (usize, usize) {
        self.instance(id).map_or((0, 0), |instance| (instance.leased, instance.slots.len()))
    }

    /// How many slots of an instance are taken, by callers or for internal use.
    pub fn taken(&self, id: InstanceId) -> usize {
        self.instance(id).map_or(0, InstanceSlots::taken)
    }

    /// Whether the ledger counts an instance as starting: its start runs, or is about to begin.
    pub fn is_starting(&self, id: InstanceId) -> bool {
        self.instance(id).is_some_and(|instance| instance.phase == Phase::Starting)
    }

    /// Whether the ledger withholds an instance because it did not answer.
    pub fn is_withheld(&self, id: InstanceId) -> bool {
        self.instance(id).is_some_and(|instance| instance.phase == Phase::Withheld)
    }

    /// The instances that the ledger withholds, because they did not answer.
    pub fn withheld(&self) -> impl Iterator<Item = InstanceId> {
        let is_withheld = |instance: &Option<InstanceSlots>| {
            instance.as_ref().is_some_and(|instance| instance.phase == Phase::Withheld)
        };
        let numbered = self.instances.iter().enumerate();
        numbered.filter(move |(_, instance)| is_withheld(instance)).filter_map(|(at, _)| instance_id(at))
    }

    /// Whether a lease is still valid.
    pub fn is_valid(&self, lease: LeaseId) -> bool {
        let slot = self.instance(lease.instance).and_then(|instance| instance.slots.get(lease.slot));
        matches!(slot, Some(Slot::Leased { serial, .. }) if *serial == lease.serial)
    }

    /// Whether no instance will lease anything: all have failed too often, or are drained.
    pub fn can_never_lease(&self) -> bool {
        self.leasable == 0
    }

    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many slots are free and can be leased now.
    pub fn room(&self) -> usize {
        self.free.iter().count()
    }

    /// How many slots of this instance are free and can be leased now.
    pub fn room_in(&self, id: InstanceId) -> usize {
        self.free.slots_of(index(id)).count()
    }

    /// Whether this waiter will get a slot even if no other caller gives one back: an instance starts, or
    /// the internal use of a slot is about to end.
    pub fn has_room_coming(&self, waiter: WaiterId) -> bool {
        let is_made = |instance: &InstanceSlots| instance.phase == Phase::Starting || instance.internal > 0;
        match waiter.key {
            Some(id) => self.instance(id).is_some_and(is_made),
            None => {
                let internal: usize = self.instances.iter().flatten().map(|instance| instance.internal).sum();
                self.queue_position(waiter).is_some_and(|instance| instance <= self.starting_slots + internal)
            }
        }
    }

    /// A waiter's position in the line: 1 is served next. Counts the waiters that could be served before it.
    pub fn queue_position(&self, waiter: WaiterId) -> Option<usize> {
        let earlier = |waiters: &BTreeSet<WaiterId>| waiters.range(..waiter).count();
        match waiter.key {
            Some(id) => {
                let own = &self.instance(id)?.waiters;
                own.contains(&waiter).then(|| 1 + earlier(own) + earlier(&self.waiters))
            }
            None => self.waiters.contains(&waiter).then(|| {
                let keyed = self.instances.iter().flatten().map(|instance| earlier(&instance.waiters));
                1 + earlier(&self.waiters) + keyed.sum::<usize>()
            }),
        }
    }
}
