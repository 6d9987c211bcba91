//! Read-only views of a ledger.

use std::collections::BTreeMap;

use super::{
    Figures, LeaseId, Ledger, WaiterId,
    instance_slots::{InstanceSlots, Phase, Slot},
    ledger::{index, instance_id},
    line::Line,
};
use crate::id::{InstanceId, Owner};

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

    /// How many callers of this owner wait.
    pub fn waiting_of(&self, owner: &Owner) -> usize {
        let keyed = self.instances.iter().flatten().map(|instance| instance.waiters.len_of(owner));
        self.waiters.len_of(owner) + keyed.sum::<usize>()
    }

    /// How many slots are free and can be leased now.
    pub fn room(&self) -> usize {
        self.free.iter().count()
    }

    /// How many slots of this instance are free and can be leased now.
    pub fn room_in(&self, id: InstanceId) -> usize {
        self.free_slots(index(id)).map_or(0, |free| free.slots_of(index(id)).count())
    }

    /// Whether this waiter will get a slot even if no other caller gives one back: an instance starts, or
    /// the internal use of a slot is about to end.
    pub fn has_room_coming(&self, waiter: &WaiterId) -> bool {
        let is_made = |instance: &InstanceSlots| instance.phase == Phase::Starting || instance.internal > 0;
        match waiter.key {
            Some(id) => self.instance(id).is_some_and(is_made),
            None => {
                let internal: usize = self.instances.iter().flatten().map(|instance| instance.internal).sum();
                self.queue_position(waiter).is_some_and(|instance| instance <= self.starting_slots + internal)
            }
        }
    }

    /// A waiter's position in the line: 1 is served next. Counts the waiters that could be served before it: those of its
    /// owner that came earlier, and of every other owner as many, because owners take turns.
    pub fn queue_position(&self, waiter: &WaiterId) -> Option<usize> {
        let lines: Vec<&Line> = match waiter.key {
            Some(id) => vec![&self.waiters, &self.instance(id)?.waiters],
            None => {
                let keyed = self.instances.iter().flatten().map(|instance| &instance.waiters);
                std::iter::once(&self.waiters).chain(keyed.filter(|line| line.len() > 0)).collect()
            }
        };
        if !lines.iter().any(|line| line.contains(waiter)) {
            return None;
        }
        let own: usize = lines.iter().map(|line| line.ahead_of(waiter)).sum();
        // The first waiter of each owner, and how many it has.
        let mut owners: BTreeMap<&Owner, (&WaiterId, usize)> = BTreeMap::new();
        for (head, waiting) in lines.into_iter().flat_map(Line::heads_and_counts) {
            let (first, count) = owners.entry(&head.owner).or_insert((head, 0));
            *first = head.min(*first);
            *count += waiting;
        }
        let (own_head, _) = owners.remove(&waiter.owner)?;
        let turns = |head| own + usize::from(self.turn_of(head) < self.turn_of(own_head));
        let others: usize = owners.into_values().map(|(head, waiting)| waiting.min(turns(head))).sum();
        Some(1 + own + others)
    }
}
