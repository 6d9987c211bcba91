//! One MCP session with an engine, as a seat uses it: passes calls on, and sends the engine's own requests and notifications
//! to the agent whose call caused them.
//!
//! The engine's roots are always the seat's private folder, never the client's. Capabilities are the agent's own, so an
//! engine never asks what the agent's client cannot answer. [`stateless`] is for engines without a handshake.

mod stateless;

use std::{collections::HashMap, path::Path, sync::Arc, time::Duration};

use greenroom_core::{Agent, Fields, Introduction, Raw, StartError, file_uri, port::human, raw::encode};
use greenroom_mcp::{
    Id, Inbound, Peer, PeerError, Revision, RpcError,
    error::INTERNAL,
    peer::{ClientInfo, InitializeParams},
};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use tokio::{
    sync::{mpsc, watch},
    task::{AbortHandle, JoinSet},
    time::timeout,
};

use crate::tool_list::{ToolListSink, ToolsChanged, report_tools};

/// How long the handshake may take, and each page of a tool list. The engine has started by then and only has to answer.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(20);

/// Why a request to an engine failed.
#[derive(Debug)]
pub(crate) enum EngineRequestError {
    /// The engine seems to be gone. How its process ended says more.
    Gone(StartError),
    /// The engine's answer was invalid, or did not come in time.
    Answer(StartError),
}

impl From<EngineRequestError> for StartError {
    fn from(failed: EngineRequestError) -> Self {
        match failed {
            EngineRequestError::Gone(error) | EngineRequestError::Answer(error) => error,
        }
    }
}

impl From<StartError> for EngineRequestError {
    fn from(error: StartError) -> Self {
        Self::Gone(error)
    }
}

/// An open MCP session. Dropping it ends its pump; [`Upstream::close`] also ends the session with the engine.
pub(crate) struct Upstream {
    peer: Arc<Peer>,
    agent: Arc<CurrentAgent>,
    /// Whether the engine supports `logging/setLevel`, and the level that it last got.
    logging: bool,
    level: Mutex<Option<String>>,
    tool_sink: Option<ToolListSink>,
    /// The answer to `roots/list`.
    roots: Raw,
    /// How many messages the pump has passed on.
    processed: watch::Receiver<u64>,
    _pump: JoinSet<()>,
}

/// The agent whose call runs, or ran last: the engine's messages between calls go to it too.
struct CurrentAgent(Mutex<Arc<dyn Agent>>);

impl CurrentAgent {
    fn get(&self) -> Arc<dyn Agent> {
        self.0.lock().clone()
    }

    fn set(&self, agent: Arc<dyn Agent>) {
        *self.0.lock() = agent;
    }
}

impl Upstream {
    /// Makes the handshake on a fresh connection.
    pub(crate) async fn open(
        peer: Peer,
        inbound: mpsc::Receiver<Inbound>,
        folder: &Path,
        agent: Arc<dyn Agent>,
        tools_changed: Option<ToolsChanged>,
    ) -> Result<Self, EngineRequestError> {
        let peer = Arc::new(peer);
        let current = Arc::new(CurrentAgent(Mutex::new(agent.clone())));
        let (passed_on, processed) = watch::channel(0);
        let partial = !can_answer_all_questions(agent.as_ref());
        let tool_sink = tools_changed.map(|notify| ToolListSink {
            notify,
            partial,
            last_names: Arc::default(),
            introduction: Arc::default(),
        });
        let root = file_uri::uri(folder).map(|uri| json!({ "uri": uri, "name": "session" }));
        let roots = encode(&json!({ "roots": root.as_slice() }));
        let task = InboundPump {
            peer: peer.clone(),
            agent: current.clone(),
            roots: roots.clone(),
            tool_sink: tool_sink.clone(),
            passed_on,
        };
        let mut pump = JoinSet::new();
        pump.spawn(task.run(inbound));
        let introduction = initialize(&peer, capabilities(agent.as_ref())).await?;
        let logging =
            Fields::open(&introduction.capabilities).is_ok_and(|known| known.get("logging").is_some());
        if peer.is_stateless() && tool_sink.is_some() {
            pump.spawn(stateless::follow_tools(peer.clone()));
        }
        if let Some(tool_sink) = &tool_sink {
            let _ = tool_sink.introduction.set(introduction);
        }
        let level = Mutex::default();
        Ok(Self { peer, agent: current, logging, level, tool_sink, roots, processed, _pump: pump })
    }

    /// Lists the tools of an engine that has just started, before a call can change them, and returns their names.
    pub(crate) async fn list_tools_at_start(&self) -> Vec<Arc<str>> {
        match self.tool_sink.clone() {
            Some(tool_sink) => report_tools(self.peer.clone(), tool_sink, true).await,
            None => Vec::new(),
        }
    }

    /// Pings the engine; the caller limits the wait. Any answer counts: a server without `ping` answers with an
    /// error, and lives.
    pub(crate) async fn ping(&self) -> Result<(), PeerError> {
        self.peer.request("ping", None).await.map(|_| ())
    }

