//! The calls that run in this process, by the names of their records.
//!
//! A [`Mark`] stands for one of them until its end is on its way to the records. Who comes with a name that runs waits for
//! that end; so a record without an end that has no mark is one whose end will never come. Used by tickets alone.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use greenroom_core::{Owner, RefId};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

type Name = (Owner, RefId);

/// All of them.
#[derive(Default)]
pub struct Running(Mutex<HashMap<Name, watch::Sender<()>>>);

/// A call runs as long as this is kept.
pub(super) struct Mark {
    of: Arc<Running>,
    name: Name,
}

impl Running {
    /// A call of this name runs from now on; when one does already, as soon as that has ended.
    pub(super) async fn enter(self: &Arc<Self>, owner: &Owner, ref_id: &RefId) -> Mark {
        loop {
            match self.try_enter(owner, ref_id) {
                Ok(mark) => return mark,
                // Nothing is ever sent: it ends with the sender.
                Err(mut ended) => drop(ended.changed().await),
            }
        }
    }

    pub(super) fn try_enter(
        self: &Arc<Self>,
        owner: &Owner,
        ref_id: &RefId,
    ) -> Result<Mark, watch::Receiver<()>> {
        let name = (owner.clone(), ref_id.clone());
        match self.lock().entry(name.clone()) {
            Entry::Occupied(runs) => Err(runs.get().subscribe()),
            Entry::Vacant(free) => {
                free.insert(watch::Sender::new(()));
                Ok(Mark { of: self.clone(), name })
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, watch::Sender<()>>> {
        // A map is whole after any panic: nothing is done in two steps.
        self.0.lock()
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.of.lock().remove(&self.name);
    }
}
