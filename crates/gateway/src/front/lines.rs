//! The front of a client that sends lines: over stdio, or through a relay that has joined this server.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use greenroom_mcp::{
    CLIENT_MESSAGE_BYTES_MAX, RpcError,
    error::INVALID_REQUEST,
    lines::StreamLine,
    message::{self, Parsed},
    stdio::Stdio,
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::protocol::Protocol;
use crate::{
    Gateway,
    client_sink::ReplyPath,
    connection::{Connection, NewClient},
    offload::{offload_if_large, offloadable, return_to_runtime},
};

/// How long a client may take to read its last answers. A client that has closed its end reads no more; a client that
/// still reads takes them at once.
pub(super) const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves one client until it closes its end, or `stop` is cancelled. Then it cancels the client's calls; the caller
/// ends the client's sessions.
pub async fn serve(gateway: Arc<Gateway>, stdio: Stdio, client: NewClient, stop: CancellationToken) {
    offloadable(serve_lines(gateway, stdio, client, stop)).await;
}

async fn serve_lines(gateway: Arc<Gateway>, stdio: Stdio, client: NewClient, stop: CancellationToken) {
    let Stdio { mut incoming, outgoing } = stdio;
    let reply_path = ReplyPath::pipe(&outgoing);
    let mut changes = gateway.catalog.changes();
    let protocol = Protocol::new(gateway, Connection::new(client));
    loop {
        let step = async {
            tokio::select! {
                line = incoming.recv() => match line {
                    Some(line) => take(&protocol, &reply_path, line).await,
                    None => return ControlFlow::Break(()),
                },
                Ok(()) = changes.changed() => protocol.tools_changed(&reply_path.sink).await,
            }
            ControlFlow::Continue(())
        };
        // Check for the stop here and not within the step: a step that waits for a client to read must not delay the
        // shutdown.
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
    // Write all answers before the process may end, unless the client reads no more.
    let flush = async {
        protocol.end().await;
        outgoing.flush().await;
    };
    let _ = timeout(FLUSH_TIMEOUT, flush).await;
}

async fn take(protocol: &Protocol, reply_path: &ReplyPath, line: StreamLine) {
    let text = match line {
        StreamLine::Whole(text) => text,
        StreamLine::TooLong { bytes } => return reply_path.reply.send(too_long(bytes)).await,
    };
    let guard = offload_if_large(text.len()).await;
    match message::parse_from_client(&text) {
        Parsed::One(one) => protocol.take(one, reply_path).await,
        Parsed::Batch(parts) => protocol.take_batch(parts, reply_path.clone()).await,
    }
    drop(guard);
    // This task also handles the next lines, which may be small: do that on the runtime's thread.
    return_to_runtime().await;
}

/// The answer to a line beyond the limit; its id is unknown.
pub(super) fn too_long(bytes: usize) -> Vec<u8> {
    let why = format!("the message has {bytes} bytes, at most {CLIENT_MESSAGE_BYTES_MAX} are taken");
    message::response(None, &Err(RpcError::new(INVALID_REQUEST, why).to_raw()))
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, thread};

    use greenroom_core::{ApiScopes, ConnectionId, Owner, settings::Scope};
    use greenroom_testkit::{TEST_TIMEOUT, within};

    use super::*;
    use crate::{
        connection::ClientLocation,
        testing::{self, BUILT_IN, DAY},
    };

    /// The runtime's thread handles the lines after a large one.
    #[tokio::test]
    async fn small_lines_are_not_offloaded() {
        let (gateway, _folder) = testing::gateway(&[BUILT_IN], Scope::Connection, DAY);
        let id = ConnectionId::from_random(1);
        let owner = Owner::local();
        let location = ClientLocation::Network;
        let client = NewClient {
            id,
            owner,
            scopes: ApiScopes::all(),
            location,
            first_question: 1,
            lost: HashSet::new(),
        };
        let protocol = Protocol::new(gateway, Connection::new(client));
        let Stdio { outgoing, .. } = greenroom_mcp::stdio::open(std::io::empty(), std::io::sink()).unwrap();
        let reply_path = ReplyPath::pipe(&outgoing);
        let handled = offloadable(async move {
            take(&protocol, &reply_path, StreamLine::Whole(b"[".repeat(1024 * 1024))).await;
            thread::current().id()
        });
        assert_eq!(within(TEST_TIMEOUT, handled).await, thread::current().id());
    }
}
