//! The browser that a process drives, if greenroom can observe it: a browser that was started for the seat and belongs to it
//! entirely, or an attached one, in which the seat has tabs of its own.
//!
//! [`ObservedBrowser`] is the browser with greenroom's own connection to it, [`SeatBrowser`] the part of it that belongs to
//! one seat. The observer reports the seat's current page. A browser that greenroom starts for a seat starts before the
//! engine's process and ends after it; in an attached browser greenroom closes only the seat's own tabs.

use std::{path::Path, sync::Arc, time::Duration};

use greenroom_core::{Crash, HealthCheckFailed, Lost, Raw, StartError, View, port::EgressPort};
use tokio::{
    sync::{Mutex, watch},
    time::timeout,
};

use crate::{
    chromium::ChromiumSpec,
    downloads::Downloads,
    observed_browser::ObservedBrowser,
    observer::{Crashes, Scope, TabPosition, WatchedPages},
    own_tabs::OwnTabs,
};

/// How long own tabs may take to close. A page that hangs takes half a second; with the grace of a process this stays below
/// the five seconds that a seat has to close.
const CLOSE_TABS_WITHIN: Duration = Duration::from_millis(2_500);

/// How long a call waits for crashed tabs to be reset. It usually takes a tenth of a second.
const RESET_WITHIN: Duration = Duration::from_secs(2);

/// The part of a browser that belongs to one seat.
pub(crate) struct SeatBrowser {
    browser: Arc<ObservedBrowser>,
    /// The seat's own tabs in an attached browser, and the first of them.
    tabs: Option<(Mutex<OwnTabs>, String)>,
    /// The downloads of a browser that belongs to the seat entirely.
    downloads: Option<Arc<Downloads>>,
    /// The egress port of a browser that belongs to the seat entirely.
    egress_port: Option<Arc<dyn EgressPort>>,
    view: watch::Receiver<View>,
    crashes: watch::Receiver<Crashes>,
    /// How many crashed tabs have been reset.
    resets: watch::Sender<u64>,
}

impl SeatBrowser {
    /// A whole browser that was started for the seat. A headless one gets a first, empty tab; a window has a tab
    /// already. Downloads go into this folder.
    pub(crate) async fn exclusive(
        browser: ObservedBrowser,
        spec: &ChromiumSpec,
        folder: &Path,
        downloads: Arc<Downloads>,
        egress_port: Option<Arc<dyn EgressPort>>,
    ) -> Result<Self, StartError> {
        let observer = browser.observer();
        let watch_pages = async {
            if spec.headless {
                let failed = |error| StartError::new(format!("the browser cannot open a tab: {error}"));
                let tab = observer.open_tab(EMPTY_PAGE, TabPosition::InFront).await.map_err(failed)?;
                observer.resize(&tab, spec.window).await;
            }
            if let Err(error) = observer.downloads_to(folder, downloads.clone()).await {
                tracing::debug!(%error, "cannot set the browser's download folder");
            }
            observer.watch(&Scope::Browser).await.ok_or_else(|| StartError::new("the browser is gone"))
        };
        match watch_pages.await {
            Ok(WatchedPages { view, crashes }) => Ok(Self {
                browser: Arc::new(browser),
                tabs: None,
                downloads: Some(downloads),
                egress_port,
                view,
                crashes,
                resets: watch::Sender::new(0),
            }),
            Err(error) => {
                browser.stop(Duration::ZERO).await;
                Err(error)
            }
        }
    }

    /// Tabs of the seat's own in an attached browser. The first one opens at this address; this folder has the list of
    /// them.
    pub(crate) async fn in_attached_browser(
        browser: Arc<ObservedBrowser>,
        folder: &Path,
        url: &str,
    ) -> Result<Self, StartError> {
        let (mut own, tab) = OwnTabs::open(browser.observer(), folder, url, TabPosition::InFront).await?;
        browser.handle().declare_own_tab(&tab);
        match browser.observer().watch(&own.scope()).await {
            Some(WatchedPages { view, crashes }) => Ok(Self {
                browser,
                tabs: Some((Mutex::new(own), tab)),
                downloads: None,
                egress_port: None,
                view,
                crashes,
                resets: watch::Sender::new(0),
            }),
            None => {
                let _ = own.close(browser.observer()).await;
                Err(StartError::new("the browser is gone"))
            }
        }
    }

    /// The address of its debugger.
    pub(crate) fn address(&self) -> &str {
        self.browser.handle().address()
    }

    /// An engine's answer without the secret address of the browser.
    pub(super) fn answer_without_secret(&self, body: Result<Raw, Raw>) -> Result<Raw, Raw> {
        self.browser.handle().cdp_proxy.answer_without_secret(body)
    }

    /// The first tab that greenroom opened for the seat in an attached browser.
    pub(crate) fn first_tab(&self) -> Option<&str> {
        self.tabs.as_ref().map(|(_, first)| first.as_str())
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.browser.pid()
    }

