//! The lease ledger: which slots of which instances are lent, and who waits. A pure state machine; the fleet wraps it
//! with a mutex and wakers.
//!
//! A slot that comes back goes to whoever has waited longest for it: for any slot, or for one of this very instance.
//! Nobody overtakes. Only an instance that runs lends; one that is gone takes its leases with it, and what is still
//! returned to it is void. Instances that are not needed yet are cold, and the ledger says when one is to be started.
//!
//! Asking, returning and giving up cost the same however many instances there are and however many wait.

mod bits;
mod free;
mod line;
mod lists;
#[cfg(test)]
mod random;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, VecDeque};

use self::{free::Free, line::Line};
use crate::id::InstanceId;

pub use self::free::SLOTS_MAX;

/// The most instances a pool can have.
pub const INSTANCES_MAX: usize = 1024;

const _: () = assert!(INSTANCES_MAX <= bits::Bits::MAX && SLOTS_MAX < bits::Bits::MAX);

/// How many callers' last slots are remembered. One costs some 50 bytes; who is forgotten gets any slot.
const REMEMBERED_MAX: usize = 4096;

/// Which free slot is lent to somebody who takes any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// The one that was returned first.
    #[default]
    Fifo,
    /// One of the next instance, in turn.
    RoundRobin,
    /// One of the instance with the fewest leases.
    LeastUsed,
    /// The one that the same caller had last; else the one that was returned first.
    Sticky,
    /// One of the first instance with room, so that later ones can empty.
    Fill,
}

/// A place in the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaiterId {
    ticket: u64,
    /// The instance that it has to be.
    key: Option<InstanceId>,
}

/// What somebody asks for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Want {
    /// A slot of this instance and no other.
    pub key: Option<InstanceId>,
    /// This slot, if it is free.
    pub prefer: Option<(InstanceId, usize)>,
    /// Who asks, for [`Strategy::Sticky`].
    pub caller: Option<u64>,
}

/// A slot that is lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lent {
    pub instance: InstanceId,
    pub slot: usize,
    /// No two leases have the same: one that was given back, or whose instance is gone, is void.
    serial: u64,
}

/// What a request for a slot comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    Lent(Lent),
    /// All slots are lent: wait for a [`Grant`].
    Wait(WaiterId),
    Refused(Refused),
}

/// Why there is nothing to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The instance that it has to be is no longer there.
    Gone(InstanceId),
    /// It lends nothing more.
    Draining(InstanceId),
    /// It failed.
    Failed(InstanceId),
    /// No instance of the pool will lend anything.
    Hopeless,
}

/// A slot handed to somebody who waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    pub waiter: WaiterId,
    pub lent: Lent,
}

/// What a change means to those who wait.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub granted: Vec<Grant>,
    pub refused: Vec<(WaiterId, Refused)>,
}

/// Whether an instance that is gone comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hope {
    /// When somebody needs it.
    OnDemand,
    /// By itself.
    Soon,
    /// Not unless it is told to.
    None,
}

/// What a slot is wanted for that nobody asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spared {
    Slot(Lent),
    /// There will be room as soon as an instance has started.
    Soon,
    NoRoom,
}

/// How full a pool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Instances that run or are being started.
    pub instances: usize,
    /// Slots lent to callers.
    pub leased: usize,
    /// Slots there are when every instance runs; of those that lend nothing more, the ones that are out.
    pub slots: usize,
    pub waiting: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Started when it is needed.
    Cold,
    Starting,
    Open,
    /// It is gone.
    Down {
        back: bool,
    },
    /// It lends nothing more; what is lent stays lent.
    Draining {
        back: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Free,
    Out { serial: u64, to: To },
}

/// Who has a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum To {
    Caller,
    /// It prepares the slot, or clears it up.
    House,
}

#[derive(Debug)]
struct Place {
    phase: Phase,
    slots: Vec<Slot>,
    /// Slots lent to callers, and to the house.
    lent: usize,
    upkeep: usize,
    /// Those who want this instance and no other.
    line: Line,
}

impl Place {
    fn out(&self) -> usize {
        self.lent + self.upkeep
    }

