//! One stream of streamable HTTP from server to client: the messages that belong to one request, or those that belong
//! to none.
//!
//! Messages are numbered. A reader takes them in order; when its connection breaks, the next reader says which number
//! it has seen and resumes after it. A stream has one reader at a time, the newest: an older one is probably a
//! connection that died silently. Messages that were read are kept for a while, within limits; unread ones are
//! bounded too. [`HeldBytes`] counts what waits for one client in all its streams, until it is written.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// Messages that may wait for a slow reader; then notifications are dropped. As many as over stdio.
const UNREAD_MAX: usize = 1024;

/// How many messages may wait for a slow reader before questions are refused too. A client with that many open
/// questions answers none of them.
const URGENT_MAX: usize = 2 * UNREAD_MAX;

/// Bytes that may wait for a slow reader; then notifications are dropped.
const UNREAD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Messages kept after they were read. A connection that dies silently may have swallowed as many as may wait; a client
/// that missed more starts anew.
const RETAINED_MAX: usize = UNREAD_MAX;

/// Bytes kept after they were read: enough for a big answer. More would let finished work pile up in memory.
const RETAINED_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Counts the bytes of messages to one client, from when they are sent until the last copy is written or forgotten.
#[derive(Debug, Clone, Default)]
pub struct HeldBytes(Arc<AtomicUsize>);

impl HeldBytes {
    /// The message, counted for as long as a copy of it exists.
    pub fn hold(&self, message: Vec<u8>) -> Bytes {
        self.0.fetch_add(message.len(), Ordering::Relaxed);
        Bytes::from_owner(HeldMessage { message, held: self.clone() })
    }

