//! Prints what verbs found: a list or one item, for people or for programs; and explains why an item may be missing.

use std::{
    fmt::Write as _,
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use serde::Serialize;

use super::{
    GreenroomReport, QueryOutcome,
    query_all::{none_running_message, print, unanswered_messages},
};
use crate::{report::CliError, view::text};

/// An item for programs, with the id of the process that reported it.
#[derive(Serialize)]
struct ItemWithPid<T> {
    pid: u32,
    #[serde(flatten)]
    what: T,
}

/// Prints a list, each item with its greenroom's process id.
pub fn list<T: Serialize>(
    data: &Path,
    outcomes: &[QueryOutcome],
    all: &[(u32, T)],
    json: bool,
    for_people: impl FnOnce() -> String,
) -> anyhow::Result<ExitCode> {
    let text = if json {
        let all: Vec<_> = all.iter().map(|(pid, what)| ItemWithPid { pid: *pid, what }).collect();
        serde_json::to_string_pretty(&all)? + "\n"
    } else if outcomes.is_empty() {
        none_running_message(data)
    } else {
        for_people()
    };
    print(&text, outcomes)
}

/// Prints one item of a greenroom.
pub fn item<T: Serialize>(
    pid: u32,
    what: &T,
    json: bool,
    for_people: impl FnOnce() -> String,
) -> anyhow::Result<ExitCode> {
    let text = match json {
        true => serde_json::to_string_pretty(&ItemWithPid { pid, what })? + "\n",
        false => for_people(),
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// A hint for a missing item without a similar name: no greenroom runs, or a greenroom that may have it does not
/// answer.
pub fn why_missing(data: &Path, outcomes: &[QueryOutcome]) -> Option<String> {
    if outcomes.is_empty() {
        return Some(format!("no greenroom is running with the data folder `{}`", data.display()));
    }
    let unanswered_messages = unanswered_messages(outcomes);
    (!unanswered_messages.is_empty()).then(|| format!("{}; it may have it", unanswered_messages.join(", ")))
}

/// The error for an item that several greenrooms have, where the verb needs exactly one.
pub fn ambiguous_error<'a>(what: &str, several: impl Iterator<Item = &'a GreenroomReport>) -> CliError {
    let mut message = format!("{what}:");
    for report in several {
        let _ = write!(message, "\n  pid {}, {}", report.status.pid, text::escape(&report.status.kind));
    }
    CliError::failure(message).hint("choose one with `--pid`")
}