    fn is_hopeful(&self) -> bool {
        !matches!(self.phase, Phase::Down { back: false } | Phase::Draining { back: false })
    }
}

#[derive(Debug)]
pub struct Ledger {
    strategy: Strategy,
    /// By number; one that was removed leaves its number free.
    places: Vec<Option<Place>>,
    free: Free,
    /// Those who take any slot.
    line: Line,
    /// How many wait in all lines.
    waiting: usize,
    /// Numbers waiters and leases.
    next_ticket: u64,
    cold: BTreeSet<usize>,
    /// Slots of instances that are being started.
    coming: usize,
    to_start: VecDeque<InstanceId>,
    /// How many instances may yet lend something.
    hopeful: usize,
    last_slots: HashMap<u64, (InstanceId, usize)>,
}

impl Ledger {
    pub fn new(strategy: Strategy) -> Self {
        Self {
            strategy,
            places: Vec::new(),
            free: Free::default(),
            line: Line::default(),
            waiting: 0,
            next_ticket: 0,
            cold: BTreeSet::new(),
            coming: 0,
            to_start: VecDeque::new(),
            hopeful: 0,
            last_slots: HashMap::new(),
        }
    }

    pub fn set_strategy(&mut self, strategy: Strategy) {
        self.strategy = strategy;
    }

    /// Adds an instance with the lowest number that is free: cold, or about to be started. `None` if the pool is as big
    /// as pools get.
    pub fn add(&mut self, slots: usize, cold: bool) -> Option<InstanceId> {
        let at = self.places.iter().position(Option::is_none).unwrap_or(self.places.len());
        let id = u32::try_from(at).ok().filter(|_| at < INSTANCES_MAX).map(InstanceId)?;
        let slots = slots.clamp(1, SLOTS_MAX);
        let place = Place {
            phase: Phase::Down { back: false },
            slots: vec![Slot::Free; slots],
            lent: 0,
            upkeep: 0,
            line: Line::default(),
        };
        if at == self.places.len() {
            self.places.push(None);
        }
        self.places[at] = Some(place);
        self.enter(id, if cold { Phase::Cold } else { Phase::Starting });
        self.start_if_short();
        Some(id)
    }

    /// Asks for one slot.
    pub fn ask(&mut self, want: Want) -> Asked {
        if let Some(refused) = self.refusal(want.key) {
            return Asked::Refused(refused);
        }
        if let Some((instance, slot)) = self.choose(want) {
            return Asked::Lent(self.lend(instance, slot, want.caller));
        }
        let waiter = WaiterId { ticket: self.next_ticket, key: want.key };
        self.next_ticket += 1;
        self.wait(waiter, Line::join);
        Asked::Wait(waiter)
    }

    /// Asks once more for somebody who was granted a slot that turned out to be worth nothing: before all others.
    pub fn ask_again(&mut self, waiter: WaiterId) -> Asked {
        if let Some(refused) = self.refusal(waiter.key) {
            return Asked::Refused(refused);
        }
        if let Some((instance, slot)) = self.choose(Want { key: waiter.key, ..Want::default() }) {
            return Asked::Lent(self.lend(instance, slot, None));
        }
        self.wait(waiter, Line::rejoin);
        Asked::Wait(waiter)
    }

    /// Takes this slot for the house, if it is free.
    pub fn take(&mut self, instance: InstanceId, slot: usize) -> Option<Lent> {
        if !self.free.take(index(instance), slot) {
            return None;
        }
        Some(self.mark(instance, slot, To::House))
    }

    /// Takes a slot that `suits` for the house, the next one by the strategy; makes nobody wait for it. With no such
    /// slot an instance is started that will have one, if there is a cold one.
    pub fn spare(&mut self, suits: impl Fn(InstanceId, usize) -> bool) -> Spared {
        if let Some((id, slot)) = self.find_free(suits)
            && let Some(lent) = self.take(id, slot)
        {
            return Spared::Slot(lent);
        }
        if self.coming > self.line.len() {
            return Spared::Soon;
        }
        if self.start_one() { Spared::Soon } else { Spared::NoRoom }
    }

