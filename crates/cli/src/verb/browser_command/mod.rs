//! `greenroom open`, `click`, `snapshot` and the other verbs that drive the browser of a session from a shell, as an agent
//! does over MCP. A verb makes one call in a running greenroom, through its control socket, and prints the answer.
//!
//! [`args`] turns the arguments into the call, [`server`] finds the greenroom that makes it, `print.rs` prints the answer.
//! Exit codes: 0 fine, 1 the tool failed or a search found nothing, 2 wrong usage, 3 no greenroom could be reached.

mod args;
pub mod background;
mod print;
mod server;

use std::{process::ExitCode, time::Duration};

use greenroom_core::settings::Resolved;
use greenroom_gateway::control::{CommandAnswer, CommandCall};

pub use args::{
    CallArgs, ClickArgs, CommandRequest, EvalArgs, FillArgs, FindArgs, OpenArgs, PlainArgs, PressArgs,
    ScreenshotArgs, SelectArgs, TabsArgs, TypeArgs, WaitArgs,
};

use crate::{
    config::ConfigSources,
    control::{ControlClient, ControlError},
    progress,
    report::CliError,
};

/// How long a command waits for its answer. The server ends every call at a deadline of its own, at most an hour if the
/// call's arguments ask for that; only a server that hangs takes longer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2 * 60 * 60);

/// Runs a verb of the command line.
pub async fn run(
    resolved: &Resolved,
    config_sources: &ConfigSources,
    request: CommandRequest,
) -> anyhow::Result<ExitCode> {
    let CommandRequest { options, call, picture, starts_server } = request;
    let session = options.session(&config_sources.env)?;
    let call = CommandCall {
        session,
        command: call.command,
        tool: call.tool,
        arguments: call.arguments,
        mode: options.mode.clone(),
        folder: Some(config_sources.env.working_dir.clone()),
    };
    let endpoint = server::find(resolved, config_sources, &options, &call.session, starts_server).await?;
    let (endpoint, mut client) = match ControlClient::open(&endpoint.socket).await {
        Ok(client) => (endpoint, client),
        // This greenroom has just ended. It got no request, so another one can be asked.
        Err(ControlError::NotRunning) => {
            let next = server::find(resolved, config_sources, &options, &call.session, starts_server).await?;
            let client = ControlClient::open(&next.socket).await.map_err(|error| refused(next.pid, error))?;
            (next, client)
        }
        Err(error) => return Err(refused(endpoint.pid, error).into()),
    };
    let body = serde_json::to_string(&call)?;
    let sent = client.post_text("/control/call", body, ANSWER_WITHIN).await;
    let answer: CommandAnswer = sent.map_err(|error| refused(endpoint.pid, error))?;
    if !answer.version.is_empty() && answer.version != env!("CARGO_PKG_VERSION") {
        progress::note(&format!(
            "note: the server (pid {}) is version {}, and this command is version {}; `kill {}` ends it, and the next command starts a new one",
            endpoint.pid,
            answer.version,
            env!("CARGO_PKG_VERSION"),
            endpoint.pid
        ));
    }
    print::answer(&answer, options.json, picture.as_deref())
}

fn refused(pid: u32, error: ControlError) -> CliError {
    let error = match error {
        ControlError::Refused(problem) if problem.code == "no_route" => {
            return CliError::unreachable(format!("the server (pid {pid}) is too old for this command"))
                .hint(format!("`kill {pid}` ends it, and the next command starts a new one; `greenroom status` shows its version"));
        }
        ControlError::Refused(problem) => {
            let failure = match problem.code.as_str() {
                "bad_call" | "no_command" => CliError::usage(problem.message),
                _ => CliError::failure(problem.message),
            };
            return match problem.hint {
                Some(hint) => failure.hint(hint),
                None => failure,
            };
        }
        error => error,
    };
    CliError::unreachable(format!("no answer of the server (pid {pid}): {error}"))
        .hint("whether the command took effect is unknown; `greenroom status` shows what runs")
}
