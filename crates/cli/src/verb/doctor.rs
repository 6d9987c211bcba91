//! `greenroom doctor`: checks that everything is in place, and says how to fix what is not.
//!
//! The checks are in `doctor/`, one file each; this file runs them and prints their findings.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use anyhow::Context;
use greenroom_core::{printable::printable_lines, settings::Resolved};
use greenroom_engine::launcher::Launcher;

use crate::{
    config::ProcessEnv,
    doctor::{self, CheckStatus, Finding, Installation},
    view::terminal::{Terminal, TextStyle},
};

#[derive(Debug, clap::Args)]
pub struct DoctorArgs {
    /// Print a JSON array
    #[arg(long)]
    pub json: bool,

    /// Skip the last check, which starts a browser and opens a page
    #[arg(long)]
    pub no_browse: bool,
}

pub async fn run(resolved: Resolved, env: ProcessEnv, args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let terminal = Terminal::stdout(&env);
    let launcher = Launcher::start("doctor").context("cannot start the launcher's thread")?;
    let findings =
        doctor::run_checks(Installation { resolved, env, launcher, opens_page: !args.no_browse }).await;
    let text = if args.json {
        serde_json::to_string_pretty(&findings)? + "\n"
    } else {
        as_table(&findings, terminal)
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    let failed = findings.iter().any(|finding| finding.status == CheckStatus::Failed);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn as_table(findings: &[Finding], terminal: Terminal) -> String {
    let ids = findings.iter().map(|finding| finding.id.len()).max().unwrap_or(0);
    let mut table = String::new();
    for Finding { id, status, message, fix } in findings {
        let style = match status {
            CheckStatus::Ok => TextStyle::Green,
            CheckStatus::Warning => TextStyle::Yellow,
            CheckStatus::Failed => TextStyle::Red,
            CheckStatus::Skipped => TextStyle::Dim,
        };
        let status = terminal.styled(style, &format!("{:7}", status.as_str()));
        // Messages contain file names and texts from other programs: escape them, so that none controls the terminal.
        table += &format!("{status}  {id:ids$}  {}\n", printable_lines(message));
        if let Some(fix) = fix {
            let nothing = "";
            let fix = printable_lines(fix);
            table +=
                &format!("{nothing:7}  {nothing:ids$}  {} {fix}\n", terminal.styled(TextStyle::Bold, "fix:"));
        }
    }
    let count = |wanted: CheckStatus| findings.iter().filter(|finding| finding.status == wanted).count();
    let parts: Vec<_> = [CheckStatus::Ok, CheckStatus::Warning, CheckStatus::Failed, CheckStatus::Skipped]
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

#[cfg(test)]
mod tests {
    use super::*;

    /// On a terminal the status has a colour besides its word, elsewhere none; findings cannot control the terminal.
    #[test]
    fn only_a_terminal_gets_colours() {
        let found = |status, message: &str| Finding {
            id: "node",
            status,
            message: message.to_owned(),
            fix: Some("install it".to_owned()),
        };
        let findings = [found(CheckStatus::Ok, "fine"), found(CheckStatus::Failed, "gone\x1b[2J")];
        let coloured = as_table(&findings, Terminal { colour: true, ..Terminal::default() });
        assert!(coloured.contains("\x1b[32mok     \x1b[0m  node  fine\n"), "{coloured:?}");
        assert!(coloured.contains("\x1b[31mfailed \x1b[0m  node  gone\\u{1b}[2J\n"), "{coloured:?}");
        assert!(!as_table(&findings, Terminal::default()).contains('\x1b'));
    }
}