    /// The free slot that `suits` and that the strategy would lend next. Looks at one after the other.
    pub fn find_free(&self, suits: impl Fn(InstanceId, usize) -> bool) -> Option<(InstanceId, usize)> {
        let named = |(at, slot)| Some((number(at)?, slot));
        let suits = |found: &(InstanceId, usize)| suits(found.0, found.1);
        match self.strategy {
            Strategy::Fill => {
                let slots = |at| self.free.of(at).map(move |slot| (at, slot));
                (0..self.places.len()).flat_map(slots).filter_map(named).find(suits)
            }
            _ => self.free.iter().filter_map(named).find(suits),
        }
    }

    /// Changes how many slots an instance has that has none out.
    pub fn resize(&mut self, id: InstanceId, slots: usize) {
        let slots = slots.clamp(1, SLOTS_MAX);
        let Some(phase) = self.place(id).filter(|place| place.out() == 0).map(|place| place.phase) else {
            return;
        };
        if matches!(phase, Phase::Open | Phase::Draining { .. }) {
            return;
        }
        let was_chosen = self.to_start.contains(&id);
        self.leave_phase(id);
        if let Some(place) = self.place_mut(id) {
            place.slots = vec![Slot::Free; slots];
        }
        self.enter(id, phase);
        if was_chosen {
            self.to_start.push_back(id);
        }
    }

    /// Notes who has a slot, for [`Strategy::Sticky`]: of somebody who had to wait for it.
    pub fn remember(&mut self, caller: u64, lent: Lent) {
        if self.strategy != Strategy::Sticky {
            return;
        }
        if self.last_slots.len() >= REMEMBERED_MAX {
            self.last_slots.clear();
        }
        self.last_slots.insert(caller, (lent.instance, lent.slot));
    }

    /// A slot comes back; who has waited longest for it gets it.
    pub fn give_back(&mut self, lent: Lent) -> Option<Grant> {
        let at = index(lent.instance);
        let place = self.places.get_mut(at)?.as_mut()?;
        let before = place.out();
        let slot = place.slots.get_mut(lent.slot)?;
        match *slot {
            Slot::Out { serial, to: To::Caller } if serial == lent.serial => place.lent -= 1,
            Slot::Out { serial, to: To::House } if serial == lent.serial => place.upkeep -= 1,
            Slot::Out { .. } | Slot::Free => return None,
        }
        *slot = Slot::Free;
        if place.phase != Phase::Open {
            return None;
        }
        self.free.put(at, lent.slot);
        self.free.set_load(at, before, Some(before - 1));
        self.serve_one(at)
    }

    /// A waiter gave up.
    pub fn forget(&mut self, waiter: WaiterId) {
        let left = match waiter.key {
            None => self.line.leave(waiter),
            Some(id) => self.place_mut(id).is_some_and(|place| place.line.leave(waiter)),
        };
        if left {
            self.waiting -= 1;
        }
    }

    /// The instance that is to be started next, if one is. It counts as being started from when it was chosen.
    pub fn take_start(&mut self) -> Option<InstanceId> {
        self.to_start.pop_front()
    }

    /// An instance that was down or draining is about to be started again.
    pub fn starting(&mut self, id: InstanceId) {
        self.end_life(id);
        self.enter(id, Phase::Starting);
    }

    /// The instance runs: all its slots are free.
    pub fn started(&mut self, id: InstanceId) -> Changes {
        self.end_life(id);
        self.enter(id, Phase::Open);
        let at = index(id);
        let Some(place) = self.place_mut(id) else { return Changes::default() };
        let slots = place.slots.len();
        (0..slots).for_each(|slot| self.free.put(at, slot));
        self.free.set_load(at, 0, Some(0));
        let granted = std::iter::from_fn(|| self.serve_one(at)).collect();
        // Its slots may have gone to those who wanted no other.
        self.start_if_short();
        Changes { granted, refused: Vec::new() }
    }

