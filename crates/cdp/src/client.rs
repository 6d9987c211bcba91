//! The handles of a connection: a [`CdpClient`] makes calls, [`Events`] receives the browser's events.
//!
//! Both are handles to one connection, which lives as long as either does.

use std::sync::Arc;

use greenroom_core::{raw::Raw, web_address::shown};
use serde::Serialize;
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};
use tokio_tungstenite::{
    client_async_with_config,
    tungstenite::{self, client::IntoClientRequest, protocol::WebSocketConfig},
};

use crate::{
    CALL_WITHIN, CONNECT_WITHIN, CallReply, Closed, Error, Event, MESSAGE_BYTES_MAX, Unreachable,
    address::Address,
    dial::{Dialled, dial},
    envelope::OutgoingCall,
    message_stream::{MessageReader, MessageWriter, halves},
    queue::{self, queue},
    wire::{self, PendingCalls, Socket},
};

/// Calls that may wait to be written. They go out as fast as the socket takes them, so a longer queue would
/// only hide a browser that no longer reads.
pub(crate) const OUTGOING_MAX: usize = 64;

/// Makes calls. Cheap to clone; the clones share one connection.
#[derive(Clone)]
pub struct CdpClient {
    outgoing: mpsc::Sender<String>,
    pending: Arc<PendingCalls>,
    closed: watch::Receiver<Option<Closed>>,
    local_port: Option<u16>,
}

/// Receives the browser's events, in the order in which the browser sent them. The crate's documentation says
/// what becomes of a slow consumer.
pub struct Events {
    events: queue::Receiver,
    closed: watch::Receiver<Option<Closed>>,
}

impl CdpClient {
    /// Connects to a browser's, or a page's, `ws://` or `wss://` address, within [`CONNECT_WITHIN`].
    pub async fn connect(ws_url: &str) -> Result<(Self, Events), Error> {
        Self::connect_with(ws_url, &[]).await
    }

    /// Connects with these headers in addition to those of the protocol.
    pub async fn connect_with(ws_url: &str, headers: &[(String, String)]) -> Result<(Self, Events), Error> {
        let opened = timeout(CONNECT_WITHIN, open(ws_url, headers)).await;
        let (socket, local_port) = opened
            .unwrap_or(Err(Unreachable::Silent(CONNECT_WITHIN)))
            .map_err(|why| Error::Connect { url: shown(ws_url), why })?;

        let (writer, reader) = halves(socket);
        Ok(Self::over(writer, reader, local_port))
    }

    /// Makes calls and receives events over a connection message by message.
    pub(crate) fn over(
        writer: MessageWriter,
        reader: MessageReader,
        local_port: Option<u16>,
    ) -> (Self, Events) {
        let (outgoing, to_write) = mpsc::channel(OUTGOING_MAX);
        let (to_consumer, events) = queue();
        let (reason, closed) = watch::channel(None);
        let pending = Arc::new(PendingCalls::default());
        // The handles own this task: it ends when the last of them is dropped, and `closed` tells when it has.
        tokio::spawn(wire::run(writer, reader, to_write, to_consumer, pending.clone(), reason));
        (Self { outgoing, pending, closed: closed.clone(), local_port }, Events { events, closed })
    }

    /// The port at the other end, if that is on this machine, whatever name the address uses.
    pub fn local_port(&self) -> Option<u16> {
        self.local_port
    }

    /// Calls the browser itself. Waits at most [`CALL_WITHIN`]. Dropping the future gives the call up without disturbing
    /// others, though the browser may still carry it out.
    pub async fn call(&self, method: &str, params: &impl Serialize) -> Result<Raw, Error> {
        self.send(None, method, params).await.map(|answer| answer.result)
    }

    /// [`CdpClient::call`] for a caller that compares the result with events: the answer says which events are older.
    pub async fn call_in_order(&self, method: &str, params: &impl Serialize) -> Result<CallReply, Error> {
        self.send(None, method, params).await
    }

