//! What an engine offers beside its tools, passed on: prompts, completions, resources and news of these, tasks.
//!
//! Browser engines have none; MCP servers of somebody else's may. A request goes to the engine of the default pool, in the
//! session that a tool call without `sessionId` would have; `greenroom/sessionId` in its `_meta` names another one. It is
//! no tool call: nothing of it is kept. An engine that does not know a list has an empty one. Called by the front, for
//! clients with a handshake.

use std::time::Instant;

use greenroom_core::{Call, Fields, Raw, SessionId, raw::encode};
use greenroom_fleet::Target;
use greenroom_mcp::{
    RpcError,
    error::{INVALID_PARAMS, METHOD_NOT_FOUND, SERVER},
};
use serde::Deserialize;
use serde_json::{json, value::RawValue};

use crate::{
    Gateway,
    call::Caller,
    catalog::Browsers,
    rescue::Failure,
    resources, shape,
    turn::Turn,
    whose::{notes, whose},
};

/// The methods, and what an engine that does not know a list of its own is taken to have answered.
const METHODS: [(&str, Option<&str>); 12] = [
    ("completion/complete", None),
    ("prompts/get", None),
    ("prompts/list", Some("prompts")),
    ("resources/list", Some("resources")),
    ("resources/read", None),
    ("resources/subscribe", None),
    ("resources/templates/list", Some("resourceTemplates")),
    ("resources/unsubscribe", None),
    ("tasks/cancel", None),
    ("tasks/get", None),
    ("tasks/list", Some("tasks")),
    ("tasks/result", None),
];

/// Where a request says which session it is for.
const SESSION: &str = "greenroom/sessionId";

/// How a cursor begins that is the engine's own. Before it come greenroom's pages.
const CURSOR: &str = "engine:";

/// Whether the engine of the default pool is asked for such things.
pub(crate) fn is_carried(gateway: &Gateway) -> bool {
    gateway.catalog.default_pool().is_some_and(|(_, engine)| engine.is_server())
}

/// A request that is passed on.
pub(crate) struct Carried {
    method: &'static str,
    /// The name of the list that is asked for.
    list: Option<&'static str>,
}

impl Carried {
    /// If this is one.
    pub(crate) fn of(gateway: &Gateway, method: &str) -> Option<Self> {
        let (method, list) = METHODS.into_iter().find(|(name, _)| *name == method)?;
        is_carried(gateway).then_some(Self { method, list })
    }

    /// Carries it out, in its turn.
    pub(crate) async fn run(
        self,
        gateway: &Gateway,
        caller: &Caller,
        params: Option<&RawValue>,
        mut turn: Turn,
    ) -> Result<Raw, Raw> {
        let mut params = params.and_then(|params| Fields::open(params).ok()).unwrap_or_default();
        match self.own(gateway, caller, &mut params).await {
            Some(answer) => answer.map_err(|error| error.to_raw()),
            None => {
                turn.come().await;
                self.pass(gateway, caller, params, turn).await
            }
        }
    }

    /// What greenroom answers itself: its own resources come first in lists, and are read here.
    async fn own(
        &self,
        gateway: &Gateway,
        caller: &Caller,
        params: &mut Fields,
    ) -> Option<Result<Raw, RpcError>> {
        let asked = resources::Asked::of(self.method)?;
        if !gateway.recalls() {
            return None;
        }
        if self.list.is_none() {
            let uri = params.read::<String>("uri").ok().flatten().unwrap_or_default();
            if !uri.starts_with(resources::OWN) {
                return None;
            }
        } else if let Ok(Some(cursor)) = params.read::<String>("cursor")
            && let Some(theirs) = cursor.strip_prefix(CURSOR)
        {
            match theirs {
                "" => drop(params.remove("cursor")),
                theirs => params.set("cursor", encode(theirs)),
            }
            return None;
        }
        let code = resources::NOT_FOUND_BEFORE_2026;
        let answer = resources::answer(gateway, &caller.owner, asked, Some(&params.to_raw()), code).await;
        Some(answer.map(|mut answer| {
            // Behind the last page of greenroom's come the engine's, which is not asked before somebody wants them.
            if self.list.is_some() && answer.get("nextCursor").is_none() {
                answer.set("nextCursor", encode(CURSOR));
            }
            answer.to_raw()
        }))
    }

