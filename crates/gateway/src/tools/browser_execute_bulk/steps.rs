//! Several commands in one place: checked, run under one lease, and what they came to.

use std::sync::Arc;

use greenroom_core::{Call, Fields, Raw, Reply, raw::encode, record::SessionRef, settings::Responses};
use greenroom_fleet::{Bulk, BulkAnswer, FleetError, Note, Ran, Target, Whose};
use serde::Serialize;
use serde_json::json;

use super::{Arguments, Command, NAME};
use crate::{
    Gateway,
    call::{Caller, comparable, fits, formed, place_of, suggestion},
    catalog::{BROWSER, INSTANCE, Invalid, Listed, POOL, SESSION_ID},
    offload::stop_if_aborted,
    recall::{
        Kept, Mode, Order, Ticket, paged,
        pages::{Asked, Query},
        result::{message_of, replace, text_of},
    },
    rescue::Failure,
    route::Unroutable,
    shape,
    tools::{self, Context},
};

/// Where commands are to run.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) whose: &'a Whose,
    pub(super) target: &'a Target,
}

/// A command that may run.
pub(super) struct Step {
    call: Call,
    ticket: Ticket,
    mode: Option<Mode>,
    /// Its answer is wanted as data, this page of it.
    page: Option<Query>,
}

/// Commands that have run.
pub(super) struct Done {
    pub(super) outcome: Outcome,
    pub(super) notes: Vec<Note>,
    /// What to say if one of them was not kept.
    pub(super) not_recorded: Option<String>,
}

/// What several commands came to. Both lists have a place for every command.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    pub(super) success: bool,
    /// How many commands ran.
    executed_count: usize,
    total_count: usize,
    /// The engine's results, of those commands whose results are wanted.
    results: Vec<Option<Raw>>,
    errors: Vec<Option<String>>,
    /// The command after which nothing ran any more.
    stopped_at: Option<usize>,
}

/// Makes calls of the commands, if every one of them can be made there.
pub(super) async fn check(
    context: &Context<'_>,
    listed: &Listed,
    commands: &[Command],
    at: Place<'_>,
) -> Result<Vec<Step>, Failure> {
    let (gateway, caller) = (context.gateway, context.caller);
    let known = commands.iter().filter_map(|command| listed.get(&command.tool));
    let matters = known.into_iter().any(|(_, entry)| listed.differs(entry));
    let place = matters.then(|| place_of(gateway, caller, at.whose, at.target)).transpose();
    let meta = context.request.meta();
    let step = |Command { tool, args, .. }: &Command| {
        if tools::find(tool).is_some() {
            let message = format!("\"{tool}\" cannot be one of several commands; call it by itself");
            return Err(Failure::not_in_bulk(message));
        }
        let Some((name, entry)) = listed.get(tool) else {
            return Err(Failure::unknown_tool(tool, suggestion(gateway, caller, listed, tool).as_deref()));
        };
        gateway.policy.permit(&caller.owner, name)?;
        let takes = entry.takes;
        let selectors = [
            (SESSION_ID, takes.session),
            (POOL, takes.pool),
            (INSTANCE, takes.instance),
            (BROWSER, takes.browser),
        ];
        // `null` is as good as nothing.
        let args = args.as_ref().filter(|args| args.get() != "null");
        let mut given = match args {
            Some(args) => {
                Fields::open(args).map_err(|_| Failure::invalid_arguments(name, &Invalid::NotAnObject))?
            }
            None => Fields::default(),
        };
        if let Some((name, _)) = selectors.iter().find(|(name, own)| *own && given.get(name).is_some()) {
            let message = format!("`{name}` belongs beside `commands`: all of them run in one browser");
            return Err(Failure::not_in_bulk(message));
        }
        let wants = takes.wants.take_from(&mut given).map_err(Unroutable::from)?;
        if wants.page.as_ref().is_some_and(|asked| asked.cache_key.is_some()) {
            let message = "a page by its `cache_key` needs no browser; call it by itself";
            return Err(Failure::not_in_bulk(message));
        }
        let page = wants.page.as_ref().map(Asked::check).transpose()?;
        comparable(at.whose, wants.mode)?;
        let args = if wants.mode.is_some() || page.is_some() { Some(given.to_raw()) } else { args.cloned() };
        if let Ok(place) = &place {
            fits(listed, (name, entry), place.as_deref(), args.as_deref())?;
        }
        let order =
            Order { owner: &caller.owner, whose: Some(at.whose), tool: name, arguments: args.as_deref() };
        let ticket = Ticket::take(&gateway.recall, order);
        let mut params = Fields::default();
        params.set("name", encode(&**name));
        params.set("arguments", args.unwrap_or_else(|| encode(&json!({}))));
        if let Some(meta) = &meta {
            params.set("_meta", meta.clone());
        }
        let call = Call { scribe: ticket.scribe(), ..Call::new(name.clone(), params.to_raw()) };
        Ok(Step { call, ticket, mode: wants.mode, page })
    };
    let steps = commands.iter().enumerate();
    let steps: Result<Vec<_>, _> =
        steps.map(|(index, command)| step(command).map_err(|failure| failure.in_command(index))).collect();
    match place {
        Ok(_) => steps,
        // A place that cannot be had is kept as the first command's failure, as if it had been found out on the way.
        Err(failure) => {
            not_run(steps?, session_of(gateway, caller, at), &failure.text()).await;
            Err(failure)
        }
    }
}

