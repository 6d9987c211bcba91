//! Open seats in free slots: spares, which have no owner yet, and seats that an owner's last call without a session left
//! for its next one. The caller that leases a slot gets the seat in it, and closes a seat that does not suit.
//!
//! The lease on a slot is also the right to the seat in it: only the holder of the lease puts a seat in or takes it
//! out. The table itself is plain state.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use greenroom_core::{InstanceId, Lost, Owner, Seat, lease::Strategy};
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle, task::TaskTracker};

use super::{
    AcquireRequest, Lease, acquire::SlotContents, instances::Instances, lock, lost_seats::LostSeats,
};
use crate::seat;

type SlotId = (InstanceId, usize);

pub(crate) struct IdleSeats {
    instances: Arc<Instances>,
    seats: Mutex<SeatTable>,
    pub(super) lost_seats: LostSeats,
    /// Cancelled when the pool keeps no more idle seats.
    pub(super) closing: CancellationToken,
    /// Tasks that watch, open or close a seat that no session holds.
    pub(super) tasks: TaskTracker,
}

#[derive(Default)]
struct SeatTable {
    by_slot: HashMap<SlotId, IdleSeat>,
    last_number: u64,
}

struct IdleSeat {
    seat: Box<dyn Seat>,
    /// The seat's owner; `None` for a spare.
    owner: Option<Owner>,
    /// Tells this seat from earlier and later ones in the same slot. Later seats have greater numbers.
    number: u64,
    /// Removes the seat when it dies or has been idle for too long.
    watch: Option<AbortOnDropHandle<()>>,
}

/// For whom a seat is kept.
pub(super) enum KeptFor {
    /// The pool keeps it for this owner's next call without a session, for at most this long.
    Owner(Owner, Duration),
    /// The pool keeps it for any caller, as a spare. If the seat dies, the pool calls the function with how
    /// long it lived.
    Anyone(Box<dyn FnOnce(Duration) + Send + Sync>),
}

impl SeatTable {
    /// The slot with the seat that has been kept longest for this owner; with `None`, the oldest spare. Only in the
    /// instances that `of` selects.
    fn first_of(&self, owner: Option<&Owner>, of: impl Fn(InstanceId) -> bool) -> Option<SlotId> {
        let seats = self
            .by_slot
            .iter()
            .filter(|((id, _), idle)| idle.owner.as_ref() == owner && is_not_lost(&*idle.seat) && of(*id));
        seats.min_by_key(|(_, idle)| idle.number).map(|(slot, _)| *slot)
    }

    /// Takes out the seat with this number, if it is still in the slot.
    fn remove_if(&mut self, slot: SlotId, number: u64) -> Option<IdleSeat> {
        let is_this = self.by_slot.get(&slot).is_some_and(|idle| idle.number == number);
        if is_this { self.by_slot.remove(&slot) } else { None }
    }
}

fn is_not_lost(seat: &dyn Seat) -> bool {
    seat.lost().borrow().is_none()
}

impl IdleSeats {
    pub(super) fn new(instances: Arc<Instances>) -> Arc<Self> {
        Arc::new(Self {
            seats: Mutex::default(),
            lost_seats: LostSeats::new(instances.kind.browser(), instances.settings().local_only),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
            instances,
        })
    }

