//! One browser session on a pipe, as a connection: what its consumer has not read yet, and its two halves.
//!
//! All sessions share the pipe, so no session may stop the reading of it. Messages wait here for their consumer. If too many
//! wait, the session ends; the other sessions do not notice.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::mpsc;

use super::router::{Admission, Router};
use crate::{Closed, EVENTS_BYTES_MAX, message_stream::Text};

/// What a waiting message takes besides its text.
const OVERHEAD_BYTES: usize = 64;

/// The pipe's end of a session's queue.
#[derive(Clone)]
pub(super) struct ChannelQueue {
    messages: mpsc::UnboundedSender<Text>,
    state: Arc<QueueState>,
}

#[derive(Default)]
struct QueueState {
    /// The bytes of the messages that wait.
    bytes: AtomicUsize,
    /// Why the session is over, once it is.
    closed: OnceLock<Closed>,
}

/// Receives a session's messages.
pub(crate) struct ChannelReader {
    messages: mpsc::UnboundedReceiver<Text>,
    state: Arc<QueueState>,
}

/// Sends a session's messages. Dropping it ends the session in the browser.
pub(crate) struct ChannelWriter {
    session: String,
    router: Arc<Router>,
    outgoing: mpsc::Sender<Text>,
}

pub(super) fn queue() -> (ChannelQueue, ChannelReader) {
    let (sender, messages) = mpsc::unbounded_channel();
    let state = Arc::new(QueueState::default());
    (ChannelQueue { messages: sender, state: state.clone() }, ChannelReader { messages, state })
}

impl ChannelQueue {
    /// Queues a message. `false` means that too many bytes wait already. Any message fits into an empty queue.
    pub(super) fn push(&self, text: Text) -> bool {
        let bytes = text.len() + OVERHEAD_BYTES;
        let waiting = self.state.bytes.fetch_add(bytes, Ordering::Relaxed);
        if waiting > 0 && waiting + bytes > EVENTS_BYTES_MAX {
            return false;
        }
        // A consumer that is gone needs no messages.
        let _ = self.messages.send(text);
        true
    }

    pub(super) fn close(&self, why: Closed) {
        // The first reason is the cause.
        let _ = self.state.closed.set(why);
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }
}

impl ChannelReader {
    /// The next message, or why the session is over. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Text, Closed> {
        let closed = |state: &QueueState| state.closed.get().cloned();
        if let Some(why @ Closed::Overflow) = closed(&self.state) {
            return Err(why);
        }
        match self.messages.recv().await {
            Some(text) => {
                self.state.bytes.fetch_sub(text.len() + OVERHEAD_BYTES, Ordering::Relaxed);
                Ok(text)
            }
            None => Err(closed(&self.state).unwrap_or(Closed::ByBrowser)),
        }
    }
}

impl ChannelWriter {
    pub(super) fn new(session: String, router: Arc<Router>, outgoing: mpsc::Sender<Text>) -> Self {
        Self { session, router, outgoing }
    }

    /// Sends a call. `false` means that the session is over.
    pub(crate) async fn send(&self, text: Text) -> bool {
        match self.router.admit(&self.session, text) {
            Admission::Send(text) => self.outgoing.send(text).await.is_ok(),
            Admission::Answered => true,
            Admission::Closed => false,
        }
    }
}

impl Drop for ChannelWriter {
    fn drop(&mut self) {
        self.router.end_session(&self.session);
    }
}
