//! `greenroom pool`: lists the pools of every greenroom that runs, shows one, and changes one: its size, restarts, drains.

use std::{
    fmt::Write as _,
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use clap::builder::RangedU64ValueParser;
use greenroom_core::{lease::INSTANCES_MAX, likeness::nearest, settings::Resolved};
use greenroom_gateway::{
    control::Pool,
    rest::{Changed, Scaled},
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    config::Surroundings,
    control::{Answered, AskError, Asker, Look, WithPid, answers, look, nobody, print, silent},
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
    let text = if args.json {
        let all: Vec<_> = all.iter().map(|(pid, what)| WithPid { pid: *pid, what }).collect();
        serde_json::to_string_pretty(&all)? + "\n"
    } else if looks.is_empty() {
        nobody(data)
    } else {
        view::pools::pools(&all, "", Terminal::stdout(surroundings))
    };
    print(&text, &looks)
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
    say(pid, &args.how, pool, |pid| view::pools::pool(pid, &answered.status.kind, pool, terminal))
}

pub async fn scale(resolved: &Resolved, args: &ScaleArgs) -> anyhow::Result<ExitCode> {
    let looks = look(&resolved.settings.data_dir).await;
    let (answered, _) = which(&resolved.settings.data_dir, &looks, &args.pool, &args.how)?;
    let body = json!({ "instances": args.instances });
    let scaled: Scaled = tell(answered, &args.pool, "scale", &body).await?;
    say(answered.status.pid, &args.how, &scaled, |pid| view::pools::scaled(pid, &scaled))
}

pub async fn command(resolved: &Resolved, args: &InstanceArgs, command: Command) -> anyhow::Result<ExitCode> {
    let looks = look(&resolved.settings.data_dir).await;
    let (answered, _) = which(&resolved.settings.data_dir, &looks, &args.pool, &args.how)?;
    let verb = match command {
        Command::Restart => "restart",
        Command::Drain => "drain",
    };
    let changed: Changed = tell(answered, &args.pool, verb, &json!({ "instance": args.id })).await?;
    say(answered.status.pid, &args.how, &changed, |pid| match command {
        Command::Restart => view::pools::restarted(pid, &changed),
        Command::Drain => view::pools::drained(pid, &changed),
    })
}

fn say<T: Serialize>(
    pid: u32,
    how: &HowArgs,
    what: &T,
    for_people: impl FnOnce(u32) -> String,
) -> anyhow::Result<ExitCode> {
    let text = match how.json {
        true => serde_json::to_string_pretty(&WithPid { pid, what })? + "\n",
        false => for_people(pid),
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
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
            let mut message = format!("several greenrooms have a pool \"{}\":", words::clean(name));
            for (answered, _) in several {
                let _ = write!(
                    message,
                    "\n  pid {}, {}",
                    answered.status.pid,
                    words::clean(&answered.status.kind)
                );
            }
            Err(Hinted::failure(message).hint("choose one with `--pid`"))
        }
    }
}

fn missing(data: &Path, looks: &[Look], considered: &[(&Answered, &Pool)], wanted: &str) -> Hinted {
    let error = Hinted::failure(format!("no such pool: \"{}\"", words::clean(wanted)));
    if looks.is_empty() {
        return error.hint(format!("no greenroom is running with the data folder `{}`", data.display()));
    }
    let silent = silent(looks);
    if !silent.is_empty() {
        return error.hint(format!("{}; it may have it", silent.join(", ")));
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
