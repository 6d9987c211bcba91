//! Clients with a handshake over HTTP, and the streams that reach them. A [`HttpSession`] here is the MCP session of one
//! client (`Mcp-Session-Id`), not the browser session that agents name by `sessionId`.
//!
//! The server forgets a client that is silent for long, unless the client would lose more than its handshake: a call in
//! flight, an open stream, or the connection's own browser session, which only this client can reach. Named sessions
//! have timeouts of their own.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use axum::{
    http::{HeaderMap, StatusCode},
    response::Response,
};
use greenroom_core::{ConnectionId, Owner, excerpt::echoed};
use greenroom_fleet::SessionKey;
use greenroom_mcp::{
    MessageStream, Revision,
    stream::{HeldBytes, StreamReader},
};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use uuid::Uuid;

use super::{
    HttpState,
    auth::Requester,
    fronts::Fronts,
    headers,
    refusal::{self, Requests},
};
use crate::{
    client_sink::ClientSink,
    connection::{Connection, NewClient},
    front::{
        protocol::Protocol,
        secret::{self, Digest, Secret},
        stateless,
    },
};

/// How long a client may be silent. It costs two kilobytes meanwhile, and a forgotten client needs only a new
/// handshake.
const CLIENT_IDLE_MAX: Duration = Duration::from_secs(3600);

/// How many clients may be connected. Beyond it the server forgets the longest silent client that loses nothing but
/// its handshake.
const CLIENTS_MAX: usize = 10_000;

/// How often greenroom looks for silent clients and for ended streams. It keeps an ended stream for one to two of these: a
/// client whose connection broke resumes its stream within seconds.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(60);

/// How many ended streams the server keeps for a client that may have missed messages, and how many bytes they may
/// hold.
const ENDED_MAX: usize = 16;
const ENDED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The stream that belongs to no request.
const BACKGROUND: u64 = 0;

/// Every client with a handshake, by the digest of its `Mcp-Session-Id`, and every front that joined.
#[derive(Default)]
pub struct HttpClients {
    clients: Mutex<HashMap<Digest, Arc<HttpSession>>>,
    pub(super) fronts: Fronts,
}

/// A client with a handshake.
pub(super) struct HttpSession {
    /// Its `Mcp-Session-Id`: a request that has it is this client's.
    pub(super) id: Secret,
    pub(super) protocol: Protocol,
    pub(super) background: Arc<MessageStream>,
    /// Counts the bytes that wait for it in all its streams.
    held: HeldBytes,
    state: Mutex<HttpSessionState>,
}

/// A stream that the client may resume, and the requests that it answers.
struct KeptStream {
    stream: Arc<MessageStream>,
    requests: Requests,
}

struct HttpSessionState {
    last_heard: Instant,
    /// Streams that the client may resume, by number.
    streams: BTreeMap<u64, KeptStream>,
    next_stream: u64,
    /// Streams that had ended already at the last check.
    ended: HashSet<u64>,
}

