//! The walk of one `tools/call`: route, check, permit, fleet, shape. Whatever fails on the way is rescued into an
//! answer here.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use greenroom_core::{Agent, Call, Owner, Raw, likeness::nearest, settings::Scope};
use greenroom_fleet::{Ended, Note, Target, Whose};
use serde_json::value::RawValue;

use crate::{
    Gateway,
    connection::Connection,
    rescue::{self, Failure},
    route::Request,
    shape, tools,
    turn::Turn,
};

/// Whoever makes a call.
pub(crate) struct Caller {
    pub(crate) owner: Owner,
    /// `None` for a request that stands alone: it has no session of its own.
    pub(crate) connection: Option<Arc<Connection>>,
    pub(crate) agent: Arc<dyn Agent>,
}

/// What to say when calls without `sessionId` overlap: probably two agents share a connection unawares.
const OVERLAP: &str = "hint: calls without sessionId overlapped on this connection and shared one browser; if several agents use it, each should give its own sessionId";

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
        let began = Instant::now();
        let outcome = turn.first_step(tool.run(gateway, caller, request)).await;
        gateway.metrics.call(tool.name, outcome.is_ok(), began.elapsed());
        return Ok(outcome.unwrap_or_else(|failure| failure.to_result()));
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
        // Only what may be used is worth suggesting.
        let own = tools::names(gateway).map(|name| -> &str { name });
        let shown = listed.iter().map(|(name, _)| &**name).chain(own);
        let shown = shown.filter(|name| gateway.policy.shows(&caller.owner, name));
        return Err(rescue::unknown_tool(&request.tool, nearest(&request.tool, shown)).to_raw());
    };
    let session = if entry.takes_session {
        match request.take_session() {
            Ok(session) => session,
            Err(error) => return refuse(rescue::unroutable(error)),
        }
    } else {
        None
    };
    let permit = match gateway.policy.permit(&caller.owner, name) {
        Ok(permit) => permit,
        Err(refused) => return Ok(Failure::from(refused).to_result()),
    };
    if let Err(invalid) = entry.check(request.arguments()) {
        return Ok(Failure::invalid_arguments(name, &invalid).to_result());
    }
    let whose = match (session, gateway.scope, &caller.connection) {
        (Some(id), _, _) => Whose::Named(id),
        (None, Scope::Connection, Some(connection)) => Whose::Connection(connection.id),
        (None, Scope::Connection, None) => return Ok(Failure::stateless().to_result()),
        (None, Scope::Call, _) => Whose::NoOne,
        (None, Scope::Explicit, _) => return Ok(Failure::session_required().to_result()),
    };
    let unnamed = caller.connection.as_deref().and_then(|connection| Unnamed::begin(connection, &whose));
    let call = Call { tool: name.clone(), params: request.into_params() };
    let session = whose.clone();
    let began = Instant::now();
    let outcome = turn
        .first_step(gateway.fleet.call(permit, whose, Target::default(), call, caller.agent.clone()))
        .await;
    let fine = outcome.as_ref().is_ok_and(|answer| !answer.reply.is_failure());
    gateway.metrics.call(name, fine, began.elapsed());
    let overlapped = unnamed.is_some_and(|unnamed| unnamed.overlapped());
    match outcome {
        Ok(answer) => {
            let mut notes = answer.notes;
            // Another of its owner's windows may have begun the session anew; this client has not heard of it.
            let lost =
                caller.connection.as_ref().is_some_and(|connection| connection.takes_leave_of(&session));
            if lost && !notes.iter().any(|note| matches!(note, Note::Restarted(_))) {
                notes.push(Note::Restarted(Ended::Server));
            }
            let mut notes: Vec<String> = notes.iter().map(ToString::to_string).collect();
            if overlapped {
                notes.push(OVERLAP.to_owned());
            }
            shape::answer(answer.reply, &notes)
        }
        Err(error) => Ok(Failure::from(error).to_result()),
    }
}

/// Counts a call without `sessionId` in a connection's own session, and knows whether it met another.
struct Unnamed<'a> {
    connection: &'a Connection,
    meetings_before: usize,
}

impl<'a> Unnamed<'a> {
    fn begin(connection: &'a Connection, whose: &Whose) -> Option<Self> {
        let Whose::Connection(_) = whose else { return None };
        let meetings_before = connection.meetings.load(Ordering::Relaxed);
        if connection.unnamed.fetch_add(1, Ordering::Relaxed) > 0 {
            // The one that came first shall hear of it too.
            connection.meetings.fetch_add(1, Ordering::Relaxed);
        }
        Some(Self { connection, meetings_before })
    }

    fn overlapped(&self) -> bool {
        self.connection.meetings.load(Ordering::Relaxed) != self.meetings_before
    }
}

impl Drop for Unnamed<'_> {
    fn drop(&mut self) {
        self.connection.unnamed.fetch_sub(1, Ordering::Relaxed);
    }
}
