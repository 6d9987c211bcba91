//! What verbs say of what they found: all there is of a kind, or one thing, for people or for programs; and why it may be
//! that there is nothing.

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

/// Something for programs, with the process that said it.
#[derive(Serialize)]
struct WithPid<T> {
    pid: u32,
    #[serde(flatten)]
    what: T,
}

/// Prints all there is of a kind, each with its greenroom's process.
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

/// Prints one thing of a greenroom.
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

/// A hint for whoever misses something that is not mistyped: nobody runs, or somebody who may have it says nothing.
pub fn why_missing(data: &Path, looks: &[Look]) -> Option<String> {
    if looks.is_empty() {
        return Some(format!("no greenroom is running with the data folder `{}`", data.display()));
    }
    let silent = silent(looks);
    (!silent.is_empty()).then(|| format!("{}; it may have it", silent.join(", ")))
}

/// Several greenrooms are meant where one has to be.
pub fn several<'a>(what: &str, several: impl Iterator<Item = &'a Answered>) -> Hinted {
    let mut message = format!("{what}:");
    for answered in several {
        let _ = write!(message, "\n  pid {}, {}", answered.status.pid, words::clean(&answered.status.kind));
    }
    Hinted::failure(message).hint("choose one with `--pid`")
}
