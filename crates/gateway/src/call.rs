//! The walk of one `tools/call`: route, permit, record, check, fleet, record. A call that ends before the fleet is a
//! [`NotRun`], a call that the fleet ran is an [`CallOutcome`]; both make the body for an MCP client.

use std::time::Instant;

use greenroom_core::{Call, Raw, record::Record, settings::Responses};
use greenroom_fleet::{SessionKey, Target};
use greenroom_mcp::{RpcError, error::INVALID_REQUEST};
use serde_json::value::RawValue;

use crate::{
    Gateway,
    call_order::Turn,
    caller::Caller,
    check::{check_mode, check_request, suggestion},
    error_response::{self, ErrorResponse},
    offload::{offload_if_large, offload_if_large_json},
    outcome::CallOutcome,
    recall::{CallRecord, Claimed, ResponseMode, paged, response_options::ResponseOptions},
    render,
    route::{CallRequest, Unroutable},
    session_key::{OwnSessionCall, notes, whose},
    tools,
};

/// Answers a `tools/call` of an MCP client, in its turn. Never fails: the body is a result or an error object to send.
pub(crate) async fn run(
    gateway: &Gateway,
    caller: &Caller,
    params: Option<&RawValue>,
    mut turn: Turn,
) -> Result<Raw, Raw> {
    turn.come().await;
    let _guard = offload_if_large_json(params).await;
    let request = match CallRequest::parse(params) {
        Ok(request) => request,
        Err(error) => return NotRun::from(error).into_body(),
    };
    if let Some(tool) = tools::find(&request.tool) {
        return Ok(tool.answer(gateway, caller, request, turn).await);
    }
    match make(gateway, caller, request, turn).await {
        Ok(outcome) => outcome.into_body(gateway, caller).await,
        Err(not_run) => not_run.into_body(),
    }
}

/// Why a call was not made, and left no record.
pub(crate) enum NotRun {
    Failure(ErrorResponse),
    /// The client's program made the mistake, not its agent.
    Rpc(RpcError),
    /// The client has made a call of this name before.
    Repeat(Box<Record>),
    /// The call asks for a part of an earlier answer; this is that part.
    Page(paged::PageText),
}

impl NotRun {
    /// The body for an MCP client.
    fn into_body(self) -> Result<Raw, Raw> {
        match self {
            Self::Failure(failure) => Ok(failure.to_result()),
            Self::Rpc(error) => Err(error.to_raw()),
            // Only a client that names its calls can repeat one.
            Self::Repeat(_) => Err(RpcError::new(INVALID_REQUEST, "this call was made before").to_raw()),
            Self::Page(said) => Ok(render::said(&said.text, said.ref_id.as_ref(), &[])),
        }
    }
}

impl From<ErrorResponse> for NotRun {
    fn from(failure: ErrorResponse) -> Self {
        Self::Failure(failure)
    }
}

impl From<Unroutable> for NotRun {
    fn from(error: Unroutable) -> Self {
        match error_response::unroutable(error) {
            Ok(failure) => Self::Failure(failure),
            Err(error) => Self::Rpc(error),
        }
    }
}

