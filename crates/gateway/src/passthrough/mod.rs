//! Requests other than tool calls: greenroom's own resources, and prompts, completions, resources (with their updates)
//! and tasks of custom MCP servers, to which the gateway passes the request on.
//!
//! Browser engines have none of these. The gateway does not record these requests. Each goes to its [`endpoint`]; if a
//! server does not know a list, the gateway answers with an empty one. The front calls this for every revision of the
//! protocol.

mod endpoint;
mod method;

use std::time::Instant;

use greenroom_core::{Call, Fields, Raw, raw::encode};
use greenroom_fleet::CallTarget;
use greenroom_mcp::{
    RpcError,
    error::{INVALID_PARAMS, METHOD_NOT_FOUND, SERVER},
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::{
    Gateway, call_order::Turn, caller::Caller, error_response::ErrorResponse, offload::offload_if_large_json,
    render, resources, session_key::notes,
};

pub(crate) use endpoint::SESSION;
use endpoint::{PassthroughTarget, server, take_session};
pub(crate) use method::PassthroughMethod;
use method::{CAPABILITIES, STATELESS_CAPABILITIES};

/// Marks a cursor as the server's own. greenroom's pages come before the server's.
const CURSOR: &str = "engine:";

/// A request other than a tool call, which the gateway or a server may answer.
#[derive(Clone, Copy)]
pub(crate) struct Passthrough {
    method: PassthroughMethod,
    /// The revision's error code for a missing resource.
    not_found: i64,
}

impl Passthrough {
    /// Fails if neither the gateway nor a server knows the method. A server whose capabilities are unknown counts as
    /// one that knows it.
    pub(crate) fn new(
        gateway: &Gateway,
        method: PassthroughMethod,
        not_found: i64,
    ) -> Result<Self, RpcError> {
        let passthrough = Self { method, not_found };
        match passthrough.own(gateway) {
            None if server(gateway, method).is_none() => Err(unknown(method)),
            _ => Ok(passthrough),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        self.method.name
    }

    /// Whether a server may answer the request, or a part of it.
    pub(crate) fn is_passed_on(self, gateway: &Gateway) -> bool {
        server(gateway, self.method).is_some()
    }

    /// The method for greenroom's own resources, whose answer comes before the server's.
    fn own(self, gateway: &Gateway) -> Option<resources::ResourceMethod> {
        resources::ResourceMethod::from_name(self.method.name).filter(|_| gateway.recalls())
    }

    /// Runs the request. If greenroom does not answer it alone, waits for its turn first.
    pub(crate) async fn run(
        self,
        gateway: &Gateway,
        caller: &Caller,
        params: Option<&RawValue>,
        mut turn: Turn,
    ) -> Result<Raw, Raw> {
        let _guard = offload_if_large_json(params).await;
        let params = params.filter(|params| params.get() != "null").map(Fields::open).transpose();
        let mut params = params
            .map_err(|_| RpcError::new(INVALID_PARAMS, "`params` must be an object").to_raw())?
            .unwrap_or_default();
        if let Some(resource_method) = self.own(gateway).filter(|_| self.is_for_us(gateway, &mut params)) {
            drop(turn);
            let answer = self.answer(gateway, caller, resource_method, &params).await;
            return answer.map_err(|error| error.to_raw());
        }
        turn.wait().await;
        // The first request may have to wait until the server has declared its capabilities.
        let _ = gateway.catalog.list().await;
        match self.method.list.filter(|_| self.own(gateway).is_some()) {
            _ if self.is_passed_on(gateway) => self.pass(gateway, caller, params, turn).await,
            Some(list) => Ok(encode(&json!({ list: [] }))),
            None => Err(unknown(self.method).to_raw()),
        }
    }

    /// Whether the request is for greenroom's own resources: the first page, a later page of greenroom's, or one of
    /// its resources. If not, this removes the mark from the server's cursor.
    fn is_for_us(self, gateway: &Gateway, params: &mut Fields) -> bool {
        if self.method.list.is_none() {
            let uri = params.read::<String>("uri").ok().flatten().unwrap_or_default();
            return uri.starts_with(resources::OWN) || !self.is_passed_on(gateway);
        }
        let cursor = params.read::<String>("cursor").ok().flatten();
        match cursor.as_deref().and_then(|cursor| cursor.strip_prefix(CURSOR)) {
            None => return true,
            Some("") => drop(params.remove("cursor")),
            Some(server_cursor) => params.set("cursor", encode(server_cursor)),
        }
        false
    }

    async fn answer(
        self,
        gateway: &Gateway,
        caller: &Caller,
        resource_method: resources::ResourceMethod,
        params: &Fields,
    ) -> Result<Raw, RpcError> {
        let mut answer = resources::answer(
            gateway,
            &caller.owner,
            resource_method,
            Some(&params.to_raw()),
            self.not_found,
        )
        .await?;
        // The server's pages follow greenroom's last one. The server is asked only when a client wants them.
        if self.method.list.is_some() && answer.get("nextCursor").is_none() && self.is_passed_on(gateway) {
            answer.set("nextCursor", encode(CURSOR));
        }
        Ok(answer.to_raw())
    }

    async fn pass(
        self,
        gateway: &Gateway,
        caller: &Caller,
        mut params: Fields,
        turn: Turn,
    ) -> Result<Raw, Raw> {
        let refused = |failure: ErrorResponse| RpcError::new(SERVER, failure.text()).to_raw();
        let session = take_session(&mut params).map_err(|error| error.to_raw())?;
        let name = self.method.name;
        let PassthroughTarget { pool, session_key } =
            PassthroughTarget::resolve(gateway, caller, self.method, session).await.map_err(refused)?;
        let permit = gateway.policy.permit(&caller.owner, name);
        let permit = permit.map_err(|error| refused(ErrorResponse::from(error)))?;
        let call = Call { method: name, ..Call::new(name, params.to_raw()) };
        let began = Instant::now();
        let target = CallTarget { pool: Some(pool), ..CallTarget::default() };
        let ran = gateway.fleet.call(permit, session_key.clone(), target, call, caller.agent.clone());
        let outcome = turn.first_step(ran).await;
        let fine = outcome.as_ref().is_ok_and(|(answer, _)| !answer.reply.is_failure());
        gateway.metrics.call(name, fine, began.elapsed());
        let (answer, session_notes) =
            outcome.map_err(|error| refused(ErrorResponse::from_fleet_error(gateway, &error)))?;
        let notes = notes(caller, &session_key, session_notes, None);
        match answer.reply.body {
            Ok(result) => Ok(render::with_meta(self.mark_cursor(gateway, result), None, &notes)),
            Err(error) => match (code_of(&error), self.method.list) {
                (Some(METHOD_NOT_FOUND), Some(list)) => {
                    Ok(render::with_meta(encode(&json!({ list: [] })), None, &notes))
                }
                (Some(resources::NOT_FOUND_BEFORE_2026), _) => Err(self.not_found(error)),
                _ => Err(error),
            },
        }
    }

    /// Replaces the code of a server's error for a missing resource by that of the client's revision.
    fn not_found(self, error: Raw) -> Raw {
        let Ok(mut fields) = Fields::open(&error) else { return error };
        fields.set("code", encode(&self.not_found));
        fields.to_raw()
    }

    /// Marks the cursor of the server's next page as the server's.
    fn mark_cursor(self, gateway: &Gateway, result: Raw) -> Raw {
        let is_joined = self.method.list.is_some() && self.own(gateway).is_some();
        if !is_joined || !result.get().contains("nextCursor") {
            return result;
        }
        let Ok(mut fields) = Fields::open(&result) else { return result };
        let Ok(Some(cursor)) = fields.read::<String>("nextCursor") else { return result };
        fields.set("nextCursor", encode(&format!("{CURSOR}{cursor}")));
        fields.to_raw()
    }
}

fn unknown(method: PassthroughMethod) -> RpcError {
    match resources::ResourceMethod::from_name(method.name) {
        Some(resource_method) => resources::unserved(resource_method),
        None => RpcError::new(METHOD_NOT_FOUND, format!("method not found: `{}`", method.name)),
    }
}

fn code_of(error: &Raw) -> Option<i64> {
    #[derive(Deserialize)]
    struct ErrorCode {
        code: i64,
    }
    serde_json::from_str(error.get()).ok().map(|ErrorCode { code }| code)
}

/// Declares capabilities in the handshake: those that a custom server declared when it was last asked.
pub(crate) fn declare(gateway: &Gateway, capabilities: &mut Value) {
    for (name, server_value) in declared(gateway, &CAPABILITIES) {
        capabilities[name] = server_value;
    }
}

/// Declares capabilities to clients of revision 2026-07-28, without values: the gateway announces no changes there.
pub(crate) fn declare_stateless(gateway: &Gateway, capabilities: &mut Value) {
    for (name, _) in declared(gateway, &STATELESS_CAPABILITIES) {
        capabilities[name] = json!({});
    }
}

fn declared(gateway: &Gateway, names: &[&'static str]) -> Vec<(&'static str, Value)> {
    let servers = gateway.catalog.servers().into_iter().filter_map(|server| server.introduction);
    let capabilities: Vec<_> = servers.filter_map(|server| Fields::open(&server.capabilities).ok()).collect();
    let first =
        |name: &'static str| capabilities.iter().find_map(|fields| fields.read::<Value>(name).ok()?);
    names.iter().filter_map(|name| Some((*name, first(name)?))).collect()
}
