//! One stream of streamable HTTP from server to client: the messages that belong to one request, or those that belong
//! to none.
//!
//! Messages are numbered. A reader takes them in order; when its connection breaks, the next reader says which number
//! it has seen and goes on behind it. A stream has one reader at a time, the newest: an older one is probably a
//! connection that died without a word. What was read is kept for a while, within limits, and what nobody reads is
//! bounded too.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use tokio::sync::Notify;

/// Messages that may wait for a slow reader; then notifications are dropped. As many as over stdio.
const UNREAD_MAX: usize = 1024;

/// Bytes that may wait for a slow reader; then notifications are dropped.
const UNREAD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Messages kept after they were read. A reader whose connection broke has missed a few; who has missed more begins
/// anew.
const KEPT_MAX: usize = 64;

/// Bytes kept after they were read: enough for a big answer. More would let finished work pile up in memory.
const KEPT_BYTES_MAX: usize = 4 * 1024 * 1024;

#[derive(Debug, Default)]
pub struct Stream {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<Bytes>,
    bytes: usize,
    /// The number of the first message in `messages`.
    first: u64,
    /// The number of the next message that nobody has read.
    unread: u64,
    unread_bytes: usize,
    finished: bool,
    /// Counts readers; only the last one is served.
    readers: u64,
    has_reader: bool,
}

/// A message with its number.
#[derive(Debug, PartialEq, Eq)]
pub struct Numbered {
    pub number: u64,
    pub message: Bytes,
    /// Nothing comes behind it.
    pub last: bool,
}

impl State {
    fn next(&self) -> u64 {
        self.first + self.messages.len() as u64
    }

    fn push(&mut self, message: Vec<u8>) {
        self.bytes += message.len();
        self.unread_bytes += message.len();
        self.messages.push_back(message.into());
    }

    /// Forgets what was read and is more than is kept.
    fn trim(&mut self) {
        while self.first < self.unread && {
            let kept = self.unread - self.first;
            kept > KEPT_MAX as u64 || self.bytes - self.unread_bytes > KEPT_BYTES_MAX
        } {
            let Some(message) = self.messages.pop_front() else { return };
            self.bytes -= message.len();
            self.first += 1;
        }
    }
}

impl Stream {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a message. `false` when the stream has ended.
    pub fn send(&self, message: Vec<u8>) -> bool {
        let mut state = self.lock();
        if state.finished {
            return false;
        }
        state.push(message);
        drop(state);
        self.changed.notify_waiters();
        true
    }

    /// Adds a message unless too many wait already.
    pub fn try_send(&self, message: Vec<u8>) -> bool {
        let mut state = self.lock();
        let waiting = state.next() - state.unread;
        if state.finished || waiting >= UNREAD_MAX as u64 || state.unread_bytes >= UNREAD_BYTES_MAX {
            return false;
        }
        state.push(message);
        drop(state);
        self.changed.notify_waiters();
        true
    }