/// Makes a call of an engine's tool. Holds the turn until the call is in its session's queue.
pub(crate) async fn make(
    gateway: &Gateway,
    caller: &Caller,
    mut request: CallRequest,
    turn: Turn,
) -> Result<CallOutcome, NotRun> {
    let listed = gateway.catalog.list().await.map_err(ErrorResponse::from)?;
    let Some((_, entry)) = listed.get(&request.tool) else {
        if listed.iter().next().is_none() {
            return Err(ErrorResponse::nothing_attached(&request.tool).into());
        }
        let suggestion = suggestion(gateway, caller, &listed, &request.tool);
        return Err(NotRun::Rpc(error_response::unknown_tool(&request.tool, suggestion.as_deref())));
    };
    let session_before = request.session.clone();
    request.take_selectors(entry.takes)?;
    let permit = gateway.policy.permit(&caller.owner, &request.tool).map_err(ErrorResponse::from)?;
    if caller.is_program {
        let elsewhere = request.session != session_before;
        if elsewhere || request.wants.mode.is_some() || request.wants.page.is_some() {
            return Err(ErrorResponse::for_agents(elsewhere).into());
        }
    }
    if let Some(query) = &request.wants.page
        && let Some(page) = paged::next(&gateway.recall, &caller.owner, query).map_err(ErrorResponse::from)?
    {
        return Err(NotRun::Page(page));
    }
    let whose = whose(gateway, caller, request.session.take()).await;
    let session = whose.as_ref().ok().and_then(|whose| gateway.fleet.session_ref(&caller.owner, whose));
    let ticket = match CallRecord::claim(&gateway.recall, &caller.owner, whose.as_ref().ok(), &request).await
    {
        Claimed::CallRecord(ticket) => ticket,
        Claimed::Repeat(record) => return Err(NotRun::Repeat(record)),
        Claimed::Interrupted(ref_id) => return Err(ErrorResponse::call_interrupted(&ref_id).into()),
        Claimed::Taken(ref_id) => return Err(ErrorResponse::request_id_taken(&ref_id).into()),
        Claimed::Undecided(why) => return Err(ErrorResponse::records_unavailable(&why).into()),
    };
    // Check the arguments even if the session is unclear: the agent may have to correct both.
    let checked = check_request(gateway, caller, &listed, &request, whose.as_ref().ok());
    let wants = std::mem::take(&mut request.wants);
    let whose = match checked.and(whose).and_then(|whose| check_mode(&whose, wants.mode).map(|()| whose)) {
        Ok(whose) => whose,
        Err(failure) => {
            drop(turn);
            return Ok(CallOutcome::failed(ticket, session, failure, wants).await);
        }
    };
    let unnamed = OwnSessionCall::begin(caller, &whose);
    let tool = request.tool.clone();
    let target = std::mem::take(&mut request.target);
    let call = Call { scribe: ticket.scribe(), ..Call::new(tool.clone(), request.into_params()) };
    let began = Instant::now();
    let running = gateway.fleet.call(permit, whose.clone(), target, call, caller.agent.clone());
    let answer = turn.first_step(running).await;
    let _guard = offload_if_large(answer.as_ref().map_or(0, |(answer, _)| answer.reply.bytes())).await;
    let is_success = answer.as_ref().is_ok_and(|(answer, _)| !answer.reply.is_failure());
    gateway.metrics.call(&tool, is_success, began.elapsed());
    Ok(match answer {
        Ok((answer, told)) => {
            let mut outcome = CallOutcome::answered(gateway, ticket, caller, &whose, answer, wants).await;
            outcome.notes = notes(caller, &whose, told, unnamed);
            if let Some(tool) = outcome.snapshot_tool(gateway).filter(|_| !caller.is_program) {
                outcome.page_now = page_now(gateway, caller, &whose, tool).await.map(Box::new);
            }
            outcome
        }
        Err(error) => CallOutcome::failed(ticket, session, ErrorResponse::of(gateway, &error), wants).await,
    })
}

/// Takes a snapshot for an agent whose call named an element that the page does not have, as a call of its own. `None`
/// if the page cannot be had: the agent has the error then.
async fn page_now(gateway: &Gateway, caller: &Caller, whose: &SessionKey, tool: &str) -> Option<CallOutcome> {
    // A call without a session runs in any free browser, which need not be the one with the page.
    if *whose == SessionKey::Ephemeral {
        return None;
    }
    let permit = gateway.policy.permit(&caller.owner, tool).ok()?;
    let request = CallRequest::of(tool, None, None).ok()?;
    let ticket = CallRecord::take(&gateway.recall, &caller.owner, Some(whose), &request);
    let wants = ResponseOptions { mode: Some(ResponseMode::As(Responses::Inline)), page: None };
    let call = Call { scribe: ticket.scribe(), ..Call::new(tool, request.into_params()) };
    let running = gateway.fleet.call(permit, whose.clone(), Target::default(), call, caller.agent.clone());
    match running.await {
        Ok((answer, _)) => Some(CallOutcome::answered(gateway, ticket, caller, whose, answer, wants).await),
        Err(error) => {
            ticket.failed(None, &ErrorResponse::of(gateway, &error).text()).await;
            None
        }
    }
}
