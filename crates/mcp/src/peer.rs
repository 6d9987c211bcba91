//! Our side of a connection to an MCP server: requests matched to answers by id; unsolicited messages of the server
//! handed on as [`Inbound`].
//!
//! The peer drops an answer without a waiter (unknown id, or a caller that left), so no other caller gets it.

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use greenroom_core::{Raw, raw::encode};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
};

use crate::{
    MESSAGE_BYTES_MAX, RpcError,
    error::METHOD_NOT_FOUND,
    lines::StreamLine,
    link::PeerLink,
    message::{self, Id, Message, Parsed},
    stateless::StatelessMeta,
};

/// How many unsolicited messages may wait before reading pauses. A progress storm fits; more means that the consumer
/// does not read.
pub(crate) const INBOUND_QUEUE: usize = 256;

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    #[error("the connection to the engine is closed")]
    Closed,
    #[error("the engine's answer has {bytes} bytes or more, at most {MESSAGE_BYTES_MAX} are passed on")]
    TooBig { bytes: usize },
    #[error("the engine refused the request: {0}")]
    Refused(String),
}

/// An unsolicited message of a server.
#[derive(Debug)]
pub enum Inbound {
    Request { id: Id, method: String, params: Option<Raw> },
    Notification { method: String, params: Option<Raw> },
}

type ResponseResult = Result<Result<Raw, Raw>, PeerError>;

/// One connection to a server. Dropping it ends its tasks; [`Peer::close`] also ends the session at the server.
pub struct Peer {
    link: PeerLink,
    dispatch: Arc<Dispatch>,
    /// The client and capabilities that each request names. Unset for a server with a handshake.
    stateless: OnceLock<StatelessMeta>,
    /// Readers and writers of the link; aborted when the peer is dropped.
    _tasks: JoinSet<()>,
}

impl Peer {
    pub(crate) fn new(link: PeerLink, dispatch: Arc<Dispatch>, tasks: JoinSet<()>) -> Self {
        Self { link, dispatch, stateless: OnceLock::new(), _tasks: tasks }
    }

    /// Sends a request and waits for its answer, however long it takes.
    pub async fn request(&self, method: &str, params: Option<&Raw>) -> ResponseResult {
        let (waiter, answer) = self.dispatch.expect();
        let id = Id::number(waiter.id);
        let params = params.map(|raw| &**raw);
        let Some(stateless) = self.stateless.get() else {
            let line = message::request(&id, method, params);
            self.link.send(line, Some(waiter.id), &self.dispatch).await?;
            return answer.await.unwrap_or(Err(PeerError::Closed));
        };
        let params = stateless.params(params);
        let line = message::request(&id, method, Some(&params));
        self.link
            .send_stateless(line, waiter.id, || stateless.headers(method, &params), &self.dispatch)
            .await?;
        let answer = answer.await.unwrap_or(Err(PeerError::Closed));
        if method == "tools/list"
            && let Ok(Ok(list)) = &answer
        {
            stateless.listed(list);
        }
        answer
    }

    pub async fn notify(&self, method: &str, params: Option<&Raw>) -> Result<(), PeerError> {
        self.link.send(message::notification(method, params.map(|raw| &**raw)), None, &self.dispatch).await
    }

    /// Answers a request of the server.
    pub async fn respond(&self, id: &Id, body: &Result<Raw, Raw>) -> Result<(), PeerError> {
        self.link.send(message::response(Some(id), body), None, &self.dispatch).await
    }

    pub async fn respond_unsupported(&self, id: &Id, method: &str) -> Result<(), PeerError> {
        let error = RpcError::new(METHOD_NOT_FOUND, format!("`{method}` is not supported"));
        self.respond(id, &Err(error.to_raw())).await
    }

    /// The handshake: `initialize`, then `notifications/initialized`. Returns the server's whole answer.
    pub async fn initialize(&self, hello: &InitializeParams) -> Result<Result<Raw, Raw>, PeerError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct InitializeResult {
            protocol_version: String,
        }
        let answer = self.request("initialize", Some(&encode(hello))).await?;
        if let Ok(result) = &answer {
            let agreed = serde_json::from_str(result.get())
                .map(|InitializeResult { protocol_version }| protocol_version);
            self.link.initialized(agreed.unwrap_or_else(|_| hello.protocol_version.to_owned()));
            self.link.listen(&self.dispatch).await?;
            self.notify("notifications/initialized", None).await?;
        }
        Ok(answer)
    }

    /// Asks a server for its capabilities without a handshake, as revision 2026-07-28 defines it. From here on every
    /// request carries `hello`. Returns the server's whole answer.
    pub async fn discover(&self, hello: &InitializeParams) -> Result<Result<Raw, Raw>, PeerError> {
        self.stateless.get_or_init(|| StatelessMeta::new(hello));
        self.request("server/discover", None).await
    }

    /// Whether the server is used without a handshake.
    pub fn is_stateless(&self) -> bool {
        self.stateless.get().is_some()
    }

    /// How many unsolicited messages have been handed on so far. When a request returns its answer, all messages that
    /// came before that answer are counted.
    pub fn handed_on(&self) -> u64 {
        self.dispatch.handed_on.load(Ordering::Acquire)
    }

    /// Resolves when the connection is closed: no more messages come.
    pub fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut closed = self.dispatch.closed.subscribe();
        async move {
            // A dropped sender also means that the connection is gone.
            let _ = closed.wait_for(|closed| *closed).await;
        }
    }

    /// Ends the session where the transport has a message for it. The caller decides how long to wait for a server that
    /// hangs.
    pub async fn close(&self) {
        self.link.end_session().await;
    }
}

