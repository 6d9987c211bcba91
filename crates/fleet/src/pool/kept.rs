//! Open seats in free slots: spares, which belong to nobody yet, and seats that the last call of an owner left behind,
//! for its next one. They go with the slot when it is lent; whom they do not suit closes them.
//!
//! The right to a slot is the right to what is kept in it. So a seat is put in, and taken out, only by whoever has the
//! lease; this table is plain state.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use greenroom_core::{Agent, InstanceId, Lost, Owner, Seat, lease::Strategy};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tokio_util::task::AbortOnDropHandle;

use super::{Found, Lease, Pool};
use crate::seat;

/// The seats by slot.
#[derive(Default)]
pub(super) struct Kept {
    seats: HashMap<(InstanceId, usize), KeptSeat>,
    next: u64,
}

struct KeptSeat {
    seat: Box<dyn Seat>,
    /// Whose it is; `None` for a spare.
    owner: Option<Owner>,
    /// Tells it from others that were kept in the same slot. Later ones have greater numbers.
    number: u64,
    /// Takes it out when it dies or has not been wanted for too long.
    watch: Option<AbortOnDropHandle<()>>,
}

/// Whoever wants a slot, as far as kept seats are concerned.
pub(crate) struct Taker<'a> {
    pub(crate) owner: &'a Owner,
    pub(crate) agent: &'a dyn Agent,
    /// It is a call without a session, which may go on where the owner's last one left off.
    pub(crate) is_loose: bool,
}

impl Kept {
    /// Slots with a seat in them.
    pub(super) fn slots(&self) -> HashSet<(InstanceId, usize)> {
        self.seats.keys().copied().collect()
    }

    pub(super) fn spares(&self) -> usize {
        self.seats.values().filter(|kept| kept.owner.is_none()).count()
    }

    pub(super) fn spares_in(&self, id: InstanceId) -> usize {
        self.seats.iter().filter(|((at, _), kept)| *at == id && kept.owner.is_none()).count()
    }

    /// Whether somebody may come back to a seat in this instance.
    pub(super) fn is_resting_in(&self, id: InstanceId) -> bool {
        self.seats.iter().any(|((at, _), kept)| *at == id && kept.owner.is_some())
    }

    /// The slot with the seat that has been kept longest for this owner, or for nobody.
    pub(super) fn first_of(&self, owner: Option<&Owner>) -> Option<(InstanceId, usize)> {
        let seats =
            self.seats.iter().filter(|(_, kept)| kept.owner.as_ref() == owner && is_fine(kept.seat.as_ref()));
        seats.min_by_key(|(_, kept)| kept.number).map(|(slot, _)| *slot)
    }

    /// Takes this very seat out, if it is still there.
    fn remove_if(&mut self, slot: (InstanceId, usize), number: u64) -> Option<KeptSeat> {
        let is_this = self.seats.get(&slot).is_some_and(|kept| kept.number == number);
        if is_this { self.seats.remove(&slot) } else { None }
    }

    /// So many spares, the oldest first, with their numbers.
    fn oldest_spares(&self, count: usize) -> Vec<((InstanceId, usize), u64)> {
        let spares = self.seats.iter().filter(|(_, kept)| kept.owner.is_none());
        let mut spares: Vec<_> = spares.map(|(slot, kept)| (*slot, kept.number)).collect();
        spares.sort_by_key(|(_, number)| *number);
        spares.truncate(count);
        spares
    }

    pub(super) fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }
}

fn is_fine(seat: &dyn Seat) -> bool {
    seat.lost().borrow().is_none()
}

impl Pool {
    /// Keeps a seat in its slot and gives the slot back. A seat that cannot be kept, because it is lost or its instance is
    /// about to stop, is returned: it is to be closed, and only then is its slot free.
    pub(crate) fn keep(
        self: &Arc<Self>,
        lease: Lease,
        seat: Box<dyn Seat>,
        owner: Option<Owner>,
        longest: Option<Duration>,
    ) -> Option<(Lease, Box<dyn Seat>)> {
        let draining = lease.place.lock().draining;
        if draining || !is_fine(seat.as_ref()) || !lease.is_alive() || self.keeping.is_closing() {
            return Some((lease, seat));
        }
        let (slot, lost, is_spare) = ((lease.id, lease.slot), seat.lost(), owner.is_none());
        let number = {
            let mut kept = self.kept();
            kept.next += 1;
            let number = kept.next;
            kept.seats.insert(slot, KeptSeat { seat, owner, number, watch: None });
            number
        };
        // Its instance may have gone in this very moment, and what was kept in it been cleared out just before.
        if !lease.is_alive()
            && let Some(kept) = self.kept().remove_if(slot, number)
        {
            return Some((lease, kept.seat));
        }
        drop(lease);
        let watch = self.keeping.tasks.spawn(self.clone().watch_kept(slot, number, lost, is_spare, longest));
        let watch = AbortOnDropHandle::new(watch);
        // Taken out again already: then nobody needs to watch it.
        if let Some(kept) = self.kept().seats.get_mut(&slot).filter(|kept| kept.number == number) {
            kept.watch = Some(watch);
        }
        None
    }

