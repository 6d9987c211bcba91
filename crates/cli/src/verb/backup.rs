//! `greenroom backup` and `greenroom restore`: copies the records, the blobs and the keys to a folder, also while greenroom
//! runs, and back into a data folder that has none.

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Context as _;
use greenroom_core::settings::{Resolved, Settings};
use greenroom_engine::run_folder;
use greenroom_store::backup::{self, BackupError, BackupSummary};

use crate::{
    app::records,
    progress,
    report::CliError,
    view::{self, text::escape},
};

/// The files in the data folder that a backup has in addition to records and blobs. Other files can be made again (installed
/// engines, caches), belong to a browser that may be writing them (profiles), or are the operator's (the audit log).
const FILES: [&str; 1] = ["keys.json"];

#[derive(Debug, clap::Args)]
pub struct BackupArgs {
    /// The folder to make; it must not exist
    pub folder: PathBuf,

    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub struct RestoreArgs {
    /// The folder that `greenroom backup` made
    pub folder: PathBuf,

    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

pub async fn backup(resolved: &Resolved, args: &BackupArgs) -> anyhow::Result<ExitCode> {
    let settings = &resolved.settings;
    let folder = records::folder(settings).to_owned();
    let (files, target) = (files(settings), args.folder.clone());
    let work = tokio::task::spawn_blocking(move || backup::backup(&folder, &files, &target));
    let summary = progress::step("backing up", work).await.context("the work was given up")?;
    print(&summary.map_err(to_cli_error)?, args.json, view::backup::made)
}

pub async fn restore(resolved: &Resolved, args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    let settings = &resolved.settings;
    if let Some(running) = run_folder::running_greenrooms(&settings.data_dir).first() {
        let data = settings.data_dir.display();
        return Err(CliError::failure(format!("greenroom runs on `{data}` (pid {})", running.pid))
            .hint("end it first, or name another folder with `--data-dir`")
            .into());
    }
    let folder = records::folder(settings).to_owned();
    let (files, from) = (files(settings), args.folder.clone());
    let work = tokio::task::spawn_blocking(move || backup::restore(&from, &folder, &files));
    let summary = progress::step("restoring", work).await.context("the work was given up")?;
    print(&summary.map_err(to_cli_error)?, args.json, view::backup::restored)
}

fn files(settings: &Settings) -> Vec<PathBuf> {
    FILES.iter().map(|name| settings.data_dir.join(name)).collect()
}

fn print(
    summary: &BackupSummary,
    json: bool,
    text: impl Fn(&BackupSummary) -> String,
) -> anyhow::Result<ExitCode> {
    let text = if json { serde_json::to_string_pretty(summary)? + "\n" } else { text(summary) };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn to_cli_error(error: BackupError) -> CliError {
    let hint = match &error {
        BackupError::NoRecords(_) => {
            Some("records begin with the first call; `--data-dir` names another folder")
        }
        BackupError::TargetExists(_) => {
            Some("name a folder that does not exist yet; greenroom writes over nothing")
        }
        BackupError::Damaged { .. } => Some("nothing was written; use another backup"),
        BackupError::Newer { .. } => Some("restore it with the greenroom that made it, or a later one"),
        BackupError::NoBackup { .. } => Some("name the folder that `greenroom backup` made"),
        BackupError::File { .. } | BackupError::Database { .. } => None,
    };
    let message = escape(&format!("{:#}", anyhow::Error::new(error)));
    let failure = CliError::failure(message);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
