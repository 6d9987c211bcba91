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
    control::{Answered, AskError, Asker, Look, answers, look, print},
    report::Hinted,
    view::{self, terminal::Terminal, words},
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

/// What a command does to instances.
#[derive(Debug, Clone, Copy)]
pub enum Command {
    Restart,
    Drain,
}

pub async fn run(
    resolved: &Resolved,
    surroundings: &ProcessEnv,
    args: &PoolArgs,
) -> anyhow::Result<ExitCode> {
    let data = &resolved.settings.data_dir;
    let looks = look(data).await;
    match args.verb.as_ref().unwrap_or(&PoolVerb::List) {
        PoolVerb::List => list(data, &looks, surroundings, args),
        PoolVerb::Show { pool } => {
            let (answered, pool) = which(data, &looks, pool, args.pid)?;
            let pid = answered.status.pid;
            let terminal = Terminal::stdout(surroundings);
            let kind = &answered.status.kind;
            print::one(pid, pool, args.json, || view::pools::pool(pid, kind, pool, terminal))
        }
        PoolVerb::Scale(ScaleArgs { pool, instances }) => {
            let (answered, _) = which(data, &looks, pool, args.pid)?;
            let body = json!({ "instances": instances });
            let scaled: ScaleResult = tell(answered, pool, "scale", &body).await?;
            let pid = answered.status.pid;
            print::one(pid, &scaled, args.json, || view::pools::scaled(pid, &scaled))
        }
        PoolVerb::Restart(which) => command(data, &looks, which, args, Command::Restart).await,
        PoolVerb::Drain(which) => command(data, &looks, which, args, Command::Drain).await,
    }
}

fn list(data: &Path, looks: &[Look], surroundings: &ProcessEnv, args: &PoolArgs) -> anyhow::Result<ExitCode> {
    let all: Vec<_> =
        considered(looks, args.pid).map(|(answered, pool)| (answered.status.pid, pool)).collect();
    print::list((data, looks), &all, args.json, || {
        view::pools::pools(&all, "", Terminal::stdout(surroundings))
    })
}

async fn command(
    data: &Path,
    looks: &[Look],
    instances: &InstanceArgs,
    args: &PoolArgs,
    command: Command,
) -> anyhow::Result<ExitCode> {
    let InstanceArgs { pool, id } = instances;
    let (answered, before) = which(data, looks, pool, args.pid)?;
    let verb = match command {
        Command::Restart => "restart",
        Command::Drain => "drain",
    };
    let changed: CommandedInstances = tell(answered, pool, verb, &json!({ "instance": id })).await?;
    let pid = answered.status.pid;
    print::one(pid, &changed, args.json, || match command {
        Command::Restart => view::pools::restarted(pid, &changed, before),
        Command::Drain => view::pools::drained(pid, &changed, before),
    })
}

async fn tell<T: DeserializeOwned>(
    answered: &Answered,
    pool: &str,
    verb: &str,
    body: &Value,
) -> Result<T, Hinted> {
    let path = format!("/api/pools/{}/{verb}", utf8_percent_encode(pool, NON_ALPHANUMERIC));
    let asked = async { Asker::open(&answered.neighbour.socket).await?.post(&path, body).await };
    asked.await.map_err(|error| {
        let pid = answered.status.pid;
        let name = words::clean(pool);
        match error {
            AskError::Refused(problem) => Hinted::failure(words::clean(&problem.message)),
            error => Hinted::failure(format!("cannot {verb} pool \"{name}\" (pid {pid}): {error}")),
        }
    })
}

fn pools(looks: &[Look]) -> impl Iterator<Item = (&Answered, &PoolReport)> {
    answers(looks).flat_map(|answered| answered.status.pools.iter().map(move |pool| (answered, pool)))
}

/// The pools of the greenrooms that the arguments select.
fn considered(looks: &[Look], pid: Option<u32>) -> impl Iterator<Item = (&Answered, &PoolReport)> {
    pools(looks).filter(move |(answered, _)| pid.is_none_or(|pid| pid == answered.status.pid))
}

/// The one pool that the arguments select.
fn which<'a>(
    data: &Path,
    looks: &'a [Look],
    name: &str,
    pid: Option<u32>,
) -> Result<(&'a Answered, &'a PoolReport), Hinted> {
    let considered: Vec<_> = considered(looks, pid).collect();
    let found: Vec<_> = considered.iter().copied().filter(|(_, pool)| pool.name == name).collect();
    match found.as_slice() {
        [one] => Ok(*one),
        [] => Err(missing(data, looks, &considered, name)),
        several => {
            let what = format!("several greenrooms have a pool \"{}\"", words::clean(name));
            Err(print::several(&what, several.iter().map(|(answered, _)| *answered)))
        }
    }
}

fn missing(data: &Path, looks: &[Look], considered: &[(&Answered, &PoolReport)], wanted: &str) -> Hinted {
    let error = Hinted::failure(format!("no such pool: \"{}\"", words::clean(wanted)));
    if let Some(why) = print::why_missing(data, looks) {
        return error.hint(why);
    }
    let mut names: Vec<_> = considered.iter().map(|(_, pool)| pool.name.as_str()).collect();
    names.dedup();
    match nearest(&wanted.to_uppercase(), names.iter()) {
        Some(nearest) => error.hint(format!("did you mean \"{}\"?", words::clean(nearest))),
        None => {
            let names: Vec<_> = names.iter().map(|name| format!("\"{}\"", words::clean(name))).collect();
            error.hint(words::there(&names))
        }
    }
}
