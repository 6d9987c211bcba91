//! `greenroom db`: maintains the files of the call records. It counts records, frees space, and exports them; it needs no
//! running greenroom and disturbs none.

use std::{
    io::{self, BufWriter, Write},
    path::Path,
    process::ExitCode,
    time::{Duration, SystemTime},
};

use anyhow::Context;
use greenroom_core::settings::{Resolved, Settings, parse_duration};
use greenroom_engine::run_folder;
use greenroom_store::{
    StoreSettings,
    maintenance::{self, MaintenanceError, Wanted},
};

use crate::{
    app::records,
    config::ProcessEnv,
    progress,
    report::CliError,
    view::{self, terminal::Terminal},
};

#[derive(Debug, clap::Args)]
pub struct StatsArgs {
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub struct VacuumArgs {
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub struct ExportArgs {
    /// Export only calls of this session, by its UUID or its name
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,

    /// Export only calls that began within this time, such as `30m` or `24h`
    #[arg(long, value_name = "DURATION", value_parser = since)]
    pub since: Option<Duration>,

    /// The output format
    #[arg(long, value_enum, default_value_t = ExportFormat::Jsonl)]
    pub format: ExportFormat,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum ExportFormat {
    /// One JSON object per line
    Jsonl,
}

fn since(text: &str) -> Result<Duration, &'static str> {
    parse_duration(text).ok_or("give a duration such as `90s`, `30m` or `24h`, at most 365 days")
}

pub fn stats(resolved: &Resolved, env: &ProcessEnv, args: &StatsArgs) -> anyhow::Result<ExitCode> {
    let data = records::folder(&resolved.settings);
    if !maintenance::exists(data) {
        return no_records(data, if args.json { "null\n" } else { "" });
    }
    let stats = maintenance::stats(data).map_err(to_cli_error)?;
    let text = if args.json {
        serde_json::to_string_pretty(&stats)? + "\n"
    } else {
        view::records::stats(&stats, Terminal::stdout(env))
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

pub async fn vacuum(resolved: &Resolved, args: &VacuumArgs) -> anyhow::Result<ExitCode> {
    let settings = &resolved.settings;
    if !maintenance::exists(records::folder(settings)) {
        return no_records(records::folder(settings), if args.json { "null\n" } else { "" });
    }
    // While greenrooms run, do not rewrite the database file: that would hold up their calls.
    let running_pids: Vec<u32> =
        run_folder::running_greenrooms(&settings.data_dir).iter().map(|living| living.pid).collect();
    let store = maintenance_settings(settings);
    let alone = running_pids.is_empty();
    let work = tokio::task::spawn_blocking(move || maintenance::vacuum(&store, alone));
    let vacuumed =
        progress::step("making room", work).await.context("the work was given up")?.map_err(to_cli_error)?;
    let text = if args.json {
        serde_json::to_string_pretty(&vacuumed)? + "\n"
    } else {
        view::records::vacuumed(&vacuumed, &running_pids)
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

pub fn export(resolved: &Resolved, args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let data = records::folder(&resolved.settings);
    if !maintenance::exists(data) {
        return no_records(data, "");
    }
    let since = args.since.and_then(|since| SystemTime::now().checked_sub(since));
    let wanted = Wanted { session: args.session.clone(), since };
    let mut stdout = BufWriter::new(io::stdout().lock());
    maintenance::export(data, &wanted, |record| -> anyhow::Result<()> {
        match args.format {
            ExportFormat::Jsonl => serde_json::to_writer(&mut stdout, record).map_err(io::Error::from)?,
        }
        Ok(stdout.write_all(b"\n")?)
    })
    .map_err(|error| match error.downcast::<MaintenanceError>() {
        Ok(error) => to_cli_error(error).into(),
        Err(error) => error,
    })?;
    stdout.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Reports that the folder has no records. That is no failure, so the note goes to stderr and the exit code is 0.
pub(super) fn no_records(data: &Path, text: &str) -> anyhow::Result<ExitCode> {
    progress::note(&format!("nothing is recorded in `{}` yet", data.display()));
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Settings for a store that this verb opens for maintenance: the limits, without the tags of a run.
fn maintenance_settings(settings: &Settings) -> StoreSettings {
    StoreSettings {
        folder: records::folder(settings).to_owned(),
        process_tag: "by-hand".to_owned(),
        running_tags: Vec::new(),
        processes_listed_after: SystemTime::now(),
        max_age: settings.records.max_age,
        bytes_max: settings.records.bytes_max,
        blobs_ttl: settings.blobs.ttl,
        blobs_bytes_max: settings.blobs.bytes_max,
        blobs_per_pool: settings.blobs.per_pool,
    }
}

pub(super) fn to_cli_error(error: MaintenanceError) -> CliError {
    let hint = match &error {
        MaintenanceError::NoSession(_) => {
            Some("`greenroom db export` without `--session` shows every record")
        }
        MaintenanceError::Newer { .. } => Some("use the newest greenroom on this data folder"),
        MaintenanceError::Database { .. } => None,
    };
    let message = CliError::failure(format!("{:#}", anyhow::Error::from(error)));
    match hint {
        Some(hint) => message.hint(hint),
        None => message,
    }
}
