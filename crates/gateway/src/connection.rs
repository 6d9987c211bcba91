//! One client with a handshake: how it introduced itself, its calls in flight, and the questions that it has yet to
//! answer. A stateless request has no connection; see `front/stateless`.
//!
//! An engine sees the client as a [`ConnectedAgent`], the [`Agent`] of one call of the connection.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use greenroom_core::{
    Agent, ApiScopes, BoxFuture, ConnectionId, Fields, NoAnswer, Owner, Queued, Raw, file_uri, raw::encode,
};
use greenroom_fleet::SessionKey;
use greenroom_mcp::{Id, message};
use parking_lot::{Mutex, MutexGuard};
use serde_json::json;
use tokio::{sync::oneshot, task::AbortHandle};

use crate::{
    client_sink::ClientSink,
    progress::{self, QueueProgress},
};

/// How long a client may take to list its roots. Clients answer from memory.
const ROOTS_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether a client runs on this machine as this user, so that it may name this machine's files.
#[derive(Debug, Clone)]
pub enum ClientLocation {
    /// The client runs on this machine as this user. If it offers no roots, this folder is its root.
    Local { folder: PathBuf },
    /// Unknown: a client that connects over the network may name no file of this machine.
    Network,
}

impl ClientLocation {
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Self::Local { .. })
    }

    pub(crate) fn folder(&self) -> Vec<PathBuf> {
        match self {
            Self::Local { folder } => vec![folder.clone()],
            Self::Network => Vec::new(),
        }
    }
}

/// What a front knows of a client before its first message.
#[derive(Debug, Clone)]
pub struct NewClient {
    pub id: ConnectionId,
    pub owner: Owner,
    /// What the client may do.
    pub scopes: ApiScopes,
    pub location: ClientLocation,
    /// The number of the first question to the client. If another server asked this client questions before, a new
    /// question must not have an old one's number.
    pub first_question: u64,
    /// Sessions that the client lost with another server. The first answer in each of them says so.
    pub lost: HashSet<SessionKey>,
}

pub(crate) struct Connection {
    pub(crate) id: ConnectionId,
    pub(crate) owner: Owner,
    pub(crate) scopes: ApiScopes,
    pub(crate) location: ClientLocation,
    state: Mutex<ClientState>,
    next_question: AtomicU64,
    /// Calls without a `sessionId` that are in flight.
    pub(crate) own_session_calls: AtomicUsize,
    /// How often two such calls were in flight at once.
    pub(crate) overlaps: AtomicUsize,
}

#[derive(Default)]
struct ClientState {
    capabilities: Option<Raw>,
    log_level: Option<String>,
    roots: Option<Vec<PathBuf>>,
    /// Counts how often the client said that its roots have changed.
    roots_generation: u64,
    calls: HashMap<Id, AbortHandle>,
    /// Whether the client has ended: then no call starts any more.
    ended: bool,
    questions: HashMap<u64, oneshot::Sender<Result<Raw, Raw>>>,
    lost: HashSet<SessionKey>,
}

impl Connection {
    pub(crate) fn new(client: NewClient) -> Arc<Self> {
        let NewClient { id, owner, scopes, location, first_question, lost } = client;
        Arc::new(Self {
            id,
            owner,
            scopes,
            location,
            state: Mutex::new(ClientState { lost, ..ClientState::default() }),
            next_question: AtomicU64::new(first_question),
            own_session_calls: AtomicUsize::new(0),
            overlaps: AtomicUsize::new(0),
        })
    }

