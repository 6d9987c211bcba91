//! The queue in front of the writer: operations in the order in which they were asked for.
//!
//! Putting one in takes a mutex for a few lines and never waits. What is beyond the queue's bounds is refused, and its
//! caller hears so. The writer takes everything that waits at once; while it is at work, nobody has to wake it.

use std::{
    mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use greenroom_core::record::NotRecorded;

use crate::op::Op;

/// How many operations may wait. The writer does some 50,000 a second, so a full queue means that the disk has stopped
/// for a while; a thousand connections with a call each still fit in.
const OPS_MAX: usize = 4096;

/// How much they may hold together. A single answer can have 64 MiB.
const BYTES_MAX: usize = 256 << 20;

#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    ops: Vec<Op>,
    bytes: usize,
    /// The writer sleeps and must be woken.
    sleeping: bool,
    /// No more is taken in; what is in is still written.
    closed: bool,
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
    pub(crate) fn push(&self, op: Op) -> Result<(), NotRecorded> {
        let bytes = op.bytes();
        let mut state = self.lock();
        if state.closed {
            return Err(NotRecorded(Arc::from("greenroom is shutting down")));
        }
        if state.ops.len() >= OPS_MAX || (state.bytes + bytes > BYTES_MAX && !state.ops.is_empty()) {
            return Err(NotRecorded(Arc::from(format!(
                "{} records wait to be written, with {} MiB; no more are taken until the disk has caught up",
                state.ops.len(),
                state.bytes >> 20
            ))));
        }
        state.bytes += bytes;
        state.ops.push(op);
        let wake = mem::take(&mut state.sleeping);
        drop(state);
        if wake {
            self.news.notify_one();
        }
        Ok(())
    }

    /// Waits until there is something to write, and puts all of it into `batch`, which must be empty. Returns its bytes
    /// with it.
    pub(crate) fn take(&self, batch: &mut Vec<Op>, at_most: Duration) -> (News, usize) {
        let mut state = self.lock();
        if state.ops.is_empty() && !state.closed && !at_most.is_zero() {
            state.sleeping = true;
            let (woken, _) = self
                .news
                .wait_timeout_while(state, at_most, |state| state.ops.is_empty() && !state.closed)
                .unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.sleeping = false;
        }
        mem::swap(&mut state.ops, batch);
        let bytes = mem::take(&mut state.bytes);
        let news = match (batch.is_empty(), state.closed) {
            (false, _) => News::Ops,
            (true, true) => News::Closed,
            (true, false) => News::Nothing,
        };
        (news, bytes)
    }

    /// Takes no more in.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.news.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
