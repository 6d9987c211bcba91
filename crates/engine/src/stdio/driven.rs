//! The browser that a process drives, where greenroom started it: it comes before its process and ends after it.
//!
//! It is one seat's, with everything in it, and is seen through greenroom's own observer. So what the seat looks at is
//! known, and a browser or page that died is noticed by its exit and by the observer, never by what the engine says.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use greenroom_core::{Lost, StartError, Unwell, View};
use tokio::{sync::watch, task::JoinSet, time::timeout};

use crate::{
    chromium::{Chromium, ChromiumSpec},
    launcher::Launcher,
    loss::declare,
    observer::{Observer, Scope, Watched},
    ports::Ports,
    run_folder::RunFolder,
};

/// How long a dying browser may take until its exit is seen. Its debugger's connection ends at the same moment, and
/// whoever saw that waits here for the better explanation.
const EXIT: Duration = Duration::from_secs(2);

/// How long a browser of which nothing came may take to end by itself once asked.
const STOP_GRACE: Duration = Duration::from_millis(500);

pub(crate) struct Driven {
    shared: Arc<Shared>,
    view: watch::Receiver<View>,
    /// Waits for the end of the browser.
    _watcher: JoinSet<()>,
}

struct Shared {
    chromium: Chromium,
    observer: Observer,
    crashed: watch::Receiver<Option<Lost>>,
    /// What was said first: how the browser ended, or that a page did.
    lost: watch::Sender<Option<Lost>>,
    /// Whether a ping has not been answered.
    unanswered: AtomicBool,
}

impl Driven {
    /// Starts a browser with one empty tab, that downloads into this folder.
    pub(crate) async fn start(
        launcher: &Launcher,
        run: &RunFolder,
        ports: &Ports,
        spec: &ChromiumSpec,
        downloads: &Path,
    ) -> Result<Self, StartError> {
        let chromium = Chromium::start(launcher, run, ports, spec).await?;
        let seen = async {
            let observer = Observer::connect(&chromium.endpoint).await?;
            // One with windows has a tab already.
            if spec.headless {
                let failed = |error| StartError::new(format!("the browser opens no tab: {error}"));
                let tab = observer.open_tab().await.map_err(failed)?;
                observer.resize(&tab, spec.window).await;
            }
            if let Err(error) = observer.downloads_to(downloads).await {
                tracing::debug!(%error, "the browser does not say where downloads go");
            }
            let watched = observer.watch(&Scope::Browser).await;
            watched.map(|watched| (observer, watched)).ok_or_else(|| StartError::new("the browser is gone"))
        };
        match seen.await {
            Ok((observer, watched)) => Ok(Self::new(chromium, observer, watched)),
            Err(error) => {
                chromium.stop(STOP_GRACE).await;
                Err(error)
            }
        }
    }

    fn new(chromium: Chromium, observer: Observer, Watched { view, crashed }: Watched) -> Self {
        let (lost, unanswered) = (watch::Sender::new(None), AtomicBool::new(false));
        let shared = Arc::new(Shared { chromium, observer, crashed, lost, unanswered });
        let mut watcher = JoinSet::new();
        watcher.spawn(watch_over(shared.clone()));
        Self { shared, view, _watcher: watcher }
    }

    /// The address of its debugger.
    pub(crate) fn endpoint(&self) -> &str {
        &self.shared.chromium.endpoint
    }

    pub(crate) fn pid(&self) -> u32 {
        self.shared.chromium.process().pid()
    }

    /// Becomes `Some` once, when its seat can take no more calls because of it.
    pub(super) fn lost(&self) -> watch::Receiver<Option<Lost>> {
        self.shared.lost.subscribe()
    }

    pub(super) fn view(&self) -> watch::Receiver<View> {
        self.view.clone()
    }

    /// Looks at all pages anew: their titles may have changed unannounced.
    pub(super) async fn refresh(&self) {
        self.shared.observer.refresh().await;
    }

    /// Why the seat is gone, if it is: asks the browser itself, since what happened may not have been seen yet.
    pub(super) async fn gone(&self) -> Option<Lost> {
        let mut lost = self.shared.lost.subscribe();
        if self.shared.observer.sync().await.is_some() {
            let crash = self.shared.crashed.borrow().clone();
            return crash.or_else(|| lost.borrow().clone());
        }
        // Whoever watches over it takes up to `EXIT` itself.
        match timeout(2 * EXIT, lost.wait_for(Option::is_some)).await {
            Ok(Ok(lost)) => lost.clone(),
            Ok(Err(_)) | Err(_) => Some(debugger_gone()),
        }
    }

    /// Waits for a sign of life.
    pub(super) async fn ping(&self) -> Result<(), Unwell> {
        self.shared.unanswered.store(true, Ordering::Relaxed);
        let answer = self.shared.observer.ping().await;
        self.shared.unanswered.store(false, Ordering::Relaxed);
        answer
            .map_err(|error| Unwell(format!("the browser is unwell: {error}: process {}", self.pid()).into()))
    }

    pub(super) fn silent(&self) -> Option<Arc<str>> {
        let unanswered = self.shared.unanswered.load(Ordering::Relaxed);
        unanswered.then(|| format!("the browser did not answer: process {}", self.pid()).into())
    }

    /// Ends the browser: politely within `grace`, then by force.
    pub(super) async fn stop(&self, grace: Duration) {
        declare(&self.shared.lost, Lost::Shutdown);
        self.shared.chromium.stop(grace).await;
    }
}

/// Tells when the browser ends, or can no longer be observed, or has lost a page.
async fn watch_over(shared: Arc<Shared>) {
    let browser = shared.chromium.process();
    let mut crashed = shared.crashed.clone();
    let ended = |status| Lost::Browser { status, stderr_tail: Arc::default() };
    let crash = async { crashed.wait_for(Option::is_some).await.ok().and_then(|crash| crash.clone()) };
    let lost = tokio::select! {
        status = browser.wait() => ended(status),
        Some(crash) = crash => crash,
        () = shared.observer.ended() => match timeout(EXIT, browser.wait()).await {
            Ok(status) => ended(status),
            Err(_) => debugger_gone(),
        }
    };
    // What a browser last said may be a page's words, so no agent hears it; the log does.
    if matches!(lost, Lost::Browser { .. }) && shared.lost.borrow().is_none() {
        tracing::warn!(process = browser.name(), last_words = %browser.last_words(), "ended unasked");
    }
    declare(&shared.lost, lost);
}

fn debugger_gone() -> Lost {
    Lost::Protocol("the browser's debugger is gone".into())
}
