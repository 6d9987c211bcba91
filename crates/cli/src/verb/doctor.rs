//! `greenroom doctor`: checks that everything is in place, and says how to fix what is not.
//!
//! The checks stand in `doctor/`, one file each; this file runs them and prints what they found.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use anyhow::Context;
use greenroom_core::{printable::printable_lines, settings::Resolved};
use greenroom_engine::launcher::Launcher;

use crate::{
    config::Surroundings,
    doctor::{self, Finding, Patient, Status},
};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print an array of objects instead of lines for people
    #[arg(long)]
    pub json: bool,

    /// Do not start a browser to see whether it opens a page
    #[arg(long)]
    pub no_browse: bool,
}

pub async fn run(resolved: Resolved, surroundings: Surroundings, args: &Args) -> anyhow::Result<ExitCode> {
    let launcher = Launcher::start("doctor").context("cannot start the launcher's thread")?;
    let findings =
        doctor::examine(Patient { resolved, surroundings, launcher, browse: !args.no_browse }).await;
    let text = if args.json {
        serde_json::to_string_pretty(&findings)? + "\n"
    } else {
        printable_lines(&as_table(&findings)).into_owned()
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    let failed = findings.iter().any(|finding| finding.status == Status::Failed);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn as_table(findings: &[Finding]) -> String {
    let ids = findings.iter().map(|finding| finding.id.len()).max().unwrap_or(0);
    let mut table = String::new();
    for Finding { id, status, message, fix } in findings {
        let status = status.as_str();
        table += &format!("{status:7}  {id:ids$}  {message}\n");
        if let Some(fix) = fix {
            let nothing = "";
            table += &format!("{nothing:7}  {nothing:ids$}  fix: {fix}\n");
        }
    }
    let count = |wanted: Status| findings.iter().filter(|finding| finding.status == wanted).count();
    let parts: Vec<_> = [Status::Ok, Status::Warning, Status::Failed, Status::Skipped]
        .into_iter()
        .map(|status| (count(status), status.as_str()))
        .filter(|(count, _)| *count > 0)
        .map(|(count, status)| match (count, status) {
            (2.., "warning") => format!("{count} warnings"),
            _ => format!("{count} {status}"),
        })
        .collect();
    table + &format!("\n{}\n", parts.join(", "))
}