impl HttpSession {
    pub(super) fn new(http_state: &HttpState, requester: &Requester) -> Arc<Self> {
        let client = NewClient {
            // HTTP clients and joined fronts share the connection numbers; random numbers do not collide. Lists and
            // logs show the number, so it must not derive from the secret.
            id: ConnectionId::from_random(Uuid::new_v4().as_u64_pair().0),
            owner: requester.owner.clone(),
            scopes: requester.scopes,
            location: http_state.location.clone(),
            first_question: 1,
            lost: HashSet::new(),
        };
        let held = HeldBytes::default();
        let background = Arc::new(MessageStream::counted_by(&held));
        let kept = KeptStream { stream: background.clone(), requests: Requests::None };
        let streams = BTreeMap::from([(BACKGROUND, kept)]);
        Arc::new(Self {
            id: Secret::random(),
            protocol: Protocol::new(http_state.gateway.clone(), Connection::new(client)),
            background,
            held,
            state: Mutex::new(HttpSessionState {
                last_heard: Instant::now(),
                streams,
                next_stream: BACKGROUND + 1,
                ended: HashSet::new(),
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HttpSessionState> {
        self.state.lock()
    }

    /// A stream for the messages of one request.
    pub(super) fn stream(&self) -> Arc<MessageStream> {
        Arc::new(MessageStream::counted_by(&self.held))
    }

    /// Keeps a stream for the client to resume, and returns its number.
    pub(super) fn keep(&self, stream: &Arc<MessageStream>, requests: Requests) -> u64 {
        let mut state = self.lock();
        let number = state.next_stream;
        state.next_stream += 1;
        state.streams.insert(number, KeptStream { stream: stream.clone(), requests });
        let mut ended: Vec<_> = state
            .streams
            .iter()
            .filter(|(_, kept)| kept.stream.is_finished())
            .map(|(number, kept)| (*number, kept.stream.bytes()))
            .collect();
        let mut bytes: usize = ended.iter().map(|(_, bytes)| bytes).sum();
        // Oldest first.
        ended.reverse();
        while ended.len() > ENDED_MAX || bytes > ENDED_BYTES_MAX {
            let Some((oldest, held)) = ended.pop() else { break };
            bytes -= held;
            state.streams.remove(&oldest);
        }
        number
    }

    /// Forgets the streams that had ended already when this was last called.
    pub(super) fn forget_ended(&self) {
        let mut state = self.lock();
        let ended = std::mem::take(&mut state.ended);
        state.streams.retain(|number, _| !ended.contains(number));
        state.ended = state
            .streams
            .iter()
            .filter(|(number, kept)| **number != BACKGROUND && kept.stream.is_finished())
            .map(|(number, _)| *number)
            .collect();
    }

    /// Resumes a stream after the event with this id. Also returns the requests that the stream has yet to answer.
    pub(super) fn resume(&self, event: &str) -> Option<(u64, StreamReader, Requests)> {
        let (number, seen) = event.split_once('-')?;
        let number = number.parse().ok()?;
        let (stream, requests) = {
            let state = self.lock();
            let kept = state.streams.get(&number)?;
            let is_answered = kept.stream.is_finished();
            (kept.stream.clone(), if is_answered { Requests::None } else { kept.requests.clone() })
        };
        let reader = match seen {
            "start" => stream.read_from_start(),
            seen => stream.read_behind(seen.parse().ok()?),
        };
        Some((number, reader?, requests))
    }

    /// The stream that belongs to no request.
    pub(super) fn listen(&self) -> (u64, StreamReader, Requests) {
        (BACKGROUND, self.background.read(), Requests::None)
    }

    /// Whether this client connected through this listener, with a key of the same owner that permits no more than this
    /// requester's.
    fn is_of(&self, http_state: &HttpState, requester: &Requester) -> bool {
        let connection = &self.protocol.connection;
        connection.owner == requester.owner
            && requester.scopes.includes(connection.scopes)
            && connection.location.is_local() == http_state.location.is_local()
    }

    fn last_heard(&self) -> Instant {
        self.lock().last_heard
    }

    /// Whether the client would lose nothing but its handshake if it were forgotten.
    fn is_evictable(&self, http_state: &HttpState) -> bool {
        let connection = &self.protocol.connection;
        connection.calls_in_flight() == 0
            && !self.background.has_reader()
            && http_state
                .gateway
                .fleet
                .session_pool(&connection.owner, &SessionKey::Connection(connection.id))
                .is_none()
    }
}

impl HttpClients {
    /// Whether any client has an MCP session, or any front is joined.
    pub fn has_clients(&self) -> bool {
        !self.lock().is_empty() || self.fronts.any_joined()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Digest, Arc<HttpSession>>> {
        self.clients.lock()
    }

    /// The client that these headers name.
    #[allow(clippy::result_large_err, reason = "the refusal is sent as it is")]
    pub(super) fn find(
        &self,
        http_state: &HttpState,
        requester: &Requester,
        headers: &HeaderMap,
    ) -> Result<Arc<HttpSession>, Response> {
        let Some(id) = headers::text(headers, headers::SESSION) else {
            let why = "the header `Mcp-Session-Id` is missing: send `initialize` first, and then what its answer says";
            return Err(refusal::because(StatusCode::BAD_REQUEST, why));
        };
        // Another owner's client, and one that connected through the other listener, are unknown here.
        let known = self
            .lock()
            .get(&secret::digest(id))
            .filter(|session| session.is_of(http_state, requester))
            .cloned();
        let Some(session) = known else {
            let why = format!("no such `Mcp-Session-Id`: `{}`; send `initialize` again", echoed(id));
            return Err(refusal::because(StatusCode::NOT_FOUND, why));
        };
        if let Some(revision) = headers::text(headers, headers::REVISION)
            && Revision::parse(revision).is_none()
        {
            let error = stateless::unsupported_revision(revision);
            return Err(refusal::rpc(StatusCode::BAD_REQUEST, None, &error));
        }
        session.lock().last_heard = Instant::now();
        Ok(session)
    }

    /// Adds a client after its handshake. `false` if there are too many.
    pub(super) fn add(&self, http_state: &HttpState, session: &Arc<HttpSession>) -> bool {
        if self.lock().len() >= CLIENTS_MAX && !self.evict_one(http_state) {
            return false;
        }
        let mut clients = self.lock();
        // Another client may have taken the last place meanwhile.
        let has_room = clients.len() < CLIENTS_MAX;
        if has_room {
            clients.insert(session.id.digest(), session.clone());
        }
        has_room
    }

    fn evict_one(&self, http_state: &HttpState) -> bool {
        let silent = {
            let all = self.lock();
            all.values()
                .filter(|session| session.is_evictable(http_state))
                .min_by_key(|session| session.last_heard())
                .cloned()
        };
        silent.is_some_and(|session| {
            self.end(http_state, &session);
            true
        })
    }

    /// Forgets the clients that have been silent for long.
    pub(super) fn forget_silent(&self, http_state: &HttpState) {
        let now = Instant::now();
        let silent: Vec<_> = {
            let all = self.lock();
            all.values()
                .filter(|session| {
                    session.last_heard() + CLIENT_IDLE_MAX <= now && session.is_evictable(http_state)
                })
                .cloned()
                .collect()
        };
        for session in silent {
            tracing::info!(
                client = &*http_state.gateway.fleet.connections().name(session.protocol.connection.id),
                "an HTTP client has been silent for long and was forgotten; it needs a new handshake"
            );
            self.end(http_state, &session);
        }
    }

    /// Forgets the streams of all clients that had ended already when this was last called.
    pub(super) fn forget_ended_streams(&self) {
        let all: Vec<_> = self.lock().values().cloned().collect();
        all.iter().for_each(|session| session.forget_ended());
    }

    /// Ends a client, its calls and its own browser session.
    pub(super) fn end(&self, http_state: &HttpState, session: &Arc<HttpSession>) {
        if self.lock().remove(&session.id.digest()).is_none() {
            return;
        }
        session.background.finish();
        let session = session.clone();
        let fleet = http_state.gateway.fleet.clone();
        http_state.tasks.spawn(async move {
            session.protocol.end().await;
            let connection = &session.protocol.connection;
            // The client may have had no session of its own.
            let _ = fleet.close(&connection.owner, &SessionKey::Connection(connection.id)).await;
        });
    }

    /// Ends every client that came over the network as this owner.
    pub(super) fn end_owner(&self, http_state: &HttpState, owner: &Owner) {
        let is_of_owner = |session: &&Arc<HttpSession>| {
            let connection = &session.protocol.connection;
            connection.owner == *owner && !connection.location.is_local()
        };
        let all: Vec<_> = self.lock().values().filter(is_of_owner).cloned().collect();
        for session in all {
            self.end(http_state, &session);
        }
    }

    /// Ends every client, because the server stops.
    pub(super) fn end_all(&self, http_state: &HttpState) {
        let all: Vec<_> = self.lock().values().cloned().collect();
        for session in all {
            self.end(http_state, &session);
        }
    }

    /// Notifies every client that the list of tools has changed.
    pub(super) async fn tools_changed(&self) {
        let all: Vec<_> = self.lock().values().cloned().collect();
        for session in all {
            let sink = ClientSink::Streams { own: session.background.clone(), background: None };
            session.protocol.tools_changed(&sink).await;
        }
    }

    /// How many clients there are.
    pub fn count(&self) -> usize {
        self.lock().len()
    }
}
