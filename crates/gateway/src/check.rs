//! What is checked of a call before it runs, the same for a single call and for one of several.

use greenroom_core::likeness::nearest;
use greenroom_fleet::{Target, Whose};

use crate::{
    Gateway, caller::Caller, catalog::Listed, error_response::Failure, recall::Mode, route::Request, tools,
};

/// Whether the tool can be called with these arguments where the call would run. Which pool that is decides how the
/// arguments are checked, if pools differ in this tool; without a session it is not known.
pub(crate) fn check_request(
    gateway: &Gateway,
    caller: &Caller,
    listed: &Listed,
    request: &Request,
    whose: Option<&Whose>,
) -> Result<(), Failure> {
    let Some((_, entry)) = listed.get(&request.tool) else {
        return Err(Failure::unknown_tool(&request.tool, None));
    };
    let matters = whose.filter(|_| listed.differs(entry));
    let pool = matters.map(|whose| pool_of(gateway, caller, whose, &request.target)).transpose()?;
    check_arguments(listed, request, pool.as_deref())
}

/// The pool that a call will run in, or why it can run nowhere.
pub(crate) fn pool_of(
    gateway: &Gateway,
    caller: &Caller,
    whose: &Whose,
    target: &Target,
) -> Result<String, Failure> {
    let pool = gateway.fleet.pool_of_call(&caller.owner, whose, target);
    pool.map_err(|error| Failure::of(gateway, &error))
}

/// Whether the tool can be called with these arguments, in this pool if it matters which one.
pub(crate) fn check_arguments(listed: &Listed, request: &Request, pool: Option<&str>) -> Result<(), Failure> {
    let Some((name, entry)) = listed.get(&request.tool) else {
        return Err(Failure::unknown_tool(&request.tool, None));
    };
    if let Some((place, others)) = pool.and_then(|pool| listed.elsewhere(entry, pool)) {
        return Err(Failure::tool_not_there(name, place, &others));
    }
    let checked = listed.check(entry, pool, request.arguments());
    checked.map_err(|invalid| Failure::invalid_arguments(name, &invalid))
}

/// Whether a call can be answered with what it changed. greenroom finds that in the records of the call's session; calls
/// without a session have no such history, since several clients of one owner may use the same browser in turn.
pub(crate) fn check_mode(whose: &Whose, mode: Option<Mode>) -> Result<(), Failure> {
    match (whose, mode) {
        (Whose::NoOne, Some(Mode::Diff)) => Err(Failure::nothing_to_compare()),
        _ => Ok(()),
    }
}

/// What to do about a tool that is not there: what to set, or the tool that was probably meant. Only what may be used is
/// worth suggesting.
pub(crate) fn suggestion(gateway: &Gateway, caller: &Caller, listed: &Listed, name: &str) -> Option<String> {
    if let Some(cap) = gateway.catalog.missing_cap(name) {
        return Some(format!("the engine has it, with `{cap}` in `pool.caps`"));
    }
    // Programs have no use for what agents have of greenroom's own.
    let own =
        tools::names(gateway, caller.is_here).filter(|_| !caller.is_program).map(|name| -> &str { name });
    let shown = listed.iter().map(|(name, _)| &**name).chain(own);
    let shown = shown.filter(|name| gateway.policy.shows(&caller.owner, name));
    nearest(name, shown).map(|nearest| format!("did you mean \"{nearest}\"?"))
}
