//! One process, or one session with a server, that serves a seat or waits for one, with its browser if greenroom observes
//! that: health checks, and an orderly end.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use greenroom_core::{HealthCheckFailed, Lost, NoAgent, Raw, raw::encode};
use greenroom_mcp::PeerError;
use serde_json::json;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{CLOSE_TOOL, SeatBrowser};
use crate::{
    disk_use::{self, DiskUse, MEASURE_EVERY},
    downloads::Downloads,
    loss::Loss,
    ping_state::PingState,
    process::Process,
    seat_folder::SeatFolder,
    upstream::Upstream,
};

/// How long an engine may take to close its browser. It usually takes milliseconds; a page that hangs may delay it, and with
/// [`STOP_GRACE`] this stays below the five seconds that a seat has to close.
const CLOSE_BROWSER_WITHIN: Duration = Duration::from_millis(2_500);

/// How long a process may take to exit once asked.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// How long a remote server may take to end a session. It usually takes milliseconds; from far away some more.
const END_SESSION_WITHIN: Duration = Duration::from_secs(2);

pub(crate) struct SeatProcess {
    /// `None` for a server that greenroom did not start.
    process: Option<Process>,
    pub(super) upstream: Upstream,
    pub(super) folder: SeatFolder,
    pub(super) browser: Option<SeatBrowser>,
    /// The first declared reason: how the process or its browser ended, or why greenroom ends them.
    pub(super) loss: Loss,
    has_close: bool,
    /// Whether a call runs.
    pub(super) busy: watch::Sender<bool>,
    /// Whether greenroom itself is ending the process.
    being_ended: AtomicBool,
    ping: PingState,
    /// Watches the browser.
    _watcher: JoinSet<()>,
}

/// How much disk space the files in a seat's folder take. Downloads there count with their final size.
pub(super) async fn disk_used(folder: &Path, downloads: Option<&Arc<Downloads>>) -> DiskUse {
    let files = disk_use::measure_folder(folder, None).await;
    match downloads {
        Some(downloads) => files.counted_in(|bytes| downloads.note_all_files(&None, bytes)),
        None => files,
    }
}

/// Resolves when a seat's files take twice the allowed space. A browser does not announce a download whose frame is gone
/// when it begins, so greenroom cannot cancel it by its id; this ends it with its browser.
async fn disk_overrun(folder: &Path, downloads: &Arc<Downloads>) -> Lost {
    loop {
        sleep(MEASURE_EVERY).await;
        let used = disk_used(folder, Some(downloads)).await;
        if let Some(why) = disk_overrun_reason(&used, downloads.bytes_max()) {
            return Lost::HealthCheckFailed(why.into());
        }
    }
}

/// Why a seat's files end it, if they do. Only their known size counts, not their number or an unreadable folder.
fn disk_overrun_reason(used: &DiskUse, bytes_max: u64) -> Option<String> {
    let used = match used {
        DiskUse::Bytes(bytes) | DiskUse::TooManyFiles { bytes_min: bytes } => *bytes,
        DiskUse::Unreadable(_) => return None,
    };
    (used / 2 > bytes_max).then(|| {
        format!("its files take {used} bytes, and {bytes_max} are allowed (sessions.disk_bytes_max)")
    })
}

impl SeatProcess {
    pub(super) fn new(
        process: Option<Process>,
        upstream: Upstream,
        folder: SeatFolder,
        browser: Option<SeatBrowser>,
        has_close: bool,
    ) -> Self {
        let being_ended = AtomicBool::new(false);
        let ping = PingState::default();
        let loss = process.as_ref().map(Loss::of_process).unwrap_or_default();
        let busy = watch::Sender::new(false);
        let mut watcher = JoinSet::new();
        if process.is_none() {
            let loss = loss.clone();
            let closed = upstream.closed();
            watcher.spawn(async move {
                closed.await;
                loss.declare(Lost::Protocol(PeerError::Closed.to_string().into()));
            });
        }
        if let Some(gone) = browser.as_ref().map(SeatBrowser::lost) {
            let loss = loss.clone();
            watcher.spawn(async move { loss.declare(gone.await) });
        }
        if let Some(resets) = browser.as_ref().map(SeatBrowser::reset_crashed_tabs) {
            watcher.spawn(resets);
        }
        if let Some(downloads) = browser.as_ref().and_then(SeatBrowser::downloads) {
            let loss = loss.clone();
            let folder = folder.path().to_owned();
            let downloads = downloads.clone();
            watcher.spawn(async move { loss.declare(disk_overrun(&folder, &downloads).await) });
        }
        let _watcher = watcher;
        Self { process, upstream, folder, browser, loss, has_close, busy, being_ended, ping, _watcher }
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }

    /// For messages: the process.
    fn process_suffix(&self) -> String {
        self.pid().map(|pid| format!(": process {pid}")).unwrap_or_default()
    }