    /// Passes a `tools/call` on and returns the engine's answer unchanged.
    pub(crate) async fn call(
        &self,
        params: &Raw,
        agent: Arc<dyn Agent>,
    ) -> Result<Result<Raw, Raw>, PeerError> {
        self.ask("tools/call", params, agent).await
    }

    /// Passes a request on, on behalf of an agent, and returns the engine's answer unchanged.
    pub(crate) async fn ask(
        &self,
        method: &str,
        params: &Raw,
        agent: Arc<dyn Agent>,
    ) -> Result<Result<Raw, Raw>, PeerError> {
        let level = agent.log_level();
        self.agent.set(agent);
        if self.logging
            && !self.peer.is_stateless()
            && self.changes_level(&level)
            && let Some(level) = &level
        {
            self.peer.request("logging/setLevel", Some(&encode(&json!({ "level": level })))).await?.ok();
        }
        let answer = match self.peer.is_stateless() {
            false => self.peer.request(method, Some(params)).await,
            true => stateless::ask(&self.peer, method, params, level, &*self.agent.get(), &self.roots).await,
        };
        // Messages that the engine sent before its answer must reach the agent before the answer. Without a pump there
        // are none to wait for.
        let received = self.peer.handed_on();
        let _ = self.processed.clone().wait_for(|processed| *processed >= received).await;
        match answer {
            // A message that is too big, or refused, fails this call alone; the session goes on.
            Err(error @ (PeerError::TooBig { .. } | PeerError::Refused(_))) => {
                Ok(Err(RpcError::new(greenroom_mcp::error::SERVER, error.to_string()).to_raw()))
            }
            other => other,
        }
    }

    /// Notes the level, and says whether it has changed.
    fn changes_level(&self, level: &Option<String>) -> bool {
        let mut known = self.level.lock();
        let changes = *known != *level;
        known.clone_from(level);
        changes
    }

    pub(crate) async fn close(&self) {
        self.peer.close().await;
    }

    /// Resolves when the connection is closed.
    pub(crate) fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        self.peer.closed()
    }
}

/// `initialize`, within its deadline. A server that refuses it may support only the revision without a handshake, which
/// greenroom tries next. It tries the handshake first, since that gives each seat a session of its own with a running
/// server.
pub(crate) async fn initialize(peer: &Peer, capabilities: Raw) -> Result<Introduction, EngineRequestError> {
    let hello = InitializeParams {
        protocol_version: Revision::LATEST.as_str(),
        capabilities,
        client_info: ClientInfo { name: "greenroom", version: env!("CARGO_PKG_VERSION") },
    };
    let invalid_answer = |why: String| EngineRequestError::Answer(StartError::new(why));
    let answer = within_deadline("initialize", async {
        match peer.initialize(&hello).await {
            Err(refused @ PeerError::Refused(_)) => Ok(Err(StartError::new(refused.to_string()).into())),
            Ok(Err(error)) => Ok(Err(invalid_answer(format!("the engine refused `initialize`: {error}")))),
            Ok(Ok(result)) => Ok(Ok(result)),
            Err(gone) => Err(gone),
        }
    });
    let result = match answer.await? {
        Ok(result) => result,
        Err(refused) => return stateless::discover(peer, hello).await.ok_or(refused),
    };
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct InitializeResult {
        protocol_version: String,
        #[serde(default)]
        capabilities: Fields,
        #[serde(default)]
        instructions: serde_json::Value,
    }
    let answer: InitializeResult = serde_json::from_str(result.get()).map_err(|error| {
        invalid_answer(format!("the engine's answer to `initialize` is invalid: {error}"))
    })?;
    if Revision::parse(&answer.protocol_version).is_none() {
        let version = answer.protocol_version;
        return Err(invalid_answer(format!(
            "the engine speaks protocol revision `{version}`, which greenroom does not"
        )));
    }
    let instructions = answer.instructions.as_str().filter(|text| !text.trim().is_empty());
    Ok(Introduction { capabilities: answer.capabilities.to_raw(), instructions: instructions.map(Arc::from) })
}

/// Awaits an answer within the engine's deadline.
pub(crate) async fn within_deadline<T>(
    method: &str,
    answer: impl Future<Output = Result<T, PeerError>>,
) -> Result<T, EngineRequestError> {
    match timeout(HANDSHAKE_WITHIN, answer).await {
        Ok(answer) => answer.map_err(|gone| EngineRequestError::Gone(StartError::new(gone.to_string()))),
        Err(_) => {
            let why = format!("the engine did not answer `{method}` within {}", human(HANDSHAKE_WITHIN));
            Err(EngineRequestError::Answer(StartError::new(why)))
        }
    }
}

/// Requests that an agent's client may be able to answer. A server that knows of them may behave differently.
const ASKABLE: [&str; 2] = ["elicitation", "sampling"];

