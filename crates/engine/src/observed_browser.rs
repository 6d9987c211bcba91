//! A browser with greenroom's own connection to it. A task here waits for the end of the browser, or of a helper process
//! that it needs, and declares the [`Loss`] that seats and supervisors follow. It learns of both from process exits and the
//! observer, never from the engine.

use std::{sync::Arc, time::Duration};

use greenroom_core::{HealthCheckFailed, Lost};
use tokio::{sync::watch, task::JoinSet, time::timeout};

use crate::{
    browser_handle::{BROWSER_EXIT_WITHIN, BrowserHandle},
    loss::Loss,
    observer::Observer,
    overload,
    ping_state::PingState,
    process::Process,
    profile_limit,
    vital_processes::VitalProcesses,
};

pub(crate) struct ObservedBrowser {
    shared: Arc<ObservedState>,
    /// Waits for the end of the browser, ends pages that overload it, and gives the browser up when it exceeds a limit.
    _watcher: JoinSet<()>,
}

struct ObservedState {
    handle: BrowserHandle,
    observer: Observer,
    vital: VitalProcesses,
    /// How the browser ended.
    loss: Loss,
    ping: PingState,
}

impl ObservedBrowser {
    /// `loss` is declared when the browser ends; it may be that of an instance.
    pub(crate) fn new(handle: BrowserHandle, observer: Observer, loss: Loss) -> Self {
        let shared = Arc::new(ObservedState {
            handle,
            observer,
            vital: VitalProcesses::default(),
            loss,
            ping: PingState::default(),
        });
        let mut watcher = JoinSet::new();
        let watched = shared.clone();
        watcher.spawn(async move {
            let ObservedState { handle, observer, vital, .. } = &*watched;
            let lost = tokio::select! {
                lost = handle.ended(observer) => lost,
                lost = vital.lost(handle, observer) => lost,
            };
            // A browser's last output may be a page's text, so it goes to the log and to no agent. A browser that lost a
            // helper process still runs.
            if let Some(process) = watched.handle.process()
                && watched.loss.known().is_none()
                && matches!(lost, Lost::Browser { .. })
            {
                tracing::warn!(process = process.name(), last_output = %process.stderr_tail(), "the process ended unexpectedly");
            }
            watched.loss.declare(lost);
        });
        let watched = shared.clone();
        watcher.spawn(async move {
            let lost = tokio::select! {
                lost = overload::watch(&watched.handle, &watched.observer) => lost,
                lost = profile_limit::exceeded(&watched.handle) => lost,
            };
            watched.loss.declare(lost);
        });
        Self { shared, _watcher: watcher }
    }

    pub(crate) fn handle(&self) -> &BrowserHandle {
        &self.shared.handle
    }

    pub(crate) fn observer(&self) -> &Observer {
        &self.shared.observer
    }

    /// Becomes `Some` when the browser has ended, or can no longer be observed.
    pub(crate) fn lost(&self) -> watch::Receiver<Option<Lost>> {
        self.shared.loss.subscribe()
    }

    /// The reason if the browser is gone: asks the browser itself, since its end may not have been seen yet.
    pub(crate) async fn gone(&self) -> Option<Lost> {
        let mut lost = self.lost();
        if !self.observer().is_gone().await {
            return lost.borrow().clone();
        }
        // The task that watches the browser may itself wait for `BROWSER_EXIT_WITHIN`.
        match timeout(2 * BROWSER_EXIT_WITHIN, lost.wait_for(Option::is_some)).await {
            Ok(Ok(lost)) => lost.clone(),
            Ok(Err(_)) | Err(_) => Some(Lost::Protocol("the browser's debugger is gone".into())),
        }
    }

    /// Pings the browser.
    pub(crate) async fn ping(&self) -> Result<(), HealthCheckFailed> {
        let check_failed = |error| {
            HealthCheckFailed(format!("the browser is unwell: {error}{}", self.process_suffix()).into())
        };
        self.ping_plain().await.map_err(check_failed)
    }

    /// Pings the browser and returns the CDP error as it is; the playwright instance makes its own message of
    /// it.
    pub(crate) async fn ping_plain(&self) -> Result<(), greenroom_cdp::Error> {
        self.shared.vital.retry_search();
        self.shared.ping.track(self.observer().ping()).await
    }

    pub(crate) fn silent(&self) -> Option<Arc<str>> {
        self.is_silent().then(|| format!("the browser did not answer{}", self.process_suffix()).into())
    }

    /// Whether the browser left the last ping unanswered.
    pub(crate) fn is_silent(&self) -> bool {
        self.shared.ping.is_unanswered()
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.handle().process().map(Process::pid)
    }

    /// For messages: the browser's process.
    fn process_suffix(&self) -> String {
        self.pid().map(|pid| format!(": process {pid}")).unwrap_or_default()
    }

    /// Ends the browser if greenroom started it: with SIGTERM, and after `grace` by force.
    pub(crate) async fn stop(&self, grace: Duration) {
        self.shared.loss.declare(Lost::Shutdown);
        self.handle().stop(grace).await;
    }
}