    /// The instance is gone, or could not be started. Its leases are void, and those who wait for it alone hear so.
    pub fn lost(&mut self, id: InstanceId, hope: Hope) -> Changes {
        self.end_life(id);
        let phase = match hope {
            Hope::OnDemand => Phase::Cold,
            Hope::Soon => Phase::Down { back: true },
            Hope::None => Phase::Down { back: false },
        };
        self.enter(id, phase);
        let mut refused = self.refuse_keyed(id, Refused::Failed(id));
        refused.extend(self.refuse_the_hopeless());
        self.start_if_short();
        Changes { granted: Vec::new(), refused }
    }

    /// Nobody can be served by starting something: those who wait for any slot hear so now.
    pub fn refuse_all(&mut self) -> Vec<WaiterId> {
        let refused: Vec<_> = std::iter::from_fn(|| self.line.serve_first()).collect();
        self.waiting -= refused.len();
        refused
    }

    /// The instance lends nothing more. Those who wait for it alone hear so, unless it comes back.
    pub fn drain(&mut self, id: InstanceId, back: bool) -> Changes {
        match self.place(id).map(|place| place.phase) {
            Some(Phase::Open) => self.clear_free(id),
            Some(Phase::Draining { .. }) => {}
            _ => self.end_life(id),
        }
        self.enter(id, Phase::Draining { back });
        let mut refused = if back { Vec::new() } else { self.refuse_keyed(id, Refused::Draining(id)) };
        refused.extend(self.refuse_the_hopeless());
        self.start_if_short();
        Changes { granted: Vec::new(), refused }
    }

    /// An instance that was to lend nothing more lends again.
    pub fn reopen(&mut self, id: InstanceId) -> Changes {
        let at = index(id);
        let Some(place) = self.place(id).filter(|place| matches!(place.phase, Phase::Draining { .. })) else {
            return Changes::default();
        };
        let out = place.out();
        let is_free = |(slot, state): (usize, &Slot)| (*state == Slot::Free).then_some(slot);
        let free: Vec<_> = place.slots.iter().enumerate().filter_map(is_free).collect();
        self.enter(id, Phase::Open);
        free.iter().for_each(|slot| self.free.put(at, *slot));
        self.free.set_load(at, out, (!free.is_empty()).then_some(out));
        let granted = std::iter::from_fn(|| self.serve_one(at)).collect();
        self.start_if_short();
        Changes { granted, refused: Vec::new() }
    }

    /// Makes an instance cold that nobody has a slot of. Says whether it did.
    pub fn retire(&mut self, id: InstanceId) -> bool {
        let idle = self.place(id).is_some_and(|place| place.phase == Phase::Open && place.out() == 0);
        if idle {
            self.end_life(id);
            self.enter(id, Phase::Cold);
        }
        idle
    }

    /// Takes an instance out of the pool, whatever it does. Its number is free again.
    pub fn remove(&mut self, id: InstanceId) -> Changes {
        self.end_life(id);
        self.leave_phase(id);
        let mut refused = self.refuse_keyed(id, Refused::Gone(id));
        if let Some(place) = self.places.get_mut(index(id)) {
            *place = None;
        }
        while self.places.last().is_some_and(Option::is_none) {
            self.places.pop();
        }
        refused.extend(self.refuse_the_hopeless());
        self.start_if_short();
        Changes { granted: Vec::new(), refused }
    }

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

    /// Slots of an instance that are lent to callers, and how many it has.
    pub fn lent(&self, id: InstanceId) -> (usize, usize) {
        self.place(id).map_or((0, 0), |place| (place.lent, place.slots.len()))
    }

    /// Slots of an instance that anybody has, the house included.
    pub fn out(&self, id: InstanceId) -> usize {
        self.place(id).map_or(0, Place::out)
    }

    /// Whether an instance is being started, or about to be.
    pub fn is_starting(&self, id: InstanceId) -> bool {
        self.place(id).is_some_and(|place| place.phase == Phase::Starting)
    }

    /// Whether a lease is still worth something.
    pub fn is_valid(&self, lent: Lent) -> bool {
        let slot = self.place(lent.instance).and_then(|place| place.slots.get(lent.slot));
        matches!(slot, Some(Slot::Out { serial, .. }) if *serial == lent.serial)
    }