    fn lock(&self) -> MutexGuard<'_, ClientState> {
        self.state.lock()
    }

    /// Whether the client lost this session with another server and no answer has said so yet. The caller must say so
    /// now: later calls of this return `false`.
    pub(crate) fn take_lost_note(&self, session_key: &SessionKey) -> bool {
        self.lock().lost.remove(session_key)
    }

    /// The folders in which a client without roots may name files.
    pub(crate) fn folder(&self) -> Vec<PathBuf> {
        self.location.folder()
    }

    pub(crate) fn introduced(&self, capabilities: Option<Raw>) {
        self.lock().capabilities = capabilities;
    }

    pub(crate) fn set_log_level(&self, level: String) {
        self.lock().log_level = Some(level);
    }

    pub(crate) fn roots_changed(&self) {
        let mut state = self.lock();
        state.roots = None;
        state.roots_generation += 1;
    }

    /// Starts a call, unless `calls_max` are in flight. If the client has just ended, the call does not start and gets
    /// no answer: no code would close the browser that it opens.
    pub(crate) fn begin(
        &self,
        id: &Id,
        calls_max: usize,
        spawn: impl FnOnce() -> AbortHandle,
    ) -> Result<(), BeginError> {
        let mut state = self.lock();
        if state.calls.len() >= calls_max {
            return Err(BeginError::TooMany);
        }
        if state.calls.contains_key(id) {
            return Err(BeginError::IdInUse);
        }
        if !state.ended {
            // Under the lock, so that a call that ends at once finds its entry to remove.
            state.calls.insert(id.clone(), spawn());
        }
        Ok(())
    }

    pub(crate) fn end(&self, id: &Id) {
        self.lock().calls.remove(id);
    }

    pub(crate) fn calls_in_flight(&self) -> usize {
        self.lock().calls.len()
    }

    /// Cancels a call on the client's request. The client gets no answer to the call, as MCP demands.
    pub(crate) fn cancel(&self, id: &Id) {
        let call = self.lock().calls.remove(id);
        if let Some(call) = call {
            call.abort();
        }
    }

    /// Cancels every call, and lets no other start.
    pub(crate) fn end_all(&self) {
        let calls = {
            let mut state = self.lock();
            state.ended = true;
            std::mem::take(&mut state.calls)
        };
        for call in calls.values() {
            call.abort();
        }
    }

    /// The client answered a question.
    pub(crate) fn answered(&self, id: &Id, body: Result<Raw, Raw>) {
        let question = id.as_number().and_then(|id| self.lock().questions.remove(&id));
        match question {
            Some(question) => drop(question.send(body)),
            None => tracing::debug!(%id, "the client answered a question that it was not asked"),
        }
    }

    pub(crate) fn capabilities(&self) -> Option<Raw> {
        self.lock().capabilities.clone()
    }
}

/// Why a call did not begin.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BeginError {
    TooMany,
    IdInUse,
}

/// The agent that made one call of a connection. The engine's messages to the agent go where the call's answer will
/// go.
pub(crate) struct ConnectedAgent {
    pub(crate) connection: Arc<Connection>,
    pub(crate) sink: ClientSink,
    pub(crate) waiting: QueueProgress,
}

impl ConnectedAgent {
    async fn question(&self, method: &str, params: Option<Raw>) -> Result<Result<Raw, Raw>, NoAnswer> {
        let number = self.connection.next_question.fetch_add(1, Ordering::Relaxed);
        let (answer, receiver) = oneshot::channel();
        self.connection.lock().questions.insert(number, answer);
        let mut open = OpenQuestion { agent: self, number, answered: false };
        let line = message::request(&Id::number(number), method, params.as_deref());
        self.sink.send(line).await.map_err(|_| NoAnswer::Gone)?;
        let body = receiver.await.map_err(|_| NoAnswer::Gone)?;
        open.answered = true;
        Ok(body)
    }

    async fn ask_roots(&self) -> Option<Vec<PathBuf>> {
        #[derive(serde::Deserialize)]
        struct Root {
            uri: String,
        }
        #[derive(serde::Deserialize)]
        struct ListRootsResult {
            roots: Vec<Root>,
        }
        let answer =
            tokio::time::timeout(ROOTS_TIMEOUT, self.question("roots/list", None)).await.ok()?.ok()?.ok()?;
        let ListRootsResult { roots } = serde_json::from_str(answer.get()).ok()?;
        Some(roots.iter().filter_map(|root| file_uri::path(&root.uri)).collect())
    }
}

