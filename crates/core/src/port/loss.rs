//! What can be lost, and why: a seat or an instance, a tab, a download.

use std::{sync::Arc, time::Duration};

/// Why a seat or an instance is gone. The engine's adapter learns it from a process's exit or from the observer, and
/// never guesses it from an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    #[error("the engine process ended ({status}){}", stderr_suffix(.stderr_tail))]
    Process { status: Arc<str>, stderr_tail: Arc<str> },
    #[error("the browser ended ({status}){}", stderr_suffix(.stderr_tail))]
    Browser { status: Arc<str>, stderr_tail: Arc<str> },
    /// The seat's pages crashed too often. One crash costs one tab; see [`super::Seat::take_crashes`].
    #[error("the page crashed ({0})")]
    Page(Arc<str>),
    #[error("the engine did not answer within {}", human(*.0))]
    Hung(Duration),
    /// greenroom gives the browser up: it failed its health checks, sends more events than greenroom can follow, or its
    /// files take too much space.
    #[error("greenroom gave up the browser: {0}")]
    HealthCheckFailed(Arc<str>),
    /// The browser goes on, but what its network service had in memory is gone.
    #[error("the browser's network service ended: cookies that its sessions had in memory are gone")]
    Cookies,
    #[error("the engine broke the protocol: {0}")]
    Protocol(Arc<str>),
    #[error("greenroom is shutting down")]
    Shutdown,
}

/// The end of a process's stderr, to append to a message about the process; empty where it wrote nothing.
pub fn stderr_suffix(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!("; its last output: {stderr}") }
}

/// A duration as people write it: `250 ms`, `30 s`, `5 min`.
pub fn human(duration: Duration) -> String {
    let ms = duration.as_millis();
    match ms {
        _ if ms < 1_000 => format!("{ms} ms"),
        _ if ms < 120_000 && !ms.is_multiple_of(1_000) => format!("{:.1} s", duration.as_secs_f64()),
        _ if ms < 120_000 => format!("{} s", ms / 1_000),
        _ => format!("{} min", (ms + 30_000) / 60_000),
    }
}

/// A tab whose page crashed. Cookies and the other tabs of its seat are unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crash {
    /// The page that the tab showed.
    pub url: Arc<str>,
    /// How the page ended, in the browser's words: `crashed`, `oom`, `killed`.
    pub why: Arc<str>,
}

/// Downloads that greenroom stopped because the files of their seat take all the disk space that they may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoppedDownloads {
    pub count: u64,
    /// How many bytes the files of a seat may take.
    pub bytes_max: u64,
}

/// How many crashes one answer reports to an agent. More than a few say nothing new.
pub const CRASHES_REPORTED_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// Durations in messages read as people write them.
    #[test]
    fn durations_have_readable_units() {
        for (ms, text) in
            [(250, "250 ms"), (1_500, "1.5 s"), (30_000, "30 s"), (90_000, "90 s"), (300_000, "5 min")]
        {
            assert_eq!(human(Duration::from_millis(ms)), text);
        }
    }
}