/// How greenroom introduces itself as a client: in `initialize`, or in every request of the revision without a
/// handshake.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    pub protocol_version: &'static str,
    pub capabilities: Raw,
    pub client_info: ClientInfo,
}

#[derive(Serialize)]
pub struct ClientInfo {
    pub name: &'static str,
    pub version: &'static str,
}

/// Matches answers to waiters. Shared by the peer and its readers.
pub(crate) struct Dispatch {
    /// `None` once the connection is closed: later requests fail at once.
    waiting: Mutex<Option<HashMap<u64, oneshot::Sender<ResponseResult>>>>,
    next_id: AtomicU64,
    inbound: mpsc::Sender<Inbound>,
    handed_on: AtomicU64,
    closed: watch::Sender<bool>,
}

/// A waiter's entry; dropping it (answered or not) removes the entry.
pub(crate) struct Waiter {
    pub id: u64,
    dispatch: Arc<Dispatch>,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.dispatch.take(self.id);
    }
}

impl Dispatch {
    pub(crate) fn new() -> (Arc<Self>, mpsc::Receiver<Inbound>) {
        let (inbound, receiver) = mpsc::channel(INBOUND_QUEUE);
        let waiting = Mutex::new(Some(HashMap::new()));
        let next_id = AtomicU64::new(1);
        let handed_on = AtomicU64::new(0);
        let closed = watch::Sender::new(false);
        (Arc::new(Self { waiting, next_id, inbound, handed_on, closed }), receiver)
    }

    fn expect(self: &Arc<Self>) -> (Waiter, oneshot::Receiver<ResponseResult>) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        // If the connection is closed, this drops the sender, and the receiver fails.
        if let Some(waiting) = &mut *self.waiting.lock() {
            waiting.insert(id, sender);
        }
        (Waiter { id, dispatch: self.clone() }, receiver)
    }

    fn take(&self, id: u64) -> Option<oneshot::Sender<ResponseResult>> {
        self.waiting.lock().as_mut()?.remove(&id)
    }

    /// Whether a caller still waits for this id.
    pub(crate) fn waits(&self, id: u64) -> bool {
        let waiting = self.waiting.lock();
        waiting.as_ref().is_some_and(|waiting| waiting.contains_key(&id))
    }

    pub(crate) fn fail(&self, id: u64, gone: PeerError) {
        if let Some(sender) = self.take(id) {
            let _ = sender.send(Err(gone));
        }
    }

    /// No more messages come: fails every waiter.
    pub(crate) fn close(&self) {
        self.waiting.lock().take();
        self.closed.send_replace(true);
    }

    pub(crate) async fn line(&self, line: StreamLine) {
        match line {
            StreamLine::Whole(text) => self.text(&text).await,
            // The dropped line had the id, so it is unknown which request it answers. Callers make one call at a time,
            // so fail every waiter.
            StreamLine::TooLong { bytes } => {
                let mut waiting = self.waiting.lock();
                for (_, sender) in waiting.iter_mut().flat_map(HashMap::drain) {
                    let _ = sender.send(Err(PeerError::TooBig { bytes }));
                }
            }
        }
    }

    pub(crate) async fn text(&self, text: &[u8]) {
        match message::parse(text) {
            Parsed::One(one) => self.message(one, text).await,
            Parsed::Batch(batch) => {
                for one in batch {
                    self.message(one, text).await;
                }
            }
        }
    }

    async fn message(&self, message: Result<Message, message::Malformed>, text: &[u8]) {
        let inbound = match message {
            Ok(Message::Response { id, body }) => {
                match id.as_number().and_then(|id| self.take(id)) {
                    Some(waiter) => drop(waiter.send(Ok(body))),
                    None => tracing::debug!(%id, "the engine answered a request without a waiter"),
                }
                return;
            }
            Ok(Message::Request { id, method, params }) => Inbound::Request { id, method, params },
            Ok(Message::Notification { method, params }) => Inbound::Notification { method, params },
            Err(malformed) => {
                let text = String::from_utf8_lossy(text.get(..200).unwrap_or(text)).into_owned();
                tracing::debug!(%malformed, text, "the engine sent a malformed message");
                return;
            }
        };
        self.handed_on.fetch_add(1, Ordering::Release);
        // The receiver is gone only while the connection is being closed.
        let _ = self.inbound.send(inbound).await;
    }
}
