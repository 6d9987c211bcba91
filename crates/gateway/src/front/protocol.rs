//! The server's side of the protocol: lifecycle, tools, resources, logging, cancellation. Every front uses it.

use std::{borrow::Cow, sync::Arc};

use greenroom_core::{Fields, Owner, Raw, excerpt::echoed, raw::encode, settings::Scope};
use greenroom_mcp::{
    Id, Malformed, Message, Revision, RpcError,
    error::{INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND},
    message,
};
use parking_lot::Mutex;
use serde_json::{json, value::RawValue};
use tokio::task::yield_now;
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

use super::stateless;
use crate::{
    Gateway, call,
    call_order::Turns,
    caller::{CallSource, Caller},
    client_sink::{ClientSink, ReplyPath, ReplySink},
    connection::{BeginError, ConnectedAgent, Connection},
    error_response::ErrorResponse,
    instructions,
    offload::{offload_if_large, offloadable},
    passthrough::{self, Passthrough, PassthroughMethod},
    progress::QueueProgress,
    resources, tools,
};

/// How many calls of one connection may be in flight. Agents send far fewer; a client that sends more has a bug, and
/// each call costs memory until it is answered.
const CALLS_MAX: usize = 1024;

const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// The state of a connection.
#[derive(Clone, Copy)]
enum HandshakePhase {
    /// The client has not sent `initialize`: only that and `ping` are allowed.
    New,
    Introduced(Revision),
}

/// The protocol state of one connection. Its calls run in tasks of their own.
pub(super) struct Protocol {
    gateway: Arc<Gateway>,
    pub(super) connection: Arc<Connection>,
    phase: Mutex<HandshakePhase>,
    turns: Turns,
    tasks: TaskTracker,
}

impl Protocol {
    pub(super) fn new(gateway: Arc<Gateway>, connection: Arc<Connection>) -> Self {
        let tasks = TaskTracker::new();
        let turns = Turns::tracked_by(&tasks);
        Self { gateway, connection, phase: Mutex::new(HandshakePhase::New), turns, tasks }
    }

    /// Handles one message. Calls run in tasks of their own, all else happens at once.
    pub(super) async fn take(&self, message: Result<Message, Malformed>, reply_path: &ReplyPath) {
        match message {
            Ok(Message::Request { id, method, params }) => {
                if stateless::is_stateless(params.as_deref()) {
                    return self.stateless(id, &method, params.as_deref(), reply_path).await;
                }
                match (method.as_str(), PassthroughMethod::named(&method)) {
                    ("tools/call", _) if self.introduced() => self.call(id, params, reply_path).await,
                    ("tools/list", _) if self.introduced() => self.list(id, params, reply_path).await,
                    (_, Some(method)) if self.introduced() => {
                        self.passthrough(id, method, params, reply_path).await;
                    }
                    _ => send(&reply_path.reply, Some(&id), &self.request(&method, params.as_deref())).await,
                }
            }
            Ok(Message::Notification { method, params }) => self.notification(&method, params.as_deref()),
            Ok(Message::Response { id, body }) => self.connection.answered(&id, body),
            Err(malformed) => {
                send(&reply_path.reply, malformed.id.as_ref(), &Err(malformed.error.to_raw())).await;
            }
        }
    }

    /// Handles the messages of a batch, whose answers are sent together.
    pub(super) async fn take_batch(&self, parts: Vec<Result<Message, Malformed>>, reply_path: ReplyPath) {
        let (reply_path, together) = reply_path.batch(parts.len());
        self.tasks.spawn(together);
        for part in parts {
            self.take(part, &reply_path).await;
            // A batch may be long: serve other clients between its messages.
            yield_now().await;
        }
    }

    /// Notifies the client that the list of tools has changed.
    pub(super) async fn tools_changed(&self, sink: &ClientSink) {
        if self.introduced() {
            // If the client is gone, the front notices that when it reads from the client.
            let _ = sink
                .send_unless_pending(message::notification("notifications/tools/list_changed", None))
                .await;
        }
    }

