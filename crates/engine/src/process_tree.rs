//! The processes below a browser, from `/proc`: which of Chromium's helpers is which.
//!
//! Used to lower the priority of renderers, to watch the processes that a browser needs, and to end pages that use too much.
//! If `/proc` is not available, the lists are empty, and the caller logs that.

use std::{collections::HashSet, fs};

/// No browser has more descendants than this; a longer list is not read to its end.
const PROCESSES_MAX: usize = 4_096;

/// The argument by which Chromium names the process that forks its renderers.
pub(crate) const ZYGOTE: &str = "--type=zygote";

/// A process below another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Descendant {
    pub(crate) pid: u32,
    /// Its command line, with blanks between its arguments.
    pub(crate) command: String,
}

impl Descendant {
    /// Whether it was started with this argument.
    pub(crate) fn has_argument(&self, argument: &str) -> bool {
        self.command.split(' ').any(|given| given == argument)
    }
}

/// The processes that this one started, and all of their descendants.
pub(crate) fn descendants(pid: u32) -> Vec<Descendant> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut parents = vec![pid];
    while let Some(parent) = parents.pop() {
        for child in child_ids(parent) {
            if found.len() < PROCESSES_MAX && seen.insert(child) {
                found.push(Descendant { pid: child, command: command(child) });
                parents.push(child);
            }
        }
    }
    found
}

/// The processes of a browser: its children, and the forks of its zygotes. Cheaper than [`descendants`], since it lists only the
/// children of zygotes; no other helper of Chromium starts any.
pub(crate) fn helpers(browser: u32) -> Vec<Descendant> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut parents = vec![browser];
    while let Some(parent) = parents.pop() {
        for child in child_ids(parent) {
            if found.len() < PROCESSES_MAX && seen.insert(child) {
                let child = Descendant { pid: child, command: command(child) };
                if child.has_argument(ZYGOTE) {
                    parents.push(child.pid);
                }
                found.push(child);
            }
        }
    }
    found
}

/// The processes that this one itself started.
pub(crate) fn children(pid: u32) -> Vec<Descendant> {
    child_ids(pid).into_iter().map(|pid| Descendant { pid, command: command(pid) }).collect()
}

/// The children of all threads of a process.
fn child_ids(pid: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists =
        threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// A process's command line. Chromium's helpers rewrite theirs, with blanks.
fn command(pid: u32) -> String {
    let raw = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&raw).replace('\0', " ")
}
