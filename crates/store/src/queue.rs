//! The queue in front of the writer: operations in the order in which they were asked for.
//!
//! Putting one in takes a mutex for a few lines and never waits. What is beyond the queue's bounds is refused, and its
//! caller hears so. The writer takes everything that waits at once; while it is at work, nobody has to wake it.
//!
//! What the journal takes is acknowledged here, and then nothing hurries: the writer lets more come together before it
//! commits. It comes at once when somebody waits for a commit, or wants to read.

use std::{
    mem,
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use greenroom_core::{plural, record::NotRecorded};

use crate::{
    journal::{Journal, Segment},
    op::Op,
};

/// How many operations may wait. The writer does some 50,000 a second, so a full queue means that the disk has stopped
/// for a while; a thousand connections with a call each still fit in.
const OPS_MAX: usize = 4096;

/// How much they may hold together. A single answer can have 64 MiB.
pub(crate) const BYTES_MAX: usize = 256 << 20;

/// How many may wait that are noted already. Past it callers wait for commits, which is how they are slowed down where
/// calls come faster than the disk takes them; they are never refused for that.
const NOTED_MAX: usize = OPS_MAX / 2;

/// How long the writer lets noted operations gather: a commit for each would keep a core busy, and nobody waits.
const GATHER: Duration = Duration::from_millis(20);

/// How many are enough for a commit of their own.
const GATHERED: usize = 1024;

/// How long noted operations rest that could not be committed. They are safe; the disk may need a moment.
const REST: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    ops: Vec<Op>,
    bytes: usize,
    writer: Awake,
    /// Somebody waits for an operation, or for all of them.
    urgent: bool,
    /// Until when what is left over from a failure rests.
    rest_until: Option<Instant>,
    journal: Option<Journal>,
    /// The database is open and takes what it is given.
    is_well: bool,
    /// How many operations there were, which of them was the last that is noted, and how many are done.
    pushed: u64,
    last_noted: u64,
    done: u64,
    /// No more is taken in; what is in is still written.
    closed: bool,
    /// Why, if it is not because greenroom ends.
    why_closed: Option<Arc<str>>,
}

/// Whether the writer must be woken.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Awake {
    #[default]
    Yes,
    /// It sleeps until something comes.
    No,
    /// It lets noted operations gather.
    Gathers,
}

/// Why the writer looks up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    Ops,
    /// Nothing came in the given time.
    Nothing,
    /// Nothing is left, and no more will come.
    Closed,
}

impl Queue {
    /// A queue whose operations are noted in this data folder, while [`Queue::set_well`] says that all is well.
    pub(crate) fn noting(data: &Path) -> Self {
        let state = State { journal: Some(Journal::new(data)), ..State::default() };
        Self { state: Mutex::new(state), news: Condvar::new() }
    }

    pub(crate) fn push(&self, mut op: Op) -> Result<(), NotRecorded> {
        let bytes = op.bytes();
        let mut guard = self.lock();
        let state = &mut *guard;
        let ends = state.journal.as_mut().is_some_and(|journal| journal.ends(&op));
        if state.closed {
            let why = state.why_closed.clone();
            return Err(NotRecorded(why.unwrap_or_else(|| Arc::from("greenroom is shutting down"))));
        }
        if state.ops.len() >= OPS_MAX || (state.bytes + bytes > BYTES_MAX && !state.ops.is_empty()) {
            return Err(NotRecorded(Arc::from(format!(
                "{} {} to be written, with {} MiB; no more are taken until the disk has caught up",
                plural::count(state.ops.len(), "record"),
                plural::verb(state.ops.len(), "waits", "wait"),
                state.bytes >> 20
            ))));
        }
        let may_note = state.is_well && state.ops.len() < NOTED_MAX;
        let pushed = state.pushed;
        state.pushed += 1;
        if may_note && state.journal.as_mut().is_some_and(|journal| journal.note(&op, ends, pushed)) {
            op.acknowledge();
            state.last_noted = state.pushed;
        } else {
            state.urgent = true;
        }
        state.bytes += bytes;
        state.ops.push(op);
        self.wake(guard);
        Ok(())
    }

    /// Wakes the writer, if there is something for it.
    fn wake(&self, mut state: MutexGuard<'_, State>) {
        let wake = match state.writer {
            Awake::Yes => false,
            Awake::No => !state.ops.is_empty(),
            Awake::Gathers => state.urgent || state.ops.len() >= GATHERED,
        };
        if wake {
            state.writer = Awake::Yes;
        }
        drop(state);
        if wake {
            self.news.notify_one();
        }
    }

