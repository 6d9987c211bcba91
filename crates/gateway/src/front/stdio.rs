//! The stdio front: one process, one connection.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use greenroom_core::{ConnectionId, Owner};
use greenroom_mcp::{
    MESSAGE_BYTES_MAX, RpcError,
    error::INVALID_REQUEST,
    lines::Line,
    message::{self, Parsed},
    stdio::Stdio,
};
use tokio::{task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

use super::protocol::{Protocol, Reply};
use crate::{Gateway, connection::Connection};

/// How long a client may take to read its last answers. One that has closed its end reads no more; one that
/// still reads takes them at once.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Serves one client until it closes its end, or `stop` is asked for. Its calls are cancelled then; ending its
/// sessions is left to whoever owns the fleet.
pub async fn serve(gateway: Arc<Gateway>, stdio: Stdio, stop: CancellationToken) {
    let Stdio { mut incoming, outgoing } = stdio;
    let connection =
        Connection::new(ConnectionId(1), Owner::local(), outgoing.clone(), gateway.folder.clone());
    let mut changes = gateway.catalog.changes();
    let mut protocol = Protocol::new(gateway, connection.clone());
    let mut calls = JoinSet::new();
    let mut batches = JoinSet::new();
    loop {
        let step = async {
            tokio::select! {
                line = incoming.recv() => match line {
                    Some(line) => take(&mut protocol, &connection, line, &mut calls, &mut batches).await,
                    None => return ControlFlow::Break(()),
                },
                Ok(()) = changes.changed() => protocol.tools_changed().await,
                Some(_) = calls.join_next() => {}
                Some(_) = batches.join_next() => {}
            }
            ControlFlow::Continue(())
        };
        // Outside of the step: an answer that waits for a client who does not read must not outlast the end.
        let next = tokio::select! {
            biased;
            () = stop.cancelled() => ControlFlow::Break(()),
            () = outgoing.closed() => ControlFlow::Break(()),
            next = step => next,
        };
        if next.is_break() {
            break;
        }
    }
    connection.cancel_all();
    calls.shutdown().await;
    // What was answered is written before the process may end, unless the client reads no more. Without calls no
    // batch waits for an answer.
    let last_words = async {
        while batches.join_next().await.is_some() {}
        outgoing.flush().await;
    };
    let _ = timeout(LAST_WORDS, last_words).await;
}

async fn take(
    protocol: &mut Protocol,
    connection: &Arc<Connection>,
    line: Line,
    calls: &mut JoinSet<()>,
    batches: &mut JoinSet<()>,
) {
    let text = match line {
        Line::Whole(text) => text,
        Line::TooLong { bytes } => {
            let why = format!("the message has {bytes} bytes, at most {MESSAGE_BYTES_MAX} are taken");
            let error = RpcError::new(INVALID_REQUEST, why);
            return connection.send(message::response(None, &Err(error.to_raw()))).await;
        }
    };
    match message::parse(&text) {
        Parsed::One(one) => protocol.take(one, &Reply::alone(connection), calls).await,
        Parsed::Batch(parts) => {
            let (reply, together) = Reply::batch(connection, parts.len());
            batches.spawn(together);
            for part in parts {
                protocol.take(part, &reply, calls).await;
            }
        }
    }
}