    /// Cancels every call. Returns when all of them have ended and their answers are on the way.
    pub(super) async fn end(&self) {
        self.connection.end_all();
        self.tasks.close();
        self.tasks.wait().await;
    }

    pub(super) fn revision(&self) -> Option<Revision> {
        match *self.phase.lock() {
            HandshakePhase::New => None,
            HandshakePhase::Introduced(revision) => Some(revision),
        }
    }

    fn introduced(&self) -> bool {
        self.revision().is_some()
    }

    fn request(&self, method: &str, params: Option<&RawValue>) -> Result<Raw, Raw> {
        let answer = match (method, self.revision()) {
            ("ping", _) => Ok(encode(&json!({}))),
            ("initialize", None) => self.initialize(params),
            ("initialize", Some(revision)) => {
                let revision = revision.as_str();
                let message = format!("already initialized with revision {revision}");
                Err(RpcError::new(INVALID_REQUEST, message))
            }
            (_, None) => Err(RpcError::new(
                INVALID_REQUEST,
                format!("`{}` before `initialize`: send `initialize` first", echoed(method)),
            )),
            ("logging/setLevel", _) => self.set_level(params),
            _ => Err(RpcError::new(METHOD_NOT_FOUND, format!("method not found: `{}`", echoed(method)))),
        };
        answer.map_err(|error| error.to_raw())
    }

    fn initialize(&self, params: Option<&RawValue>) -> Result<Raw, RpcError> {
        let params = params.and_then(|params| Fields::open(params).ok()).unwrap_or_default();
        let wanted: Option<String> = params.read("protocolVersion").ok().flatten();
        let Some(wanted) = wanted else {
            return Err(RpcError::new(INVALID_PARAMS, "`initialize` needs a `protocolVersion`"));
        };
        let revision = Revision::negotiate(&wanted);
        self.connection.introduced(params.get("capabilities").map(ToOwned::to_owned));
        *self.phase.lock() = HandshakePhase::Introduced(revision);
        let client = params.read::<Fields>("clientInfo").ok().flatten().unwrap_or_default();
        let name =
            self.gateway.fleet.connections().introduce(self.connection.id, display_name(&client).as_deref());
        tracing::info!(client = &*name, "connected");
        let mut capabilities = server_capabilities(&self.gateway);
        passthrough::declare(&self.gateway, &mut capabilities);
        Ok(encode(&json!({
            "protocolVersion": revision.as_str(),
            "capabilities": capabilities,
            "serverInfo": server_info(),
            "instructions": instructions::text(&self.gateway, self.gateway.scope),
        })))
    }

    fn set_level(&self, params: Option<&RawValue>) -> Result<Raw, RpcError> {
        let level = params.and_then(|params| Fields::open(params).ok()?.read::<String>("level").ok()?);
        match level {
            Some(level) if LEVELS.contains(&level.as_str()) => {
                self.connection.set_log_level(level);
                Ok(encode(&json!({})))
            }
            _ => Err(RpcError::new(INVALID_PARAMS, format!("`level` must be one of {}", LEVELS.join(", ")))),
        }
    }

    fn notification(&self, method: &str, params: Option<&RawValue>) {
        match method {
            "notifications/cancelled" => {
                let fields = params.and_then(|params| Fields::open(params).ok());
                if let Some(id) =
                    fields.as_ref().and_then(|fields| fields.get("requestId")).and_then(Id::from_raw)
                {
                    self.connection.cancel(&id);
                }
            }
            "notifications/roots/list_changed" => self.connection.roots_changed(),
            _ => {}
        }
    }

    /// Runs as a task: the list may have to come from the engine, and other messages must not wait for it.
    async fn list(&self, id: Id, params: Option<Raw>, reply_path: &ReplyPath) {
        if let Err(error) = one_page(params.as_deref()) {
            return send(&reply_path.reply, Some(&id), &Err(error.to_raw())).await;
        }
        let gateway = self.gateway.clone();
        let owner = self.connection.owner.clone();
        let is_local = self.connection.location.is_local();
        let work = async move {
            let list = list_tools(&gateway, &owner, is_local, gateway.scope).await;
            (list.map(|list| encode(&list)), None)
        };
        self.spawn(id, reply_path, work).await;
    }

