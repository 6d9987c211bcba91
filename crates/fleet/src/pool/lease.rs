//! Leases on slots. Dropping a lease gives its slot back, whatever happens to the holder.

use std::{sync::Arc, time::SystemTime};

use greenroom_core::{Agent, Instance, InstanceId, Owner, Seat, lease::LeaseId};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{instance_slot::InstanceSlot, instances::Instances};
use crate::{
    queue::{SlotGuard, SlotWaiter},
    seat::{self, NoSeat},
};

/// The exclusive right to a slot of an instance. Dropping it gives the slot back.
pub(crate) struct Lease {
    instances: Arc<Instances>,
    pub(super) instance_slot: Arc<InstanceSlot>,
    lease_id: LeaseId,
    /// `None` once the slot is given back.
    guard: Option<SlotGuard>,
}

impl Lease {
    /// The lease on a slot that the queue granted. `None` if the slot's instance has left the pool.
    pub(super) fn new(instances: &Arc<Instances>, guard: SlotGuard) -> Option<Self> {
        let lease_id = guard.lease_id();
        let instance_slot = instances.instance_slot(lease_id.instance)?;
        Some(Self { instances: instances.clone(), instance_slot, lease_id, guard: Some(guard) })
    }

    /// The instance whose slot is leased.
    pub(crate) fn id(&self) -> InstanceId {
        self.lease_id.instance
    }

    pub(super) fn slot(&self) -> (InstanceId, usize) {
        (self.lease_id.instance, self.lease_id.slot)
    }

    /// Marks the slot as leased, for the pool's status.
    pub(super) fn begins(&self, owner: &Owner) {
        self.instance_slot.lock().leased.insert(self.lease_id.slot, (SystemTime::now(), owner.clone()));
    }

    /// Opens a seat in the slot. If the instance does not open it in time, the pool withholds the instance until it
    /// answers.
    pub(super) async fn open_seat(
        &self,
        instance: &dyn Instance,
        agent: Arc<dyn Agent>,
        closing: &CancellationToken,
    ) -> Result<Box<dyn Seat>, NoSeat> {
        let opened = seat::open(instance, agent, closing).await;
        if let Err(NoSeat::Late(_)) = &opened {
            self.instances.check_quickly(self.id()).await;
        }
        opened
    }

    /// Whether the instance runs and the lease is valid.
    pub(crate) fn is_alive(&self) -> bool {
        self.instance_slot.instance().is_some() && self.is_valid()
    }

    /// Whether the instance has not been lost or restarted since the slot was leased.
    pub(super) fn is_valid(&self) -> bool {
        self.instances.queue.with(|ledger| ledger.is_valid(self.lease_id))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.is_valid() {
            let mut state = self.instance_slot.lock();
            state.leased.remove(&self.lease_id.slot);
            state.idle_since = Instant::now();
        }
        drop(self.guard.take());
        if self.instances.queue.with(|ledger| ledger.taken(self.lease_id.instance)) == 0 {
            self.instance_slot.emptied.notify_one();
        }
        self.instances.start_wanted();
        self.instances.room.notify_one();
    }
}

/// A caller in the pool's queue. Dropping this takes the caller out of the queue, and gives back a slot that the
/// queue granted at that moment.
pub(super) struct QueuedCaller {
    pub(super) instances: Arc<Instances>,
    pub(super) waiter: SlotWaiter,
}

impl Drop for QueuedCaller {
    fn drop(&mut self) {
        if let Some(instance_slot) = self.waiter.leave().and_then(|id| self.instances.instance_slot(id)) {
            instance_slot.emptied.notify_one();
        }
        self.instances.start_wanted();
    }
}