/// Whether an engine could ask this agent anything.
pub(crate) fn can_answer_questions(agent: &dyn Agent) -> bool {
    let offered = agent_capabilities(agent);
    ASKABLE.iter().any(|name| offered.get(name).is_some())
}

fn can_answer_all_questions(agent: &dyn Agent) -> bool {
    let offered = agent_capabilities(agent);
    ASKABLE.iter().all(|name| offered.get(name).is_some())
}

fn agent_capabilities(agent: &dyn Agent) -> Fields {
    agent.capabilities().and_then(|raw| Fields::open(&raw).ok()).unwrap_or_default()
}

/// The capabilities that greenroom declares to the engine: roots, which greenroom answers, and those of the
/// agent's client.
fn capabilities(agent: &dyn Agent) -> Raw {
    let mut capabilities = Fields::default();
    capabilities.set("roots", encode(&json!({})));
    let client_capabilities = agent_capabilities(agent);
    for name in ASKABLE {
        if let Some(capability) = client_capabilities.get(name) {
            capabilities.set(name, capability.to_owned());
        }
    }
    capabilities.to_raw()
}

/// Reads the engine's own requests and notifications, as long as the session lives.
struct InboundPump {
    peer: Arc<Peer>,
    agent: Arc<CurrentAgent>,
    roots: Raw,
    tool_sink: Option<ToolListSink>,
    /// Counts the processed messages.
    passed_on: watch::Sender<u64>,
}

impl InboundPump {
    async fn run(self, mut inbound: mpsc::Receiver<Inbound>) {
        let mut asking = JoinSet::new();
        let mut questions: HashMap<Id, AbortHandle> = HashMap::new();
        loop {
            let message = tokio::select! {
                message = inbound.recv() => message,
                Some(_) = asking.join_next() => {
                    questions.retain(|_, question| !question.is_finished());
                    continue;
                }
            };
            match message {
                None => return,
                Some(Inbound::Notification { method, params }) => match method.as_str() {
                    "notifications/tools/list_changed" => {
                        if let Some(tool_sink) = self.tool_sink.clone() {
                            let looking = report_tools(self.peer.clone(), tool_sink, false);
                            asking.spawn(async move { drop(looking.await) });
                        }
                    }
                    // greenroom made this subscription itself, so the agent does not get the acknowledgement.
                    stateless::ACKNOWLEDGED => {}
                    "notifications/cancelled" => {
                        if let Some(question) =
                            cancelled(params.as_ref()).and_then(|id| questions.remove(&id))
                        {
                            question.abort();
                        }
                    }
                    _ => self.agent.get().tell(&method, params),
                },
                Some(Inbound::Request { id, method, params }) => match method.as_str() {
                    "ping" => self.respond(&id, Ok(encode(&json!({})))).await,
                    "roots/list" => self.respond(&id, Ok(self.roots.clone())).await,
                    // The agent may take any time for a question; the pump goes on meanwhile.
                    _ => {
                        let peer = self.peer.clone();
                        let agent = self.agent.get();
                        let question = asking.spawn(ask_agent(peer, agent, id.clone(), method, params));
                        questions.insert(id, question);
                    }
                },
            }
            self.passed_on.send_modify(|count| *count += 1);
        }
    }

    async fn respond(&self, id: &Id, body: Result<Raw, Raw>) {
        if let Err(error) = self.peer.respond(id, &body).await {
            tracing::debug!(%error, "cannot send an answer to the engine");
        }
    }
}

/// Passes the engine's question to the agent.
async fn ask_agent(peer: Arc<Peer>, agent: Arc<dyn Agent>, id: Id, method: String, params: Option<Raw>) {
    let sent = match agent.ask(&method, params).await {
        Ok(body) => peer.respond(&id, &body).await,
        Err(greenroom_core::NoAnswer::Unsupported(_)) => peer.respond_unsupported(&id, &method).await,
        Err(gone) => peer.respond(&id, &Err(RpcError::new(INTERNAL, gone.to_string()).to_raw())).await,
    };
    if let Err(error) = sent {
        tracing::debug!(%error, "cannot send an answer to the engine");
    }
}

fn cancelled(params: Option<&Raw>) -> Option<Id> {
    Fields::open(params?).ok()?.get("requestId").and_then(Id::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An engine that reads requests and answers none is given up after the deadline, for every method.
    #[tokio::test(start_paused = true)]
    async fn unanswered_requests_have_a_deadline() {
        let (stdin, _open) = tokio::io::duplex(1024);
        let (_open_too, stdout) = tokio::io::duplex(1024);
        let (peer, _inbound) = greenroom_mcp::link::child::connect(stdin, stdout);
        let initialized = initialize(&peer, encode(&json!({}))).await.map(|_| ()).map_err(StartError::from);
        let listed = crate::tool_list::list_tools(&peer).await.map(|_| ()).map_err(StartError::from);
        assert_eq!(initialized.unwrap_err().message, "the engine did not answer `initialize` within 20 s");
        assert_eq!(listed.unwrap_err().message, "the engine did not answer `tools/list` within 20 s");
    }
}