    fn caller(&self, params: Option<&RawValue>, reply_path: &ReplyPath) -> Caller {
        let connection = self.connection.clone();
        let sink = reply_path.sink.clone();
        let waiting = QueueProgress::from_params(params);
        let agent = ConnectedAgent { connection: connection.clone(), sink, waiting };
        Caller {
            owner: connection.owner.clone(),
            scopes: connection.scopes,
            is_local: connection.location.is_local(),
            source: CallSource::Connection(connection),
            agent: Arc::new(agent),
            is_program: false,
            knows_resource_links: self.revision() >= Some(Revision::V2025_06_18),
        }
    }

    /// Handles a request other than a tool call: prompts, completions, resources, tasks.
    async fn passthrough(
        &self,
        id: Id,
        method: PassthroughMethod,
        params: Option<Raw>,
        reply_path: &ReplyPath,
    ) {
        let passthrough = match Passthrough::new(&self.gateway, method, resources::NOT_FOUND_BEFORE_2026) {
            Ok(passthrough) => passthrough,
            Err(error) => return send(&reply_path.reply, Some(&id), &Err(error.to_raw())).await,
        };
        let caller = self.caller(params.as_deref(), reply_path);
        let gateway = self.gateway.clone();
        let turn = self.turns.take();
        let unanswered = self.gateway.answering.token();
        let work = async move {
            let body = passthrough.run(&gateway, &caller, params.as_deref(), turn).await;
            (body, Some(unanswered))
        };
        self.spawn(id, reply_path, work).await;
    }

    async fn call(&self, id: Id, params: Option<Raw>, reply_path: &ReplyPath) {
        let caller = self.caller(params.as_deref(), reply_path);
        let gateway = self.gateway.clone();
        let turn = self.turns.take();
        let unanswered = self.gateway.answering.token();
        let work = async move {
            let body = call::run(&gateway, &caller, params.as_deref(), turn).await;
            (body, Some(unanswered))
        };
        self.spawn(id, reply_path, work).await;
    }

    /// Answers a stateless request. Over stdio it still belongs to the process's one connection.
    async fn stateless(&self, id: Id, method: &str, params: Option<&RawValue>, reply_path: &ReplyPath) {
        let request = match stateless::StatelessRequest::parse(id.clone(), method, params) {
            Ok(request) => request,
            Err(error) => return send(&reply_path.reply, Some(&id), &Err(error.to_raw())).await,
        };
        let connections = self.gateway.fleet.connections();
        connections.introduce(self.connection.id, request.client.as_ref().and_then(display_name).as_deref());
        let stateless_client = stateless::StatelessClient {
            owner: self.connection.owner.clone(),
            scopes: self.connection.scopes,
            connection: Some(self.connection.clone()),
            roots: self.connection.folder(),
            is_local: self.connection.location.is_local(),
            turn: self.turns.take(),
        };
        let gateway = self.gateway.clone();
        let sink = reply_path.sink.clone();
        let unanswered = request.is_work().then(|| gateway.answering.token());
        let work =
            async move { (stateless::answer(gateway, stateless_client, request, sink).await, unanswered) };
        self.spawn(id, reply_path, work).await;
    }

