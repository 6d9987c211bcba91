//! The browser that a process drives, where greenroom can see it: one that was started for the seat, with everything in
//! it, or one that somebody else runs, in which the seat has tabs of its own.
//!
//! [`Base`] is the browser with greenroom's own connection to it, [`SeatBrowser`] what of it is one seat's. What a seat
//! looks at is known from the observer, and a browser or page that died is noticed by exit and observer, never by what
//! the engine says. One of ours comes before its process and ends after it; of another's only own tabs are closed.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use greenroom_core::{Crash, Lost, Raw, StartError, Unwell, View};
use tokio::{
    sync::{Mutex, watch},
    task::JoinSet,
    time::timeout,
};

use crate::{
    cdp_proxy::Targets,
    chromium::ChromiumSpec,
    downloads::Downloads,
    driven::{Driven, EXIT},
    endpoint::Endpoint,
    launcher::Launcher,
    loss::declare,
    observer::{Crashes, Observer, Scope, TabPlace, Watched},
    own_tabs::OwnTabs,
    ports::Ports,
    run_folder::RunFolder,
    vital_processes::VitalProcesses,
};

/// How long own tabs may take to close. A page that hangs takes half a second; with the grace of a process this stays
/// below the five seconds that a seat has to close.
const TABS: Duration = Duration::from_millis(2_500);

/// How long a call waits for crashed tabs to be reset. Usual is a tenth of a second.
const RESET: Duration = Duration::from_secs(2);

/// A browser and greenroom's own connection to it.
pub(crate) struct Base {
    shared: Arc<Shared>,
    /// Waits for the end of the browser.
    _watcher: JoinSet<()>,
}

struct Shared {
    driven: Driven,
    observer: Observer,
    vital: VitalProcesses,
    /// How the browser ended.
    lost: watch::Sender<Option<Lost>>,
    /// Whether a ping has not been answered.
    unanswered: AtomicBool,
}

impl Base {
    pub(crate) async fn start(
        launcher: &Launcher,
        run: &RunFolder,
        ports: &Ports,
        spec: &ChromiumSpec,
    ) -> Result<Self, StartError> {
        // All of the browser is its seat's.
        Ok(Self::new(Driven::start(launcher, run, ports, spec, Targets::All, None).await?))
    }

    pub(crate) async fn attach(
        endpoint: &Arc<Endpoint>,
        run: &RunFolder,
        ports: &Ports,
    ) -> Result<Self, StartError> {
        Ok(Self::new(Driven::attach(endpoint, run, ports, Targets::responsive(), None).await?))
    }

    fn new((driven, observer): (Driven, Observer)) -> Self {
        let (lost, unanswered) = (watch::Sender::new(None), AtomicBool::new(false));
        let vital = VitalProcesses::default();
        let shared = Arc::new(Shared { driven, observer, vital, lost, unanswered });
        let mut watcher = JoinSet::new();
        let watched = shared.clone();
        watcher.spawn(async move {
            let Shared { driven, observer, vital, .. } = &*watched;
            let lost = tokio::select! {
                lost = driven.ended(observer) => lost,
                lost = vital.lost(driven, observer) => lost,
            };
            // What a browser last said may be a page's words, so no agent hears it; the log does. One that lost a
            // process that it needs still runs.
            if let Some(process) = watched.driven.process()
                && watched.lost.borrow().is_none()
                && matches!(lost, Lost::Browser { .. })
            {
                tracing::warn!(process = process.name(), last_words = %process.last_words(), "ended unasked");
            }
            declare(&watched.lost, lost);
        });
        Self { shared, _watcher: watcher }
    }

    pub(crate) fn driven(&self) -> &Driven {
        &self.shared.driven
    }

    pub(crate) fn observer(&self) -> &Observer {
        &self.shared.observer
    }

    /// Becomes `Some` when the browser has ended, or can no longer be observed.
    pub(crate) fn lost(&self) -> watch::Receiver<Option<Lost>> {
        self.shared.lost.subscribe()
    }

    /// Why it is gone, if it is: asks the browser itself, since its end may not have been seen yet.
    pub(crate) async fn gone(&self) -> Option<Lost> {
        let mut lost = self.lost();
        if !self.observer().is_gone().await {
            return lost.borrow().clone();
        }
        // Whoever watches over it takes up to `EXIT` itself.
        match timeout(2 * EXIT, lost.wait_for(Option::is_some)).await {
            Ok(Ok(lost)) => lost.clone(),
            Ok(Err(_)) | Err(_) => Some(Lost::Protocol("the browser's debugger is gone".into())),
        }
    }

