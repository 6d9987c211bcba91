//! Sees to it that there are as many spares as wanted: seats that are opened ahead, so that a new session has its
//! browser at once. A spare is never a used seat and never makes anybody wait.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::Duration,
};

use greenroom_core::{Nobody, StartError};
use tokio::time::{Instant, sleep_until};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Lease, Pool};
use crate::seat::{self, NoSeat};

/// How long it takes until another spare is made after one failed or died; each further one doubles it.
const BACKOFF: Duration = Duration::from_secs(1);

/// The longest such pause. What has failed for minutes is a missing or broken program; a try a minute finds out
/// soon enough that it was mended, and costs nothing meanwhile. A spare that lived this long was a good one.
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// What those who keep seats share.
#[derive(Default)]
pub(super) struct Keeping {
    closing: CancellationToken,
    pub(super) tasks: TaskTracker,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How many there should be; 0 until the pool is started.
    wanted: usize,
    opening: usize,
    /// How many failed or died in a row.
    failures: u32,
    /// No further one is made before this.
    not_before: Option<Instant>,
    /// Why the last one could not be opened.
    trouble: Option<StartError>,
    /// One was opened at least.
    opened: bool,
    /// The keeper is at work.
    kept_on: bool,
}

impl Keeping {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wanted(&self) -> usize {
        self.lock().wanted
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.is_cancelled()
    }

    /// Resolves when no more seats are kept.
    pub(super) async fn closing(&self) {
        self.closing.cancelled().await;
    }

    pub(super) fn trouble(&self) -> Option<StartError> {
        self.lock().trouble.clone()
    }

    /// Whether the first one is being opened: before that nobody knows whether a seat can be.
    pub(super) fn is_first_opening(&self) -> bool {
        let state = self.lock();
        !state.opened && state.opening > 0
    }

    /// Somebody got a seat: what kept spares from being opened is over.
    pub(super) fn seated(&self) {
        self.lock().trouble = None;
    }
}

/// A spare is being opened, for as long as there is this; also if opening it panics.
struct Opening(Arc<Pool>);

impl Drop for Opening {
    fn drop(&mut self) {
        self.0.keeping.lock().opening -= 1;
        self.0.instances.room.notify_one();
    }
}

impl State {
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
}

impl Pool {
    /// From now on keeps so many spares.
    pub(super) fn keep_spares(self: &Arc<Self>, wanted: usize) {
        let first = {
            let mut state = self.keeping.lock();
            state.wanted = wanted;
            wanted > 0 && !std::mem::replace(&mut state.kept_on, true)
        };
        if first {
            self.keeping.tasks.spawn(self.clone().keep_on());
        }
        self.instances.room.notify_one();
    }

    /// Makes no more spares, keeps no more seats, and begins to close those that are kept.
    pub(crate) fn give_up_seats(self: &Arc<Self>) {
        if self.keeping.is_closing() {
            return;
        }
        self.keeping.closing.cancel();
        let pool = self.clone();
        self.keeping.tasks.spawn(async move {
            pool.clear_out(|_| true, None).await;
        });
    }

    /// The keeper. One is enough for the life of a pool, also when no spares are wanted for a while.
    async fn keep_on(self: Arc<Self>) {
        loop {
            let again = self.replenish();
            tokio::select! {
                () = self.keeping.closing.cancelled() => return,
                () = self.instances.room.notified() => {}
                () = sleep_until(again.unwrap_or_else(Instant::now)), if again.is_some() => {}
            }
        }
    }

    /// Makes the spares that are missing, if nobody looks for a seat and there is room. Returns when to come again,
    /// if that is a matter of time.
    fn replenish(self: &Arc<Self>) -> Option<Instant> {
        loop {
            // In this order: one that is kept meanwhile counts twice, never not at all.
            let (opening, wanted, not_before) = {
                let state = self.keeping.lock();
                (state.opening, state.wanted, state.not_before)
            };
            let spares = self.kept().spares();
            if spares > wanted {
                self.give_up_spares(spares - wanted);
            }
            if spares + opening >= wanted || self.seeking.load(Ordering::Relaxed) > 0 {
                return None;
            }
            if let Some(at) = not_before
                && at > Instant::now()
            {
                return Some(at);
            }
            let used = self.kept().slots();
            let spare = self.instances.queue.spare(|id, slot| !used.contains(&(id, slot)));
            self.instances.start_wanted();
            let Ok(lease) = spare else { return None };
            let lease = self.instances.lease(lease)?;
            self.keeping.lock().opening += 1;
            self.keeping.tasks.spawn(self.clone().open_spare(lease));
        }
    }

    async fn open_spare(self: Arc<Self>, lease: Lease) {
        // Given up last: between being opened and being kept a spare must not be missing in the sum.
        let _opening = Opening(self.clone());
        let opened = match lease.place.instance() {
            Some(instance) => tokio::select! {
                opened = seat::open(instance.as_ref(), Arc::new(Nobody)) => {
                    if let Err(NoSeat::Late(_)) = &opened {
                        self.doubt(lease.id).await;
                    }
                    opened.map_err(StartError::from)
                }
                () = self.keeping.closing.cancelled() => Err(StartError::new("greenroom is shutting down")),
            },
            None => Err(StartError::new("the instance is gone")),
        };
        match opened {
            Ok(seat) => {
                tracing::info!(pool = %self.name, instance = %lease.id, "spare ready");
                {
                    let mut state = self.keeping.lock();
                    (state.trouble, state.opened) = (None, true);
                }
                if let Some((lease, seat)) = self.keep(lease, seat, None, None) {
                    seat::close(seat).await;
                    drop(lease);
                }
            }
            Err(error) => {
                if !self.keeping.is_closing() {
                    tracing::warn!(pool = %self.name, instance = %lease.id, %error, "no spare");
                    self.spare_failed(Duration::ZERO, Some(error));
                }
                drop(lease);
            }
        }
    }

    pub(super) fn spare_failed(&self, lived: Duration, why: Option<StartError>) {
        let mut state = self.keeping.lock();
        if state.wanted == 0 {
            return;
        }
        state.failed(lived);
        state.trouble = why.or(state.trouble.take());
    }

    /// A spare came into somebody's hands. If they were good ones, those before it failed for a reason that is gone. Its
    /// successor waits a moment.
    pub(super) fn spare_taken(&self, suited: bool) {
        if !suited {
            return;
        }
        tracing::info!(pool = %self.name, "spare handed out");
        let pause = self.instances.settings().spare_pause;
        let mut state = self.keeping.lock();
        state.failures = 0;
        state.not_before = Some(Instant::now() + pause);
    }
}
