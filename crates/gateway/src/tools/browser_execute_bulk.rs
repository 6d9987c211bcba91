//! `browser_execute_bulk`: several tools of the engine, one after the other, in one browser and under one lease, with
//! nobody else's calls between them.
//!
//! Everything is checked before anything runs: a mistake in the last command must not leave a page half changed.

use std::sync::Arc;

use greenroom_core::{Agent, Call, Fields, Raw, Reply, raw::encode, settings::Responses};
use greenroom_fleet::{Bulk, BulkAnswer, FleetError, Ran, Target, Whose};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{BARE, Context, OwnTool, Said};
use crate::{
    Gateway,
    call::{Caller, fits, formed, suggestion},
    catalog::{INSTANCE, Listed, POOL, SESSION_ID},
    progress,
    recall::{
        Kept, Mode, Order, Ticket,
        result::{message_of, replace, text_of},
    },
    rescue::Failure,
    route::Unroutable,
    shape,
    whose::{self, Unnamed, pool_of},
};

/// How many commands there may be. Each may take its whole deadline, and whoever waits for the browser waits for all.
const COMMANDS_MAX: usize = 100;

pub(super) const TOOL: OwnTool = OwnTool {
    name: "browser_execute_bulk",
    description: "Run several tools in order in one browser; returns {success, executed_count, total_count, results, errors, stopped_at}",
    session: Some("Your browser"),
    places: true,
    schema: || {
        json!({
            "properties": {
                "commands": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": COMMANDS_MAX,
                    "items": {
                        "type": "object",
                        "properties": {
                            "tool": { "type": "string" },
                            "args": { "type": "object" },
                            "return_result": { "type": "boolean" },
                        },
                        "required": ["tool"],
                        "additionalProperties": false,
                    },
                },
                "stop_on_error": { "type": "boolean", "default": true },
                "return_all_results": { "type": "boolean", "default": false },
            },
            "required": ["commands"],
        })
    },
    runs_others: true,
    run: |context| Box::pin(run(context)),
    ..BARE
};

