//! Leases on slots. Dropping a lease gives its slot back, whatever happens to the holder.

use std::{sync::Arc, time::SystemTime};

use greenroom_core::{Agent, Instance, InstanceId, Seat, lease::LeaseId};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{instance_slot::Place, instances::Instances};
use crate::{
    queue::{SlotGuard, Waiting},
    seat::{self, NoSeat},
};

/// The exclusive right to a slot of an instance. Dropping it gives the slot back.
pub(crate) struct Lease {
    instances: Arc<Instances>,
    pub(super) place: Arc<Place>,
    lent: LeaseId,
    /// `None` once the slot is given back.
    guard: Option<SlotGuard>,
}

impl Lease {
    /// The lease on a slot that the queue lent. `None`, if its instance has left the pool.
    pub(super) fn new(instances: &Arc<Instances>, guard: SlotGuard) -> Option<Self> {
        let lent = guard.lent();
        let place = instances.place(lent.instance)?;
        Some(Self { instances: instances.clone(), place, lent, guard: Some(guard) })
    }

    /// The instance whose slot it is.
    pub(crate) fn id(&self) -> InstanceId {
        self.lent.instance
    }

    pub(super) fn slot(&self) -> (InstanceId, usize) {
        (self.lent.instance, self.lent.slot)
    }

    /// Marks the slot as leased in the status.
    pub(super) fn begins(&self) {
        self.place.lock().leased.insert(self.lent.slot, SystemTime::now());
    }

    /// Opens a seat in the slot. An instance that does not open it in time is withheld until it answers.
    pub(super) async fn open_seat(
        &self,
        instance: &dyn Instance,
        agent: Arc<dyn Agent>,
        closing: &CancellationToken,
    ) -> Result<Box<dyn Seat>, NoSeat> {
        let opened = seat::open(instance, agent, closing).await;
        if let Err(NoSeat::Late(_)) = &opened {
            self.instances.doubt(self.id()).await;
        }
        opened
    }

    /// Whether the instance runs and the lease is valid.
    pub(crate) fn is_alive(&self) -> bool {
        self.place.instance().is_some() && self.is_valid()
    }

    /// Whether the instance is still in the life in which the slot was lent.
    pub(super) fn is_valid(&self) -> bool {
        self.instances.queue.with(|ledger| ledger.is_valid(self.lent))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.is_valid() {
            let mut state = self.place.lock();
            state.leased.remove(&self.lent.slot);
            state.idle_since = Instant::now();
        }
        drop(self.guard.take());
        if self.instances.queue.with(|ledger| ledger.taken(self.lent.instance)) == 0 {
            self.place.emptied.notify_one();
        }
        self.instances.room.notify_one();
    }
}

/// A place in the pool's line. Leaving it gives back a slot that was granted at that moment, as dropping a lease does.
pub(super) struct InLine {
    pub(super) instances: Arc<Instances>,
    pub(super) waiting: Waiting,
}

impl Drop for InLine {
    fn drop(&mut self) {
        if let Some(place) = self.waiting.leave().and_then(|id| self.instances.place(id)) {
            place.emptied.notify_one();
        }
    }
}
