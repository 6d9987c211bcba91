//! Several commands in one browser: checks them, runs them under one lease, and collects their results.

use std::sync::Arc;

use greenroom_core::{
    Call, Raw,
    raw::encode,
    record::{BlobRef, SessionRef},
    settings::Responses,
};
use greenroom_fleet::{Bulk, BulkAnswers, CallTarget, FleetError, Note, SessionKey};
use serde::Serialize;
use serde_json::json;

use super::{BulkArguments, BulkCommand, NAME};
use crate::{
    Gateway,
    argument_check::{check_arguments, check_mode, pool_of, suggestion},
    caller::Caller,
    catalog::ToolList,
    error_response::ErrorResponse,
    offload::stop_if_aborted,
    outcome::CallOutcome,
    recall::{
        CallRecord, ResponseMode,
        response_options::ResponseOptions,
        result::{EmbeddedBytes, message_of, replace, text_of},
    },
    render,
    route::CallRequest,
    tools::{self, ToolContext},
};

/// The session, and the pool, instance or browser, in which the commands run.
#[derive(Clone, Copy)]
pub(super) struct BulkTarget<'a> {
    pub(super) session_key: &'a SessionKey,
    pub(super) target: &'a CallTarget,
}

/// A checked command.
pub(super) struct BulkStep {
    call: Call,
    call_record: CallRecord,
    response_options: ResponseOptions,
}

/// Commands that have run.
pub(super) struct BulkRun {
    pub(super) outcome: BulkResult,
    pub(super) notes: Vec<Note>,
    /// A note if a command was not recorded.
    pub(super) not_recorded: Option<String>,
}

/// The result of several commands. Both lists have an entry for every command.
#[derive(Debug, Serialize)]
pub(super) struct BulkResult {
    pub(super) success: bool,
    /// How many commands ran.
    executed_count: usize,
    total_count: usize,
    /// The engine's results, for the commands whose results the caller asks for.
    results: Vec<Option<Raw>>,
    errors: Vec<Option<String>>,
    /// The command after which no other ran.
    stopped_at: Option<usize>,
}

/// Turns the commands into calls, if all of them are allowed and valid in the target `at`.
pub(super) async fn check(
    context: &ToolContext<'_>,
    listed: &ToolList,
    commands: &[BulkCommand],
    at: BulkTarget<'_>,
) -> Result<Vec<BulkStep>, ErrorResponse> {
    let gateway = context.gateway;
    let caller = context.caller;
    let known = commands.iter().filter_map(|command| listed.get(&command.tool));
    let matters = known.into_iter().any(|(_, entry)| listed.depends_on_target(entry));
    let pool = matters.then(|| pool_of(gateway, caller, at.session_key, at.target)).transpose();
    let meta = context.request.meta();
    let step = |BulkCommand { tool, args, .. }: &BulkCommand| {
        if tools::find(tool).is_some() {
            let message = format!("\"{tool}\" cannot be one of several commands; call it by itself");
            return Err(ErrorResponse::not_in_bulk(message));
        }
        let Some((name, entry)) = listed.get(tool) else {
            return Err(ErrorResponse::unknown_tool(
                tool,
                suggestion(gateway, caller, listed, tool).as_deref(),
            ));
        };
        gateway.policy.permit(&caller.owner, name)?;
        // `null` counts as missing.
        let args = args.clone().filter(|args| args.get() != "null").unwrap_or_else(|| encode(&json!({})));
        let mut request = CallRequest::from_parts(tool, Some(args), meta.clone())?;
        request.take_selectors(entry.injected)?;
        if let Some(name) = request.selector() {
            let message = format!(
                "give `{name}` next to `commands`, not inside a command: all of them run in one browser"
            );
            return Err(ErrorResponse::not_in_bulk(message));
        }
        let response_options = std::mem::take(&mut request.response_options);
        if response_options.page.as_ref().is_some_and(|query| query.parameters.cache_key.is_some()) {
            let message = "a page by its `cache_key` needs no browser; call it by itself";
            return Err(ErrorResponse::not_in_bulk(message));
        }
        check_mode(at.session_key, response_options.mode)?;
        if let Ok(pool) = &pool {
            check_arguments(listed, &request, pool.as_deref())?;
        }
        let call_record =
            CallRecord::with_new_id(&gateway.recall, &caller.owner, Some(at.session_key), &request);
        let call = Call {
            recorder: call_record.recorder(),
            annotate: response_options.annotate,
            ..Call::new(name.clone(), request.into_params())
        };
        Ok(BulkStep { call, call_record, response_options })
    };
    let steps = commands.iter().enumerate();
    let steps: Result<Vec<_>, _> =
        steps.map(|(index, command)| step(command).map_err(|failure| failure.in_command(index))).collect();
    match pool {
        Ok(_) => steps,
        // Record an unknown or unavailable pool or browser as the failure of the first command.
        Err(failure) => {
            not_run(steps?, session_of(gateway, caller, at), &failure.text()).await;
            Err(failure)
        }
    }
}

