//! The checks of a call before it runs, the same for a single call and for a step of a bulk.

use greenroom_core::likeness::nearest;
use greenroom_fleet::{CallTarget, SessionKey};

use crate::{
    Gateway, caller::Caller, catalog::ToolList, error_response::ErrorResponse, recall::ResponseMode,
    route::CallRequest, tools,
};

/// Checks whether the tool can be called with these arguments where the call would run. If pools define this
/// tool differently, the definition of the call's pool counts; `session_key` tells which pool that is.
pub(crate) fn check_request(
    gateway: &Gateway,
    caller: &Caller,
    listed: &ToolList,
    request: &CallRequest,
    session_key: Option<&SessionKey>,
) -> Result<(), ErrorResponse> {
    let Some((_, entry)) = listed.get(&request.tool) else {
        return Err(ErrorResponse::unknown_tool(&request.tool, None));
    };
    let matters = session_key.filter(|_| listed.depends_on_target(entry));
    let pool =
        matters.map(|session_key| pool_of(gateway, caller, session_key, &request.target)).transpose()?;
    check_arguments(listed, request, pool.as_deref())
}

/// The pool that a call will run in, or why none can run it.
pub(crate) fn pool_of(
    gateway: &Gateway,
    caller: &Caller,
    session_key: &SessionKey,
    target: &CallTarget,
) -> Result<String, ErrorResponse> {
    let pool = gateway.fleet.pool_of_call(&caller.owner, session_key, target);
    pool.map_err(|error| ErrorResponse::from_fleet_error(gateway, &error))
}

/// Checks these arguments against the tool's definition: this pool's, if pools define the tool differently.
pub(crate) fn check_arguments(
    listed: &ToolList,
    request: &CallRequest,
    pool: Option<&str>,
) -> Result<(), ErrorResponse> {
    let Some((name, entry)) = listed.get(&request.tool) else {
        return Err(ErrorResponse::unknown_tool(&request.tool, None));
    };
    if let Some((source, others)) = pool.and_then(|pool| listed.pools_with_tool(entry, pool)) {
        return Err(ErrorResponse::tool_not_there(name, source, &others));
    }
    let checked = listed.check(entry, pool, request.arguments());
    checked.map_err(|invalid| ErrorResponse::invalid_arguments(name, &invalid))
}

/// Whether a call can be answered with what it changed. greenroom finds that in the records of the call's session; calls
/// without a session have no such history, since several clients of one owner may use the same browser in turn.
pub(crate) fn check_mode(session_key: &SessionKey, mode: Option<ResponseMode>) -> Result<(), ErrorResponse> {
    match (session_key, mode) {
        (SessionKey::Ephemeral, Some(ResponseMode::Diff)) => Err(ErrorResponse::nothing_to_compare()),
        _ => Ok(()),
    }
}

/// What to do about an unknown tool: which setting adds it, or which tool the caller probably meant. Only tools that
/// the caller may use are suggested.
pub(crate) fn suggestion(
    gateway: &Gateway,
    caller: &Caller,
    listed: &ToolList,
    name: &str,
) -> Option<String> {
    if let Some(cap) = gateway.catalog.missing_cap(name) {
        return Some(format!("the engine has it, with `{cap}` in `pool.caps`"));
    }
    // greenroom's own tools are for agents: suggest none of them to a program.
    let own =
        tools::names(gateway, caller.is_local).filter(|_| !caller.is_program).map(|name| -> &str { name });
    let shown = listed.iter().map(|(name, _)| &**name).chain(own);
    let shown = shown.filter(|name| gateway.policy.shows(&caller.owner, name));
    nearest(name, shown).map(|nearest| format!("did you mean \"{nearest}\"?"))
}
