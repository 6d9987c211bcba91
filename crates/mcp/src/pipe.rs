//! Messages over a socket, one a line as over stdio: between a front that has joined a server and that server.
//!
//! Unlike the standard streams a socket may be non-blocking, so two tasks serve it instead of two threads.

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
    task::JoinSet,
};

use crate::{
    lines::{LineSplitter, StreamLine},
    stdio::{IN_QUEUE, OUT_QUEUE, Outgoing, OutgoingItem, READ_BYTES, Stdio, collect},
};

/// Serves the given stream, until the tasks are dropped. An incoming line may have `bytes_max` bytes; `begun` holds the
/// bytes of the first line that were already read.
pub fn open(
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    begun: Vec<u8>,
    bytes_max: usize,
) -> (Stdio, JoinSet<()>) {
    let (to_gateway, incoming) = mpsc::channel(IN_QUEUE);
    let (outgoing, queue) = mpsc::channel(OUT_QUEUE);
    let mut tasks = JoinSet::new();
    tasks.spawn(read(input, to_gateway, begun, bytes_max));
    tasks.spawn(write(output, queue));
    (Stdio { incoming, outgoing: Outgoing::new(outgoing) }, tasks)
}

async fn read(
    mut input: impl AsyncRead + Unpin,
    to: mpsc::Sender<StreamLine>,
    begun: Vec<u8>,
    bytes_max: usize,
) {
    let mut lines = LineSplitter::new(bytes_max);
    let mut whole = Vec::new();
    let mut chunk = begun;
    loop {
        lines.feed(&chunk, |line| whole.push(line));
        for line in whole.drain(..) {
            if to.send(line).await.is_err() {
                return;
            }
        }
        chunk.clear();
        chunk.reserve(READ_BYTES);
        match input.read_buf(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    if let Some(line) = lines.finish() {
        let _ = to.send(line).await;
    }
}

async fn write(mut output: impl AsyncWrite + Unpin, mut queue: mpsc::Receiver<OutgoingItem>) {
    let mut buffer = Vec::new();
    let mut flushed = Vec::new();
    while let Some(first) = queue.recv().await {
        collect(first, &mut queue, &mut buffer, &mut flushed);
        if output.write_all(&buffer).await.is_err() || output.flush().await.is_err() {
            return;
        }
        buffer.clear();
        for written in flushed.drain(..) {
            let _ = written.send(());
        }
    }
    let _ = output.shutdown().await;
}
