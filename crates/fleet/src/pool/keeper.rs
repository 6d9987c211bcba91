//! The lives of spares, and the keeper that sees to it that there are as many as wanted.
//!
//! Each spare is a task that owns its lease and its seat until somebody takes both. It is never a used seat, never
//! makes anybody wait, and goes with its instance.

use std::{sync::Arc, time::Duration};

use greenroom_core::{InstanceId, Nobody, Seat, StartError, lease::Spared};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Lease, Pool, Slot, spares::Claim};
use crate::seat;

/// What those who keep spares share, beside the list.
#[derive(Default)]
pub(super) struct Keeping {
    /// Wakes the keeper: a slot may have become free, or a spare is missing.
    pub(super) wake: Notify,
    /// Ends the keeper and all spares.
    closing: CancellationToken,
    pub(super) tasks: TaskTracker,
}

/// A spare's place on the list, held by its task. Dropping it takes the spare off, also when the task panics.
struct Listed {
    pool: Arc<Pool>,
    number: u64,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.pool.lock().spares.remove(self.number);
        self.pool.keeping.wake.notify_one();
    }
}

impl Pool {
    /// Starts the first instance, and from now on keeps as many spares as the settings want.
    pub(crate) fn start_now(self: &Arc<Self>) {
        let mut state = self.lock();
        if self.settings.warm > 0 && state.spares.wanted == 0 {
            state.spares.wanted = self.settings.warm;
            self.keeping.tasks.spawn(self.clone().keep());
        }
        // A slot that is taken and given back leaves its instance starting.
        if state.instances.is_empty()
            && let Some(Spared { instance: id, start: true }) = state.ledger.spare()
        {
            self.start(&mut state, id);
            drop(state);
            drop(Lease { pool: self.clone(), id });
        }
    }

    /// Ends every spare, and makes no more.
    pub(crate) fn give_up_spares(&self) {
        self.keeping.closing.cancel();
    }

    /// The keeper.
    async fn keep(self: Arc<Self>) {
        loop {
            let again = self.replenish();
            tokio::select! {
                () = self.keeping.closing.cancelled() => return,
                () = self.keeping.wake.notified() => {}
                () = sleep_until(again.unwrap_or_else(Instant::now)), if again.is_some() => {}
            }
        }
    }

    /// Makes the spares that are missing, if nobody looks for a seat and there is room. Returns when to come again,
    /// if that is a matter of time.
    fn replenish(self: &Arc<Self>) -> Option<Instant> {
        let mut state = self.lock();
        state.remove_dead();
        while state.spares.len() < state.spares.wanted && state.seeking == 0 {
            if let Some(at) = state.spares.not_before
                && at > Instant::now()
            {
                return Some(at);
            }
            let Spared { instance: id, start } = state.ledger.spare()?;
            if start {
                self.start(&mut state, id);
            }
            let number = state.spares.number();
            let claimed = state.spares.add(number, id, false);
            state.note_idleness(id);
            let lease = Lease { pool: self.clone(), id };
            self.keeping.tasks.spawn(self.clone().spare(number, lease, claimed));
        }
        None
    }

    /// The life of a spare.
    async fn spare(self: Arc<Self>, number: u64, mut lease: Lease, mut claimed: Claim) {
        let listed = Listed { pool: self.clone(), number };
        let opened = tokio::select! {
            opened = open(&lease) => opened,
            () = self.keeping.closing.cancelled() => return,
        };
        let mut seat = match opened {
            Ok(seat) => seat,
            Err(error) => {
                tracing::warn!(pool = self.settings.name, instance = %lease.id, %error, "no spare");
                self.spare_failed(number, Duration::ZERO, Some(error));
                return keep_promise(&mut claimed, lease);
            }
        };
        self.spare_is_ready(number, lease.id);
        let born = Instant::now();
        let mut lost = seat.lost();
        loop {
            let deliver = tokio::select! {
                biased;
                why = seat::died(&mut lost) => {
                    tracing::info!(pool = self.settings.name, instance = %lease.id, %why, "spare lost");
                    self.spare_failed(number, born.elapsed(), None);
                    seat::close(seat).await;
                    return keep_promise(&mut claimed, lease);
                }
                deliver = &mut claimed => deliver.ok(),
                () = self.keeping.closing.cancelled() => None,
            };
            let Some(deliver) = deliver else { break };
            let id = lease.id;
            match deliver.send(Slot { lease, seat: Some(seat) }) {
                Ok(()) => {
                    tracing::info!(pool = self.settings.name, instance = %id, "spare handed out");
                    self.lock().spares.succeeded(self.settings.spare_pause);
                    return;
                }
                // Whoever was to have it has left, and it is a spare again, if one is needed.
                Err(Slot { lease: back, seat: Some(unused) }) => {
                    (lease, seat) = (back, unused);
                    match self.list_again(number, id) {
                        Some(anew) => claimed = anew,
                        None => break,
                    }
                }
                Err(Slot { seat: None, .. }) => return,
            }
        }
        drop(listed);
        seat::close(seat).await;
        drop(lease);
    }

    fn spare_is_ready(&self, number: u64, id: InstanceId) {
        tracing::info!(pool = self.settings.name, instance = %id, "spare ready");
        self.lock().spares.is_ready(number);
    }

    /// Takes a spare off the list that failed. One that was given up was not meant to last.
    fn spare_failed(&self, number: u64, lived: Duration, why: Option<StartError>) {
        let mut state = self.lock();
        if state.spares.remove(number) {
            state.spares.failed(lived);
        }
        state.spares.trouble = why.or(state.spares.trouble.take());
    }

    fn list_again(&self, number: u64, id: InstanceId) -> Option<Claim> {
        let mut state = self.lock();
        let is_needed = state.spares.len() < state.spares.wanted && !state.ledger.is_waited_for();
        if !is_needed || !state.instances.contains_key(&id) {
            return None;
        }
        let claimed = state.spares.add(number, id, true);
        state.note_idleness(id);
        Some(claimed)
    }
}

async fn open(lease: &Lease) -> Result<Box<dyn Seat>, StartError> {
    match lease.instance().await? {
        Some(instance) => Ok(seat::open(instance.as_ref(), Arc::new(Nobody)).await?),
        None => Err(StartError::new("the instance is gone")),
    }
}

/// Whoever was promised a spare that failed gets its slot at least, if it is worth anything.
fn keep_promise(claimed: &mut Claim, lease: Lease) {
    if let Ok(deliver) = claimed.try_recv()
        && lease.is_alive()
    {
        let _ = deliver.send(Slot { lease, seat: None });
    }
}
