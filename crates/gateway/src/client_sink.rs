//! Where messages to a client go: its one pipe, or over HTTP the stream of the request they belong to. A
//! front makes a `ReplyPath` for each message it receives: a [`ReplySink`] for the answer, and a
//! [`ClientSink`] for progress, log lines and questions.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use greenroom_mcp::{
    MESSAGE_BYTES_MAX, MessageStream,
    stdio::{ClientGone, Outgoing},
};

/// Where the messages that a request causes go: progress, log lines, questions.
#[derive(Clone)]
pub(crate) enum ClientSink {
    Pipe(Outgoing),
    /// The request's stream; after its end, the connection's background stream.
    Streams {
        own: Arc<MessageStream>,
        background: Option<Arc<MessageStream>>,
    },
}

impl ClientSink {
    /// Sends a message; messages keep their order.
    pub(crate) async fn send(&self, line: Vec<u8>) -> Result<(), ClientGone> {
        match self {
            Self::Pipe(outgoing) => outgoing.send(line).await,
            Self::Streams { own, background } => {
                open_one(own, background.as_ref()).send(line).then_some(()).ok_or(ClientGone)
            }
        }
    }

    /// Sends a message, unless the same one already waits to be read.
    pub(crate) async fn send_unless_pending(&self, line: Vec<u8>) -> Result<(), ClientGone> {
        match self {
            Self::Pipe(outgoing) => outgoing.send(line).await,
            Self::Streams { own, .. } if own.is_finished() => Err(ClientGone),
            Self::Streams { own, .. } => {
                own.send_unless_pending(line);
                Ok(())
            }
        }
    }

    /// Sends if there is room. `false` means that the message was dropped.
    pub(crate) fn try_send(&self, line: Vec<u8>) -> bool {
        match self {
            Self::Pipe(outgoing) => outgoing.try_send(line),
            Self::Streams { own, background } => open_one(own, background.as_ref()).try_send(line),
        }
    }
}

/// The request's stream, or the connection's if the request's has ended.
fn open_one<'a>(
    own: &'a Arc<MessageStream>,
    background: Option<&'a Arc<MessageStream>>,
) -> &'a Arc<MessageStream> {
    background.filter(|_| own.is_finished()).unwrap_or(own)
}

/// How many bytes may wait for one HTTP client in all its streams: four of the largest messages. On a pipe, a client
/// that does not read blocks its own calls; over HTTP nothing else limits what waits for it.
const HELD_BYTES_MAX: usize = 4 * MESSAGE_BYTES_MAX;

/// An answer up to this size is always sent, so that the error "there is no room" is sent too.
const SMALL_BYTES_MAX: usize = 64 * 1024;

/// Where the answer to a message goes. Over HTTP dropping the last clone without an answer ends the stream: the call
/// was cancelled.
#[derive(Clone)]
pub(crate) enum ReplySink {
    Pipe(Outgoing),
    Stream(Arc<FinishOnDrop>),
    /// Collects the answers of a batch, which are sent together. The counter is the number of bytes collected so far.
    Batch(tokio::sync::mpsc::Sender<Vec<u8>>, Arc<AtomicUsize>),
}

/// Ends its stream when dropped.
pub(crate) struct FinishOnDrop(Arc<MessageStream>);

impl Drop for FinishOnDrop {
    fn drop(&mut self) {
        self.0.finish();
    }
}

impl ReplySink {
    pub(crate) fn stream(stream: &Arc<MessageStream>) -> Self {
        Self::Stream(Arc::new(FinishOnDrop(stream.clone())))
    }

    /// Makes the sink of a batch of this many messages, each with at most one answer. The future sends the
    /// answers when the last one is there, that is, when every clone of the `ReplySink` is dropped: a
    /// cancelled call drops its own.
    pub(crate) fn batch(self, messages: usize) -> (Self, impl Future<Output = ()>) {
        let (answers, mut received) = tokio::sync::mpsc::channel::<Vec<u8>>(messages.max(1));
        let together = async move {
            let mut line = Vec::new();
            while let Some(answer) = received.recv().await {
                line.push(if line.is_empty() { b'[' } else { b',' });
                line.extend(answer);
            }
            if !line.is_empty() {
                line.push(b']');
                self.send(line).await;
            }
        };
        (Self::Batch(answers, Arc::default()), together)
    }

    /// Whether an answer of this length may wait for its client. If not, the client does not read the earlier ones.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let waiting = match self {
            Self::Pipe(_) => return true,
            Self::Stream(ending) => ending.0.held().bytes(),
            Self::Batch(_, waiting) => waiting.load(Ordering::Relaxed),
        };
        bytes <= SMALL_BYTES_MAX || waiting + bytes <= HELD_BYTES_MAX
    }

    /// Sends the answer. Ignores that the client is gone: the front notices that when it reads from the client.
    pub(crate) async fn send(&self, line: Vec<u8>) {
        match self {
            Self::Pipe(outgoing) => drop(outgoing.send(line).await),
            Self::Stream(ending) => ending.0.finish_with(line),
            // Sending fails only if the whole connection is gone.
            Self::Batch(answers, waiting) => {
                waiting.fetch_add(line.len(), Ordering::Relaxed);
                drop(answers.send(line).await);
            }
        }
    }
}

/// Where the results of one message from a client go.
#[derive(Clone)]
pub(crate) struct ReplyPath {
    pub(crate) reply: ReplySink,
    pub(crate) sink: ClientSink,
}

impl ReplyPath {
    pub(crate) fn pipe(outgoing: &Outgoing) -> Self {
        Self { reply: ReplySink::Pipe(outgoing.clone()), sink: ClientSink::Pipe(outgoing.clone()) }
    }

    pub(crate) fn stream(own: &Arc<MessageStream>, background: Option<Arc<MessageStream>>) -> Self {
        Self { reply: ReplySink::stream(own), sink: ClientSink::Streams { own: own.clone(), background } }
    }

    /// The `ReplyPath` of each message of a batch; see [`ReplySink::batch`].
    pub(crate) fn batch(self, messages: usize) -> (Self, impl Future<Output = ()>) {
        let (reply, together) = self.reply.batch(messages);
        (Self { reply, sink: self.sink }, together)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenroom_mcp::stream::HeldBytes;

    /// The bytes that wait for one client are limited over all its streams and within a batch; the error that says so
    /// always has room, and there is room again once the client has read.
    #[tokio::test]
    async fn unread_bytes_per_client_are_limited() {
        let held = HeldBytes::default();
        let stream = || Arc::new(MessageStream::counted_by(&held));
        let first = stream();
        let second = stream();
        let reply = ReplySink::stream(&second);
        assert!(reply.has_room(MESSAGE_BYTES_MAX));
        let mut reader = first.read();
        ReplySink::stream(&first).send(vec![b' '; HELD_BYTES_MAX]).await;
        assert!(!reply.has_room(SMALL_BYTES_MAX + 1) && reply.has_room(SMALL_BYTES_MAX));
        let read = reader.next().await;
        drop((first, reader));
        assert!(!reply.has_room(MESSAGE_BYTES_MAX), "read, and not yet written");
        drop(read);
        assert!(reply.has_room(MESSAGE_BYTES_MAX));
        let (part, _together) = reply.batch(2);
        part.send(vec![b' '; HELD_BYTES_MAX]).await;
        assert!(!part.has_room(MESSAGE_BYTES_MAX));
    }
}