    /// Takes a seat out that died or has not been wanted for too long.
    async fn watch_kept(
        self: Arc<Self>,
        slot: (InstanceId, usize),
        number: u64,
        mut lost: watch::Receiver<Option<Lost>>,
        is_spare: bool,
        longest: Option<Duration>,
    ) {
        let born = Instant::now();
        let too_long = async {
            match longest {
                Some(longest) => sleep(longest).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            why = seat::died(&mut lost) => {
                tracing::info!(pool = %self.name, instance = %slot.0, %why, is_spare, "an idle browser was lost");
                if is_spare {
                    self.spare_failed(born.elapsed(), None);
                }
            }
            () = too_long => {}
            () = self.keeping.closing() => return,
        }
        // Not in this task, which ends when the seat is taken out.
        self.keeping.tasks.spawn(self.clone().clear(slot, number));
    }

    /// Takes what is kept in a leased slot.
    pub(super) fn find(&self, lease: &Lease, taker: &Taker<'_>, spare_suits: bool) -> Found {
        let Some(KeptSeat { mut seat, owner, .. }) = self.kept().seats.remove(&(lease.id, lease.slot)) else {
            return Found::Nothing;
        };
        if owner.is_none() {
            // Whatever crashed in a spare was no page of whoever gets it.
            seat.take_crashes();
        }
        let suits = match &owner {
            None => spare_suits,
            Some(owner) => taker.is_loose && owner == taker.owner,
        };
        let is_fine = is_fine(seat.as_ref());
        match owner {
            None => self.spare_taken(suits),
            Some(owner) if !is_fine => self.kind.seat_lost(owner, seat.as_ref(), None),
            Some(owner) if !suits => self.kind.tab_closed(owner, "a session took the browser"),
            Some(_) => {}
        }
        if suits && is_fine { Found::Seat(seat) } else { Found::Leftover(seat) }
    }

    /// The free slot that serves this one best, where the pool may choose.
    pub(super) fn prefer(&self, taker: &Taker<'_>, spare_suits: bool) -> Option<(InstanceId, usize)> {
        let kept = self.kept();
        if kept.is_empty() {
            return None;
        }
        let chooses = self.kind.chooses_slots();
        if taker.is_loose
            && chooses
            && let Some(own) = kept.first_of(Some(taker.owner))
        {
            return Some(own);
        }
        // Whoever chose another strategy for a declared pool gets what that chooses, open or not.
        if spare_suits
            && (chooses || self.instances.settings().strategy == Strategy::Fifo)
            && let Some(spare) = kept.first_of(None)
        {
            return Some(spare);
        }
        // Rather a slot with nothing in it than one that somebody may come back to.
        let used = kept.slots();
        drop(kept);
        if chooses {
            self.instances.queue.with(|ledger| ledger.find_free(|id, slot| !used.contains(&(id, slot))))
        } else {
            None
        }
    }

    /// Closes a seat that is kept in a free slot, if it is still there.
    async fn clear(self: Arc<Self>, slot: (InstanceId, usize), number: u64) {
        let lease = self.instances.queue.take(slot.0, slot.1);
        let Some(lease) = lease.and_then(|lease| self.instances.lease(lease)) else { return };
        let kept = self.kept().remove_if(slot, number);
        if let Some(KeptSeat { seat, owner, .. }) = kept {
            match owner {
                Some(owner) if is_fine(seat.as_ref()) => {
                    self.kind.tab_closed(owner, "it was not used for too long");
                }
                Some(owner) => self.kind.seat_lost(owner, seat.as_ref(), None),
                None => {}
            }
            seat::close(seat).await;
        }
        drop(lease);
    }

    /// Closes spares that are not wanted any more.
    pub(super) fn give_up_spares(self: &Arc<Self>, count: usize) {
        let surplus = self.kept().oldest_spares(count);
        for (slot, number) in surplus {
            self.keeping.tasks.spawn(self.clone().clear(slot, number));
        }
    }

    /// Closes every seat that is kept in such instances, which lend nothing any more: because they were lost, or not.
    pub(super) async fn clear_out(&self, of: impl Fn(InstanceId) -> bool, lost: Option<&str>) {
        let seats: Vec<_> = self.kept().seats.extract_if(|(id, _), _| of(*id)).collect();
        let mut closing = tokio::task::JoinSet::new();
        for (_, KeptSeat { seat, owner, .. }) in seats {
            if let (Some(owner), Some(why)) = (owner, lost) {
                self.kind.seat_lost(owner, seat.as_ref(), Some(why));
            }
            closing.spawn(seat::close(seat));
        }
        while closing.join_next().await.is_some() {}
    }
}
