//! The protocol as a server speaks it: lifecycle, tools, logging, cancellation. The same for every front.

use std::sync::Arc;

use greenroom_core::{Fields, Raw, raw::encode};
use greenroom_mcp::{
    Id, Malformed, Message, Revision, RpcError,
    error::{INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND},
    message,
};
use serde::Serialize;
use serde_json::{json, value::RawValue};
use tokio::{sync::mpsc, task::JoinSet};

use crate::{Gateway, call, connection::Connection, instructions, rescue::Failure, tools, turn::Turns};

/// How many calls of one connection may be in flight. Far beyond what agents do; a client that sends more has
/// lost count, and each costs memory until it is answered.
const CALLS_MAX: usize = 1024;

const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// Where a connection is in its life.
enum Phase {
    /// Nothing but `initialize` and `ping` makes sense yet.
    New,
    Introduced(Revision),
}

pub(super) struct Protocol {
    gateway: Arc<Gateway>,
    connection: Arc<Connection>,
    phase: Phase,
    turns: Turns,
}

/// Where answers go: each on its own, or those of a batch together.
#[derive(Clone)]
pub(super) enum Reply {
    Alone(Arc<Connection>),
    Batch(mpsc::Sender<Vec<u8>>),
}

impl Reply {
    pub(super) fn alone(connection: &Arc<Connection>) -> Self {
        Self::Alone(connection.clone())
    }

    /// For a batch of so many messages, each with one answer at most. The future sends the answers when the last of
    /// them is there, that is, when nobody holds the `Reply` any more: a cancelled call drops its own.
    pub(super) fn batch(
        connection: &Arc<Connection>,
        messages: usize,
    ) -> (Self, impl Future<Output = ()> + use<>) {
        let (answers, mut received) = mpsc::channel::<Vec<u8>>(messages.max(1));
        let connection = connection.clone();
        let together = async move {
            let mut line = Vec::new();
            while let Some(answer) = received.recv().await {
                line.push(if line.is_empty() { b'[' } else { b',' });
                line.extend(answer);
            }
            if !line.is_empty() {
                line.push(b']');
                connection.send(line).await;
            }
        };
        (Self::Batch(answers), together)
    }

    async fn send(&self, id: Option<&Id>, body: &Result<Raw, Raw>) {
        let line = message::response(id, body);
        match self {
            Self::Alone(connection) => connection.send(line).await,
            // The batch is gone only when the whole connection is.
            Self::Batch(answers) => drop(answers.send(line).await),
        }
    }
}

impl Protocol {
    pub(super) fn new(gateway: Arc<Gateway>, connection: Arc<Connection>) -> Self {
        Self { gateway, connection, phase: Phase::New, turns: Turns::default() }
    }

    /// Takes one message. Calls go on in `calls`, everything else is done at once.
    pub(super) async fn take(
        &mut self,
        message: Result<Message, Malformed>,
        reply: &Reply,
        calls: &mut JoinSet<()>,
    ) {
        match message {
            Ok(Message::Request { id, method, params }) => match method.as_str() {
                "tools/call" if self.introduced() => self.call(id, params, reply, calls).await,
                "tools/list" if self.introduced() => self.list(id, params, reply, calls).await,
                _ => reply.send(Some(&id), &self.request(&method, params.as_deref())).await,
            },
            Ok(Message::Notification { method, params }) => self.notification(&method, params.as_deref()),
            Ok(Message::Response { id, body }) => self.connection.answered(&id, body),
            Err(malformed) => reply.send(malformed.id.as_ref(), &Err(malformed.error.to_raw())).await,
        }
    }

    /// Tells the client that the list of tools is another one now.
    pub(super) async fn tools_changed(&self) {
        if self.introduced() {
            self.connection.send(message::notification("notifications/tools/list_changed", None)).await;
        }
    }

    fn introduced(&self) -> bool {
        matches!(self.phase, Phase::Introduced(_))
    }

    fn request(&mut self, method: &str, params: Option<&RawValue>) -> Result<Raw, Raw> {
        let answer = match (method, &self.phase) {
            ("ping", _) => Ok(encode(&json!({}))),
            ("initialize", Phase::New) => self.initialize(params),
            ("initialize", Phase::Introduced(revision)) => {
                let revision = revision.as_str();
                let message = format!("already initialized with revision {revision}");
                Err(RpcError::new(INVALID_REQUEST, message))
            }
            (_, Phase::New) => Err(RpcError::new(
                INVALID_REQUEST,
                format!("`{method}` before `initialize`: introduce yourself first"),
            )),
            ("logging/setLevel", _) => self.set_level(params),
            _ => Err(RpcError::new(METHOD_NOT_FOUND, format!("method not found: `{method}`"))),
        };
        answer.map_err(|error| error.to_raw())
    }