    /// Waits for a sign of life.
    pub(crate) async fn ping(&self) -> Result<(), Unwell> {
        self.shared.vital.look_again();
        self.shared.unanswered.store(true, Ordering::Relaxed);
        let answer = self.observer().ping().await;
        self.shared.unanswered.store(false, Ordering::Relaxed);
        answer.map_err(|error| Unwell(format!("the browser is unwell: {error}{}", self.which()).into()))
    }

    pub(crate) fn silent(&self) -> Option<Arc<str>> {
        let unanswered = self.shared.unanswered.load(Ordering::Relaxed);
        unanswered.then(|| format!("the browser did not answer{}", self.which()).into())
    }

    fn pid(&self) -> Option<u32> {
        self.driven().process().map(crate::process::Process::pid)
    }

    /// For messages: which process it is.
    fn which(&self) -> String {
        self.pid().map(|pid| format!(": process {pid}")).unwrap_or_default()
    }

    /// Ends the browser if it is ours: politely within `grace`, then by force.
    pub(crate) async fn stop(&self, grace: Duration) {
        declare(&self.shared.lost, Lost::Shutdown);
        self.driven().stop(grace).await;
    }
}

/// What of a browser is one seat's.
pub(crate) struct SeatBrowser {
    base: Arc<Base>,
    /// The seat's tabs, where others are not its own, and the first of them.
    tabs: Option<(Mutex<OwnTabs>, String)>,
    /// What a browser that is all the seat's downloads.
    downloads: Option<Arc<Downloads>>,
    view: watch::Receiver<View>,
    crashes: watch::Receiver<Crashes>,
    /// How many of these tabs have been reset.
    resets: watch::Sender<u64>,
}

impl SeatBrowser {
    /// All of a browser that was started for the seat. It gets a first, empty tab unless it has windows, which have one,
    /// and downloads into this folder.
    pub(crate) async fn whole(
        base: Base,
        spec: &ChromiumSpec,
        folder: &Path,
        downloads: Arc<Downloads>,
    ) -> Result<Self, StartError> {
        let observer = base.observer();
        let seen = async {
            if spec.headless {
                let failed = |error| StartError::new(format!("the browser opens no tab: {error}"));
                let tab = observer.open_tab(EMPTY, TabPlace::InFront).await.map_err(failed)?;
                observer.resize(&tab, spec.window).await;
            }
            if let Err(error) = observer.downloads_to(folder, downloads.clone()).await {
                tracing::debug!(%error, "the browser does not say where downloads go");
            }
            observer.watch(&Scope::Browser).await.ok_or_else(|| StartError::new("the browser is gone"))
        };
        match seen.await {
            Ok(Watched { view, crashes }) => Ok(Self {
                base: Arc::new(base),
                tabs: None,
                downloads: Some(downloads),
                view,
                crashes,
                resets: watch::Sender::new(0),
            }),
            Err(error) => {
                base.stop(Duration::ZERO).await;
                Err(error)
            }
        }
    }

    /// Tabs of its own among somebody else's. The first one is opened at this address; the list of them is in this folder.
    pub(crate) async fn among(base: Arc<Base>, folder: &Path, url: &str) -> Result<Self, StartError> {
        let (mut own, tab) = OwnTabs::open(base.observer(), folder, url, TabPlace::InFront).await?;
        base.driven().opened(&tab);
        match base.observer().watch(&own.scope()).await {
            Some(Watched { view, crashes }) => Ok(Self {
                base,
                tabs: Some((Mutex::new(own), tab)),
                downloads: None,
                view,
                crashes,
                resets: watch::Sender::new(0),
            }),
            None => {
                let _ = own.close(base.observer()).await;
                Err(StartError::new("the browser is gone"))
            }
        }
    }

    /// The address of its debugger.
    pub(crate) fn address(&self) -> &str {
        self.base.driven().address()
    }

    /// An engine's answer without the way to the browser.
    pub(super) fn answer_without_secret(&self, body: Result<Raw, Raw>) -> Result<Raw, Raw> {
        self.base.driven().cdp_proxy.answer_without_secret(body)
    }

    /// The tab that was opened for the seat among somebody else's.
    pub(crate) fn first_tab(&self) -> Option<&str> {
        self.tabs.as_ref().map(|(_, first)| first.as_str())
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.base.pid()
    }

