//! The last lines of the process's log, kept in memory for the control socket.
//!
//! Writing never waits for a reader. A reader remembers how far it has read; a slow reader finds that lines were
//! overwritten, and learns how many. The cli's logging writes the lines, [`super::logs`] reads them.

use std::{collections::VecDeque, sync::Arc, time::SystemTime};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

/// How many lines are kept. At info level a busy day has a few hundred, so this is what happened lately; at some
/// 300 bytes a line it costs a third of a megabyte when full.
const LINES_MAX: usize = 1000;

/// How much of a message or a value is kept. Only the stderr of an engine that ended is ever longer, and its head says
/// enough.
const TEXT_BYTES_MAX: usize = 4096;

/// One line of the log.
#[derive(Debug, Clone)]
pub struct LogEntry {
    pub time: SystemTime,
    pub level: &'static str,
    pub target: String,
    pub message: String,
    pub fields: Vec<(&'static str, String)>,
}

/// What a read returns.
#[derive(Debug)]
pub struct LogRead {
    /// How many lines were overwritten before they were read.
    pub lost: u64,
    pub entries: Vec<Arc<LogEntry>>,
    /// Where to read on.
    pub next: u64,
}

pub struct RecentLog {
    state: Mutex<LogBuffer>,
    /// How many lines were ever written.
    written: watch::Sender<u64>,
}

#[derive(Default)]
struct LogBuffer {
    lines: VecDeque<Arc<LogEntry>>,
    /// The number of the first of `lines`.
    first: u64,
}

impl Default for RecentLog {
    fn default() -> Self {
        Self { state: Mutex::default(), written: watch::Sender::new(0) }
    }
}

impl RecentLog {
    fn lock(&self) -> MutexGuard<'_, LogBuffer> {
        self.state.lock()
    }

    pub fn write(&self, mut entry: LogEntry) {
        cut(&mut entry.message);
        entry.fields.iter_mut().for_each(|(_, value)| cut(value));
        let written = {
            let mut state = self.lock();
            if state.lines.len() == LINES_MAX {
                state.lines.pop_front();
                state.first += 1;
            }
            state.lines.push_back(Arc::new(entry));
            state.first + state.lines.len() as u64
        };
        self.written.send_replace(written);
    }

    /// Everything from line `from` on; `None` for all that is kept.
    pub fn read(&self, from: Option<u64>) -> LogRead {
        let state = self.lock();
        let from = from.unwrap_or(state.first);
        let skip = usize::try_from(from.saturating_sub(state.first)).unwrap_or(usize::MAX);
        LogRead {
            lost: state.first.saturating_sub(from),
            entries: state.lines.iter().skip(skip).cloned().collect(),
            next: state.first + state.lines.len() as u64,
        }
    }

    /// Changes with every line that is written.
    pub(super) fn written(&self) -> watch::Receiver<u64> {
        self.written.subscribe()
    }
}

fn cut(text: &mut String) {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(recent_log: &RecentLog, message: impl Into<String>) {
        let message = message.into();
        let time = SystemTime::UNIX_EPOCH;
        recent_log.write(LogEntry {
            time,
            level: "INFO",
            target: String::new(),
            message,
            fields: Vec::new(),
        });
    }

    /// The last lines are kept and no more; a reader that fell behind learns how many it missed, once.
    #[test]
    fn slow_reader_gets_the_count_of_missed_lines() {
        let recent_log = RecentLog::default();
        write(&recent_log, "first");
        let read = recent_log.read(None);
        assert_eq!((read.lost, read.entries.len(), read.next), (0, 1, 1));
        for n in 0..LINES_MAX + 5 {
            write(&recent_log, n.to_string());
        }
        let read = recent_log.read(Some(read.next));
        assert_eq!((read.lost, read.entries.len()), (5, LINES_MAX));
        assert_eq!(read.entries[0].message, "5");
        let read = recent_log.read(Some(read.next));
        assert_eq!((read.lost, read.entries.len()), (0, 0));
        assert_eq!(recent_log.read(None).lost, 0, "a newcomer has missed nothing");
    }

    /// A long message keeps its head.
    #[test]
    fn long_lines_are_cut() {
        let recent_log = RecentLog::default();
        write(&recent_log, "ä".repeat(TEXT_BYTES_MAX));
        assert_eq!(recent_log.read(None).entries[0].message.chars().count(), TEXT_BYTES_MAX / 2 + 1);
    }
}
