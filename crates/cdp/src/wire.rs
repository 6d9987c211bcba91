//! The task behind a connection: it writes the calls that clients queue, hands each reply to its call and each event
//! to the consumer, and publishes once why it ended.
//!
//! It ends when the connection does, when the browser breaks the protocol, when the events' consumer falls
//! behind, or when the last client and the events are dropped. Ending fails every call that still waits.

use std::{collections::HashMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_tungstenite::WebSocketStream;

use crate::{
    CallReply, Closed,
    dial::Io,
    envelope::{self, CdpError, Incoming},
    message_stream::{MessageReader, MessageWriter},
    queue::{self, PushOutcome},
};

pub(crate) type Socket = WebSocketStream<Box<dyn Io>>;

/// What a call waits for.
pub(crate) type CallResult = Result<CallReply, CdpError>;

/// The calls that wait for their replies.
#[derive(Default)]
pub(crate) struct PendingCalls(Mutex<PendingTable>);

#[derive(Default)]
struct PendingTable {
    last_id: u32,
    calls: HashMap<u32, oneshot::Sender<CallResult>>,
    /// Set once, when the calls are removed: a later call would wait for ever.
    is_closed: bool,
}

/// A call's entry among the pending ones. Dropping it, answered or given up, removes the entry.
pub(crate) struct PendingCall {
    pending: Arc<PendingCalls>,
    pub(crate) id: u32,
}

impl PendingCalls {
    /// Adds an entry for one more call; `None` when the connection is over.
    pub(crate) fn add(self: &Arc<Self>) -> Option<(PendingCall, oneshot::Receiver<CallResult>)> {
        let (sender, answer) = oneshot::channel();
        let mut table = self.lock();
        if table.is_closed {
            return None;
        }
        // The protocol's ids are 32-bit signed. After two billion calls the first ones are long answered.
        table.last_id = table.last_id % i32::MAX.unsigned_abs() + 1;
        let id = table.last_id;
        table.calls.insert(id, sender);
        Some((PendingCall { pending: self.clone(), id }, answer))
    }

    fn answer(&self, id: u32, outcome: CallResult) {
        // A reply without a waiter belongs to a call that was given up.
        if let Some(call) = self.lock().calls.remove(&id) {
            let _ = call.send(outcome);
        }
    }

    fn drop_all(&self) {
        let mut table = self.lock();
        table.is_closed = true;
        table.calls.clear();
    }

    /// Held for a map access and never across an await; a panic cannot leave it half changed.
    fn lock(&self) -> MutexGuard<'_, PendingTable> {
        self.0.lock()
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        self.pending.lock().calls.remove(&self.id);
    }
}

/// Runs a connection to its end.
pub(crate) async fn run(
    writer: MessageWriter,
    reader: MessageReader,
    outgoing: mpsc::Receiver<String>,
    events: queue::Sender,
    pending: Arc<PendingCalls>,
    closed: watch::Sender<Option<Closed>>,
) {
    // Concurrently: a message that takes long to write must not keep replies from being read.
    let why = tokio::select! {
        why = read(reader, &events, &pending) => why,
        why = write(writer, outgoing, &events) => why,
    };
    tracing::debug!(%why, "a DevTools connection ended");
    // Publish the reason before the calls and the consumer wake and ask for it.
    closed.send_replace(Some(why));
    pending.drop_all();
    drop(events);
}

async fn read(mut reader: MessageReader, events: &queue::Sender, pending: &PendingCalls) -> Closed {
    loop {
        let text = match reader.try_receive().await {
            Ok(text) => text,
            Err(why) => return why,
        };
        match envelope::parse(&text) {
            Ok(Incoming::Reply { id, body }) => {
                let after_event = events.last_number();
                pending.answer(id, body.map(|result| CallReply { result, after_event }));
            }
            Ok(Incoming::Event(event)) => match events.push(event) {
                PushOutcome::Queued => {}
                PushOutcome::Full => return Closed::Overflow,
            },
            Ok(Incoming::UnmatchedError(error)) => return Closed::Protocol(error.message_with_data().into()),
            Err(reason) => return Closed::Protocol(reason.into()),
        }
    }
}

async fn write(
    mut writer: MessageWriter,
    mut outgoing: mpsc::Receiver<String>,
    events: &queue::Sender,
) -> Closed {
    while let Some(text) = outgoing.recv().await {
        if let Err(why) = writer.try_send(text.into()).await {
            return why;
        }
    }
    // No client is left; the consumer of events may still be.
    events.closed().await;
    Closed::Unused
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call that is given up leaves no entry, and no call can enter once the connection is over.
    #[test]
    fn dropped_call_leaves_no_entry() {
        let pending = Arc::new(PendingCalls::default());
        let (first, _answer) = pending.add().unwrap();
        let (second, _answer) = pending.add().unwrap();
        assert_ne!(first.id, second.id);
        drop(first);
        assert_eq!(pending.lock().calls.keys().copied().collect::<Vec<_>>(), [second.id]);
        pending.drop_all();
        assert!(pending.lock().calls.is_empty() && pending.add().is_none());
    }

    /// Ids stay within what the protocol can carry.
    #[test]
    fn ids_wrap_around() {
        let pending = Arc::new(PendingCalls::default());
        pending.lock().last_id = i32::MAX.unsigned_abs();
        assert_eq!(pending.add().unwrap().0.id, 1);
    }
}