    /// Whether no instance will lend anything, unless it is told to.
    pub fn is_hopeless(&self) -> bool {
        self.hopeful == 0
    }

    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many slots could be lent at once.
    pub fn room(&self) -> usize {
        self.free.iter().count()
    }

    /// How many slots of this instance could be lent at once.
    pub fn room_in(&self, id: InstanceId) -> usize {
        self.free.of(index(id)).count()
    }

    /// Whether room is being made for somebody who waits: an instance is being started, or the house is about to be done
    /// with a slot.
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

    /// Where somebody stands who waits: 1 is served next. Those count who could be served before.
    pub fn place_in_line(&self, waiter: WaiterId) -> Option<usize> {
        let earlier = |line: &Line| line.iter().filter(|other| *other < waiter).count();
        let contains = |line: &Line| line.contains(waiter);
        match waiter.key {
            Some(id) => {
                let own = &self.place(id)?.line;
                contains(own).then(|| 1 + earlier(own) + earlier(&self.line))
            }
            None => contains(&self.line).then(|| {
                let keyed = self.places.iter().flatten().map(|place| earlier(&place.line));
                1 + earlier(&self.line) + keyed.sum::<usize>()
            }),
        }
    }

    fn place(&self, id: InstanceId) -> Option<&Place> {
        self.places.get(index(id))?.as_ref()
    }

    fn place_mut(&mut self, id: InstanceId) -> Option<&mut Place> {
        self.places.get_mut(index(id))?.as_mut()
    }

    fn refusal(&self, key: Option<InstanceId>) -> Option<Refused> {
        let Some(id) = key else { return self.is_hopeless().then_some(Refused::Hopeless) };
        let Some(place) = self.place(id) else { return Some(Refused::Gone(id)) };
        match place.phase {
            Phase::Down { back: false } => Some(Refused::Failed(id)),
            Phase::Draining { back: false } => Some(Refused::Draining(id)),
            _ => None,
        }
    }

    /// A free slot. There is none while somebody waits who could have it.
    fn choose(&mut self, want: Want) -> Option<(InstanceId, usize)> {
        if let Some(id) = want.key {
            let preferred = want.prefer.filter(|(instance, slot)| *instance == id && self.is_free(id, *slot));
            return preferred.or_else(|| Some((id, self.free.first_of(index(id))?)));
        }
        let is_free = |(id, slot): &(InstanceId, usize)| self.is_free(*id, *slot);
        let last = || {
            want.caller
                .filter(|_| self.strategy == Strategy::Sticky)
                .and_then(|caller| self.last_slots.get(&caller).copied())
        };
        if let Some(found) = want.prefer.filter(is_free).or_else(|| last().filter(is_free)) {
            return Some(found);
        }
        let (at, slot) = self.free.next(self.strategy)?;
        Some((number(at)?, slot))
    }

    fn is_free(&self, id: InstanceId, slot: usize) -> bool {
        self.place(id)
            .is_some_and(|place| place.phase == Phase::Open && place.slots.get(slot) == Some(&Slot::Free))
    }

    fn lend(&mut self, id: InstanceId, slot: usize, caller: Option<u64>) -> Lent {
        self.free.take(index(id), slot);
        let lent = self.mark(id, slot, To::Caller);
        if let Some(caller) = caller {
            self.remember(caller, lent);
        }
        lent
    }

    /// Notes who has a slot that was just taken.
    fn mark(&mut self, id: InstanceId, slot: usize, to: To) -> Lent {
        let (at, serial) = (index(id), self.next_ticket);
        self.next_ticket += 1;
        if let Some(place) = self.places.get_mut(at).and_then(Option::as_mut) {
            let before = place.out();
            if let Some(slot) = place.slots.get_mut(slot) {
                *slot = Slot::Out { serial, to };
            }
            match to {
                To::Caller => place.lent += 1,
                To::House => place.upkeep += 1,
            }
            let load = (place.out() < place.slots.len()).then_some(before + 1);
            self.free.set_load(at, before, load);
        }
        Lent { instance: id, slot, serial }
    }