/// Runs the commands under one lease.
pub(super) async fn run(
    context: &ToolContext<'_>,
    arguments: &BulkArguments,
    at: BulkTarget<'_>,
    steps: Vec<BulkStep>,
    progress: Arc<dyn Fn(usize) + Send + Sync>,
) -> Result<BulkRun, ErrorResponse> {
    let gateway = context.gateway;
    let caller = context.caller;
    // Each lease takes a permit by value, so each run needs a permit of its own.
    let permit = gateway.policy.permit(&caller.owner, NAME)?;
    let calls = steps.iter().map(|step| step.call.clone()).collect();
    let bulk = Bulk { calls, stop_on_error: arguments.stop_on_error, progress };
    let session_key = at.session_key.clone();
    let target = at.target.clone();
    stop_if_aborted().await;
    let agent = caller.agent_with_blobs(gateway);
    let answer = gateway.fleet.bulk(permit, session_key, target, bulk, agent).await;
    let BulkAnswers { answers, lost, notes } = match answer {
        Ok(answers) => answers,
        Err(error) => {
            let failure = ErrorResponse::from_fleet_error(gateway, &error);
            not_run(steps, session_of(gateway, caller, at), &failure.text()).await;
            return Err(failure);
        }
    };
    let mut steps = steps.into_iter();
    let mut results = Vec::with_capacity(answers.len());
    let mut not_recorded = None;
    for (answer, step) in answers.into_iter().zip(steps.by_ref()) {
        gateway.metrics.command(&step.call.tool, !answer.reply.is_failure());
        let outcome = CallOutcome::answered(
            gateway,
            step.call_record,
            caller,
            at.session_key,
            answer,
            step.response_options,
        )
        .await;
        not_recorded = not_recorded.or_else(|| outcome.record.not_recorded.clone());
        results.push(command_result(gateway, caller, outcome).await);
    }
    if let Some(error) = &lost {
        // The record of the first step that did not run has its session already.
        not_run(steps, None, &error.to_string()).await;
    } else {
        steps.for_each(|step| step.call_record.discard_unbegun());
    }
    let outcome = BulkResult::new(arguments, results, lost.as_ref());
    Ok(BulkRun { outcome, notes, not_recorded: not_recorded.map(|why| render::not_recorded(&why)) })
}

/// Ends the steps that did not run: the first is recorded with the reason, the others are not recorded.
async fn not_run(steps: impl IntoIterator<Item = BulkStep>, session: Option<SessionRef>, why: &str) {
    let mut steps = steps.into_iter();
    if let Some(first) = steps.next() {
        first.call_record.failed(session, why).await;
    }
    steps.for_each(|step| step.call_record.discard_unbegun());
}

/// The session of the commands as records name it, if it exists.
fn session_of(gateway: &Gateway, caller: &Caller, at: BulkTarget<'_>) -> Option<SessionRef> {
    gateway.fleet.session_ref(&caller.owner, at.session_key)
}