    /// Resolves when its seat can take no more calls because of it.
    pub(super) fn lost(&self) -> impl Future<Output = Lost> + Send + 'static {
        let (mut browser, mut crashes) = (self.base.lost(), self.crashes.clone());
        let is_theirs = self.tabs.is_some();
        async move {
            let gone = async { browser.wait_for(Option::is_some).await.ok().and_then(|why| why.clone()) };
            let crashed = async {
                let crashes = crashes.wait_for(|crashes| why_lost(crashes, is_theirs).is_some()).await;
                crashes.ok().and_then(|crashes| why_lost(&crashes, is_theirs))
            };
            // Where nobody tells any more, whoever held the browser is gone.
            tokio::select! {
                Some(why) = gone => why,
                Some(why) = crashed => why,
                else => std::future::pending().await,
            }
        }
    }

    /// The crashes of its tabs after the first `told` ones, and how many there were in all.
    pub(super) fn crashes_since(&self, told: u64) -> (Vec<Crash>, u64) {
        let crashes = self.crashes.borrow();
        (crashes.since(told).map(|(_, crash)| crash.clone()).collect(), crashes.count)
    }

    /// What it downloads, where that is counted.
    pub(super) fn downloads(&self) -> Option<&Arc<Downloads>> {
        self.downloads.as_ref()
    }

    pub(super) fn view(&self) -> watch::Receiver<View> {
        self.view.clone()
    }

    /// Has every tab that crashes show an empty page, for as long as anybody waits for this. The engine would use the crashed
    /// one for ever, and hang with it.
    pub(super) fn reset_crashed(&self) -> impl Future<Output = ()> + Send + 'static {
        let (base, mut crashes, resets) = (self.base.clone(), self.crashes.clone(), self.resets.clone());
        let is_theirs = self.tabs.is_some();
        async move {
            if is_theirs {
                return;
            }
            let mut seen = 0;
            while crashes.wait_for(|crashes| crashes.count > seen).await.is_ok() {
                let tabs: Vec<_> = {
                    let crashes = crashes.borrow();
                    let new = crashes.since(seen).map(|(tab, _)| tab.to_owned()).collect();
                    seen = crashes.count;
                    new
                };
                for tab in tabs {
                    if let Err(error) = base.observer().reset_tab(&tab).await {
                        tracing::debug!(%error, "a crashed tab stays as it is");
                    }
                }
                resets.send_replace(seen);
            }
        }
    }

    /// Waits until tabs that are known to have crashed are reset: a call must not open a page that is then replaced.
    pub(super) async fn until_reset(&self) {
        let count = self.crashes.borrow().count;
        if self.tabs.is_none() {
            let mut resets = self.resets.subscribe();
            let _ = timeout(RESET, resets.wait_for(|resets| *resets >= count)).await;
        }
    }

    /// Takes note of new tabs, and looks at all pages anew: their titles may have changed unannounced.
    pub(super) async fn refresh(&self) {
        self.look().await;
        self.base.observer().refresh().await;
    }

    async fn look(&self) {
        if let Some((tabs, _)) = &self.tabs {
            tabs.lock().await.look(self.base.observer()).await;
        }
    }

    /// Why the seat is gone, if it is: asks the browser itself, since what happened may not have been seen yet.
    pub(super) async fn gone(&self) -> Option<Lost> {
        self.look().await;
        let gone = self.base.gone().await;
        gone.or_else(|| why_lost(&self.crashes.borrow(), self.tabs.is_some()))
    }

    pub(super) async fn ping(&self) -> Result<(), Unwell> {
        self.base.ping().await
    }

    pub(super) fn silent(&self) -> Option<Arc<str>> {
        self.base.silent()
    }

    /// Closes own tabs among somebody else's, before all else: whoever the browser belongs to sees them. What cannot be
    /// closed now is closed with the instance.
    pub(super) async fn leave(&self) {
        let Some((tabs, _)) = &self.tabs else { return };
        let mut tabs = tabs.lock().await;
        let observer = self.base.observer();
        if !matches!(timeout(TABS, tabs.close(observer)).await, Ok(Ok(()))) {
            tracing::debug!("own tabs stay open for now");
        }
        observer.forget(&tabs.scope()).await;
    }

    /// Ends a browser that was started for the seat.
    pub(super) async fn stop(&self, grace: Duration) {
        if self.tabs.is_none() {
            self.base.stop(grace).await;
        }
    }
}

/// Why crashes of its tabs cost a seat. Among somebody else's tabs one is enough: the engine cannot go on in a tab that was
/// reset there (seen: it waits in vain for its next page). Cookies and logins are the browser's own there, and stay.
fn why_lost(crashes: &Crashes, is_theirs: bool) -> Option<Lost> {
    let first = || crashes.since(0).next().map(|(_, crash)| Lost::Page(crash.why.clone()));
    crashes.lost.clone().or_else(|| if is_theirs { first() } else { None })
}

/// Where a tab begins that nothing was asked of yet.
pub(crate) const EMPTY: &str = "about:blank";
