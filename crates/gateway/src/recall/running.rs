//! The calls that run in this process, by the `ref_id` of their records.
//!
//! A [`RunningMark`] stands for a call until its end is on its way to the store. A second call with the
//! same `ref_id` waits for that end; so a record without an end and without a mark will never end. Only
//! call records use this.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use greenroom_core::{Owner, RefId};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

type CallName = (Owner, RefId);

/// All running calls.
#[derive(Default)]
pub struct RunningCalls(Mutex<HashMap<CallName, watch::Sender<()>>>);

/// The call counts as running while this exists.
pub(super) struct RunningMark {
    of: Arc<RunningCalls>,
    name: CallName,
}

impl RunningCalls {
    /// Marks the call with this `ref_id` as running. If one runs already, waits until it has ended.
    pub(super) async fn enter(self: &Arc<Self>, owner: &Owner, ref_id: &RefId) -> RunningMark {
        loop {
            match self.try_enter(owner, ref_id) {
                Ok(mark) => return mark,
                // No code sends a value: the channel closes when the running call drops the sender.
                Err(mut ended) => drop(ended.changed().await),
            }
        }
    }

    pub(super) fn try_enter(
        self: &Arc<Self>,
        owner: &Owner,
        ref_id: &RefId,
    ) -> Result<RunningMark, watch::Receiver<()>> {
        let name = (owner.clone(), ref_id.clone());
        match self.lock().entry(name.clone()) {
            Entry::Occupied(runs) => Err(runs.get().subscribe()),
            Entry::Vacant(free) => {
                free.insert(watch::Sender::new(()));
                Ok(RunningMark { of: self.clone(), name })
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CallName, watch::Sender<()>>> {
        // The map is consistent after any panic: every change is one step.
        self.0.lock()
    }
}

impl Drop for RunningMark {
    fn drop(&mut self) {
        self.of.lock().remove(&self.name);
    }
}