/// A command's result, or the text of its failure.
async fn command_result(gateway: &Gateway, caller: &Caller, outcome: CallOutcome) -> Result<Raw, String> {
    let owner = &caller.owner;
    if let Some(page) = outcome.page(gateway, owner).await {
        // The page's cache key works for later pages, in a call of their own.
        let page = page.map_err(|why| format!("no page: {why}"))?;
        return Ok(render::text_result(&page.text, page.ref_id.as_ref(), &[]));
    }
    if outcome.is_failure() {
        let failed = outcome.in_mode(gateway, caller, ResponseMode::As(Responses::Inline)).await;
        return Err(failed.map_or_else(|error| message_of(&error), |result| text_of(&result)));
    }
    let mode = outcome.mode(gateway);
    let is_kept = outcome.record.record().is_some() && mode != ResponseMode::As(Responses::Refs);
    let embedded = outcome.record.embedded.clone();
    let blobs = outcome.record.blobs.clone();
    // `without_bytes` replaces the pictures by names of blobs, so do not scale or link them.
    let outcome = if is_kept { outcome.with_pictures_inline() } else { outcome };
    let result = outcome.in_mode(gateway, caller, mode).await.map_err(|error| message_of(&error))?;
    Ok(if is_kept { without_bytes(result, &embedded, &blobs) } else { result })
}

/// Replaces images by the names of their blobs: all results become one text, in which an image would only be many
/// letters.
fn without_bytes(result: Raw, embedded: &[EmbeddedBytes], blobs: &[BlobRef]) -> Raw {
    if embedded.is_empty() {
        return result;
    }
    replace(&result, embedded, |_, number| {
        let blob = blobs.get(number)?;
        let text = format!("{}, {} bytes: greenroom://blobs/{}", blob.mime, blob.bytes, blob.id);
        Some(encode(&json!({ "type": "text", "text": text })))
    })
}

impl BulkResult {
    fn new(arguments: &BulkArguments, ended: Vec<Result<Raw, String>>, lost: Option<&FleetError>) -> Self {
        let BulkArguments { commands, stop_on_error, return_all_results, .. } = arguments;
        let total = commands.len();
        let mut results = Vec::with_capacity(total);
        let mut errors = Vec::with_capacity(total);
        for (command, ended) in commands.iter().zip(ended) {
            let (result, error) = match ended {
                Ok(result) => ((*return_all_results || command.return_result).then_some(result), None),
                Err(error) => (None, Some(error)),
            };
            results.push(result);
            errors.push(error);
        }
        let mut executed_count = errors.len();
        let failed = errors.iter().position(Option::is_some).filter(|_| *stop_on_error);
        let stopped_at = match lost {
            None => failed,
            Some(error) => {
                // A command before which the browser was lost did not run; a command during which it was lost may have.
                executed_count += usize::from(!matches!(error, FleetError::NotRun(_)));
                errors.push(Some(error.to_string()));
                Some(errors.len() - 1)
            }
        };
        let success = errors.iter().all(Option::is_none);
        results.resize_with(total, || None);
        errors.resize_with(total, || None);
        Self { success, executed_count, total_count: total, results, errors, stopped_at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenroom_core::Lost;

    fn arguments(count: usize, stop_on_error: bool) -> BulkArguments {
        let command = || BulkCommand { tool: "t".to_owned(), args: None, return_result: true };
        BulkArguments {
            commands: (0..count).map(|_| command()).collect(),
            stop_on_error,
            return_all_results: false,
            browser_tag: None,
        }
    }

    /// A lost browser ends the bulk: the command during which it was lost counts as run, one before which it was lost
    /// does not.
    #[test]
    fn lost_browser_ends_the_bulk() {
        let fine = || Ok(encode(&json!({ "content": [] })));
        let lost =
            |error: FleetError| BulkResult::new(&arguments(4, false), vec![fine(), fine()], Some(&error));
        let under = lost(FleetError::Lost(Lost::Page("gone".into())));
        assert_eq!((under.success, under.executed_count, under.stopped_at), (false, 3, Some(2)));
        assert_eq!(
            under.errors[2].as_deref(),
            Some("the session was lost during this call: the page crashed (gone)")
        );
        assert_eq!((under.results.len(), under.errors.len()), (4, 4));
        let before = lost(FleetError::NotRun(Lost::Page("gone".into())));
        assert_eq!((before.executed_count, before.stopped_at), (2, Some(2)));
    }
}
