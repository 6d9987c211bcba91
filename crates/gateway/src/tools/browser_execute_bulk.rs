//! `browser_execute_bulk`: several tools of the engine, one after the other, in one browser and under one lease, with
//! nobody else's calls between them.
//!
//! Everything is checked before anything runs: a mistake in the last command must not leave a page half changed.

use std::sync::Arc;

use greenroom_core::{Agent, Call, Fields, Raw, Reply, raw::encode};
use greenroom_fleet::{Bulk, BulkAnswer, FleetError, Target, Whose};
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};

use super::{BARE, Context, OwnTool, Said};
use crate::{
    call::{fits, suggestion},
    catalog::{INSTANCE, Listed, POOL, SESSION_ID},
    progress,
    rescue::Failure,
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
    let calls = check(&context, &listed, &arguments.commands, &whose, &target)?;
    let tools: Vec<_> = calls.iter().map(|call| call.tool.clone()).collect();
    let progress = teller(context.agent(), context.request.progress_token(), calls.len());
    let bulk = Bulk { calls, stop_on_error: arguments.stop_on_error, progress };
    let unnamed = Unnamed::begin(caller, &whose);
    let answer = gateway.fleet.bulk(context.permit, whose.clone(), target, bulk, caller.agent.clone()).await;
    let BulkAnswer { replies, lost, notes, ran } = answer.map_err(|error| Failure::of(gateway, &error))?;
    for (tool, (reply, _)) in tools.iter().zip(&replies) {
        let fine = !reply.is_failure();
        gateway.metrics.command(tool, fine);
        gateway.metrics.ran(&ran, fine);
    }
    let replies = replies.into_iter().map(|(reply, _)| reply).collect();
    let outcome = Outcome::new(&arguments, replies, lost.as_ref());
    let structured = encode(&outcome);
    Ok(Said {
        text: structured.get().to_owned(),
        structured: Some(structured),
        notes: whose::notes(caller, &whose, notes, unnamed),
        failed: !outcome.success,
    })
}

/// Makes calls of the commands, if every one of them can be made.
fn check(
    context: &Context<'_>,
    listed: &Listed,
    commands: &[Command],
    whose: &Whose,
    target: &Target,
) -> Result<Vec<Call>, Failure> {
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
        let given = args.as_deref().and_then(|args| Fields::open(args).ok()).unwrap_or_default();
        if let Some((name, _)) = selectors.iter().find(|(name, own)| *own && given.get(name).is_some()) {
            let message = format!("`{name}` belongs beside `commands`: all of them run in one browser");
            return Err(Failure::not_in_bulk(message));
        }
        let pool = listed.differs(entry).then(|| pool_of(gateway, caller, whose, target));
        fits(gateway, listed, (name, entry), pool.as_deref(), args.as_deref())?;
        let mut params = Fields::default();
        params.set("name", encode(&**name));
        params.set("arguments", args.clone().unwrap_or_else(|| encode(&json!({}))));
        if let Some(meta) = &meta {
            params.set("_meta", meta.clone());
        }
        Ok(Call::new(name.clone(), params.to_raw()))
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
    fn new(arguments: &Arguments, replies: Vec<Reply>, lost: Option<&FleetError>) -> Self {
        let Arguments { commands, stop_on_error, return_all_results } = arguments;
        let total = commands.len();
        let (mut results, mut errors) = (Vec::with_capacity(total), Vec::with_capacity(total));
        for (command, reply) in commands.iter().zip(replies) {
            let failed = reply.is_failure();
            let (result, error) = match shape::answer(reply, &[]) {
                Ok(result) if failed => (None, Some(text_of(&result))),
                Ok(result) => ((*return_all_results || command.return_result).then_some(result), None),
                Err(error) => (None, Some(message_of(&error))),
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

/// What a failed tool says: its texts.
fn text_of(result: &RawValue) -> String {
    #[derive(Deserialize)]
    struct Part {
        #[serde(default)]
        text: Option<String>,
    }
    let content = Fields::open(result).ok().and_then(|fields| fields.read::<Vec<Part>>("content").ok()?);
    let texts: Vec<_> = content.into_iter().flatten().filter_map(|part| part.text).collect();
    if texts.is_empty() { result.get().to_owned() } else { texts.join("\n") }
}

/// What a JSON-RPC error says.
fn message_of(error: &RawValue) -> String {
    let message = Fields::open(error).ok().and_then(|fields| fields.read::<String>("message").ok()?);
    message.unwrap_or_else(|| error.get().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenroom_core::{Artifact, ArtifactKind, Lost, port::Content, raw::parse};

    fn arguments(count: usize, stop_on_error: bool) -> Arguments {
        let command = || Command { tool: "t".to_owned(), args: None, return_result: true };
        Arguments {
            commands: (0..count).map(|_| command()).collect(),
            stop_on_error,
            return_all_results: false,
        }
    }

    fn reply(body: &str) -> Reply {
        Reply::from(Ok(parse(body.to_owned()).unwrap()))
    }

    /// What the engine only links to is in the result, and its other bytes are as they were.
    #[test]
    fn linked_files_are_in_the_results() {
        // Recorded from the engine, version 0.0.83, shortened.
        let body = r####"{"content":[{"type":"text","text":"### Page\n- Page URL: http://127.0.0.1/\n### Snapshot\n- [Snapshot](.playwright-mcp/page-1.yml)"}],"n": 1.50}"####;
        let link = "[Snapshot](.playwright-mcp/page-1.yml)";
        let at = body.find(link).unwrap();
        let artifact = Artifact {
            kind: ArtifactKind::Snapshot,
            place: at..at + link.len(),
            instead: Some("- heading \"tea\" [ref=e1]".to_owned()),
            content: Content::Nothing,
        };
        let reply = Reply { artifacts: vec![artifact], ..reply(body) };
        let outcome = Outcome::new(&arguments(1, true), vec![reply], None);
        let result = outcome.results[0].as_ref().unwrap().get();
        assert!(result.contains(r#"- - heading \"tea\" [ref=e1]"}],"n": 1.50}"#), "{result}");
    }

    /// A browser that is lost ends everything: the command under which that happened has run, one before which it
    /// happened has not.
    #[test]
    fn a_lost_browser_ends_it() {
        let fine = || reply(r#"{"content":[]}"#);
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

    /// A failure without a text is shown as it is, so that nothing is hidden.
    #[test]
    fn failures_are_never_empty() {
        let failed =
            |body: &str| Outcome::new(&arguments(1, true), vec![reply(body)], None).errors[0].clone();
        assert_eq!(
            failed(r#"{"content":[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}],"isError":true}"#)
                .as_deref(),
            Some("a\nb")
        );
        assert_eq!(failed(r#"{"isError":true,"x":1}"#).as_deref(), Some(r#"{"isError":true,"x":1}"#));
        let error = Reply::from(Err(parse(r#"{"code":1}"#.to_owned()).unwrap()));
        let outcome = Outcome::new(&arguments(1, true), vec![error], None);
        assert_eq!(outcome.errors[0].as_deref(), Some(r#"{"code":1}"#));
    }
}
