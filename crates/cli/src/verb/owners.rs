//! `greenroom owners`: lists whose records there are, gives one owner's records to another, removes all of an owner.

use std::{
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
};

use anyhow::Context as _;
use greenroom_core::{Owner, settings::Resolved};
use greenroom_store::maintenance;
use serde_json::json;

use super::{confirm, db};
use crate::{
    app::records,
    config::ProcessEnv,
    control::{query_all, reports, unanswered_messages},
    progress,
    report::CliError,
    view::{
        self,
        terminal::Terminal,
        text::{count, escape, id},
    },
};

#[derive(Debug, clap::Args)]
pub struct OwnersArgs {
    #[command(subcommand)]
    pub verb: Option<OwnersVerb>,

    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, clap::Subcommand)]
pub enum OwnersVerb {
    /// List the owners of records (the default)
    List,
    /// Give all records, files and past sessions of one owner to another, such as those of `local` to the first key
    Give(GiveArgs),
    /// Remove all records, files and past sessions of an owner
    Delete(DeleteArgs),
}

#[derive(Debug, clap::Args)]
pub struct GiveArgs {
    /// The owner who has them
    pub from: String,

    /// The owner who gets them
    pub to: String,
}

#[derive(Debug, clap::Args)]
pub struct DeleteArgs {
    pub name: String,

    /// Remove without a question
    #[arg(long)]
    pub yes: bool,
}

pub async fn run(resolved: &Resolved, env: &ProcessEnv, args: &OwnersArgs) -> anyhow::Result<ExitCode> {
    let folder = records::folder(&resolved.settings);
    let data = &resolved.settings.data_dir;
    if !maintenance::exists(folder) {
        return db::no_records(folder, if args.json { "null\n" } else { "" });
    }
    match args.verb.as_ref().unwrap_or(&OwnersVerb::List) {
        OwnersVerb::List => list(folder, env, args.json),
        OwnersVerb::Give(which) => give(data, folder, which, args.json).await,
        OwnersVerb::Delete(which) => delete(data, folder, which, args.json).await,
    }
}

fn list(folder: &Path, env: &ProcessEnv, json: bool) -> anyhow::Result<ExitCode> {
    let owners = maintenance::stats(folder).map_err(db::to_cli_error)?.owners;
    print(&match json {
        true => serde_json::to_string_pretty(&owners)? + "\n",
        false => view::records::owners(&owners, Terminal::stdout(env)),
    })
}

async fn give(data: &Path, folder: &Path, args: &GiveArgs, json: bool) -> anyhow::Result<ExitCode> {
    if args.from == args.to {
        return Err(CliError::usage(format!("both owners are \"{}\"", id(&args.from))).into());
    }
    known(folder, &args.from)?;
    has_no_session(data, &args.from).await?;
    let (place, from, to) = (folder.to_owned(), Owner::new(&args.from), Owner::new(&args.to));
    let work = tokio::task::spawn_blocking(move || maintenance::give(&place, &from, &to));
    let given = progress::step("giving the records", work)
        .await
        .context("the work was given up")?
        .map_err(db::to_cli_error)?;
    print(&match json {
        true => json!({ "from": args.from, "to": args.to, "given": given }).to_string() + "\n",
        false => format!(
            "\"{}\" has {} and {} of \"{}\" now\n",
            id(&args.to),
            count(given.records, "call"),
            count(given.sessions, "session"),
            id(&args.from)
        ),
    })
}

async fn delete(data: &Path, folder: &Path, args: &DeleteArgs, json: bool) -> anyhow::Result<ExitCode> {
    known(folder, &args.name)?;
    has_no_session(data, &args.name).await?;
    let question = format!("Remove everything that is recorded of \"{}\"?", id(&args.name));
    if !args.yes && !confirm::ask_to_remove(&question)? {
        return Err(CliError::failure("nothing was removed").into());
    }
    let (place, owner) = (folder.to_owned(), Owner::new(&args.name));
    let work = tokio::task::spawn_blocking(move || maintenance::delete_owner(&place, &owner));
    let removed = progress::step("removing the records", work)
        .await
        .context("the work was given up")?
        .map_err(db::to_cli_error)?;
    print(&match json {
        true => json!({ "owner": args.name, "removed": removed }).to_string() + "\n",
        false => format!(
            "removed {}, {} and {} of \"{}\"\n",
            count(removed.records, "call"),
            count(removed.sessions, "session"),
            count(removed.blobs, "file"),
            id(&args.name)
        ),
    })
}

/// A name that has no records is most likely misspelt.
fn known(folder: &Path, name: &str) -> anyhow::Result<()> {
    let owners = maintenance::stats(folder).map_err(db::to_cli_error)?.owners;
    if owners.iter().any(|owner| owner.owner == name) {
        return Ok(());
    }
    let names: Vec<_> = owners.iter().map(|owner| format!("`{}`", id(&owner.owner))).collect();
    Err(CliError::failure(format!("no records of an owner \"{}\"", id(name)))
        .hint(format!("there are records of {}", names.join(", ")))
        .into())
}

/// Refuses while a greenroom has a session of this owner, or does not say whether it has: a call that runs meanwhile would
/// not be recorded.
async fn has_no_session(data: &Path, name: &str) -> anyhow::Result<()> {
    let outcomes = query_all(data).await;
    let cut = reports(&outcomes).find(|report| report.sessions_left_out > 0);
    let cut = cut.map(|report| format!("pid {} has more sessions than it can list", report.status.pid));
    if let Some(why) = unanswered_messages(&outcomes).into_iter().chain(cut).next() {
        let message = format!("cannot see whether \"{}\" has open sessions: {}", id(name), escape(&why));
        return Err(CliError::failure(message).hint("end that greenroom first").into());
    }
    let open: Vec<_> = reports(&outcomes)
        .flat_map(|report| report.sessions.iter().map(move |session| (report.status.pid, session)))
        .filter(|(_, session)| session.owner == name)
        .map(|(pid, session)| format!("\"{}\" (pid {pid})", escape(&session.label())))
        .collect();
    if open.is_empty() {
        return Ok(());
    }
    Err(CliError::failure(format!(
        "\"{}\" has {}: {}",
        id(name),
        count(open.len(), "open session"),
        open.join(", ")
    ))
    .hint("close them with `greenroom sessions close`, and revoke the owner's key so that no new ones begin")
    .into())
}

fn print(text: &str) -> anyhow::Result<ExitCode> {
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