    fn lock(&self) -> MutexGuard<'_, SeatTable> {
        lock(&self.seats)
    }

    /// How many spares there are in the instances that `of` selects.
    pub(super) fn spares(&self, of: impl Fn(InstanceId) -> bool) -> usize {
        self.lock().by_slot.iter().filter(|((id, _), idle)| of(*id) && idle.owner.is_none()).count()
    }

    /// The slots that have an idle seat.
    pub(super) fn slots(&self) -> HashSet<SlotId> {
        self.lock().by_slot.keys().copied().collect()
    }

    /// Whether an instance has a seat that is kept for an owner.
    pub(super) fn has_owner_in(&self, id: InstanceId) -> bool {
        self.lock().by_slot.iter().any(|((at, _), idle)| *at == id && idle.owner.is_some())
    }

    /// Whether the seat in this slot is a spare.
    pub(super) fn has_spare(&self, lease: &Lease) -> bool {
        self.lock().by_slot.get(&lease.slot()).is_some_and(|idle| idle.owner.is_none())
    }

    /// Keeps a seat in its slot and gives the slot back. A seat that cannot be kept, because it is lost or its instance is
    /// about to stop, is returned: the caller closes it and then gives the slot back.
    pub(super) fn keep(
        self: &Arc<Self>,
        lease: Lease,
        seat: Box<dyn Seat>,
        kept_for: KeptFor,
    ) -> Option<(Lease, Box<dyn Seat>)> {
        let draining = lease.instance_slot.lock().draining;
        if draining || !is_not_lost(&*seat) || !lease.is_alive() || self.closing.is_cancelled() {
            return Some((lease, seat));
        }
        let slot = lease.slot();
        let lost = seat.lost();
        let owner = match &kept_for {
            KeptFor::Owner(owner, _) => Some(owner.clone()),
            KeptFor::Anyone(_) => None,
        };
        let number = {
            let mut seats = self.lock();
            seats.last_number += 1;
            let number = seats.last_number;
            seats.by_slot.insert(slot, IdleSeat { seat, owner, number, watch: None });
            number
        };
        // The instance may be gone by now. `close_in` then ran before this seat was in the table, and did not
        // close it.
        if !lease.is_alive()
            && let Some(idle) = self.lock().remove_if(slot, number)
        {
            return Some((lease, idle.seat));
        }
        drop(lease);
        let watch = self.tasks.spawn(self.clone().watch(slot, number, lost, kept_for));
        let watch = AbortOnDropHandle::new(watch);
        // A caller may have taken the seat out already; it then needs no watch.
        if let Some(idle) = self.lock().by_slot.get_mut(&slot).filter(|idle| idle.number == number) {
            idle.watch = Some(watch);
        }
        None
    }

    /// Removes a seat that died or has been idle for too long.
    async fn watch(
        self: Arc<Self>,
        slot: SlotId,
        number: u64,
        mut lost: watch::Receiver<Option<Lost>>,
        kept_for: KeptFor,
    ) {
        let born = Instant::now();
        let too_long = async {
            match &kept_for {
                KeptFor::Owner(_, longest) => sleep(*longest).await,
                KeptFor::Anyone(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            why = seat::died(&mut lost) => {
                let pool = &self.instances.name;
                let is_spare = matches!(kept_for, KeptFor::Anyone(_));
                tracing::info!(%pool, instance = %slot.0, %why, is_spare, "an idle browser was lost");
                if let KeptFor::Anyone(on_lost) = kept_for {
                    on_lost(born.elapsed());
                }
            }
            () = too_long => {}
            () = self.closing.cancelled() => return,
        }
        // `close_one` takes the seat out, which aborts this task; so it runs in another one.
        self.tasks.spawn(self.clone().close_one(slot, number));
    }

    /// Takes the idle seat out of a leased slot.
    pub(super) fn take(&self, lease: &Lease, request: &AcquireRequest, spare_suits: bool) -> SlotContents {
        let Some(IdleSeat { mut seat, owner, .. }) = self.lock().by_slot.remove(&lease.slot()) else {
            return SlotContents::Nothing;
        };
        if owner.is_none() {
            // A page that crashed in a spare was not the new caller's, who must get no note about it.
            seat.take_crashes();
        }
        let suits = match &owner {
            None => spare_suits,
            Some(owner) => request.is_ephemeral && *owner == request.owner,
        };
        if suits && is_not_lost(&*seat) {
            return SlotContents::Seat(seat);
        }
        self.lost_seats.closed(owner, &*seat, "a session took the browser");
        SlotContents::Leftover(seat)
    }

    /// The free slot that suits a caller best; `None` where the strategy chooses.
    pub(super) fn prefer(&self, request: &AcquireRequest, spare_suits: bool) -> Option<SlotId> {
        let seats = self.lock();
        if seats.by_slot.is_empty() {
            return None;
        }
        let is_offered = |id| self.instances.queue.with(|ledger| ledger.offers(id, &request.owner));
        let chooses = self.instances.kind.chooses_slots();
        if request.is_ephemeral
            && chooses
            && let Some(own) = seats.first_of(Some(&request.owner), |_| true)
        {
            return Some(own);
        }
        // In a declared pool with another strategy than `fifo`, that strategy chooses the slot, whatever is in it.
        if spare_suits
            && (chooses || self.instances.settings().strategy == Strategy::Fifo)
            && let Some(spare) = seats.first_of(None, is_offered)
        {
            return Some(spare);
        }
        drop(seats);
        if !chooses {
            return None;
        }
        // Prefer an empty slot to one whose seat is kept for an owner.
        let used = self.slots();
        self.instances.queue.with(|ledger| {
            ledger.find_free(|id, slot| !used.contains(&(id, slot)) && ledger.offers(id, &request.owner))
        })
    }

    /// Closes the seat with this number, if it is still idle in this slot.
    async fn close_one(self: Arc<Self>, slot: SlotId, number: u64) {
        let guard = self.instances.queue.take(slot.0, slot.1);
        let Some(lease) = guard.and_then(|guard| Lease::new(&self.instances, guard)) else { return };
        let idle = self.lock().remove_if(slot, number);
        if let Some(IdleSeat { seat, owner, .. }) = idle {
            self.lost_seats.closed(owner, &*seat, "it was not used for too long");
            seat::close(seat).await;
        }
        drop(lease);
    }

    /// Closes this many spares, the oldest first.
    pub(super) fn close_spares(self: &Arc<Self>, count: usize) {
        let mut spares: Vec<_> = {
            let seats = self.lock();
            let spares = seats.by_slot.iter().filter(|(_, idle)| idle.owner.is_none());
            spares.map(|(slot, idle)| (idle.number, *slot)).collect()
        };
        spares.sort_unstable();
        for (number, slot) in spares.into_iter().take(count) {
            self.tasks.spawn(self.clone().close_one(slot, number));
        }
    }

    /// Closes every seat in these instances, which lease nothing more; `lost` says why, if the instances were lost.
    pub(super) async fn close_in(&self, of: impl Fn(InstanceId) -> bool, lost: Option<&str>) {
        let seats: Vec<_> = self.lock().by_slot.extract_if(|(id, _), _| of(*id)).collect();
        let mut closing = tokio::task::JoinSet::new();
        for (_, IdleSeat { seat, owner, .. }) in seats {
            if let (Some(owner), Some(why)) = (owner, lost) {
                self.lost_seats.lost(owner, &*seat, Some(why));
            }
            closing.spawn(seat::close(seat));
        }
        while closing.join_next().await.is_some() {}
    }

    /// Keeps no more seats, stops the opening of spares, and begins to close the idle seats.
    pub(super) fn close(self: &Arc<Self>) {
        if self.closing.is_cancelled() {
            return;
        }
        self.closing.cancel();
        let idle_seats = self.clone();
        self.tasks.spawn(async move { idle_seats.close_in(|_| true, None).await });
    }

    /// Returns when everything is closed.
    pub(super) async fn closed(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}