    /// Waits until there is something to write, and puts all of it into `batch`, which must be empty. Returns its bytes
    /// with it.
    pub(crate) fn take(&self, batch: &mut Vec<Op>, at_most: Duration) -> (News, usize) {
        let mut state = self.lock();
        if state.ops.is_empty() && !state.closed && !at_most.is_zero() {
            state = self.sleep(state, Awake::No, at_most, |state| state.ops.is_empty() && !state.closed);
        }
        if !state.ops.is_empty() {
            let rest = state.rest_until.take().map(|until| until.saturating_duration_since(Instant::now()));
            let gathers = |state: &mut State| !state.urgent && !state.closed && state.ops.len() < GATHERED;
            state = self.sleep(state, Awake::Gathers, rest.unwrap_or(GATHER), gathers);
        }
        state.urgent = false;
        mem::swap(&mut state.ops, batch);
        let bytes = mem::take(&mut state.bytes);
        let news = match (batch.is_empty(), state.closed) {
            (false, _) => News::Ops,
            (true, true) => News::Closed,
            (true, false) => News::Nothing,
        };
        (news, bytes)
    }

    fn sleep<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        how: Awake,
        at_most: Duration,
        until: impl FnMut(&mut State) -> bool,
    ) -> MutexGuard<'a, State> {
        state.writer = how;
        let woken = self.news.wait_timeout_while(state, at_most, until);
        let (mut state, _) = woken.unwrap_or_else(PoisonError::into_inner);
        state.writer = Awake::Yes;
        state
    }

    /// Operations that were taken are done, so many.
    pub(crate) fn settle(&self, count: u64) -> u64 {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.done += count;
        let done = state.done;
        let gone = state.journal.as_mut().map(|journal| journal.settle(done, state.pushed));
        drop(guard);
        gone.into_iter().flatten().for_each(Segment::discard);
        done
    }

    /// Takes operations back that were noted and could not be committed. A queue that is closed lets go of them: they
    /// are in the journal, and the next start finds them.
    pub(crate) fn put_back(&self, ops: Vec<Op>) {
        let mut state = self.lock();
        if state.closed || ops.is_empty() {
            return;
        }
        state.bytes += ops.iter().map(Op::bytes).sum::<usize>();
        state.ops.splice(0..0, ops);
        state.rest_until = Some(Instant::now() + REST);
    }

    /// Hurries the writer. Returns how many operations must be done before all that is noted can be read, unless they are.
    pub(crate) fn hurry(&self) -> Option<u64> {
        let mut state = self.lock();
        let until = state.last_noted;
        if state.done >= until {
            return None;
        }
        state.urgent = true;
        self.wake(state);
        Some(until)
    }

    /// Whether operations can be committed. While they cannot, none are noted: whoever asks must hear that.
    pub(crate) fn set_well(&self, is_well: bool) {
        self.lock().is_well = is_well;
    }

    /// The database is another one.
    pub(crate) fn forget_begun(&self) {
        if let Some(journal) = &mut self.lock().journal {
            journal.forget_begun();
        }
    }

    /// No more is noted.
    pub(crate) fn end_journal(&self) {
        if let Some(mut journal) = self.lock().journal.take() {
            journal.end();
        }
    }

    /// Takes no more in.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.news.notify_one();
    }

    /// Takes no more in, for this reason.
    pub(crate) fn close_because(&self, why: Arc<str>) {
        self.lock().why_closed = Some(why);
        self.close();
    }

    /// Why no more is taken in, if it is not because greenroom ends.
    pub(crate) fn why_closed(&self) -> Option<Arc<str>> {
        self.lock().why_closed.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use greenroom_core::{
        Owner, RefId, raw,
        record::{Request, Response, Status},
    };

    use super::*;

    fn begin(byte: u8) -> Op {
        let at = SystemTime::UNIX_EPOCH;
        let params = raw::parse("{}".to_owned()).unwrap();
        let (ref_id, owner) = (RefId::new(at, [byte; 16]), Owner::local());
        Op::Begin(Request { ref_id, owner, session: None, tool: Arc::from("t"), params, at }, None)
    }

    fn end(byte: u8) -> Op {
        let at = SystemTime::UNIX_EPOCH;
        let response = Response {
            ref_id: RefId::new(at, [byte; 16]),
            session: None,
            status: Status::Success,
            result: Arc::from("{}"),
            snapshot: None,
            console: Vec::new(),
            error: None,
            blobs: Vec::new(),
            url: None,
            title: None,
            at,
            took: Duration::ZERO,
        };
        Op::End(Box::new(response), None)
    }

    fn begun(queue: &Queue) -> usize {
        queue.lock().journal.as_ref().unwrap().begun()
    }

    /// A call that has ended is forgotten by the journal, whether its end was noted, could not be, or was refused.
    #[test]
    fn calls_that_ended_are_forgotten() {
        let data = tempfile::tempdir().unwrap();
        let queue = Queue::noting(data.path());
        queue.set_well(true);
        for byte in 1..=3 {
            queue.push(begin(byte)).unwrap();
        }
        assert_eq!(begun(&queue), 3);
        queue.push(end(1)).unwrap();
        assert_eq!(begun(&queue), 2);
        queue.set_well(false);
        queue.push(end(2)).unwrap();
        assert_eq!(begun(&queue), 1);
        queue.close();
        queue.push(end(3)).unwrap_err();
        assert_eq!(begun(&queue), 0);
    }
}