    /// Resolves when the seat can take no more calls because of the browser.
    pub(super) fn lost(&self) -> impl Future<Output = Lost> + Send + 'static {
        let mut lost = self.browser.lost();
        let mut crashes = self.crashes.clone();
        let is_attached = self.tabs.is_some();
        async move {
            let gone = async { lost.wait_for(Option::is_some).await.ok().and_then(|why| why.clone()) };
            let crashed = async {
                let crashes =
                    crashes.wait_for(|crashes| loss_by_crashes(crashes, is_attached).is_some()).await;
                crashes.ok().and_then(|crashes| loss_by_crashes(&crashes, is_attached))
            };
            // A closed channel means that the owner of the browser is gone.
            tokio::select! {
                Some(why) = gone => why,
                Some(why) = crashed => why,
                else => std::future::pending().await,
            }
        }
    }

    /// The crashes of its tabs after the first `reported` ones, and their total number.
    pub(super) fn crashes_since(&self, reported: u64) -> (Vec<Crash>, u64) {
        let crashes = self.crashes.borrow();
        (crashes.since(reported).map(|(_, crash)| crash.clone()).collect(), crashes.count)
    }

    /// Its egress port, if the browser belongs to the seat.
    pub(super) fn egress_port(&self) -> Option<&Arc<dyn EgressPort>> {
        self.egress_port.as_ref()
    }

    /// Its downloads, if these are counted.
    pub(super) fn downloads(&self) -> Option<&Arc<Downloads>> {
        self.downloads.as_ref()
    }

    pub(super) fn view(&self) -> watch::Receiver<View> {
        self.view.clone()
    }

    /// Makes every tab that crashes show an empty page, as long as this future is polled. The engine would use the crashed
    /// tab for ever, and hang with it.
    pub(super) fn reset_crashed_tabs(&self) -> impl Future<Output = ()> + Send + 'static {
        let browser = self.browser.clone();
        let mut crashes = self.crashes.clone();
        let resets = self.resets.clone();
        let is_attached = self.tabs.is_some();
        async move {
            if is_attached {
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
                    if let Err(error) = browser.observer().reset_tab(&tab).await {
                        tracing::debug!(%error, "cannot reset a crashed tab");
                    }
                }
                resets.send_replace(seen);
            }
        }
    }

    /// Waits until tabs that are known to have crashed are reset: a call must not open a page that is then replaced.
    pub(super) async fn wait_for_resets(&self) {
        let count = self.crashes.borrow().count;
        if self.tabs.is_none() {
            let mut resets = self.resets.subscribe();
            let _ = timeout(RESET_WITHIN, resets.wait_for(|resets| *resets >= count)).await;
        }
    }

    /// Notes new tabs, and reads the state of all pages anew: their titles may have changed unannounced.
    pub(super) async fn refresh(&self) {
        self.note_new_tabs().await;
        self.browser.observer().refresh().await;
    }

    async fn note_new_tabs(&self) {
        if let Some((tabs, _)) = &self.tabs {
            tabs.lock().await.note_new_tabs(self.browser.observer()).await;
        }
    }

    /// The reason if the seat is gone: asks the browser itself, since its end may not have been seen yet.
    pub(super) async fn gone(&self) -> Option<Lost> {
        self.note_new_tabs().await;
        let gone = self.browser.gone().await;
        gone.or_else(|| loss_by_crashes(&self.crashes.borrow(), self.tabs.is_some()))
    }

    pub(super) async fn ping(&self) -> Result<(), HealthCheckFailed> {
        self.browser.ping().await
    }

    pub(super) fn silent(&self) -> Option<Arc<str>> {
        self.browser.silent()
    }

    /// Closes the seat's own tabs in an attached browser, before all else: the browser's user sees them. Tabs that cannot be
    /// closed now are closed with the instance.
    pub(super) async fn close_own_tabs(&self) {
        let Some((tabs, _)) = &self.tabs else { return };
        let mut tabs = tabs.lock().await;
        let observer = self.browser.observer();
        if !matches!(timeout(CLOSE_TABS_WITHIN, tabs.close(observer)).await, Ok(Ok(()))) {
            tracing::debug!("own tabs stay open for now");
        }
        observer.forget(&tabs.scope()).await;
    }

    /// Ends a browser that was started for the seat.
    pub(super) async fn stop(&self, grace: Duration) {
        if self.tabs.is_none() {
            self.browser.stop(grace).await;
        }
    }
}

/// Why crashes of its tabs end a seat. In an attached browser one is enough: the engine cannot go on in a tab that was reset
/// there (seen: it waits in vain for its next page). Cookies and logins belong to that browser, and stay.
fn loss_by_crashes(crashes: &Crashes, is_attached: bool) -> Option<Lost> {
    let first = || crashes.since(0).next().map(|(_, crash)| Lost::Page(crash.why.clone()));
    crashes.lost.clone().or_else(|| if is_attached { first() } else { None })
}

/// The address of an unused tab.
pub(crate) const EMPTY_PAGE: &str = "about:blank";
