//! One client: what it said of itself, the calls it has in flight, and the questions it has yet to answer.
//!
//! To the engines a connection is the [`Agent`] behind its calls.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use greenroom_core::{Agent, BoxFuture, ConnectionId, Fields, NoAnswer, Owner, Raw, raw::encode};
use greenroom_mcp::{Id, message, stdio::Outgoing};
use serde_json::json;
use tokio::{sync::oneshot, task::AbortHandle};

/// How long a client may take to say what its roots are. Clients answer from memory.
const ROOTS: Duration = Duration::from_secs(10);

type Body = Result<Raw, Raw>;

pub(crate) struct Connection {
    pub(crate) id: ConnectionId,
    pub(crate) owner: Owner,
    outgoing: Outgoing,
    /// The root of a client that offers none.
    folder: PathBuf,
    state: Mutex<State>,
    next_question: AtomicU64,
    /// Calls without a `sessionId` that are in flight.
    pub(crate) unnamed: AtomicUsize,
    /// How often such calls met.
    pub(crate) meetings: AtomicUsize,
}

#[derive(Default)]
struct State {
    capabilities: Option<Raw>,
    log_level: Option<String>,
    roots: Option<Vec<PathBuf>>,
    /// Counts how often the client said that its roots have changed.
    roots_generation: u64,
    calls: HashMap<Id, AbortHandle>,
    questions: HashMap<u64, oneshot::Sender<Body>>,
}

impl Connection {
    pub(crate) fn new(id: ConnectionId, owner: Owner, outgoing: Outgoing, folder: PathBuf) -> Arc<Self> {
        Arc::new(Self {
            id,
            owner,
            outgoing,
            folder,
            state: Mutex::default(),
            next_question: AtomicU64::new(1),
            unnamed: AtomicUsize::new(0),
            meetings: AtomicUsize::new(0),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message. A client that is gone is noticed by its closed stdin, so nothing is to be done here.
    pub(crate) async fn send(&self, line: Vec<u8>) {
        let _ = self.outgoing.send(line).await;
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

    /// Notes a call. `false` when its id is already in use.
    pub(crate) fn begin(&self, id: &Id, spawn: impl FnOnce() -> AbortHandle) -> bool {
        let mut state = self.lock();
        if state.calls.contains_key(id) {
            return false;
        }
        // Under the lock, so that a call that ends at once finds its entry to remove.
        state.calls.insert(id.clone(), spawn());
        true
    }

    pub(crate) fn end(&self, id: &Id) {
        self.lock().calls.remove(id);
    }

    pub(crate) fn calls_in_flight(&self) -> usize {
        self.lock().calls.len()
    }

    /// The client no longer wants an answer. It gets none, as the protocol has it.
    pub(crate) fn cancel(&self, id: &Id) {
        let call = self.lock().calls.remove(id);
        if let Some(call) = call {
            call.abort();
        }
    }

    pub(crate) fn cancel_all(&self) {
        let calls = std::mem::take(&mut self.lock().calls);
        for call in calls.values() {
            call.abort();
        }
    }

    /// The client answered a question.
    pub(crate) fn answered(&self, id: &Id, body: Body) {
        let question = id.as_number().and_then(|id| self.lock().questions.remove(&id));
        match question {
            Some(question) => drop(question.send(body)),
            None => tracing::debug!(%id, "the client answered a question that nobody asked"),
        }
    }

    async fn question(&self, method: &str, params: Option<Raw>) -> Result<Body, NoAnswer> {
        let number = self.next_question.fetch_add(1, Ordering::Relaxed);
        let (answer, receiver) = oneshot::channel();
        self.lock().questions.insert(number, answer);
        let mut open = OpenQuestion { connection: self, number, answered: false };
        let line = message::request(&Id::number(number), method, params.as_deref());
        self.outgoing.send(line).await.map_err(|_| NoAnswer::Gone)?;
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
        struct Roots {
            roots: Vec<Root>,
        }
        let answer = tokio::time::timeout(ROOTS, self.question("roots/list", None)).await.ok()?.ok()?.ok()?;
        let Roots { roots } = serde_json::from_str(answer.get()).ok()?;
        Some(roots.iter().filter_map(|root| path_of(&root.uri)).collect())
    }
}

/// A question the client has not answered. Dropping it tells the client that nobody waits any more.
struct OpenQuestion<'a> {
    connection: &'a Connection,
    number: u64,
    answered: bool,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        if !self.answered && self.connection.lock().questions.remove(&self.number).is_some() {
            let params = encode(&json!({ "requestId": self.number }));
            self.connection
                .outgoing
                .try_send(message::notification("notifications/cancelled", Some(&params)));
        }
    }
}

/// The path of a `file:` URI of this machine.
fn path_of(uri: &str) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let rest = uri.strip_prefix("file://")?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    bytes.starts_with(b"/").then(|| PathBuf::from(std::ffi::OsString::from_vec(bytes)))
}

impl Agent for Connection {
    fn tell(&self, method: &str, params: Option<Raw>) {
        if !self.outgoing.try_send(message::notification(method, params.as_deref())) {
            tracing::debug!(method, "the client reads too slowly; a notification is dropped");
        }
    }

    fn ask<'a>(&'a self, method: &'a str, params: Option<Raw>) -> BoxFuture<'a, Result<Body, NoAnswer>> {
        Box::pin(async move {
            // `elicitation/create` needs the capability `elicitation`, and so on.
            let capability = method.split('/').next().unwrap_or(method);
            if !has(self.capabilities().as_ref(), capability) {
                return Err(NoAnswer::Unsupported(method.to_owned()));
            }
            self.question(method, params).await
        })
    }

    fn capabilities(&self) -> Option<Raw> {
        self.lock().capabilities.clone()
    }

    fn roots(&self) -> BoxFuture<'_, Vec<PathBuf>> {
        Box::pin(async move {
            let generation = {
                let state = self.lock();
                if let Some(roots) = state.roots.clone() {
                    return roots;
                }
                state.roots_generation
            };
            let roots = if has(self.capabilities().as_ref(), "roots") {
                match self.ask_roots().await {
                    Some(roots) => roots,
                    // It has roots and does not say which: then nothing is within them, until it is asked again.
                    None => return Vec::new(),
                }
            } else {
                vec![self.folder.clone()]
            };
            let mut state = self.lock();
            // They may have changed while the answer was on its way.
            if state.roots_generation == generation {
                state.roots = Some(roots.clone());
            }
            roots
        })
    }

    fn log_level(&self) -> Option<String> {
        self.lock().log_level.clone()
    }
}

fn has(capabilities: Option<&Raw>, name: &str) -> bool {
    capabilities.and_then(|raw| Fields::open(raw).ok()).is_some_and(|fields| fields.get(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Roots are paths of this machine; anything else is none.
    #[test]
    fn roots_are_paths() {
        assert_eq!(path_of("file:///a%20b/%C3%BC"), Some(PathBuf::from("/a b/ü")));
        assert_eq!(path_of("file://localhost/a"), Some(PathBuf::from("/a")));
        for odd in ["https://a/b", "file://elsewhere/a", "file:///a%2", "file:///%zz", "a"] {
            assert_eq!(path_of(odd), None, "{odd}");
        }
    }
}