    /// Adds the last message.
    pub fn finish_with(&self, message: Vec<u8>) {
        let mut state = self.lock();
        if !state.finished {
            state.push(message);
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

    /// Whether somebody reads.
    pub fn has_reader(&self) -> bool {
        self.lock().has_reader
    }

    /// What the stream holds in memory.
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Reads on behind the last message that was read.
    pub fn read(self: &Arc<Self>) -> Reader {
        let mut state = self.lock();
        let next = state.unread;
        state.readers += 1;
        state.has_reader = true;
        let reader = Reader { stream: self.clone(), which: state.readers, next };
        drop(state);
        // The one before learns that it is no longer served.
        self.changed.notify_waiters();
        reader
    }

    /// Reads from the first message on. `None` when that is no longer kept.
    pub fn read_from_start(self: &Arc<Self>) -> Option<Reader> {
        if self.lock().first > 0 {
            return None;
        }
        let mut reader = self.read();
        reader.next = 0;
        Some(reader)
    }

    /// Reads on behind this message. `None` when what follows is no longer kept, or the number was never given.
    pub fn read_behind(self: &Arc<Self>, number: u64) -> Option<Reader> {
        {
            let state = self.lock();
            if number + 1 < state.first || number >= state.next() {
                return None;
            }
        }
        let mut reader = self.read();
        reader.next = number + 1;
        Some(reader)
    }
}

/// Takes the messages of a stream, until another reader does.
#[derive(Debug)]
pub struct Reader {
    stream: Arc<Stream>,
    which: u64,
    next: u64,
}

impl Reader {
    /// The next message; `None` at the end of the stream, or when another reader has taken over.
    pub async fn next(&mut self) -> Option<Numbered> {
        let stream = self.stream.clone();
        loop {
            let changed = stream.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            match self.look() {
                Look::Message(message) => return Some(message),
                Look::End => return None,
                Look::Nothing => changed.await,
            }
        }
    }

    fn look(&mut self) -> Look {
        let mut state = self.stream.lock();
        if state.readers != self.which {
            return Look::End;
        }
        let at = usize::try_from(self.next.saturating_sub(state.first)).unwrap_or(usize::MAX);
        let Some(message) = state.messages.get(at).cloned() else {
            return if state.finished { Look::End } else { Look::Nothing };
        };
        let number = self.next;
        self.next += 1;
        if state.unread < self.next {
            state.unread_bytes -= message.len();
            state.unread = self.next;
            state.trim();
        }
        Look::Message(Numbered { number, message, last: state.finished && self.next == state.next() })
    }
}

enum Look {
    Message(Numbered),
    Nothing,
    End,
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.stream.lock();
        if state.readers == self.which {
            state.has_reader = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn texts(reader: &mut Reader, count: usize) -> Vec<String> {
        let mut texts = Vec::new();
        for _ in 0..count {
            let next = reader.next().await.unwrap();
            texts.push(format!("{} {}", next.number, String::from_utf8_lossy(&next.message)));
        }
        texts
    }

    /// Messages come in order, the last one says so, and nothing follows it.
    #[tokio::test]
    async fn messages_come_in_order() {
        let stream = Arc::new(Stream::default());
        assert!(stream.send(b"a".to_vec()) && stream.try_send(b"b".to_vec()));
        let mut reader = stream.read();
        assert_eq!(texts(&mut reader, 2).await, ["0 a", "1 b"]);
        stream.finish_with(b"c".to_vec());
        assert!(reader.next().await.unwrap().last);
        assert!(reader.next().await.is_none());
        assert!(!stream.send(b"d".to_vec()));
    }

    /// A second reader takes over: nothing is lost, nothing comes twice, and the first one ends.
    #[tokio::test]
    async fn the_newest_reader_is_served() {
        let stream = Arc::new(Stream::default());
        let mut first = stream.read();
        stream.send(b"a".to_vec());
        assert_eq!(texts(&mut first, 1).await, ["0 a"]);
        let waiting = tokio::spawn(async move { first.next().await.is_none() });
        let mut second = stream.read();
        assert!(waiting.await.unwrap(), "the first reader ends");
        stream.send(b"b".to_vec());
        assert_eq!(texts(&mut second, 1).await, ["1 b"]);
        drop(second);
        assert!(!stream.has_reader());
    }

    /// Who has lost its connection goes on behind what it has seen, as far as that is kept.
    #[tokio::test]
    async fn a_reader_resumes_behind_what_it_saw() {
        let stream = Arc::new(Stream::default());
        for number in 0..KEPT_MAX + 2 {
            stream.send(number.to_string().into_bytes());
        }
        let mut reader = stream.read();
        texts(&mut reader, KEPT_MAX + 1).await;
        let mut resumed = stream.read_behind(5).unwrap();
        assert_eq!(texts(&mut resumed, 2).await, ["6 6", "7 7"]);
        texts(&mut resumed, KEPT_MAX - 6).await;
        assert!(stream.read_behind(0).is_none(), "no longer kept");
        assert!(stream.read_behind(1).is_some());
        assert!(stream.read_behind(1_000).is_none(), "never given");
    }

    /// Notifications that nobody reads are dropped at last; answers never are.
    #[test]
    fn what_nobody_reads_is_bounded() {
        let stream = Stream::default();
        let sent = (0..UNREAD_MAX + 5).filter(|_| stream.try_send(b"n".to_vec())).count();
        assert_eq!(sent, UNREAD_MAX);
        assert!(stream.send(b"answer".to_vec()));
    }
}
