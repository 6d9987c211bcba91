//! What an engine offers beside its tools, passed on: prompts, completions, resources and news of these, tasks.
//!
//! Browser engines have none; MCP servers of somebody else's may. A request goes to the engine of the default pool, in the
//! session that a tool call without `sessionId` would have, if there is one; `greenroom/sessionId` in its `_meta` names
//! another. It is no tool call: nothing of it is kept. An engine that does not know a list has an empty one. Called by the
//! front, for clients with a handshake.

use std::time::Instant;

use greenroom_core::{Call, Fields, Raw, SessionId, raw::encode};
use greenroom_fleet::{Target, Whose};
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

/// A method that is passed on.
#[derive(Clone, Copy)]
struct Method {
    name: &'static str,
    /// The capability of engines that know it.
    of: &'static str,
    /// The name of the list that it asks for.
    list: Option<&'static str>,
    /// Whether it needs a session that stays, so that one is made. Others take the one there is, or none: nobody shall
    /// hold a slot for having looked at a list.
    stays: bool,
}

const fn of(of: &'static str, name: &'static str) -> Method {
    Method { name, of, list: None, stays: false }
}

const METHODS: [Method; 12] = [
    of("completions", "completion/complete"),
    of("prompts", "prompts/get"),
    Method { list: Some("prompts"), ..of("prompts", "prompts/list") },
    Method { list: Some("resources"), ..of("resources", "resources/list") },
    of("resources", "resources/read"),
    Method { stays: true, ..of("resources", "resources/subscribe") },
    Method { list: Some("resourceTemplates"), ..of("resources", "resources/templates/list") },
    Method { stays: true, ..of("resources", "resources/unsubscribe") },
    of("tasks", "tasks/cancel"),
    of("tasks", "tasks/get"),
    Method { list: Some("tasks"), ..of("tasks", "tasks/list") },
    of("tasks", "tasks/result"),
];

/// Where a request says which session it is for.
const SESSION: &str = "greenroom/sessionId";

/// How a cursor begins that is the engine's own. Before it come greenroom's pages.
const CURSOR: &str = "engine:";

/// A request that is passed on.
pub(crate) struct Carried(Method);

impl Carried {
    /// If this is one. What the engine is not known to have it is asked for all the same, unless it is known not to.
    pub(crate) fn of(gateway: &Gateway, method: &str) -> Option<Self> {
        let method = METHODS.into_iter().find(|known| known.name == method)?;
        is_server(gateway).then_some(Self(method)).filter(|carried| carried.is_known(gateway))
    }

    /// Whether the engine has this, as far as anybody knows.
    fn is_known(&self, gateway: &Gateway) -> bool {
        let known = gateway.catalog.default_capabilities();
        known.is_none_or(|known| known.get(self.0.of).is_some())
    }

    /// Whether greenroom has such things of its own, which come first.
    fn is_joined(&self, gateway: &Gateway) -> bool {
        gateway.recalls() && resources::Asked::of(self.0.name).is_some()
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
                // Whoever asks first may have to wait until the engine has said what it has.
                let _ = gateway.catalog.list().await;
                match self.0.list.filter(|_| self.is_joined(gateway)) {
                    _ if self.is_known(gateway) => self.pass(gateway, caller, params, turn).await,
                    Some(list) => Ok(encode(&json!({ list: [] }))),
                    None => {
                        Err(RpcError::new(METHOD_NOT_FOUND, format!("method not found: `{}`", self.0.name))
                            .to_raw())
                    }
                }
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
        let asked = resources::Asked::of(self.0.name).filter(|_| gateway.recalls())?;
        if self.0.list.is_none() {
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
            if self.0.list.is_some() && answer.get("nextCursor").is_none() {
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
        let is_named = session.is_some();
        let whose = match whose(gateway, caller, session) {
            Ok(whose) if is_named || self.0.stays || gateway.fleet.holds(&caller.owner, &whose) => whose,
            Err(failure) if self.0.stays => return Err(refused(failure)),
            Ok(_) | Err(_) => Whose::NoOne,
        };
        let permit = gateway.policy.permit(&caller.owner, self.0.name);
        let permit = permit.map_err(|error| refused(Failure::from(error)))?;
        let call = Call { method: self.0.name, ..Call::new(self.0.name, params.to_raw()) };
        let began = Instant::now();
        // Beside attached browsers a pool has to be named, and none of these is a server.
        let is_pool_meant = gateway.catalog.shown().browsers == Browsers::None;
        let pool = gateway.catalog.default_pool().filter(|_| !is_pool_meant);
        let target = Target { pool: pool.map(|(pool, _)| pool.to_string()), ..Target::default() };
        let ran = gateway.fleet.call(permit, whose.clone(), target, call, caller.agent.clone());
        let outcome = turn.first_step(ran).await;
        let fine = outcome.as_ref().is_ok_and(|answer| !answer.reply.is_failure());
        gateway.metrics.call(self.0.name, fine, began.elapsed());
        let answer = outcome.map_err(|error| refused(Failure::of(gateway, &error)))?;
        let notes = notes(caller, &whose, answer.notes, None);
        match answer.reply.body {
            Ok(result) => Ok(shape::with_meta(self.mark_cursor(gateway, result), None, &notes)),
            Err(error) => match self.0.list.filter(|_| is_unknown(&error)) {
                Some(list) => Ok(shape::with_meta(encode(&json!({ list: [] })), None, &notes)),
                None => Err(error),
            },
        }
    }

    /// The engine's next page is known to be the engine's.
    fn mark_cursor(&self, gateway: &Gateway, result: Raw) -> Raw {
        if self.0.list.is_none() || !self.is_joined(gateway) || !result.get().contains("nextCursor") {
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

/// What a client is told of it in the handshake, as far as it is known: from the last time that the engine was asked.
pub(crate) fn declare(gateway: &Gateway, capabilities: &mut serde_json::Value) {
    let Some(theirs) = gateway.catalog.default_capabilities().filter(|_| is_server(gateway)) else { return };
    for name in ["prompts", "resources", "completions", "tasks"] {
        if let Some(capability) = theirs.get(name).and_then(|raw| serde_json::from_str(raw.get()).ok()) {
            capabilities[name] = capability;
        }
    }
}

/// Whether the default pool's engine is one that may have such things.
fn is_server(gateway: &Gateway) -> bool {
    gateway.catalog.default_pool().is_some_and(|(_, engine)| engine.is_server())
}
