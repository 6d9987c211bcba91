//! Read-only views of a ledger.

use std::collections::BTreeSet;

use super::{
    Figures, LeaseId, Ledger, WaiterId,
    instance_slots::{Phase, Place, Slot},
    ledger::{index, number},
};
use crate::id::InstanceId;

impl Ledger {
    pub fn figures(&self) -> Figures {
        let places = || self.places.iter().flatten();
        Figures {
            instances: places()
                .filter(|place| !matches!(place.phase, Phase::Cold | Phase::Down { .. }))
                .count(),
            leased: places().map(|place| place.lent).sum(),
            slots: places()
                .map(|place| if place.is_hopeful() { place.slots.len() } else { place.lent })
                .sum(),
            waiting: self.waiting,
        }
    }

    /// How many slots of an instance are leased to callers, and how many it has.
    pub fn lent(&self, id: InstanceId) -> (usize, usize) {
        self.place(id).map_or((0, 0), |place| (place.lent, place.slots.len()))
    }

    /// How many slots of an instance are taken, by callers or for internal use.
    pub fn out(&self, id: InstanceId) -> usize {
        self.place(id).map_or(0, Place::out)
    }

    /// Whether an instance is being started, or about to be.
    pub fn is_starting(&self, id: InstanceId) -> bool {
        self.place(id).is_some_and(|place| place.phase == Phase::Starting)
    }

    /// Whether an instance leases nothing because it did not answer.
    pub fn is_withheld(&self, id: InstanceId) -> bool {
        self.place(id).is_some_and(|place| place.phase == Phase::Withheld)
    }

    /// The instances that lease nothing because they did not answer.
    pub fn withheld(&self) -> impl Iterator<Item = InstanceId> {
        let is_withheld =
            |place: &Option<Place>| place.as_ref().is_some_and(|place| place.phase == Phase::Withheld);
        let numbered = self.places.iter().enumerate();
        numbered.filter(move |(_, place)| is_withheld(place)).filter_map(|(at, _)| number(at))
    }

    /// Whether a lease is still valid.
    pub fn is_valid(&self, lent: LeaseId) -> bool {
        let slot = self.place(lent.instance).and_then(|place| place.slots.get(lent.slot));
        matches!(slot, Some(Slot::Out { serial, .. }) if *serial == lent.serial)
    }

    /// Whether no instance will lease anything: all have failed too often, or are drained.
    pub fn can_never_lease(&self) -> bool {
        self.hopeful == 0
    }

    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many slots could be leased at once.
    pub fn room(&self) -> usize {
        self.free.iter().count()
    }

    /// How many slots of this instance could be leased at once.
    pub fn room_in(&self, id: InstanceId) -> usize {
        self.free.of(index(id)).count()
    }

    /// Whether room is being made for this waiter: an instance is being started, or the internal use of a slot is about to
    /// end.
    pub fn is_coming(&self, waiter: WaiterId) -> bool {
        let is_made = |place: &Place| place.phase == Phase::Starting || place.upkeep > 0;
        match waiter.key {
            Some(id) => self.place(id).is_some_and(is_made),
            None => {
                let upkeep: usize = self.places.iter().flatten().map(|place| place.upkeep).sum();
                self.place_in_line(waiter).is_some_and(|place| place <= self.coming + upkeep)
            }
        }
    }

    /// A waiter's position in the line: 1 is served next. Counts the waiters that could be served before it.
    pub fn place_in_line(&self, waiter: WaiterId) -> Option<usize> {
        let earlier = |line: &BTreeSet<WaiterId>| line.range(..waiter).count();
        match waiter.key {
            Some(id) => {
                let own = &self.place(id)?.line;
                own.contains(&waiter).then(|| 1 + earlier(own) + earlier(&self.line))
            }
            None => self.line.contains(&waiter).then(|| {
                let keyed = self.places.iter().flatten().map(|place| earlier(&place.line));
                1 + earlier(&self.line) + keyed.sum::<usize>()
            }),
        }
    }
}
