//! The audit log: `audit.jsonl` in the data folder, one JSON object on a line, written by a thread of its own.
//!
//! - [`AuditLog::report`](greenroom_core::audit::Audit::report) only adds to [`pending`], which is bounded and counts equal
//!   events instead of keeping them. So no page and no call ever waits for the disk, and a page that makes thousands of
//!   refused requests a second costs a line a minute.
//! - The thread writes the first of equal events at once, and the number of the others when the window ends.
//! - Events without a line are counted. The log gets a line with their number as soon as it can be written again.
//! - Several processes share the file: [`mod@file`] appends each line with one write, and rotates under a lock.
//!
//! [`read`] reads the log, without a running greenroom.

mod file;
mod pending;
mod read;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use greenroom_core::audit::{Audit, AuditEvent, AuditKind, AuditLine};
use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

use self::{file::AuditFile, pending::PendingEvents};

pub use self::read::{AuditReader, AuditText};

/// The longest line. Each of its texts is cut, so that it has some 8 KiB at most, even if every character is escaped.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// How often old files are looked for while nothing is written. The retention is in days.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(3600);

/// Where the log is, and how much of it stays.
#[derive(Debug, Clone)]
pub struct AuditSettings {
    pub folder: PathBuf,
    /// A larger file is moved aside, and a new one begun.
    pub file_bytes_max: u64,
    /// Files whose last line is older than this are removed.
    pub max_age: Duration,
    /// The oldest files are removed if all are larger than this.
    pub bytes_max: u64,
}

/// The audit log of this process. Dropping it ends its thread soon; [`AuditLog::close`] returns when everything is written.
pub struct AuditLog(Arc<AuditState>);

struct AuditState {
    pending: Mutex<PendingState>,
    /// Wakes the thread.
    work: Condvar,
    lost: AtomicU64,
    /// Why the last line could not be written.
    trouble: Mutex<Option<Arc<str>>>,
    /// How many lines the thread has written.
    written: watch::Sender<u64>,
    ended: watch::Sender<bool>,
}

#[derive(Default)]
struct PendingState {
    events: PendingEvents,
    closing: bool,
}

impl AuditLog {
    /// Starts the thread. It makes the file with the first line.
    pub fn start(settings: AuditSettings) -> std::io::Result<Self> {
        let state = Arc::new(AuditState {
            pending: Mutex::default(),
            work: Condvar::new(),
            lost: AtomicU64::new(0),
            trouble: Mutex::default(),
            written: watch::Sender::new(0),
            ended: watch::Sender::new(false),
        });
        let of_thread = state.clone();
        thread::Builder::new().name("audit".to_owned()).spawn(move || {
            of_thread.write_until_closed(AuditFile::new(settings));
            of_thread.ended.send_replace(true);
        })?;
        Ok(Self(state))
    }

    /// Writes what is pending, and ends the thread.
    pub async fn close(&self) {
        self.0.close();
        // The sender is part of the state that this log holds, so waiting does not fail.
        let _ = self.0.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// How many lines this process has written.
    pub fn written(&self) -> watch::Receiver<u64> {
        self.0.written.subscribe()
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Audit for AuditLog {
    fn report(&self, event: AuditEvent) {
        let mut pending = self.0.pending.lock();
        let kept = pending.events.add(event, SystemTime::now(), Instant::now());
        let wakes = pending.events.has_fresh();
        drop(pending);
        if !kept {
            self.0.lost.fetch_add(1, Ordering::Relaxed);
        }
        if wakes {
            self.0.work.notify_one();
        }
    }

    fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    fn health(&self) -> Result<(), Arc<str>> {
        self.0.trouble.lock().clone().map_or(Ok(()), Err)
    }
}

impl AuditState {
    fn close(&self) {
        self.pending.lock().closing = true;
        self.work.notify_one();
    }

    fn write_until_closed(&self, mut file: AuditFile) {
        let mut maintenance = Instant::now();
        loop {
            if Instant::now() >= maintenance {
                maintenance = Instant::now() + MAINTENANCE_INTERVAL;
                if let Err(error) = file.maintain(SystemTime::now()) {
                    tracing::warn!(%error, "cannot remove old lines of the audit log");
                }
            }
            let (lines, closing) = self.wait_for_lines(maintenance);
            for line in &lines {
                let written = file.append(line, SystemTime::now());
                self.report_write(line, written);
            }
            if closing {
                return;
            }
        }
    }

    /// Waits until there are lines to write, until `deadline`, or until the log closes.
    fn wait_for_lines(&self, deadline: Instant) -> (Vec<AuditLine>, bool) {
        let mut pending = self.pending.lock();
        loop {
            let now = Instant::now();
            let is_over = pending.events.window_ends().is_some_and(|end| end <= now);
            if pending.closing || is_over {
                return (pending.events.end_window(), pending.closing);
            }
            if pending.events.has_fresh() {
                return (pending.events.take_fresh(), false);
            }
            if now >= deadline {
                return (Vec::new(), false);
            }
            let until = pending.events.window_ends().map_or(deadline, |end| end.min(deadline));
            self.work.wait_until(&mut pending, until);
        }
    }

    fn report_write(&self, line: &AuditLine, written: std::io::Result<()>) {
        match written {
            Ok(()) => {
                if self.trouble.lock().take().is_some() {
                    tracing::info!("the audit log is written again");
                }
                self.written.send_modify(|lines| *lines += 1);
            }
            Err(error) => {
                let why: Arc<str> = error.to_string().into();
                if self.trouble.lock().replace(why).is_none() {
                    tracing::warn!(%error, "cannot write the audit log; lost events are counted");
                }
                // The number of a line about lost events is part of the total already.
                if line.event.kind != AuditKind::EventsLost {
                    self.lost.fetch_add(line.count, Ordering::Relaxed);
                }
                self.pending.lock().events.add_lost(line.count, Instant::now());
            }
        }
    }
}