    fn wait(&mut self, waiter: WaiterId, join: fn(&mut Line, WaiterId)) {
        self.waiting += 1;
        match waiter.key {
            None => join(&mut self.line, waiter),
            Some(id) => {
                if let Some(place) = self.place_mut(id) {
                    join(&mut place.line, waiter);
                    if place.phase == Phase::Cold {
                        self.enter(id, Phase::Starting);
                        self.to_start.push_back(id);
                    }
                }
            }
        }
        self.start_if_short();
    }

    /// Hands a free slot of the instance to whoever has waited longest for it.
    fn serve_one(&mut self, at: usize) -> Option<Grant> {
        let id = number(at)?;
        let slot = self.free.first_of(at)?;
        let place = self.places.get_mut(at)?.as_mut()?;
        let waiter = match (self.line.first(), place.line.first()) {
            (Some(any), Some(keyed)) if any < keyed => self.line.serve_first(),
            (_, Some(_)) => place.line.serve_first(),
            (Some(_), None) => self.line.serve_first(),
            (None, None) => None,
        }?;
        self.waiting -= 1;
        Some(Grant { waiter, lent: self.lend(id, slot, None) })
    }

    /// Changes an instance's phase, and what follows from it for the sums.
    fn enter(&mut self, id: InstanceId, phase: Phase) {
        self.leave_phase(id);
        let Some(place) = self.place_mut(id) else { return };
        place.phase = phase;
        let (slots, hopeful) = (place.slots.len(), place.is_hopeful());
        self.hopeful += usize::from(hopeful);
        match phase {
            Phase::Cold => {
                self.cold.insert(index(id));
            }
            Phase::Starting => self.coming += slots,
            Phase::Open | Phase::Down { .. } | Phase::Draining { .. } => {}
        }
    }

    fn leave_phase(&mut self, id: InstanceId) {
        let Some(place) = self.place_mut(id) else { return };
        let (phase, slots, hopeful) = (place.phase, place.slots.len(), place.is_hopeful());
        // Counted nowhere until it enters another.
        place.phase = Phase::Down { back: false };
        self.hopeful -= usize::from(hopeful);
        match phase {
            Phase::Cold => {
                self.cold.remove(&index(id));
            }
            Phase::Starting => {
                self.coming -= slots;
                self.to_start.retain(|other| *other != id);
            }
            Phase::Open | Phase::Down { .. } | Phase::Draining { .. } => {}
        }
    }

    /// Voids every lease of the instance.
    fn end_life(&mut self, id: InstanceId) {
        self.clear_free(id);
        let Some(place) = self.place_mut(id) else { return };
        place.slots.fill(Slot::Free);
        (place.lent, place.upkeep) = (0, 0);
    }

    /// Takes the instance's free slots out of what can be lent.
    fn clear_free(&mut self, id: InstanceId) {
        let Some(place) = self.place(id) else { return };
        let (slots, out) = (place.slots.len(), place.out());
        for slot in 0..slots {
            self.free.take(index(id), slot);
        }
        self.free.set_load(index(id), out, None);
    }

    fn refuse_keyed(&mut self, id: InstanceId, why: Refused) -> Vec<(WaiterId, Refused)> {
        let Some(place) = self.place_mut(id) else { return Vec::new() };
        let refused: Vec<_> =
            std::iter::from_fn(|| place.line.serve_first()).map(|waiter| (waiter, why)).collect();
        self.waiting -= refused.len();
        refused
    }

    fn refuse_the_hopeless(&mut self) -> Vec<(WaiterId, Refused)> {
        if !self.is_hopeless() {
            return Vec::new();
        }
        self.refuse_all().into_iter().map(|waiter| (waiter, Refused::Hopeless)).collect()
    }

    /// Starts cold instances as long as more wait than those that are being started will have room for.
    fn start_if_short(&mut self) {
        while self.line.len() > self.coming && self.start_one() {}
    }

    fn start_one(&mut self) -> bool {
        let Some(id) = self.cold.first().and_then(|at| number(*at)) else { return false };
        self.enter(id, Phase::Starting);
        self.to_start.push_back(id);
        true
    }
}

fn index(id: InstanceId) -> usize {
    id.0 as usize
}

fn number(at: usize) -> Option<InstanceId> {
    u32::try_from(at).ok().map(InstanceId)
}