    async fn pass(
        self,
        gateway: &Gateway,
        caller: &Caller,
        mut params: Fields,
        turn: Turn,
    ) -> Result<Raw, Raw> {
        let refused = |failure: Failure| RpcError::new(SERVER, failure.text()).to_raw();
        let session = take_session(&mut params).map_err(|error| error.to_raw())?;
        let whose = whose(gateway, caller, session).map_err(refused)?;
        let permit = gateway.policy.permit(&caller.owner, self.method);
        let permit = permit.map_err(|error| refused(Failure::from(error)))?;
        let call = Call { method: self.method, ..Call::new(self.method, params.to_raw()) };
        let began = Instant::now();
        // Beside attached browsers a pool has to be named, and none of these is a server.
        let is_pool_meant = gateway.catalog.shown().browsers == Browsers::None;
        let pool = gateway.catalog.default_pool().filter(|_| !is_pool_meant);
        let target = Target { pool: pool.map(|(pool, _)| pool.to_string()), ..Target::default() };
        let ran = gateway.fleet.call(permit, whose.clone(), target, call, caller.agent.clone());
        let outcome = turn.first_step(ran).await;
        let fine = outcome.as_ref().is_ok_and(|answer| !answer.reply.is_failure());
        gateway.metrics.call(self.method, fine, began.elapsed());
        let answer = outcome.map_err(|error| refused(Failure::of(gateway, &error)))?;
        let notes = notes(caller, &whose, answer.notes, None);
        match answer.reply.body {
            Ok(result) => Ok(shape::with_meta(self.mark_cursor(gateway, result), None, &notes)),
            Err(error) => match self.list.filter(|_| is_unknown(&error)) {
                Some(list) => Ok(shape::with_meta(encode(&json!({ list: [] })), None, &notes)),
                None => Err(error),
            },
        }
    }

    /// The engine's next page is known to be the engine's.
    fn mark_cursor(&self, gateway: &Gateway, result: Raw) -> Raw {
        let is_joined = resources::Asked::of(self.method).is_some() && gateway.recalls();
        if self.list.is_none() || !is_joined || !result.get().contains("nextCursor") {
            return result;
        }
        let Ok(mut fields) = Fields::open(&result) else { return result };
        let Ok(Some(cursor)) = fields.read::<String>("nextCursor") else { return result };
        fields.set("nextCursor", encode(&format!("{CURSOR}{cursor}")));
        fields.to_raw()
    }
}

/// The session that is named in `_meta`, which the engine does not hear of.
fn take_session(params: &mut Fields) -> Result<Option<SessionId>, RpcError> {
    let Some(mut meta) = params.get("_meta").and_then(|meta| Fields::open(meta).ok()) else {
        return Ok(None);
    };
    let Some(named) = meta.remove(SESSION) else { return Ok(None) };
    params.set("_meta", meta.to_raw());
    let wrong = |why: &dyn std::fmt::Display| RpcError::new(INVALID_PARAMS, format!("`{SESSION}`: {why}"));
    let named: String = serde_json::from_str(named.get()).map_err(|error| wrong(&error))?;
    SessionId::new(&named).map(Some).map_err(|error| wrong(&error))
}

/// Whether an engine says that it does not know a method.
fn is_unknown(error: &Raw) -> bool {
    #[derive(Deserialize)]
    struct Code {
        code: i64,
    }
    serde_json::from_str(error.get()).is_ok_and(|Code { code }| code == METHOD_NOT_FOUND)
}

/// What a client is told of it in the handshake.
pub(crate) fn declare(gateway: &Gateway, capabilities: &mut serde_json::Value) {
    if is_carried(gateway) {
        capabilities["prompts"] = json!({ "listChanged": true });
        capabilities["resources"] = json!({ "subscribe": true, "listChanged": true });
        capabilities["completions"] = json!({});
        capabilities["tasks"] = json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
    }
}
