//! Keeps the wanted number of spares: seats that the pool opens ahead, so that a new session has its browser at once. A
//! spare is never a used seat and never makes a caller wait.

use std::{sync::Arc, time::Duration};

use greenroom_core::{Backoff, NoAgent, StartError};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep_until};

use super::{
    Lease,
    idle_seats::{IdleSeats, KeptFor},
    instances::Instances,
    lock,
};
use crate::seat::{self, NoSeat};

/// How long the pool waits before it opens another spare after one failed or died. If spares fail for minutes, a
/// program is missing or broken; one attempt a minute costs little, and notices soon enough that a user has
/// repaired it. A spare that lived for the longest pause ends the row of failures.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), max: Duration::from_secs(60) };

pub(crate) struct Spares {
    instances: Arc<Instances>,
    idle_seats: Arc<IdleSeats>,
    state: Mutex<SpareState>,
}

#[derive(Default)]
struct SpareState {
    /// How many spares to keep; 0 until the pool is started.
    wanted: usize,
    opening: usize,
    /// How many callers look for a seat now. The pool opens no spare meanwhile, because that would slow their seats.
    callers_without_seat: usize,
    /// How many spares failed or died in a row.
    failures: u32,
    /// No spare is opened before this time.
    not_before: Option<Instant>,
    /// Why the last spare could not be opened.
    open_error: Option<StartError>,
    /// At least one spare was opened.
    opened: bool,
    /// The task that opens spares runs.
    runs: bool,
}

/// Counts a caller as looking for a seat until this is dropped.
pub(crate) struct CallerRegistration(Arc<Spares>);

impl CallerRegistration {
    /// Notes that the caller got a seat: the cause that kept spares from opening is gone.
    pub(crate) fn seated(&self) {
        self.0.lock().open_error = None;
    }
}

impl Drop for CallerRegistration {
    fn drop(&mut self) {
        self.0.lock().callers_without_seat -= 1;
        self.0.instances.room.notify_one();
    }
}

/// Counts a spare as being opened until this is dropped, also when opening it panics.
struct Opening(Arc<Spares>);

impl Drop for Opening {
    fn drop(&mut self) {
        self.0.lock().opening -= 1;
        self.0.instances.room.notify_one();
    }
}

impl SpareState {
    /// Notes that a spare failed after living this long. Spares that fail during one pause count once.
    fn failed(&mut self, lived: Duration) {
        let now = Instant::now();
        if self.not_before.is_some_and(|at| at > now) {
            return;
        }
        self.failures = if lived >= BACKOFF.max { 0 } else { self.failures };
        self.not_before = Some(now + BACKOFF.pause(self.failures));
        self.failures += 1;
    }
}

impl Spares {
    pub(super) fn new(instances: Arc<Instances>, idle_seats: Arc<IdleSeats>) -> Arc<Self> {
        Arc::new(Self { instances, idle_seats, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, SpareState> {
        lock(&self.state)
    }

    pub(super) fn wanted(&self) -> usize {
        self.lock().wanted
    }

    pub(super) fn open_error(&self) -> Option<StartError> {
        self.lock().open_error.clone()
    }

    /// Whether the first spare is being opened. Until it is open, the pool does not know whether a seat can open.
    pub(super) fn is_first_opening(&self) -> bool {
        let state = self.lock();
        !state.opened && state.opening > 0
    }

    /// Registers a caller that looks for a seat. The caller drops the result once it has one.
    pub(super) fn register_caller(self: &Arc<Self>) -> CallerRegistration {
        self.lock().callers_without_seat += 1;
        CallerRegistration(self.clone())
    }

    /// Keeps this many spares from now on.
    pub(super) fn keep(self: &Arc<Self>, wanted: usize) {
        let is_first = {
            let mut state = self.lock();
            state.wanted = wanted;
            wanted > 0 && !std::mem::replace(&mut state.runs, true)
        };
        if is_first {
            self.idle_seats.tasks.spawn(self.clone().run());
        }
        self.instances.room.notify_one();
    }

    /// Opens missing spares. This one task runs for the life of the pool, even while the pool wants no spares.
    async fn run(self: Arc<Self>) {
        loop {
            let again = self.replenish();
            tokio::select! {
                () = self.idle_seats.closing.cancelled() => return,
                () = self.instances.room.notified() => {}
                () = sleep_until(again.unwrap_or_else(Instant::now)), if again.is_some() => {}
            }
        }
    }

    /// Opens the missing spares if no caller looks for a seat and there is room. Returns when to try again, if only a
    /// pause is in the way.
    fn replenish(self: &Arc<Self>) -> Option<Instant> {
        loop {
            // Read the number being opened before the number kept: a spare that moves from the first to the
            // second meanwhile then counts twice, and is never missed.
            let (opening, wanted, not_before, callers_without_seat) = {
                let state = self.lock();
                (state.opening, state.wanted, state.not_before, state.callers_without_seat)
            };
            let spares = self.idle_seats.spares(|_| true);
            if spares > wanted {
                self.idle_seats.close_spares(spares - wanted);
            }
            if spares + opening >= wanted || callers_without_seat > 0 {
                return None;
            }
            if let Some(at) = not_before
                && at > Instant::now()
            {
                return Some(at);
            }
            let used = self.idle_seats.slots();
            let lease = self.instances.lease_spare(|id, slot| !used.contains(&(id, slot)))?;
            self.lock().opening += 1;
            self.idle_seats.tasks.spawn(self.clone().open(lease));
        }
    }

    async fn open(self: Arc<Self>, lease: Lease) {
        // Dropped last, so that the spare counts as being opened until it counts as kept.
        let _opening = Opening(self.clone());
        let pool = self.instances.name.clone();
        let closing = &self.idle_seats.closing;
        let opened = match lease.instance_slot.instance() {
            Some(instance) => lease.open_seat(instance.as_ref(), Arc::new(NoAgent), closing).await,
            None => Err(NoSeat::Failed(StartError::new("the instance is gone"))),
        };
        match opened.map_err(StartError::from) {
            Ok(seat) => {
                tracing::info!(%pool, instance = %lease.id(), "spare ready");
                {
                    let mut state = self.lock();
                    state.open_error = None;
                    state.opened = true;
                }
                let spares = self.clone();
                let kept_for = KeptFor::Anyone(Box::new(move |lived| spares.failed(lived, None)));
                if let Some((lease, seat)) = self.idle_seats.keep(lease, seat, kept_for) {
                    seat::close(seat).await;
                    drop(lease);
                }
            }
            Err(error) => {
                if !closing.is_cancelled() {
                    tracing::warn!(%pool, instance = %lease.id(), %error, "cannot open a spare seat");
                    self.failed(Duration::ZERO, Some(error));
                }
                drop(lease);
            }
        }
    }

    /// Notes that a spare could not be opened, or died after living this long.
    pub(super) fn failed(&self, lived: Duration, why: Option<StartError>) {
        let mut state = self.lock();
        if state.wanted == 0 {
            return;
        }
        state.failed(lived);
        state.open_error = why.or(state.open_error.take());
    }

    /// Notes that a caller took a spare, so the reason for earlier failures is gone. The pool opens the next spare
    /// after `spare_pause`.
    pub(super) fn taken(&self) {
        tracing::info!(pool = %self.instances.name, "spare handed out");
        let pause = self.instances.settings().spare_pause;
        let mut state = self.lock();
        state.failures = 0;
        state.not_before = Some(Instant::now() + pause);
    }
}