    pub fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

struct HeldMessage {
    message: Vec<u8>,
    held: HeldBytes,
}

impl AsRef<[u8]> for HeldMessage {
    fn as_ref(&self) -> &[u8] {
        &self.message
    }
}

impl Drop for HeldMessage {
    fn drop(&mut self) {
        self.held.0.fetch_sub(self.message.len(), Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
pub struct MessageStream {
    state: Mutex<StreamState>,
    changed: Notify,
    held: HeldBytes,
}

#[derive(Debug, Default)]
struct StreamState {
    messages: VecDeque<Bytes>,
    bytes: usize,
    /// The number of the first message in `messages`.
    first: u64,
    /// The number of the first unread message.
    unread: u64,
    unread_bytes: usize,
    finished: bool,
    /// Counts readers; only the last one is served.
    readers: u64,
    has_reader: bool,
}

/// A message with its number.
#[derive(Debug, PartialEq, Eq)]
pub struct NumberedMessage {
    pub number: u64,
    pub message: Bytes,
    /// No message follows it.
    pub last: bool,
}

impl StreamState {
    fn next(&self) -> u64 {
        self.first + self.messages.len() as u64
    }

    fn push(&mut self, message: Bytes) {
        self.bytes += message.len();
        self.unread_bytes += message.len();
        self.messages.push_back(message);
    }

    fn waiting(&self) -> u64 {
        self.next() - self.unread
    }

    fn newest_unread(&self) -> Option<&Bytes> {
        self.messages.back().filter(|_| self.waiting() > 0)
    }

    /// Drops messages that were read, beyond what is kept.
    fn trim(&mut self) {
        while self.first < self.unread && {
            let retained = self.unread - self.first;
            retained > RETAINED_MAX as u64 || self.bytes - self.unread_bytes > RETAINED_BYTES_MAX
        } {
            let Some(message) = self.messages.pop_front() else { return };
            self.bytes -= message.len();
            self.first += 1;
        }
    }
}

impl MessageStream {
    fn lock(&self) -> MutexGuard<'_, StreamState> {
        self.state.lock()
    }

    /// Makes a stream whose bytes `held` counts, together with those of the client's other streams.
    pub fn counted_by(held: &HeldBytes) -> Self {
        Self { held: held.clone(), ..Self::default() }
    }

    /// The count of what waits for the client of this stream, in all its streams.
    pub fn held(&self) -> &HeldBytes {
        &self.held
    }

    fn send_if(&self, message: Vec<u8>, fits: impl FnOnce(&StreamState) -> bool) -> bool {
        let mut state = self.lock();
        if state.finished || !fits(&state) {
            return false;
        }
        state.push(self.held.hold(message));
        drop(state);
        self.changed.notify_waiters();
        true
    }

    /// Adds a message. `false` when the stream has ended, or its reader is too far behind.
    pub fn send(&self, message: Vec<u8>) -> bool {
        self.send_if(message, |state| state.waiting() < URGENT_MAX as u64)
    }

    /// Adds a message unless too many wait already.
    pub fn try_send(&self, message: Vec<u8>) -> bool {
        self.send_if(message, |state| {
            state.waiting() < UNREAD_MAX as u64 && state.unread_bytes < UNREAD_BYTES_MAX
        })
    }

    /// Adds a message unless the newest one that waits is the same: a repetition would add nothing.
    pub fn send_unless_pending(&self, message: Vec<u8>) {
        if self.lock().newest_unread().is_none_or(|newest| *newest != *message) {
            self.try_send(message);
        }
    }

    /// Adds the last message.
    pub fn finish_with(&self, message: Vec<u8>) {
        let mut state = self.lock();
        if !state.finished {
            state.push(self.held.hold(message));
            state.finished = true;
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Ends the stream, if it has not ended.
    pub fn finish(&self) {
        self.lock().finished = true;
        self.changed.notify_waiters();
    }

    pub fn is_finished(&self) -> bool {
        self.lock().finished
    }

    /// Whether a reader is connected.
    pub fn has_reader(&self) -> bool {
        self.lock().has_reader
    }

    /// How many bytes of messages the stream holds.
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Makes a reader that begins at the message that `from` chooses, and that replaces the previous reader. Both happen
    /// under one lock: otherwise the previous reader could read further in between, and the stream soon drops messages
    /// that were read.
    fn read_from(self: &Arc<Self>, from: impl FnOnce(&StreamState) -> Option<u64>) -> Option<StreamReader> {
        let state = self.lock();
        let next = from(&state)?;
        Some(self.serve(state, next))
    }

    fn serve(self: &Arc<Self>, mut state: MutexGuard<'_, StreamState>, next: u64) -> StreamReader {
        state.readers += 1;
        state.has_reader = true;
        let reader = StreamReader { stream: self.clone(), which: state.readers, next };
        drop(state);
        // Wake the previous reader, which then ends.
        self.changed.notify_waiters();
        reader
    }

    /// Resumes after the last message that was read.
    pub fn read(self: &Arc<Self>) -> StreamReader {
        let state = self.lock();
        let next = state.unread;
        self.serve(state, next)
    }

    /// Reads from the first message on. `None` when that is no longer kept.
    pub fn read_from_start(self: &Arc<Self>) -> Option<StreamReader> {
        self.read_from(|state| (state.first == 0).then_some(0))
    }

    /// Resumes after this message. `None` when the next message is no longer kept, or the number was never given.
    pub fn read_behind(self: &Arc<Self>, number: u64) -> Option<StreamReader> {
        self.read_from(|state| {
            let given = number < state.next();
            (given && number + 1 >= state.first).then(|| number + 1)
        })
    }
}

/// Takes the messages of a stream, until another reader takes over.
#[derive(Debug)]
pub struct StreamReader {
    stream: Arc<MessageStream>,
    which: u64,
    next: u64,
}

impl StreamReader {
    /// What waits for the client of this stream.
    pub fn held(&self) -> &HeldBytes {
        &self.stream.held
    }

    /// The next message; `None` at the end of the stream, or when another reader has taken over.
    pub async fn next(&mut self) -> Option<NumberedMessage> {
        let stream = self.stream.clone();
        loop {
            let changed = stream.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            match self.try_next() {
                NextMessage::Message(message) => return Some(message),
                NextMessage::End => return None,
                NextMessage::Nothing => changed.await,
            }
        }
    }

    fn try_next(&mut self) -> NextMessage {
        let mut state = self.stream.lock();
        if state.readers != self.which {
            return NextMessage::End;
        }
        let at = usize::try_from(self.next.saturating_sub(state.first)).unwrap_or(usize::MAX);
        let Some(message) = state.messages.get(at).cloned() else {
            return if state.finished { NextMessage::End } else { NextMessage::Nothing };
        };
        let number = self.next;
        self.next += 1;
        if state.unread < self.next {
            state.unread_bytes -= message.len();
            state.unread = self.next;
            state.trim();
        }
        NextMessage::Message(NumberedMessage {
            number,
            message,
            last: state.finished && self.next == state.next(),
        })
    }
}

enum NextMessage {
    Message(NumberedMessage),
    Nothing,
    End,
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        let mut state = self.stream.lock();
        if state.readers == self.which {
            state.has_reader = false;
        }
    }
}

#[cfg(test)]
mod tests;