    fn initialize(&mut self, params: Option<&RawValue>) -> Result<Raw, RpcError> {
        let params = params.and_then(|params| Fields::open(params).ok()).unwrap_or_default();
        let wanted: Option<String> = params.read("protocolVersion").ok().flatten();
        let Some(wanted) = wanted else {
            return Err(RpcError::new(INVALID_PARAMS, "`initialize` needs a `protocolVersion`"));
        };
        let revision = Revision::negotiate(&wanted);
        self.connection.introduced(params.get("capabilities").map(ToOwned::to_owned));
        self.phase = Phase::Introduced(revision);
        Ok(encode(&json!({
            "protocolVersion": revision.as_str(),
            "capabilities": { "tools": { "listChanged": true }, "logging": {} },
            "serverInfo": { "name": "greenroom", "title": "greenroom", "version": env!("CARGO_PKG_VERSION") },
            "instructions": instructions::text(self.gateway.scope, &self.gateway.facts),
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

    /// The list may have to be fetched from the engine, so it does not hold up other messages.
    async fn list(&self, id: Id, params: Option<Raw>, reply: &Reply, calls: &mut JoinSet<()>) {
        let (gateway, connection) = (self.gateway.clone(), self.connection.clone());
        let fields = params.and_then(|params| Fields::open(&params).ok());
        let cursor = fields.as_ref().and_then(|fields| fields.get("cursor"));
        if let Some(cursor) = cursor.filter(|cursor| cursor.get() != "null") {
            let error =
                RpcError::new(INVALID_PARAMS, format!("unknown cursor: `{cursor}`; the list has one page"));
            return reply.send(Some(&id), &Err(error.to_raw())).await;
        }
        self.spawn(id, reply, calls, async move { list_tools(&gateway, &connection).await }).await;
    }

    async fn call(&self, id: Id, params: Option<Raw>, reply: &Reply, calls: &mut JoinSet<()>) {
        if self.connection.calls_in_flight() >= CALLS_MAX {
            return reply.send(Some(&id), &Ok(Failure::too_many_calls(CALLS_MAX).to_result())).await;
        }
        let (gateway, connection, turn) = (self.gateway.clone(), self.connection.clone(), self.turns.take());
        let work = async move { call::run(&gateway, &connection, params.as_deref(), turn).await };
        self.spawn(id, reply, calls, work).await;
    }

    async fn spawn(
        &self,
        id: Id,
        reply: &Reply,
        calls: &mut JoinSet<()>,
        work: impl Future<Output = Result<Raw, Raw>> + Send + 'static,
    ) {
        let (connection, own_reply, own_id) = (self.connection.clone(), reply.clone(), id.clone());
        let task = async move {
            let body = work.await;
            connection.end(&own_id);
            own_reply.send(Some(&own_id), &body).await;
        };
        if !self.connection.begin(&id, || calls.spawn(task)) {
            let error =
                RpcError::new(INVALID_REQUEST, format!("the id {id} is already in use by a call in flight"));
            reply.send(Some(&id), &Err(error.to_raw())).await;
        }
    }
}

/// The answer to `tools/list`. Not made with `json!`, which would parse the definitions and respell their numbers.
#[derive(Serialize)]
struct ToolList<'a> {
    tools: Vec<&'a RawValue>,
}

async fn list_tools(gateway: &Gateway, connection: &Connection) -> Result<Raw, Raw> {
    let listed = gateway.catalog.list().await.map_err(|error| {
        let hint = error.hint.map(|hint| format!("\n\nhint: {hint}")).unwrap_or_default();
        RpcError::new(
            greenroom_mcp::error::SERVER,
            format!("cannot list the engine's tools: {}{hint}", error.message),
        )
        .to_raw()
    })?;
    let shown = listed.iter().filter(|(name, _)| gateway.policy.shows(&connection.owner, name));
    let mut list: Vec<&RawValue> = shown.map(|(_, entry)| &*entry.shown).collect();
    let own = tools::definitions(gateway, &connection.owner);
    list.extend(own.iter().map(|tool| &**tool));
    Ok(encode(&ToolList { tools: list }))
}
