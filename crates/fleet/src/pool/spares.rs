//! Spares: seats that are opened ahead and belong to nobody, so that a new session has its browser at once.
//!
//! This is the list of those that can be taken, plain state under the pool's lock, and what was learnt from those
//! that failed. Taking one off the list is a promise, which the spare's task ([`super::keeper`]) keeps as soon as its
//! seat is open.

use std::time::Duration;

use greenroom_core::{InstanceId, StartError};
use tokio::{sync::oneshot, time::Instant};

use super::{Slot, State};

/// How long it takes until another spare is made after one failed or died; each further one doubles it.
const BACKOFF: Duration = Duration::from_secs(1);

/// The longest such pause. What has failed for minutes is a missing or broken program; a try a minute finds out
/// soon enough that it was mended, and costs nothing meanwhile. A spare that lived this long was a good one.
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// The spares that can be taken, and what was learnt from those that failed.
#[derive(Default)]
pub(super) struct Spares {
    /// How many there should be; 0 until the pool is started.
    pub(super) wanted: usize,
    list: Vec<Spare>,
    next: u64,
    /// How many failed or died in a row.
    failures: u32,
    /// No further one is made before this.
    pub(super) not_before: Option<Instant>,
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

/// A spare's end of a promise: who takes it says where to deliver it.
pub(super) type Claim = oneshot::Receiver<oneshot::Sender<Slot>>;

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

    pub(super) fn add(&mut self, number: u64, id: InstanceId, ready: bool) -> Claim {
        let (claim, claimed) = oneshot::channel();
        self.list.push(Spare { number, id, ready, claim });
        claimed
    }

    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The spare's seat is open.
    pub(super) fn is_ready(&mut self, number: u64) {
        self.opened = true;
        self.trouble = None;
        if let Some(spare) = self.list.iter_mut().find(|spare| spare.number == number) {
            spare.ready = true;
        }
    }

    /// Takes a spare off the list. `false` if it was taken or given up already.
    pub(super) fn remove(&mut self, number: u64) -> bool {
        let before = self.len();
        self.list.retain(|spare| spare.number != number);
        self.len() < before
    }

    /// Gives up the spares of an instance that is about to end.
    pub(super) fn give_up(&mut self, id: InstanceId) {
        self.list.retain(|spare| spare.id != id);
    }

    /// Notes that a spare failed after living this long. Several that fail together count once.
    pub(super) fn failed(&mut self, lived: Duration) {
        let now = Instant::now();
        if self.not_before.is_some_and(|at| at > now) {
            return;
        }
        self.failures = if lived >= BACKOFF_MAX { 0 } else { self.failures };
        let pause = BACKOFF.saturating_mul(2_u32.saturating_pow(self.failures)).min(BACKOFF_MAX);
        self.failures += 1;
        self.not_before = Some(now + pause);
    }

    /// A spare came into good hands: those before it failed for a reason that is gone. Its successor waits a moment.
    pub(super) fn succeeded(&mut self, pause: Duration) {
        self.failures = 0;
        self.not_before = Some(Instant::now() + pause);
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