    /// Does the work in a task of its own, and sends the answer. `work` owns what the call holds until then.
    async fn spawn(
        &self,
        id: Id,
        reply_path: &ReplyPath,
        work: impl Future<Output = (Result<Raw, Raw>, Option<TaskTrackerToken>)> + Send + 'static,
    ) {
        let connection = self.connection.clone();
        let reply = reply_path.reply.clone();
        let own_id = id.clone();
        let task = async move {
            let (body, unanswered) = work.await;
            connection.end(&own_id);
            let (Ok(text) | Err(text)) = &body;
            let _guard = offload_if_large(text.get().len()).await;
            send(&reply, Some(&own_id), &body).await;
            drop(unanswered);
        };
        // The tracker counts the inner future: a blocking thread may still poll it when the task itself has been aborted.
        let task = offloadable(self.tasks.track_future(task));
        let refusal = match self.connection.begin(&id, CALLS_MAX, || tokio::spawn(task).abort_handle()) {
            Ok(()) => return,
            Err(BeginError::TooMany) => Ok(ErrorResponse::too_many_calls(CALLS_MAX).to_result()),
            Err(BeginError::IdInUse) => {
                let why = format!("the id {} is already in use by a call in flight", echoed(&id.to_string()));
                Err(RpcError::new(INVALID_REQUEST, why).to_raw())
            }
        };
        send(&reply_path.reply, Some(&id), &refusal).await;
    }
}

/// The client's name for people: its title, or its name.
fn display_name(client: &Fields) -> Option<String> {
    let read = |key| client.read::<String>(key).ok().flatten().filter(|text| !text.trim().is_empty());
    read("title").or_else(|| read("name"))
}

async fn send(reply: &ReplySink, id: Option<&Id>, body: &Result<Raw, Raw>) {
    let line = message::response(id, body);
    let line = match reply.has_room(line.len()) {
        true => line,
        false => message::response(id, &Ok(ErrorResponse::unread_answers(line.len()).to_result())),
    };
    reply.send(line).await;
}

pub(super) fn server_capabilities(gateway: &Gateway) -> serde_json::Value {
    let mut capabilities = json!({ "tools": { "listChanged": true }, "logging": {} });
    if gateway.recalls() {
        capabilities["resources"] = json!({});
    }
    capabilities
}

pub(super) fn server_info() -> serde_json::Value {
    json!({ "name": "greenroom", "title": "greenroom", "version": env!("CARGO_PKG_VERSION") })
}

/// Refuses a cursor: a list has one page, so none is valid.
pub(super) fn one_page(params: Option<&RawValue>) -> Result<(), RpcError> {
    let fields = params.and_then(|params| Fields::open(params).ok());
    let cursor = fields.as_ref().and_then(|fields| fields.get("cursor"));
    match cursor.filter(|cursor| cursor.get() != "null") {
        Some(cursor) => Err(RpcError::new(
            INVALID_PARAMS,
            format!("unknown cursor: `{}`; the list has one page", echoed(cursor.get())),
        )),
        None => Ok(()),
    }
}

/// The answer to `tools/list`. `is_local` says whether the client is this user on this machine, `scope` what a call
/// without `sessionId` means to that client. Definitions stay raw, so that their spelling does not change.
pub(crate) async fn list_tools(
    gateway: &Gateway,
    owner: &Owner,
    is_local: bool,
    scope: Scope,
) -> Result<Fields, Raw> {
    let listed = gateway.catalog.list().await.map_err(|error| {
        let hint = error.hint.map(|hint| format!("\n\nhint: {hint}")).unwrap_or_default();
        RpcError::new(
            greenroom_mcp::error::SERVER,
            format!("cannot list the engine's tools: {}{hint}", error.message),
        )
        .to_raw()
    })?;
    // Under `explicit` the list already requires `sessionId`.
    let demands_session = scope == Scope::Explicit && gateway.scope != scope;
    let shown = listed.iter().filter(|(name, entry)| entry.is_listed && gateway.policy.shows(owner, name));
    let mut list: Vec<Cow<'_, RawValue>> = shown
        .map(|(_, entry)| match demands_session {
            true => entry.shown_with_session_required(),
            false => Cow::Borrowed(&*entry.shown),
        })
        .collect();
    let own = tools::definitions(gateway, owner, is_local, scope, true);
    list.extend(own.iter().map(|tool| Cow::Borrowed(&**tool)));
    let mut answer = Fields::default();
    answer.set("tools", encode(&list));
    Ok(answer)
}
