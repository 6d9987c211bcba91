//! The walk of one `tools/call`: route, check, permit, fleet, shape. Whatever fails on the way is rescued into an
//! answer here.

use std::{sync::Arc, time::Instant};

use greenroom_core::{Agent, Call, Owner, Raw, likeness::nearest};
use serde_json::value::RawValue;

use crate::{
    Gateway,
    catalog::{Entry, Listed},
    connection::Connection,
    rescue::{self, Failure},
    route::Request,
    shape, tools,
    turn::Turn,
    whose::{Unnamed, notes, pool_of, whose},
};

/// Whoever makes a call.
pub(crate) struct Caller {
    pub(crate) owner: Owner,
    /// `None` for a request that stands alone: it has no session of its own.
    pub(crate) connection: Option<Arc<Connection>>,
    pub(crate) agent: Arc<dyn Agent>,
}

/// Carries out a call, in its turn. Never fails: the body is a result or an error object to send.
pub(crate) async fn run(
    gateway: &Gateway,
    caller: &Caller,
    params: Option<&RawValue>,
    mut turn: Turn,
) -> Result<Raw, Raw> {
    turn.come().await;
    let request = match Request::parse(params) {
        Ok(request) => request,
        Err(error) => return refuse(rescue::unroutable(error)),
    };
    if let Some(tool) = tools::find(&request.tool) {
        if tool.runs_others {
            // In its turn, so that what comes behind does not overtake it meanwhile. A failure is told by the tool.
            let _ = gateway.catalog.list().await;
        }
        let began = Instant::now();
        let outcome = turn.first_step(tool.run(gateway, caller, request)).await;
        gateway.metrics.call(tool.name, outcome.as_ref().is_ok_and(|said| !said.failed), began.elapsed());
        return Ok(outcome.map_or_else(|failure| failure.to_result(), |said| said.to_result()));
    }
    engine_tool(gateway, caller, request, turn).await
}

fn refuse(refusal: Result<Failure, greenroom_mcp::RpcError>) -> Result<Raw, Raw> {
    match refusal {
        Ok(failure) => Ok(failure.to_result()),
        Err(error) => Err(error.to_raw()),
    }
}

async fn engine_tool(
    gateway: &Gateway,
    caller: &Caller,
    mut request: Request,
    turn: Turn,
) -> Result<Raw, Raw> {
    let listed = match gateway.catalog.list().await {
        Ok(listed) => listed,
        Err(error) => return Ok(Failure::from(error).to_result()),
    };
    let Some((name, entry)) = listed.get(&request.tool) else {
        let suggestion = suggestion(gateway, caller, &listed, &request.tool);
        return Err(rescue::unknown_tool(&request.tool, suggestion.as_deref()).to_raw());
    };
    let selected = match request.take_selectors(entry.takes) {
        Ok(selected) => selected,
        Err(error) => return refuse(rescue::unroutable(error)),
    };
    let permit = match gateway.policy.permit(&caller.owner, name) {
        Ok(permit) => permit,
        Err(refused) => return Ok(Failure::from(refused).to_result()),
    };
    let target = selected.target;
    let whose = whose(gateway, caller, selected.session);
    // Arguments are looked at first: whoever gives no session where one is needed may have to mend them too.
    let matters = whose.as_ref().ok().filter(|_| listed.differs(entry));
    let pool = matters.map(|whose| pool_of(gateway, caller, whose, &target));
    if let Err(failure) = fits(gateway, &listed, (name, entry), pool.as_deref(), request.arguments()) {
        return Ok(failure.to_result());
    }
    let whose = match whose {
        Ok(whose) => whose,
        Err(failure) => return Ok(failure.to_result()),
    };
    let unnamed = Unnamed::begin(caller, &whose);
    let call = Call::new(name.clone(), request.into_params());
    let began = Instant::now();
    let outcome =
        turn.first_step(gateway.fleet.call(permit, whose.clone(), target, call, caller.agent.clone())).await;
    let fine = outcome.as_ref().is_ok_and(|answer| !answer.reply.is_failure());
    gateway.metrics.call(name, fine, began.elapsed());
    match outcome {
        Ok(answer) => {
            gateway.metrics.ran(&answer.ran, fine);
            shape::answer(answer.reply, &notes(caller, &whose, answer.notes, unnamed))
        }
        Err(error) => Ok(Failure::of(gateway, &error).to_result()),
    }
}

/// The tool that was probably meant. Only what may be used is worth suggesting.
pub(crate) fn suggestion(gateway: &Gateway, caller: &Caller, listed: &Listed, name: &str) -> Option<String> {
    let own = tools::names(gateway).map(|name| -> &str { name });
    let shown = listed.iter().map(|(name, _)| &**name).chain(own);
    let shown = shown.filter(|name| gateway.policy.shows(&caller.owner, name));
    nearest(name, shown).map(ToOwned::to_owned)
}

/// Whether a call can be made with these arguments, in this pool if it matters which one.
pub(crate) fn fits(
    gateway: &Gateway,
    listed: &Listed,
    (name, entry): (&str, &Entry),
    pool: Option<&str>,
    arguments: Option<&RawValue>,
) -> Result<(), Failure> {
    // A pool that does not exist is the fleet's to refuse.
    let exists = |pool: &&str| gateway.fleet.pool_names().iter().any(|known| known == pool);
    let pool = pool.filter(exists);
    if let Some(pool) = pool
        && let Some(others) = listed.elsewhere(entry, pool)
    {
        return Err(Failure::tool_not_in_pool(name, pool, &others));
    }
    listed.check(entry, pool, arguments).map_err(|invalid| Failure::invalid_arguments(name, &invalid))
}