    /// Calls the target of a flattened session. `session` is the id from `Target.attachToTarget` with `flatten: true`.
    pub async fn call_in(&self, session: &str, method: &str, params: &impl Serialize) -> Result<Raw, Error> {
        self.send(Some(session), method, params).await.map(|answer| answer.result)
    }

    /// Resolves when the connection is over, with the reason. It does not keep the connection alive.
    pub fn closed(&self) -> impl Future<Output = Closed> + Send + use<> {
        wait_until_closed(self.closed.clone())
    }

    /// Why the connection is over, if it is.
    pub fn why_closed(&self) -> Option<Closed> {
        self.closed.borrow().clone()
    }

    async fn send(
        &self,
        session: Option<&str>,
        method: &str,
        params: &impl Serialize,
    ) -> Result<CallReply, Error> {
        let unwritable = |source| Error::Params { method: method.to_owned(), source };
        let params = serde_json::value::to_raw_value(params).map_err(unwritable)?;
        let params = Some(&*params).filter(|params| params.get() != "null");

        let Some((pending_call, answer)) = self.pending.add() else {
            return Err(self.closed().await.into());
        };
        let call = OutgoingCall { id: pending_call.id, method, session, params };
        let text = serde_json::to_string(&call).map_err(unwritable)?;
        let exchange = async {
            self.outgoing.send(text).await.ok()?;
            answer.await.ok()
        };
        match timeout(CALL_WITHIN, exchange).await {
            Ok(Some(Ok(answer))) => Ok(answer),
            Ok(Some(Err(error))) => Err(Error::refused(method, &error)),
            Ok(None) => Err(self.closed().await.into()),
            Err(_) => Err(Error::NoAnswer { method: method.to_owned() }),
        }
    }
}

/// Opens a WebSocket. Also returns its port, if the debugger is on this machine.
pub(crate) async fn open(
    ws_url: &str,
    headers: &[(String, String)],
) -> Result<(Socket, Option<u16>), Unreachable> {
    let address = Address::parse(ws_url)?;
    let unusable = |error: tungstenite::Error| Unreachable::Address(error.to_string());
    let mut request = address.url_without_credentials().into_client_request().map_err(unusable)?;
    request.headers_mut().extend(address.headers(headers)?);
    let Dialled { stream, peer, is_local } = dial(&address).await?;
    let socket = match client_async_with_config(request, stream, Some(limits())).await {
        Ok((socket, _)) => socket,
        Err(tungstenite::Error::Http(response)) => {
            return Err(Unreachable::Status(response.status().as_u16()));
        }
        Err(tungstenite::Error::Io(error)) => return Err(Unreachable::Io(error)),
        Err(other) => return Err(Unreachable::InvalidResponse(other.to_string())),
    };
    Ok((socket, is_local.then(|| peer.port())))
}

pub(crate) fn limits() -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX))
}

impl Events {
    /// Names events of which only the latest matters: of several events with the same key only the last waits for the
    /// consumer, behind all events that came before it. Events that arrived before this call stay.
    pub fn keep_latest(&mut self, key: fn(&Event) -> Option<String>) {
        self.events.keep_latest(key);
    }

    /// All events that have arrived.
    pub fn take_arrived(&mut self) -> Vec<Event> {
        self.events.take()
    }

    /// The next event. Once the connection is over and its last event is taken, the reason why it is over. Dropping the
    /// future loses nothing.
    pub async fn next(&mut self) -> Result<Event, Closed> {
        match self.events.next().await {
            Some(event) => Ok(event),
            None => Err(wait_until_closed(self.closed.clone()).await),
        }
    }
}

pub(crate) async fn wait_until_closed(mut closed: watch::Receiver<Option<Closed>>) -> Closed {
    match closed.wait_for(Option::is_some).await {
        Ok(reason) => reason.clone().unwrap_or(Closed::Unused),
        // The runtime is shutting down and dropped the connection's task before the task could give a reason.
        Err(_) => Closed::Unused,
    }
}
