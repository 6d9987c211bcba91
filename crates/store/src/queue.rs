//! The queue in front of the writer: operations in the order of their calls.
//!
//! `push` holds a mutex for a few lines and never waits for the disk. It refuses operations beyond the queue's bounds. The
//! writer takes all operations that wait at once, and commits them as one transaction.

use std::{mem, sync::Arc, time::Duration};

use greenroom_core::{plural, record::NotRecorded};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::op::Op;

/// How many operations may wait. The writer does some 50,000 a second, so a full queue means that the disk has stopped
/// for a while; a thousand connections with a call each still fit in.
const OPS_MAX: usize = 4096;

/// How many bytes the waiting operations may hold together. A single answer can have 64 MiB.
pub(crate) const BYTES_MAX: usize = 256 << 20;

#[derive(Default)]
pub(crate) struct WriteQueue {
    state: Mutex<QueueContents>,
    news: Condvar,
}

#[derive(Default)]
struct QueueContents {
    ops: Vec<Op>,
    bytes: usize,
    /// The queue accepts no more operations; the writer still writes those in it.
    closed: bool,
    /// Why the queue is closed, if not because greenroom ends.
    why_closed: Option<Arc<str>>,
}

impl WriteQueue {
    pub(crate) fn push(&self, op: Op) -> Result<(), NotRecorded> {
        let bytes = op.bytes();
        let mut state = self.lock();
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
        // Only the first operation wakes the writer, which takes all that wait.
        let is_first = state.ops.is_empty();
        state.bytes += bytes;
        state.ops.push(op);
        drop(state);
        if is_first {
            self.news.notify_one();
        }
        Ok(())
    }

    /// Takes all operations; waits up to `at_most` for the first one. `None` once the queue is closed and empty.
    pub(crate) fn take(&self, at_most: Duration) -> Option<Vec<Op>> {
        let is_idle = |state: &mut QueueContents| state.ops.is_empty() && !state.closed;
        let mut state = self.lock();
        self.news.wait_while_for(&mut state, is_idle, at_most);
        state.bytes = 0;
        let ops = mem::take(&mut state.ops);
        (!ops.is_empty() || !state.closed).then_some(ops)
    }

    /// Accepts no more operations.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.news.notify_one();
    }

    /// Accepts no more operations, for this reason.
    pub(crate) fn close_because(&self, why: Arc<str>) {
        self.lock().why_closed = Some(why);
        self.close();
    }

    /// Why no more operations are accepted, if not because greenroom ends.
    pub(crate) fn why_closed(&self) -> Option<Arc<str>> {
        self.lock().why_closed.clone()
    }

    fn lock(&self) -> MutexGuard<'_, QueueContents> {
        self.state.lock()
    }
}
