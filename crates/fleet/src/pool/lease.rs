//! Slots on their way to whoever wants one, and back. A lease is given back by dropping it, whatever happens to its
//! holder.

use std::{sync::Arc, time::SystemTime};

use greenroom_core::{Instance, InstanceId, Seat};
use tokio::time::Instant;

use super::{instances::Instances, place::Place};
use crate::queue;

/// The exclusive right to a slot of an instance. Dropping it gives the slot back.
pub(crate) struct Lease {
    instances: Arc<Instances>,
    pub(super) place: Arc<Place>,
    /// `None` once it is given back.
    inner: Option<queue::Lease>,
    pub(crate) id: InstanceId,
    pub(super) slot: usize,
}

/// A slot, and what is in it.
pub(crate) struct Slot {
    pub(crate) lease: Lease,
    pub(crate) instance: Arc<dyn Instance>,
    pub(crate) found: Found,
}

/// What a slot was found with.
pub(crate) enum Found {
    Nothing,
    /// An open seat that serves whoever asked.
    Seat(Box<dyn Seat>),
    /// An open seat that does not: it has to be closed before another is opened.
    Leftover(Box<dyn Seat>),
}

impl Lease {
    pub(super) fn new(instances: Arc<Instances>, place: Arc<Place>, inner: queue::Lease) -> Self {
        let (id, slot) = (inner.instance(), inner.slot());
        Self { instances, place, inner: Some(inner), id, slot }
    }

    /// From now on it is shown as leased.
    pub(super) fn begins(&self) {
        self.place.lock().leased.insert(self.slot, SystemTime::now());
    }

    /// Whether the slot is still worth something.
    pub(crate) fn is_alive(&self) -> bool {
        self.place.instance().is_some() && self.is_valid()
    }

    /// Whether its instance still lives the life in which it was lent.
    pub(super) fn is_valid(&self) -> bool {
        self.inner.as_ref().is_some_and(queue::Lease::is_valid)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.is_valid() {
            let mut state = self.place.lock();
            state.leased.remove(&self.slot);
            state.idle_since = Instant::now();
        }
        drop(self.inner.take());
        if self.instances.queue.with(|ledger| ledger.out(self.id)) == 0 {
            self.place.emptied.notify_one();
        }
        self.instances.room.notify_one();
    }
}

/// A place in the pool's line. Leaving it may give a slot back that was granted in that very moment, as dropping a
/// lease does.
pub(super) struct InLine {
    pub(super) instances: Arc<Instances>,
    pub(super) waiting: queue::Waiting,
}

impl Drop for InLine {
    fn drop(&mut self) {
        if let Some(place) = self.waiting.leave().and_then(|id| self.instances.place(id)) {
            place.emptied.notify_one();
        }
    }
}
