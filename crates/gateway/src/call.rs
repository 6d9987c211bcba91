//! The walk of one `tools/call`: route, permit, record, check, fleet, record. A call that ends before the
//! fleet is a [`NotRun`], a call that the fleet ran is a [`CallOutcome`]; both make the body for an MCP
//! client.

use std::time::Instant;

use greenroom_core::{Call, Raw};
use greenroom_fleet::Note;
use serde_json::value::RawValue;

use crate::{
    Gateway,
    argument_check::{check_mode, check_request, suggestion},
    call_order::Turn,
    caller::Caller,
    error_response::{self, ErrorResponse},
    not_run::NotRun,
    offload::{offload_if_large, offload_if_large_json},
    outcome::CallOutcome,
    page_now::page_now,
    recall::{CallRecord, Claimed, paged, response_options::ResponseOptions},
    route::CallRequest,
    session_key::{OwnSessionCall, notes, resolve_session},
    tools,
};

/// Answers a `tools/call` of an MCP client, in its turn. Returns what the client gets: a result, or an error
/// object.
pub(crate) async fn run(
    gateway: &Gateway,
    caller: &Caller,
    params: Option<&RawValue>,
    mut turn: Turn,
) -> Result<Raw, Raw> {
    turn.wait().await;
    let _guard = offload_if_large_json(params).await;
    match CallRequest::parse(params) {
        Ok(request) => run_request(gateway, caller, request, turn).await,
        Err(error) => NotRun::from(error).into_body(),
    }
}

/// Answers a parsed call, whose turn has come.
pub(crate) async fn run_request(
    gateway: &Gateway,
    caller: &Caller,
    request: CallRequest,
    turn: Turn,
) -> Result<Raw, Raw> {
    let request = match tools::more_tools::inner_call(&request) {
        None => request,
        Some(Ok(inner)) => inner,
        Some(Err(error)) => return NotRun::from(error).into_body(),
    };
    if let Some(tool) = tools::find(&request.tool) {
        return Ok(tool.answer(gateway, caller, request, turn).await);
    }
    match make(gateway, caller, request, turn).await {
        Ok(outcome) => outcome.into_body(gateway, caller).await,
        Err(not_run) => not_run.into_body(),
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
    request.take_selectors(entry.injected)?;
    let permit = gateway.policy.permit(&caller.owner, &request.tool).map_err(ErrorResponse::from)?;
    if caller.is_program {
        let is_other_session = request.session != session_before;
        let ResponseOptions { mode, page, pictures, .. } = &request.response_options;
        if is_other_session || mode.is_some() || page.is_some() || pictures.is_some() {
            return Err(ErrorResponse::agent_only_parameter(is_other_session).into());
        }
    }
    if let Some(query) = &request.response_options.page
        && let Some(page) = paged::next(&gateway.recall, &caller.owner, query).map_err(ErrorResponse::from)?
    {
        return Err(NotRun::Page(page));
    }
    let session_key = resolve_session(gateway, caller, request.session.take()).await;
    let session = session_key
        .as_ref()
        .ok()
        .and_then(|session_key| gateway.fleet.session_ref(&caller.owner, session_key));
    let call_record =
        match CallRecord::claim(&gateway.recall, &caller.owner, session_key.as_ref().ok(), &request).await {
            Claimed::CallRecord(call_record) => call_record,
            Claimed::Repeat(record) => return Err(NotRun::Repeat(record)),
            Claimed::Interrupted(ref_id) => return Err(ErrorResponse::call_interrupted(&ref_id).into()),
            Claimed::Taken(ref_id) => return Err(ErrorResponse::request_id_taken(&ref_id).into()),
            Claimed::UsedForOtherCall(record) => {
                return Err(ErrorResponse::request_id_reused(&record.summary).into());
            }
            Claimed::Undecided(why) => return Err(ErrorResponse::records_unavailable(&why).into()),
        };
    // Check the arguments even if the session is unclear: the agent may have to correct both.
    let checked = check_request(gateway, caller, &listed, &request, session_key.as_ref().ok());
    let response_options = std::mem::take(&mut request.response_options);
    let session_key = match checked
        .and(session_key)
        .and_then(|session_key| check_mode(&session_key, response_options.mode).map(|()| session_key))
    {
        Ok(session_key) => session_key,
        Err(failure) => {
            drop(turn);
            return Ok(CallOutcome::failed(call_record, session, failure, response_options).await);
        }
    };
    let own_session_call = OwnSessionCall::begin(caller, &session_key);
    let tool = request.tool.clone();
    let target = std::mem::take(&mut request.target);
    let call = Call {
        recorder: call_record.recorder(),
        annotate: response_options.annotate,
        ..Call::new(tool.clone(), request.into_params())
    };
    let began = Instant::now();
    let agent = caller.agent_with_blobs(gateway);
    let running = gateway.fleet.call(permit, session_key.clone(), target, call, agent);
    let answer = turn.first_step(running).await;
    let _guard = offload_if_large(answer.as_ref().map_or(0, |(answer, _)| answer.reply.bytes())).await;
    let is_success = answer.as_ref().is_ok_and(|(answer, _)| !answer.reply.is_failure());
    gateway.metrics.call(&tool, is_success, began.elapsed());
    Ok(match answer {
        Ok((answer, session_notes)) => {
            let mut outcome =
                CallOutcome::answered(gateway, call_record, caller, &session_key, answer, response_options)
                    .await;
            if let Some(session) = &outcome.record.session
                && session_notes.iter().any(|note| matches!(note, Note::Crashed(_)))
            {
                gateway.recall.sent_pages.forget(&session.uid);
            }
            outcome.notes = notes(caller, &session_key, session_notes, own_session_call);
            if let Some(tool) = outcome.snapshot_tool(gateway).filter(|_| !caller.is_program) {
                outcome.page_now = page_now(gateway, caller, &session_key, tool).await.map(Box::new);
            }
            outcome
        }
        Err(error) => {
            CallOutcome::failed(
                call_record,
                session,
                ErrorResponse::from_fleet_error(gateway, &error),
                response_options,
            )
            .await
        }
    })
}
