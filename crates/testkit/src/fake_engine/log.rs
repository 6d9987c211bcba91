//! The test's view of the messages that reached the fake engines: the file that they got as `--log FILE`.
//!
//! One line per event, in the order of arrival, from all engines that share the file: `start` when a process
//! starts, `tools/call NAME` for a tool call, else the bare method of a request or notification; `garbage` for
//! a line that is not a message, `unknown answer` for a response to no question, `SIGTERM` where a flag asks for it. Tests
//! *count* these.

use std::path::{Path, PathBuf};

use crate::deadline::eventually;

/// Reads the event log of fake engines.
#[derive(Debug, Clone)]
pub struct EngineLog {
    file: PathBuf,
}

impl EngineLog {
    /// The log at `file`, which need not exist yet.
    pub fn at(file: impl Into<PathBuf>) -> Self {
        Self { file: file.into() }
    }

    /// The value of `--log`.
    pub fn path(&self) -> &Path {
        &self.file
    }

    pub fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// How often `event` has happened, for example `tools/call echo`.
    pub fn count(&self, event: &str) -> usize {
        self.lines().iter().filter(|line| *line == event).count()
    }

    /// Returns when `event` has happened `count` times.
    pub async fn reached(&self, event: &str, count: usize) {
        let what = format!("`{event}` {count} times in `{}`", self.file.display());
        eventually(&what, || (self.count(event) >= count).then_some(())).await;
    }
}
