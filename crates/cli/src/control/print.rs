//! Prints what verbs found: a list or one item, for people or for programs; and explains why an item may be missing.

use std::{
    fmt::Write as _,
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use serde::Serialize;

use super::{
    Answered, Look,
    query_all::{nobody, print, silent},
};
use crate::{report::Hinted, view::words};

/// An item for programs, with the process that it is from.
#[derive(Serialize)]
struct WithPid<T> {
    pid: u32,
    #[serde(flatten)]
    what: T,
}

/// Prints a list, each item with its greenroom's process.
pub fn list<T: Serialize>(
    (data, looks): (&Path, &[Look]),
    all: &[(u32, T)],
    json: bool,
    for_people: impl FnOnce() -> String,
) -> anyhow::Result<ExitCode> {
    let text = if json {
        let all: Vec<_> = all.iter().map(|(pid, what)| WithPid { pid: *pid, what }).collect();
        serde_json::to_string_pretty(&all)? + "\n"
    } else if looks.is_empty() {
        nobody(data)
    } else {
        for_people()
    };
    print(&text, looks)
}

/// Prints one item of a greenroom.
pub fn one<T: Serialize>(
    pid: u32,
    what: &T,
    json: bool,
    for_people: impl FnOnce() -> String,
) -> anyhow::Result<ExitCode> {
    let text = match json {
        true => serde_json::to_string_pretty(&WithPid { pid, what })? + "\n",
        false => for_people(),
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// A hint for a missing item that is not mistyped: no greenroom runs, or one that may have it does not answer.
pub fn why_missing(data: &Path, looks: &[Look]) -> Option<String> {
    if looks.is_empty() {
        return Some(format!("no greenroom is running with the data folder `{}`", data.display()));
    }
    let silent = silent(looks);
    (!silent.is_empty()).then(|| format!("{}; it may have it", silent.join(", ")))
}

/// The error that several greenrooms match where one must.
pub fn several<'a>(what: &str, several: impl Iterator<Item = &'a Answered>) -> Hinted {
    let mut message = format!("{what}:");
    for answered in several {
        let _ = write!(message, "\n  pid {}, {}", answered.status.pid, words::clean(&answered.status.kind));
    }
    Hinted::failure(message).hint("choose one with `--pid`")
}
