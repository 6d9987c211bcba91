//! MCP over a child process's pipes: one message a line.

use std::sync::Arc;

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
    task::JoinSet,
};

use super::PeerLink;
use crate::{
    MESSAGE_BYTES_MAX,
    lines::LineSplitter,
    peer::{Dispatch, Inbound, Peer},
};

/// Messages that may wait for a slow child before a sender waits too. A seat sends one call at a time, so this
/// only has to hold that call and answers to the child's own requests.
const OUT_QUEUE: usize = 32;

/// How many bytes one read takes. A pipe holds 64 KiB, so a larger buffer would never be filled.
const READ_BYTES: usize = 64 * 1024;

/// Connects to a server over its stdin and stdout. The peer is closed when stdout ends; dropping the peer
/// closes stdin.
pub fn connect(
    stdin: impl AsyncWrite + Unpin + Send + 'static,
    stdout: impl AsyncRead + Unpin + Send + 'static,
) -> (Peer, mpsc::Receiver<Inbound>) {
    let (dispatch, inbound) = Dispatch::new();
    let (out, queue) = mpsc::channel(OUT_QUEUE);
    let mut tasks = JoinSet::new();
    tasks.spawn(write(stdin, queue));
    tasks.spawn(read(stdout, dispatch.clone()));
    (Peer::new(PeerLink::Child(out), dispatch, tasks), inbound)
}

async fn write(mut stdin: impl AsyncWrite + Unpin, mut queue: mpsc::Receiver<Vec<u8>>) {
    while let Some(mut line) = queue.recv().await {
        line.push(b'\n');
        if stdin.write_all(&line).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

async fn read(mut stdout: impl AsyncRead + Unpin, dispatch: Arc<Dispatch>) {
    let mut lines = LineSplitter::new(MESSAGE_BYTES_MAX);
    let mut chunk = vec![0; READ_BYTES];
    let mut whole = Vec::new();
    while let Ok(count @ 1..) = stdout.read(&mut chunk).await {
        lines.feed(chunk.get(..count).unwrap_or_default(), |line| whole.push(line));
        for line in whole.drain(..) {
            dispatch.line(line).await;
        }
    }
    dispatch.close();
}
