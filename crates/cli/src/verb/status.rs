//! `greenroom status`: every greenroom that runs with this data folder, its sessions and its pools; live with `--watch`.
//!
//! Exit code 0, also when no greenroom runs; 1 when one of them does not answer.

use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use greenroom_core::settings::Resolved;
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    config::ProcessEnv,
    control::{QueryOutcome, none_running_message, query_all},
    report::CliError,
    signals::Signals,
    view::{
        status::{StatusView, status},
        terminal::{Screen, Terminal, TextStyle},
    },
};

/// How often `--watch` asks and draws again: live for a person, and cheap for the processes.
const REDRAW: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// Refresh every second, until Ctrl-C; with --json, print one array per line
    #[arg(long, short)]
    pub watch: bool,

    /// Print a JSON array
    #[arg(long)]
    pub json: bool,
}

pub async fn run(resolved: &Resolved, env: &ProcessEnv, args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let data = &resolved.settings.data_dir;
    if args.watch {
        return watch(data, env, args.json).await;
    }
    let outcomes = query_all(data).await;
    let text = if args.json {
        serde_json::to_string_pretty(&views(&outcomes))? + "\n"
    } else {
        for_people(data, &outcomes, Terminal::stdout(env))
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    let silent = outcomes.iter().any(|outcome| matches!(outcome, QueryOutcome::Unanswered { .. }));
    Ok(if silent { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn views(outcomes: &[QueryOutcome]) -> Vec<StatusView<'_>> {
    outcomes.iter().map(StatusView::from).collect()
}

fn for_people(data: &Path, outcomes: &[QueryOutcome], terminal: Terminal) -> String {
    if outcomes.is_empty() { none_running_message(data) } else { status(outcomes, terminal) }
}

async fn watch(data: &Path, env: &ProcessEnv, json: bool) -> anyhow::Result<ExitCode> {
    if !json && !Terminal::is_stdout() {
        return Err(CliError::usage("`--watch` draws on a terminal, and stdout is none")
            .hint("leave `--watch` out, or add `--json` for a line every second")
            .into());
    }
    // Listen for signals, so that the terminal is restored before the process ends.
    let stop = Signals::listen(false)?.stop;
    let screen = if json { None } else { Some(Screen::open()?) };
    let mut ticks = interval(REDRAW);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let draw = async {
            ticks.tick().await;
            let outcomes = query_all(data).await;
            match &screen {
                None => line(&outcomes),
                Some(screen) => {
                    let terminal = Terminal::stdout(env);
                    let foot = terminal.styled(TextStyle::Dim, "every second; Ctrl-C ends this");
                    let text = format!("{}\n{foot}", for_people(data, &outcomes, terminal));
                    screen.draw(&text, terminal.rows).map_err(Into::into)
                }
            }
        };
        tokio::select! {
            drawn = draw => drawn?,
            () = stop.cancelled() => return Ok(ExitCode::SUCCESS),
        }
    }
}

fn line(outcomes: &[QueryOutcome]) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all((serde_json::to_string(&views(outcomes))? + "\n").as_bytes())?;
    Ok(stdout.flush()?)
}
