//! The stdio transport for the agent in front: stdin and stdout carry messages and nothing else.
//!
//! A plain thread serves each of the two. Standard streams may be pipes, sockets, files or a terminal, whose
//! non-blocking mode would be shared with the process that started greenroom; a blocked thread works with all of
//! them. The process never joins these threads at exit: one may be in a read that never returns.

use std::{
    io::{Read, Write},
    thread,
};

use tokio::sync::{mpsc, oneshot};

use crate::{
    CLIENT_MESSAGE_BYTES_MAX,
    lines::{LineSplitter, StreamLine},
};

/// How many lines the thread reads ahead of the gateway: enough to keep the gateway busy, few enough that a flood
/// waits in the pipe.
pub(crate) const IN_QUEUE: usize = 256;

/// Messages that may wait for a slow client. Beyond it answers wait, and notifications are dropped.
pub(crate) const OUT_QUEUE: usize = 1024;

/// How many bytes one read takes. A pipe holds 64 KiB, so a larger buffer would never be filled.
pub(crate) const READ_BYTES: usize = 64 * 1024;

/// Messages to the client, one a line.
#[derive(Clone)]
pub struct Outgoing(mpsc::Sender<OutgoingItem>);

pub(crate) enum OutgoingItem {
    Line(Vec<u8>),
    /// Answered when everything before it has been written.
    Flush(oneshot::Sender<()>),
}

/// The client no longer reads.
#[derive(Debug)]
pub struct ClientGone;

impl Outgoing {
    pub(crate) fn new(queue: mpsc::Sender<OutgoingItem>) -> Self {
        Self(queue)
    }

    pub async fn send(&self, line: Vec<u8>) -> Result<(), ClientGone> {
        self.0.send(OutgoingItem::Line(line)).await.map_err(|_| ClientGone)
    }

    /// Sends if there is room. `false` means that the message was dropped.
    pub fn try_send(&self, line: Vec<u8>) -> bool {
        self.0.try_send(OutgoingItem::Line(line)).is_ok()
    }

    /// Resolves when the client no longer reads.
    pub async fn closed(&self) {
        self.0.closed().await;
    }

    /// Returns when everything sent so far has been written, or the client no longer reads.
    pub async fn flush(&self) {
        let (written, done) = oneshot::channel();
        if self.0.send(OutgoingItem::Flush(written)).await.is_ok() {
            let _ = done.await;
        }
    }
}

/// The two ends of a connection.
pub struct Stdio {
    pub incoming: mpsc::Receiver<StreamLine>,
    pub outgoing: Outgoing,
}

/// Serves the given streams.
pub fn open(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
) -> std::io::Result<Stdio> {
    let (to_gateway, incoming) = mpsc::channel(IN_QUEUE);
    let (outgoing, queue) = mpsc::channel(OUT_QUEUE);
    thread::Builder::new().name("stdin".into()).spawn(move || read(input, &to_gateway))?;
    thread::Builder::new().name("stdout".into()).spawn(move || write(output, queue))?;
    Ok(Stdio { incoming, outgoing: Outgoing(outgoing) })
}

fn read(mut input: impl Read, to: &mpsc::Sender<StreamLine>) {
    let mut lines = LineSplitter::new(CLIENT_MESSAGE_BYTES_MAX);
    let mut chunk = vec![0; READ_BYTES];
    let mut whole = Vec::new();
    loop {
        match input.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => lines.feed(chunk.get(..count).unwrap_or_default(), |line| whole.push(line)),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        }
        for line in whole.drain(..) {
            if to.blocking_send(line).is_err() {
                return;
            }
        }
    }
    if let Some(line) = lines.finish() {
        let _ = to.blocking_send(line);
    }
}

/// Writes all queued messages at once: many answers cost one system call.
fn write(mut output: impl Write, mut queue: mpsc::Receiver<OutgoingItem>) {
    let mut buffer = Vec::new();
    let mut flushed = Vec::new();
    while let Some(first) = queue.blocking_recv() {
        collect(first, &mut queue, &mut buffer, &mut flushed);
        if output.write_all(&buffer).is_err() || output.flush().is_err() {
            return;
        }
        buffer.clear();
        for written in flushed.drain(..) {
            let _ = written.send(());
        }
    }
}

/// Takes queued messages, up to what one write should carry.
pub(crate) fn collect(
    first: OutgoingItem,
    queue: &mut mpsc::Receiver<OutgoingItem>,
    buffer: &mut Vec<u8>,
    flushed: &mut Vec<oneshot::Sender<()>>,
) {
    let mut next = Some(first);
    while let Some(out) = next {
        match out {
            OutgoingItem::Line(line) => {
                buffer.extend_from_slice(&line);
                buffer.push(b'\n');
            }
            OutgoingItem::Flush(written) => flushed.push(written),
        }
        next = if buffer.len() < READ_BYTES { queue.try_recv().ok() } else { None };
    }
}