    pub(super) fn browser_pid(&self) -> Option<u32> {
        self.browser.as_ref().and_then(SeatBrowser::pid)
    }

    pub(super) fn name(&self) -> &str {
        self.process.as_ref().map_or("server", Process::name)
    }

    pub(super) fn is_running(&self) -> bool {
        match &self.process {
            Some(process) => process.exit().borrow().is_none(),
            None => self.is_healthy(),
        }
    }

    /// A session without a process is lost with its connection; nothing else reports the loss.
    pub(super) fn connection_broke(&self, gone: &PeerError) {
        if self.process.is_none() {
            self.loss.declare(Lost::Protocol(gone.to_string().into()));
        }
    }

    /// Whether no fault is known.
    pub(super) fn is_healthy(&self) -> bool {
        self.loss.known().is_none()
    }

    /// Becomes `Some` when the process or its browser has ended, or is marked as lost.
    pub(super) fn lost(&self) -> watch::Receiver<Option<Lost>> {
        self.loss.subscribe()
    }

    /// Declares the process lost before greenroom kills it, so that its seat reports this reason and not the kill.
    pub(super) fn mark_lost(&self, why: Lost) {
        self.being_ended.store(true, Ordering::Relaxed);
        self.loss.declare(why);
    }

    pub(super) fn is_being_ended(&self) -> bool {
        self.being_ended.load(Ordering::Relaxed)
    }

    /// Asks for a sign of life. A process that does one thing at a time gives none during a call, and a call that begins
    /// meanwhile delays the answer: neither is a fault.
    pub(super) async fn ping(&self, during_calls: bool) -> Result<(), HealthCheckFailed> {
        let mut busy = self.busy.subscribe();
        let busy = async {
            if during_calls || busy.wait_for(|busy| *busy).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let answer = self.ping.track(async {
            tokio::select! {
                biased;
                () = busy => Ok(()),
                answer = self.upstream.ping() => answer,
            }
        });
        let check_failed =
            |gone| HealthCheckFailed(format!("the engine is unwell: {gone}{}", self.process_suffix()).into());
        let answer = match (answer.await, &self.browser) {
            (Ok(()), Some(browser)) => browser.ping().await,
            (answer, _) => answer.map_err(check_failed),
        };
        // A process that is being ended need not answer.
        answer.or_else(|failure| if self.is_being_ended() { Ok(()) } else { Err(failure) })
    }

    pub(super) fn silent(&self) -> Option<Arc<str>> {
        let engine = self
            .ping
            .is_unanswered()
            .then(|| format!("the engine did not answer{}", self.process_suffix()).into());
        engine.or_else(|| self.browser.as_ref()?.silent())
    }

    /// Ends the process in order: closes its browser, or its own tabs in one, then asks the process to exit, then kills it.
    /// A browser that greenroom started for it is ended last.
    pub(super) async fn close_and_stop(&self) {
        self.being_ended.store(true, Ordering::Relaxed);
        if self.has_close && self.is_running() {
            let call = close_call();
            let mut lost = self.lost();
            let closed = timeout(CLOSE_BROWSER_WITHIN, async {
                tokio::select! {
                    _ = lost.wait_for(Option::is_some) => {}
                    _ = self.upstream.call(&call, Arc::new(NoAgent)) => {}
                }
            });
            if closed.await.is_err() {
                tracing::debug!(engine = self.name(), pid = self.pid(), "does not close its browser");
            }
        }
        self.stop(STOP_GRACE).await;
    }

    /// Ends the process: asks it to exit, and kills it after `grace`.
    pub(super) async fn stop(&self, grace: Duration) {
        self.being_ended.store(true, Ordering::Relaxed);
        if let Some(browser) = &self.browser {
            browser.close_own_tabs().await;
        }
        match &self.process {
            Some(process) => process.stop(grace).await,
            None => {
                let _ = timeout(END_SESSION_WITHIN, self.upstream.close()).await;
            }
        }
        if let Some(browser) = &self.browser {
            browser.stop(grace).await;
        }
        self.folder.clear().await;
    }
}

fn close_call() -> Raw {
    encode(&json!({ "name": CLOSE_TOOL, "arguments": {} }))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// Only files that take too much end a seat: not their number, and not an unreadable folder.
    #[test]
    fn only_too_large_files_end_a_seat() {
        const MAX: u64 = 1 << 20;
        for (used, ends) in [
            (DiskUse::Bytes(2 * MAX), false),
            (DiskUse::Bytes(2 * MAX + 2), true),
            (DiskUse::TooManyFiles { bytes_min: 0 }, false),
            (DiskUse::TooManyFiles { bytes_min: 2 * MAX + 2 }, true),
            (DiskUse::Unreadable(io::Error::other("no luck")), false),
        ] {
            let why = disk_overrun_reason(&used, MAX);
            assert_eq!(why.is_some(), ends, "{used:?}: {why:?}");
        }
    }
}
