//! `greenroom pool`: lists the pools of every greenroom that runs, shows one, and changes one: its size, restarts, drains.

use std::{path::Path, process::ExitCode};

use clap::builder::RangedU64ValueParser;
use greenroom_core::{lease::INSTANCES_MAX, likeness::nearest, settings::Resolved};
use greenroom_gateway::{
    control::Pool,
    rest::{Changed, Scaled},
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    config::Surroundings,
    control::{Answered, AskError, Asker, Look, answers, look, say},
    report::Hinted,
    view::{self, terminal::Terminal, words},
};

#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Print an array of objects instead of a table
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub struct WhichArgs {
    /// The pool's name
    pub pool: String,

    #[command(flatten)]
    pub how: HowArgs,
}

#[derive(Debug, clap::Args)]
pub struct ScaleArgs {
    /// The pool's name
    pub pool: String,

    /// How many instances it shall have
    #[arg(value_parser = RangedU64ValueParser::<u16>::new().range(1..=INSTANCES_MAX as u64))]
    pub instances: u16,

    #[command(flatten)]
    pub how: HowArgs,
}

#[derive(Debug, clap::Args)]
pub struct InstanceArgs {
    /// The pool's name
    pub pool: String,

    /// An instance, by number or alias; all of them without
    pub id: Option<String>,

    #[command(flatten)]
    pub how: HowArgs,
}

#[derive(Debug, clap::Args)]
pub struct HowArgs {
    /// Only pools of this greenroom
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,

    /// Print an object instead of lines for people
    #[arg(long)]
    pub json: bool,
}

/// What a command does to instances.
#[derive(Debug, Clone, Copy)]
pub enum Command {
    Restart,
    Drain,
}

pub async fn list(
    resolved: &Resolved,
    surroundings: &Surroundings,
    args: &ListArgs,
) -> anyhow::Result<ExitCode> {
    let data = &resolved.settings.data_dir;
    let looks = look(data).await;
    let all: Vec<_> = pools(&looks).map(|(answered, pool)| (answered.status.pid, pool)).collect();
    say::list((data, &looks), &all, args.json, || {
        view::pools::pools(&all, "", Terminal::stdout(surroundings))
    })
}

pub async fn show(
    resolved: &Resolved,
    surroundings: &Surroundings,
    args: &WhichArgs,
) -> anyhow::Result<ExitCode> {
    let looks = look(&resolved.settings.data_dir).await;
    let (answered, pool) = which(&resolved.settings.data_dir, &looks, &args.pool, &args.how)?;
    let pid = answered.status.pid;
    let terminal = Terminal::stdout(surroundings);
    say::one(pid, pool, args.how.json, || view::pools::pool(pid, &answered.status.kind, pool, terminal))
}

pub async fn scale(resolved: &Resolved, args: &ScaleArgs) -> anyhow::Result<ExitCode> {
    let looks = look(&resolved.settings.data_dir).await;
    let (answered, _) = which(&resolved.settings.data_dir, &looks, &args.pool, &args.how)?;
    let body = json!({ "instances": args.instances });
    let scaled: Scaled = tell(answered, &args.pool, "scale", &body).await?;
    let pid = answered.status.pid;
    say::one(pid, &scaled, args.how.json, || view::pools::scaled(pid, &scaled))
}

pub async fn command(resolved: &Resolved, args: &InstanceArgs, command: Command) -> anyhow::Result<ExitCode> {
    let looks = look(&resolved.settings.data_dir).await;
    let (answered, _) = which(&resolved.settings.data_dir, &looks, &args.pool, &args.how)?;
    let verb = match command {
        Command::Restart => "restart",
        Command::Drain => "drain",
    };
    let changed: Changed = tell(answered, &args.pool, verb, &json!({ "instance": args.id })).await?;
    let pid = answered.status.pid;
    say::one(pid, &changed, args.how.json, || match command {
        Command::Restart => view::pools::restarted(pid, &changed),
        Command::Drain => view::pools::drained(pid, &changed),
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
        let (pid, name) = (answered.status.pid, words::clean(pool));
        match error {
            AskError::Refused(problem) => Hinted::failure(words::clean(&problem.message)),
            error => Hinted::failure(format!("cannot {verb} pool \"{name}\" (pid {pid}): {error}")),
        }
    })
}

fn pools(looks: &[Look]) -> impl Iterator<Item = (&Answered, &Pool)> {
    answers(looks).flat_map(|answered| answered.status.pools.iter().map(move |pool| (answered, pool)))
}

/// The one pool that is meant.
fn which<'a>(
    data: &Path,
    looks: &'a [Look],
    name: &str,
    how: &HowArgs,
) -> Result<(&'a Answered, &'a Pool), Hinted> {
    let considered: Vec<_> =
        pools(looks).filter(|(answered, _)| how.pid.is_none_or(|pid| pid == answered.status.pid)).collect();
    let found: Vec<_> = considered.iter().copied().filter(|(_, pool)| pool.name == name).collect();
    match found.as_slice() {
        [one] => Ok(*one),
        [] => Err(missing(data, looks, &considered, name)),
        several => {
            let what = format!("several greenrooms have a pool \"{}\"", words::clean(name));
            Err(say::several(&what, several.iter().map(|(answered, _)| *answered)))
        }
    }
}

fn missing(data: &Path, looks: &[Look], considered: &[(&Answered, &Pool)], wanted: &str) -> Hinted {
    let error = Hinted::failure(format!("no such pool: \"{}\"", words::clean(wanted)));
    if let Some(why) = say::why_missing(data, looks) {
        return error.hint(why);
    }
    let mut names: Vec<_> = considered.iter().map(|(_, pool)| pool.name.as_str()).collect();
    names.dedup();
    match nearest(&wanted.to_uppercase(), names.iter()) {
        Some(nearest) => error.hint(format!("did you mean \"{}\"?", words::clean(nearest))),
        None => {
            let names: Vec<_> = names.iter().map(|name| format!("\"{}\"", words::clean(name))).collect();
            error.hint(format!("there is {}", names.join(", ")))
        }
    }
}
