//! Slots on their way to whoever wants one: leases, places in the queue, promised spares. Each is given back by
//! dropping it, whatever happens to its holder.

use std::sync::Arc;

use greenroom_core::{Instance, InstanceId, Seat, StartError, lease::WaiterId};
use tokio::{runtime::Handle, sync::oneshot};

use super::{Phase, Pool};
use crate::seat;

/// The exclusive right to a slot. Dropping it gives the slot back.
pub(crate) struct Lease {
    pub(super) pool: Arc<Pool>,
    pub(crate) id: InstanceId,
}

/// A slot, with the open seat in it if it was a spare's.
pub(crate) struct Slot {
    pub(crate) lease: Lease,
    pub(crate) seat: Option<Box<dyn Seat>>,
}

impl Lease {
    /// The instance, once it is ready. `None` if it left the pool after the slot was lent; another one may do.
    pub(crate) async fn instance(&self) -> Result<Option<Arc<dyn Instance>>, StartError> {
        let phase = self.pool.lock().instances.get(&self.id).map(|entry| entry.phase.clone());
        let Some(mut phase) = phase else { return Ok(None) };
        match phase.wait_for(|phase| !matches!(phase, Phase::Starting)).await.as_deref() {
            Ok(Phase::Ready(instance)) => Ok(Some(instance.clone())),
            Ok(Phase::Failed(error)) => Err(error.clone()),
            Ok(Phase::Starting) | Err(_) => Ok(None),
        }
    }

    /// Whether the slot is still worth something.
    pub(crate) fn is_alive(&self) -> bool {
        let mut state = self.pool.lock();
        state.remove_dead();
        state.instances.contains_key(&self.id)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.give_back(self.id);
    }
}

/// A place in the queue. Dropping it leaves the queue and returns what was granted but not taken.
pub(super) struct Place {
    pub(super) pool: Arc<Pool>,
    pub(super) waiter: WaiterId,
    pub(super) granted: oneshot::Receiver<InstanceId>,
}

impl Drop for Place {
    fn drop(&mut self) {
        {
            let mut state = self.pool.lock();
            state.waiters.remove(&self.waiter);
            state.ledger.forget(self.waiter);
        }
        if let Ok(id) = self.granted.try_recv() {
            self.pool.give_back(id);
        }
    }
}

/// A spare that was promised to somebody. Its task hands it over as soon as its seat is open.
pub(super) struct Promise {
    pub(super) pool: Arc<Pool>,
    pub(super) coming: oneshot::Receiver<Slot>,
}

impl Promise {
    /// The slot, usually with its seat. `None` if the spare is gone; then there is nothing to give back either.
    pub(super) async fn kept(mut self) -> Option<Slot> {
        (&mut self.coming).await.ok()
    }
}

impl Drop for Promise {
    /// A spare that was handed over in the moment in which its taker left is closed, and only then is its slot
    /// free.
    fn drop(&mut self) {
        self.coming.close();
        if let Ok(Slot { lease, seat: Some(seat) }) = self.coming.try_recv()
            && let Ok(runtime) = Handle::try_current()
        {
            let closing = async move {
                seat::close(seat).await;
                drop(lease);
            };
            self.pool.keeping.tasks.spawn_on(closing, &runtime);
        }
    }
}

/// Somebody looks for a seat. No spare is made meanwhile: its browser has one thing to do at a time.
pub(crate) struct Seeking(pub(super) Arc<Pool>);

impl Drop for Seeking {
    fn drop(&mut self) {
        self.0.lock().seeking -= 1;
        self.0.keeping.wake.notify_one();
    }
}
