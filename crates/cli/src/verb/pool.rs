//! `greenroom pool`: lists the pools of every running greenroom, shows one, and changes one: scale, restart, drain.

use std::{path::Path, process::ExitCode};

use clap::builder::RangedU64ValueParser;
use greenroom_core::{lease::INSTANCES_MAX, likeness::nearest, settings::Resolved};
use greenroom_gateway::{
    control::PoolReport,
    rest::{CommandedInstances, ScaleResult},
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    config::ProcessEnv,
    control::{ControlClient, ControlError, GreenroomReport, QueryOutcome, print, query_all, reports},
    report::CliError,
    view::{self, terminal::Terminal, text},
};

#[derive(Debug, clap::Args)]
pub struct PoolArgs {
    #[command(subcommand)]
    pub verb: Option<PoolVerb>,

    /// Only pools of the greenroom process with this id
    #[arg(long, value_name = "PID", global = true)]
    pub pid: Option<u32>,

    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, clap::Subcommand)]
pub enum PoolVerb {
    /// List the pools of every running greenroom process (the default)
    List,
    /// Show a pool and its instances
    Show {
        /// The pool's name
        pool: String,
    },
    /// Change the number of instances; an instance that must go stops when its last session ends
    Scale(ScaleArgs),
    /// Restart instances: failed ones now, running ones when their last session has ended
    Restart(InstanceArgs),
    /// Give instances no new sessions, and stop them when their last session has ended
    Drain(InstanceArgs),
}

#[derive(Debug, clap::Args)]
pub struct ScaleArgs {
    /// The pool's name
    pub pool: String,

    /// The new number of instances
    #[arg(value_parser = RangedU64ValueParser::<u16>::new().range(1..=INSTANCES_MAX as u64))]
    pub instances: u16,
}

#[derive(Debug, clap::Args)]
pub struct InstanceArgs {
    /// The pool's name
    pub pool: String,

    /// The instance, by its number or alias; all instances if absent
    pub id: Option<String>,
}

/// A command to instances.
#[derive(Debug, Clone, Copy)]
pub enum InstanceCommand {
    Restart,
    Drain,
}

pub async fn run(resolved: &Resolved, env: &ProcessEnv, args: &PoolArgs) -> anyhow::Result<ExitCode> {
    let data = &resolved.settings.data_dir;
    let outcomes = query_all(data).await;
    match args.verb.as_ref().unwrap_or(&PoolVerb::List) {
        PoolVerb::List => list(data, &outcomes, env, args),
        PoolVerb::Show { pool } => {
            let (report, pool) = select_pool(data, &outcomes, pool, args.pid)?;
            let pid = report.status.pid;
            let terminal = Terminal::stdout(env);
            let kind = &report.status.kind;
            print::item(pid, pool, args.json, || view::pools::pool(pid, kind, pool, terminal))
        }
        PoolVerb::Scale(ScaleArgs { pool, instances }) => {
            let (report, _) = select_pool(data, &outcomes, pool, args.pid)?;
            let body = json!({ "instances": instances });
            let scaled: ScaleResult = send_command(report, pool, "scale", &body).await?;
            let pid = report.status.pid;
            print::item(pid, &scaled, args.json, || view::pools::scaled(pid, &scaled))
        }
        PoolVerb::Restart(which) => command(data, &outcomes, which, args, InstanceCommand::Restart).await,
        PoolVerb::Drain(which) => command(data, &outcomes, which, args, InstanceCommand::Drain).await,
    }
}

fn list(
    data: &Path,
    outcomes: &[QueryOutcome],
    env: &ProcessEnv,
    args: &PoolArgs,
) -> anyhow::Result<ExitCode> {
    let all: Vec<_> =
        candidates(outcomes, args.pid).map(|(report, pool)| (report.status.pid, pool)).collect();
    print::list(data, outcomes, &all, args.json, || view::pools::pools(&all, "", Terminal::stdout(env)))
}

async fn command(
    data: &Path,
    outcomes: &[QueryOutcome],
    instances: &InstanceArgs,
    args: &PoolArgs,
    command: InstanceCommand,
) -> anyhow::Result<ExitCode> {
    let InstanceArgs { pool, id } = instances;
    let (report, before) = select_pool(data, outcomes, pool, args.pid)?;
    let verb = match command {
        InstanceCommand::Restart => "restart",
        InstanceCommand::Drain => "drain",
    };
    let changed: CommandedInstances = send_command(report, pool, verb, &json!({ "instance": id })).await?;
    let pid = report.status.pid;
    print::item(pid, &changed, args.json, || match command {
        InstanceCommand::Restart => view::pools::restarted(pid, &changed, before),
        InstanceCommand::Drain => view::pools::drained(pid, &changed, before),
    })
}

async fn send_command<T: DeserializeOwned>(
    report: &GreenroomReport,
    pool: &str,
    verb: &str,
    body: &Value,
) -> Result<T, CliError> {
    let path = format!("/api/pools/{}/{verb}", utf8_percent_encode(pool, NON_ALPHANUMERIC));
    let answer = async { ControlClient::open(&report.endpoint.socket).await?.post(&path, body).await };
    answer.await.map_err(|error| {
        let pid = report.status.pid;
        let name = text::escape(pool);
        match error {
            ControlError::Refused(problem) => CliError::failure(text::escape(&problem.message)),
            error => CliError::failure(format!("cannot {verb} pool \"{name}\" (pid {pid}): {error}")),
        }
    })
}

fn pools(outcomes: &[QueryOutcome]) -> impl Iterator<Item = (&GreenroomReport, &PoolReport)> {
    reports(outcomes).flat_map(|report| report.status.pools.iter().map(move |pool| (report, pool)))
}

/// The pools of the greenrooms that the arguments select.
fn candidates(
    outcomes: &[QueryOutcome],
    pid: Option<u32>,
) -> impl Iterator<Item = (&GreenroomReport, &PoolReport)> {
    pools(outcomes).filter(move |(report, _)| pid.is_none_or(|pid| pid == report.status.pid))
}

/// The one pool that the arguments select.
fn select_pool<'a>(
    data: &Path,
    outcomes: &'a [QueryOutcome],
    name: &str,
    pid: Option<u32>,
) -> Result<(&'a GreenroomReport, &'a PoolReport), CliError> {
    let candidates: Vec<_> = candidates(outcomes, pid).collect();
    let found: Vec<_> = candidates.iter().copied().filter(|(_, pool)| pool.name == name).collect();
    match found.as_slice() {
        [one] => Ok(*one),
        [] => Err(missing(data, outcomes, &candidates, name)),
        several => {
            let what = format!("several greenrooms have a pool \"{}\"", text::escape(name));
            Err(print::ambiguous_error(&what, several.iter().map(|(report, _)| *report)))
        }
    }
}

fn missing(
    data: &Path,
    outcomes: &[QueryOutcome],
    candidates: &[(&GreenroomReport, &PoolReport)],
    wanted: &str,
) -> CliError {
    let error = CliError::failure(format!("no such pool: \"{}\"", text::escape(wanted)));
    if let Some(why) = print::why_missing(data, outcomes) {
        return error.hint(why);
    }
    let mut names: Vec<_> = candidates.iter().map(|(_, pool)| pool.name.as_str()).collect();
    names.dedup();
    match nearest(&wanted.to_uppercase(), names.iter()) {
        Some(nearest) => error.hint(format!("did you mean \"{}\"?", text::escape(nearest))),
        None => {
            let names: Vec<_> = names.iter().map(|name| format!("\"{}\"", text::escape(name))).collect();
            error.hint(text::there(&names))
        }
    }
}