#[derive(Deserialize)]
struct Arguments {
    commands: Vec<Command>,
    #[serde(default = "yes")]
    stop_on_error: bool,
    #[serde(default)]
    return_all_results: bool,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
struct Command {
    tool: String,
    #[serde(default)]
    args: Option<Raw>,
    #[serde(default)]
    return_result: bool,
}

/// What several commands came to. Both lists have a place for every command.
#[derive(Debug, Serialize)]
struct Outcome {
    success: bool,
    /// How many commands ran.
    executed_count: usize,
    total_count: usize,
    /// The engine's results, of those commands whose results are wanted.
    results: Vec<Option<Raw>>,
    errors: Vec<Option<String>>,
    /// The command after which nothing ran any more.
    stopped_at: Option<usize>,
}

async fn run(context: Context<'_>) -> Result<Said, Failure> {
    let arguments: Arguments = context.arguments()?;
    let (gateway, caller) = (context.gateway, context.caller);
    let listed = gateway.catalog.list().await?;
    let whose = whose::whose(gateway, caller, context.selected.session.clone())?;
    let target = context.selected.target.clone();
    let steps = check(&context, &listed, &arguments.commands, &whose, &target)?;
    let calls: Vec<_> = steps.iter().map(|step| step.call.clone()).collect();
    let progress = teller(context.agent(), context.request.progress_token(), calls.len());
    let bulk = Bulk { calls, stop_on_error: arguments.stop_on_error, progress };
    let unnamed = Unnamed::begin(caller, &whose);
    let answer = gateway.fleet.bulk(context.permit, whose.clone(), target, bulk, caller.agent.clone()).await;
    let BulkAnswer { replies, lost, notes, ran } = match answer {
        Ok(answer) => answer,
        Err(error) => {
            let failure = Failure::of(gateway, &error);
            not_run(steps, &failure.text()).await;
            return Err(failure);
        }
    };
    let mut steps = steps.into_iter();
    let mut ended = Vec::with_capacity(replies.len());
    let mut not_recorded = None;
    for ((reply, view, ended_at), step) in replies.into_iter().zip(steps.by_ref()) {
        let fine = !reply.is_failure();
        gateway.metrics.command(&step.call.tool, fine);
        gateway.metrics.ran(&ran, fine);
        step.ticket.teach(&gateway.recall, &whose, &reply, gateway.catalog.engine(&ran.pool).as_deref());
        let kept = step.ticket.answered(&reply, &ran, &view, ended_at).await;
        not_recorded = not_recorded.or_else(|| kept.not_recorded.clone());
        ended.push(Ended::of(gateway, caller, reply, &kept, step.mode, &ran).await);
    }
    if let Some(error) = &lost {
        not_run(steps, &error.to_string()).await;
    } else {
        steps.for_each(|step| step.ticket.tear_up());
    }
    let outcome = Outcome::new(&arguments, ended, lost.as_ref());
    let structured = encode(&outcome);
    let mut notes = whose::notes(caller, &whose, notes, unnamed);
    notes.extend(not_recorded.map(|why| shape::not_recorded(&why)));
    Ok(Said {
        text: structured.get().to_owned(),
        structured: Some(structured),
        notes,
        failed: !outcome.success,
    })
}

/// A command that may run.
struct Step {
    call: Call,
    ticket: Ticket,
    mode: Option<Mode>,
}

/// Those that were not reached: the first of them is why, and of the others nothing is kept.
async fn not_run(steps: impl IntoIterator<Item = Step>, why: &str) {
    let mut steps = steps.into_iter();
    if let Some(first) = steps.next() {
        first.ticket.failed(why).await;
    }
    steps.for_each(|step| step.ticket.tear_up());
}

/// What became of a command: its result, or what it says of its failure.
struct Ended(Result<Raw, String>);

impl Ended {
    async fn of(
        gateway: &Gateway,
        caller: &Caller,
        reply: Reply,
        kept: &Kept,
        wanted: Option<Mode>,
        ran: &Ran,
    ) -> Self {
        let failed = reply.is_failure();
        let mode = match gateway.recall.mode(wanted, Some(&ran.pool)) {
            _ if failed => Mode::As(Responses::Inline),
            mode => mode,
        };
        Self(match formed(gateway, &caller.owner, reply, kept, mode, &[]).await {
            Ok(result) if failed => Err(text_of(&result)),
            Ok(result) => Ok(without_bytes(result, kept, mode)),
            Err(error) => Err(message_of(&error)),
        })
    }
}

/// All results become one text, in which an image is no image but many letters: its blob's name takes its place.
fn without_bytes(result: Raw, kept: &Kept, mode: Mode) -> Raw {
    if kept.record().is_none() || kept.embedded.is_empty() || mode == Mode::As(Responses::Refs) {
        return result;
    }
    replace(&result, &kept.embedded, |_, number| {
        let blob = kept.blobs.get(number)?;
        let text = format!("{}, {} bytes: greenroom://blobs/{}", blob.mime, blob.bytes, blob.id);
        Some(encode(&json!({ "type": "text", "text": text })))
    })
}

/// Makes calls of the commands, if every one of them can be made.
fn check(
    context: &Context<'_>,
    listed: &Listed,
    commands: &[Command],
    whose: &Whose,
    target: &Target,
) -> Result<Vec<Step>, Failure> {
    let (gateway, caller) = (context.gateway, context.caller);
    let meta = context.request.meta();
    let call = |Command { tool, args, .. }: &Command| {
        if super::find(tool).is_some() {
            let message = format!("\"{tool}\" cannot be one of several commands; call it by itself");
            return Err(Failure::not_in_bulk(message));
        }
        let Some((name, entry)) = listed.get(tool) else {
            return Err(Failure::unknown_tool(tool, suggestion(gateway, caller, listed, tool).as_deref()));
        };
        gateway.policy.permit(&caller.owner, name)?;
        let takes = entry.takes;
        let selectors = [(SESSION_ID, takes.session), (POOL, takes.pool), (INSTANCE, takes.instance)];
        let mut given = args.as_deref().and_then(|args| Fields::open(args).ok()).unwrap_or_default();
        if let Some((name, _)) = selectors.iter().find(|(name, own)| *own && given.get(name).is_some()) {
            let message = format!("`{name}` belongs beside `commands`: all of them run in one browser");
            return Err(Failure::not_in_bulk(message));
        }
        let wants = takes.wants.take_from(&mut given).map_err(Unroutable::from)?;
        if wants.page.is_some() {
            let message =
                "an answer that is asked for page by page cannot be one of several; call it by itself";
            return Err(Failure::not_in_bulk(message));
        }
        let args = if wants.mode.is_some() { Some(given.to_raw()) } else { args.clone() };
        let pool = listed.differs(entry).then(|| pool_of(gateway, caller, whose, target));
        fits(gateway, listed, (name, entry), pool.as_deref(), args.as_deref())?;
        let order =
            Order { owner: &caller.owner, whose: Some(whose), tool: name, arguments: args.as_deref() };
        let ticket = Ticket::take(&gateway.recall, order);
        let mut params = Fields::default();
        params.set("name", encode(&**name));
        params.set("arguments", args.unwrap_or_else(|| encode(&json!({}))));
        if let Some(meta) = &meta {
            params.set("_meta", meta.clone());
        }
        let call = Call { scribe: ticket.scribe(), ..Call::new(name.clone(), params.to_raw()) };
        Ok(Step { call, ticket, mode: wants.mode })
    };
    let calls = commands.iter().enumerate();
    calls.map(|(index, command)| call(command).map_err(|failure| failure.in_command(index))).collect()
}

/// Tells the client how many commands are done, if it wants to hear of it.
fn teller(agent: Arc<dyn Agent>, token: Option<Raw>, total: usize) -> Arc<dyn Fn(usize) + Send + Sync> {
    Arc::new(move |done| {
        if let Some(token) = &token {
            agent.tell(progress::METHOD, Some(progress::done(token, done, total)));
        }
    })
}

impl Outcome {
    fn new(arguments: &Arguments, ended: Vec<Ended>, lost: Option<&FleetError>) -> Self {
        let Arguments { commands, stop_on_error, return_all_results } = arguments;
        let total = commands.len();
        let (mut results, mut errors) = (Vec::with_capacity(total), Vec::with_capacity(total));
        for (command, Ended(ended)) in commands.iter().zip(ended) {
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
                // One that the browser was lost before did not run; one that it was lost under may have.
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

    fn arguments(count: usize, stop_on_error: bool) -> Arguments {
        let command = || Command { tool: "t".to_owned(), args: None, return_result: true };
        Arguments {
            commands: (0..count).map(|_| command()).collect(),
            stop_on_error,
            return_all_results: false,
        }
    }

    /// A browser that is lost ends everything: the command under which that happened has run, one before which it
    /// happened has not.
    #[test]
    fn a_lost_browser_ends_it() {
        let fine = || Ended(Ok(encode(&json!({ "content": [] }))));
        let lost = |error: FleetError| Outcome::new(&arguments(4, false), vec![fine(), fine()], Some(&error));
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