/// A question that the client has not answered. Dropping it tells the client that the call no longer waits for an
/// answer.
struct OpenQuestion<'a> {
    agent: &'a ConnectedAgent,
    number: u64,
    answered: bool,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        if !self.answered && self.agent.connection.lock().questions.remove(&self.number).is_some() {
            let params = encode(&json!({ "requestId": self.number }));
            self.agent.sink.try_send(message::notification("notifications/cancelled", Some(&params)));
        }
    }
}

impl Agent for ConnectedAgent {
    fn tell(&self, method: &str, params: Option<Raw>) {
        if !self.sink.try_send(message::notification(method, params.as_deref())) {
            tracing::debug!(method, "the client reads too slowly; a notification is dropped");
        }
    }

    fn ask<'a>(
        &'a self,
        method: &'a str,
        params: Option<Raw>,
    ) -> BoxFuture<'a, Result<Result<Raw, Raw>, NoAnswer>> {
        Box::pin(async move {
            // `elicitation/create` needs the capability `elicitation`, and so on.
            let capability = method.split('/').next().unwrap_or(method);
            if !has(self.connection.capabilities().as_ref(), capability) {
                return Err(NoAnswer::Unsupported(method.to_owned()));
            }
            self.question(method, params).await
        })
    }

    fn capabilities(&self) -> Option<Raw> {
        self.connection.capabilities()
    }

    fn roots(&self) -> BoxFuture<'_, Vec<PathBuf>> {
        Box::pin(async move {
            let ClientLocation::Local { folder } = &self.connection.location else { return Vec::new() };
            let generation = {
                let state = self.connection.lock();
                if let Some(roots) = state.roots.clone() {
                    return roots;
                }
                state.roots_generation
            };
            let roots = if has(self.connection.capabilities().as_ref(), "roots") {
                match self.ask_roots().await {
                    Some(roots) => roots,
                    // The client has roots but does not list them. Until it does, the call may use no file.
                    None => return Vec::new(),
                }
            } else {
                vec![folder.clone()]
            };
            let mut state = self.connection.lock();
            // The roots may have changed while the answer was on its way.
            if state.roots_generation == generation {
                state.roots = Some(roots.clone());
            }
            roots
        })
    }

    fn log_level(&self) -> Option<String> {
        self.connection.lock().log_level.clone()
    }

    fn follows_queue(&self) -> bool {
        self.waiting.is_followed()
    }

    fn queued(&self, queued: Queued<'_>) {
        if let Some(notice) = self.waiting.notice(queued) {
            self.tell(progress::METHOD, Some(notice));
        }
    }
}

pub(crate) fn has(capabilities: Option<&Raw>, name: &str) -> bool {
    capabilities.and_then(|raw| Fields::open(raw).ok()).is_some_and(|fields| fields.get(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many threads start calls at once, no more than the limit are in flight, and none starts after the end.
    #[tokio::test]
    async fn calls_in_flight_are_limited() {
        const CALLS_MAX: usize = 10;
        let id = ConnectionId::from_random(1);
        let owner = Owner::local();
        let location = ClientLocation::Network;
        let lost = HashSet::new();
        let connection = Connection::new(NewClient {
            id,
            owner,
            scopes: ApiScopes::all(),
            location,
            first_question: 1,
            lost,
        });
        let runtime = tokio::runtime::Handle::current();
        let begin = |id: u64| {
            let spawn = || runtime.spawn(std::future::pending::<()>()).abort_handle();
            connection.begin(&Id::number(id), CALLS_MAX, spawn)
        };
        assert_eq!(begin(0), Ok(()));
        assert_eq!(begin(0), Err(BeginError::IdInUse));
        std::thread::scope(|threads| {
            for thread in 1..=4 {
                let begin = &begin;
                threads.spawn(move || (0..10).for_each(|n| drop(begin(thread * 100 + n))));
            }
        });
        assert_eq!(connection.calls_in_flight(), CALLS_MAX);
        assert_eq!(begin(1), Err(BeginError::TooMany));
        connection.end_all();
        assert_eq!(begin(1), Ok(()));
        assert_eq!(connection.calls_in_flight(), 0, "nothing begins any more");
    }
}