/// Runs the commands under one lease.
pub(super) async fn run(
    context: &Context<'_>,
    arguments: &Arguments,
    at: Place<'_>,
    steps: Vec<Step>,
    progress: Arc<dyn Fn(usize) + Send + Sync>,
) -> Result<Done, Failure> {
    let (gateway, caller) = (context.gateway, context.caller);
    // One for every place: a permit is spent by the lease that it is for.
    let permit = gateway.policy.permit(&caller.owner, NAME)?;
    let calls = steps.iter().map(|step| step.call.clone()).collect();
    let bulk = Bulk { calls, stop_on_error: arguments.stop_on_error, progress };
    let (whose, target) = (at.whose.clone(), at.target.clone());
    stop_if_aborted().await;
    let answer = gateway.fleet.bulk(permit, whose, target, bulk, caller.agent.clone()).await;
    let BulkAnswer { replies, lost, notes, ran } = match answer {
        Ok(answer) => answer,
        Err(error) => {
            let failure = Failure::of(gateway, &error);
            not_run(steps, session_of(gateway, caller, at), &failure.text()).await;
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
        step.ticket.teach(&gateway.recall, at.whose, &reply, gateway.catalog.engine(&ran.pool).as_deref());
        let kept = step.ticket.answered(&reply, &ran, &view, ended_at).await;
        not_recorded = not_recorded.or_else(|| kept.not_recorded.clone());
        let wanted = (step.mode, step.page.as_ref());
        ended.push(Ended::of(gateway, caller, reply, &kept, wanted, &ran).await);
    }
    if let Some(error) = &lost {
        not_run(steps, ran.session.clone(), &error.to_string()).await;
    } else {
        steps.for_each(|step| step.ticket.tear_up());
    }
    let outcome = Outcome::new(arguments, ended, lost.as_ref());
    Ok(Done { outcome, notes, not_recorded: not_recorded.map(|why| shape::not_recorded(&why)) })
}

/// Those that were not reached: the first of them is why, and of the others nothing is kept.
async fn not_run(steps: impl IntoIterator<Item = Step>, session: Option<SessionRef>, why: &str) {
    let mut steps = steps.into_iter();
    if let Some(first) = steps.next() {
        first.ticket.failed(session, why).await;
    }
    steps.for_each(|step| step.ticket.tear_up());
}

/// What records call the session that the commands are for, if it exists.
fn session_of(gateway: &Gateway, caller: &Caller, at: Place<'_>) -> Option<SessionRef> {
    gateway.fleet.session_ref(&caller.owner, at.whose)
}

/// What became of a command: its result, or what it says of its failure.
struct Ended(Result<Raw, String>);

impl Ended {
    async fn of(
        gateway: &Gateway,
        caller: &Caller,
        reply: Reply,
        kept: &Kept,
        (wanted, page): (Option<Mode>, Option<&Query>),
        ran: &Ran,
    ) -> Self {
        let failed = reply.is_failure();
        let mode = match (gateway.recall.mode(wanted, Some(&ran.pool)), page) {
            _ if failed => Mode::As(Responses::Inline),
            (_, Some(query)) if query.silent_mode && !query.is_page => Mode::As(Responses::Refs),
            (_, Some(query)) => return Self::page(gateway, caller, &reply, kept, query, ran).await,
            (mode, None) => mode,
        };
        Self(match formed(gateway, &caller.owner, reply, kept, mode, &[]).await {
            Ok(result) if failed => Err(text_of(&result)),
            Ok(result) => Ok(without_bytes(result, kept, mode)),
            Err(error) => Err(message_of(&error)),
        })
    }
}

impl Ended {
    /// The answer as data. Its cache key is good for later pages, in a call of their own.
    async fn page(
        gateway: &Gateway,
        caller: &Caller,
        reply: &Reply,
        kept: &Kept,
        query: &Query,
        ran: &Ran,
    ) -> Self {
        let Some(engine) = gateway.catalog.engine(&ran.pool) else {
            return Self(Err("no page: its pool is gone".to_owned()));
        };
        let of = (&kept.tool, reply, kept.record());
        Self(match paged::first(&gateway.recall, engine, &caller.owner, of, query).await {
            Ok(Some(said)) => Ok(shape::said(&said.text, kept.record(), &[])),
            Ok(None) => Err("no page: there is no data in this answer to make pages of".to_owned()),
            Err(error) => Err(format!("no page: {error}; {}", error.hint())),
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

impl Outcome {
    fn new(arguments: &Arguments, ended: Vec<Ended>, lost: Option<&FleetError>) -> Self {
        let Arguments { commands, stop_on_error, return_all_results, .. } = arguments;
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
            browser_tag: None,
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
