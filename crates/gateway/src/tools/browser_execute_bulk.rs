//! `browser_execute_bulk`: several tools of the engine, one after the other, in one browser and under one lease,
//! without other callers' calls between them.
//!
//! Everything is checked before anything runs: a mistake in the last command must not leave a page half changed.
//! [`steps`] checks and runs commands in one browser, [`tagged`] in all browsers with a tag.

mod steps;
mod tagged;

use std::sync::Arc;

use greenroom_core::{Raw, raw::encode};
use serde::Deserialize;
use serde_json::json;

use self::steps::BulkTarget;
use super::{OwnTool, ToolContext, ToolOutput};
use crate::{
    error_response::ErrorResponse,
    progress,
    session_key::{self, OwnSessionCall},
};

/// How many commands there may be. Each may take its whole deadline, and other callers wait for all of them.
const COMMANDS_MAX: usize = 100;

const NAME: &str = "browser_execute_bulk";

pub(super) const TOOL: OwnTool = OwnTool {
    name: NAME,
    description: "Run several tools in order in one browser; returns {success, executed_count, total_count, results, errors, stopped_at}",
    session: Some("Your browser"),
    needs_session: true,
    takes_selectors: true,
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
                "browserTag": { "type": "string", "description": "Run in every browser with this tag" },
            },
            "required": ["commands"],
        })
    },
    runs_others: true,
    run: |context| Box::pin(run(context)),
    ..OwnTool::DEFAULTS
};

#[derive(Deserialize)]
struct BulkArguments {
    commands: Vec<BulkCommand>,
    #[serde(default = "yes")]
    stop_on_error: bool,
    #[serde(default)]
    return_all_results: bool,
    #[serde(default, rename = "browserTag")]
    browser_tag: Option<String>,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
struct BulkCommand {
    tool: String,
    #[serde(default)]
    args: Option<Raw>,
    #[serde(default)]
    return_result: bool,
}

async fn run(context: ToolContext<'_>) -> Result<ToolOutput, ErrorResponse> {
    let arguments: BulkArguments = context.arguments()?;
    let gateway = context.gateway;
    let caller = context.caller;
    let listed = gateway.catalog.list().await?;
    if let Some(tag) = &arguments.browser_tag {
        return tagged::run(&context, &listed, &arguments, tag).await;
    }
    let session_key = session_key::resolve_session(gateway, caller, context.request.session.clone()).await?;
    let bulk_target = BulkTarget { session_key: &session_key, target: &context.request.target };
    let steps = steps::check(&context, &listed, &arguments.commands, bulk_target).await?;
    let progress = progress_reporter(&context, steps.len());
    let own_session_calls = OwnSessionCall::begin(caller, &session_key);
    let done = steps::run(&context, &arguments, bulk_target, steps, progress).await?;
    let structured = encode(&done.outcome);
    let mut notes = session_key::notes(caller, &session_key, done.notes, own_session_calls);
    notes.extend(done.not_recorded);
    Ok(ToolOutput {
        text: structured.get().to_owned(),
        structured: Some(structured),
        notes,
        failed: !done.outcome.success,
    })
}

/// Notifies the client how many commands are done, if it wants progress.
fn progress_reporter(context: &ToolContext<'_>, total: usize) -> Arc<dyn Fn(usize) + Send + Sync> {
    let agent = context.agent();
    let token = context.request.progress_token();
    Arc::new(move |done| {
        if let Some(token) = &token {
            agent.tell(progress::METHOD, Some(progress::done(token, done, total)));
        }
    })
}
