//! Spares: seats that are opened ahead and belong to nobody, so that a new session has its browser at once.
//!
//! Each spare is a task that owns its lease and its seat until somebody takes both. The list of those that can be
//! taken stands under the pool's lock; taking one off the list is a promise, which its task keeps as soon as its
//! seat is open. One more task, the keeper, sees to it that there are as many as wanted. A spare is never a used
//! seat, never makes anybody wait, and goes with its instance.

use std::{sync::Arc, time::Duration};

use greenroom_core::{InstanceId, Nobody, Seat, StartError, lease::Spared};
use tokio::{
    sync::{Notify, oneshot},
    time::{Instant, sleep_until},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Lease, Pool, Slot, State};
use crate::seat;

/// How long it takes until another spare is made after one failed or died; each further one doubles it.
const BACKOFF: Duration = Duration::from_secs(1);

/// The longest such pause. What has failed for minutes is a missing or broken program; a try a minute finds out
/// soon enough that it was mended, and costs nothing meanwhile. A spare that lived this long was a good one.
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// What those who keep spares share, beside the list.
#[derive(Default)]
pub(super) struct Keeping {
    /// Wakes the keeper: a slot may have become free, or a spare is missing.
    pub(super) wake: Notify,
    /// Ends the keeper and all spares.
    closing: CancellationToken,
    pub(super) tasks: TaskTracker,
}

/// The spares that can be taken, and what was learnt from those that failed.
#[derive(Default)]
pub(super) struct Spares {
    /// How many there should be; 0 until the pool is started.
    pub(super) wanted: usize,
    list: Vec<Spare>,
    next: u64,
    /// How many failed or died in a row.
    failures: u32,
    not_before: Option<Instant>,
    /// Why the last one could not be opened.
    pub(super) trouble: Option<StartError>,
    /// One was opened at least.
    opened: bool,
}

struct Spare {
    number: u64,
    id: InstanceId,
    /// Its seat is open.
    ready: bool,
    claim: oneshot::Sender<oneshot::Sender<Slot>>,
}

type Claim = oneshot::Receiver<oneshot::Sender<Slot>>;

impl Spares {
    /// All that can be taken, open or not yet.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn in_instance(&self, id: InstanceId) -> usize {
        self.list.iter().filter(|spare| spare.id == id).count()
    }

    /// Those whose seat is open.
    pub(super) fn ready_in(&self, id: InstanceId) -> usize {
        self.list.iter().filter(|spare| spare.id == id && spare.ready).count()
    }

    /// Whether the first one is being opened: before that nobody knows whether a seat can be.
    pub(super) fn is_first_opening(&self) -> bool {
        !self.opened && !self.list.is_empty()
    }

    fn add(&mut self, number: u64, id: InstanceId, ready: bool) -> Claim {
        let (claim, claimed) = oneshot::channel();
        self.list.push(Spare { number, id, ready, claim });
        claimed
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Takes a spare off the list. `false` if it was taken or given up already.
    fn remove(&mut self, number: u64) -> bool {
        let before = self.len();
        self.list.retain(|spare| spare.number != number);
        self.len() < before
    }

    /// Gives up the spares of an instance that is about to end.
    pub(super) fn give_up(&mut self, id: InstanceId) {
        self.list.retain(|spare| spare.id != id);
    }

    /// Notes that a spare failed after living this long. Several that fail together count once.
    fn failed(&mut self, lived: Duration) {
        let now = Instant::now();
        if self.not_before.is_some_and(|at| at > now) {
            return;
        }
        self.failures = if lived >= BACKOFF_MAX { 0 } else { self.failures };
        let pause = BACKOFF.saturating_mul(2_u32.saturating_pow(self.failures)).min(BACKOFF_MAX);
        self.failures += 1;
        self.not_before = Some(now + pause);
    }

    /// A spare came into good hands: those before it failed for a reason that is gone.
    fn succeeded(&mut self) {
        self.failures = 0;
        self.not_before = None;
    }
}

impl State {
    /// Promises the spare that is open, or will be soonest. None, if opening another seat is quicker: a running
    /// instance has a free slot, and the spares are in one that still starts.
    pub(super) fn claim_soonest(&mut self) -> Option<oneshot::Receiver<Slot>> {
        let is_running = |id| self.instances.get(&id).is_some_and(|entry| entry.is_ready());
        let quicker_without = self.ledger.next_free().is_some_and(is_running);
        let rank = |spare: &Spare| match (spare.ready, is_running(spare.id)) {
            (true, _) => Some(0),
            (false, true) => Some(1),
            (false, false) if !quicker_without => Some(2),
            (false, false) => None,
        };
        let ranked = self.spares.list.iter().enumerate().filter_map(|(at, spare)| Some((rank(spare)?, at)));
        let (_, at) = ranked.min()?;
        Some(self.claim(at))
    }

    /// Promises any spare, for its slot.
    pub(super) fn claim_any(&mut self) -> Option<oneshot::Receiver<Slot>> {
        (self.spares.len() > 0).then(|| self.claim(0))
    }

    fn claim(&mut self, at: usize) -> oneshot::Receiver<Slot> {
        let spare = self.spares.list.remove(at);
        let (deliver, coming) = oneshot::channel();
        // One whose task has just ended delivers nothing, and says so by that.
        let _ = spare.claim.send(deliver);
        self.note_idleness(spare.id);
        coming
    }
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
                    self.lock().spares.succeeded();
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
        let mut state = self.lock();
        state.spares.trouble = None;
        state.spares.opened = true;
        if let Some(spare) = state.spares.list.iter_mut().find(|spare| spare.number == number) {
            spare.ready = true;
        }
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
