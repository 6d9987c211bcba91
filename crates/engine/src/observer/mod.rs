//! greenroom's own CDP connection to a Chromium: it knows each context's pages, their URLs and titles, and sees
//! crashes. It never carries an agent's tool calls.
//!
//! A seat follows its context, or the whole of a browser that it does not share, or, in a context of the browser's user,
//! only its own tabs: those that greenroom opened for it, and those that they opened.
//!
//! One task reads the events and owns all state. [`Observer::sync`] asks the browser something and answers when the task has
//! processed all events before the browser's reply, so that after it "no crash was seen" means that there was none.

mod crashes;
mod paused_requests;
mod task;
#[cfg(test)]
mod tests;
mod why_killed;

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use greenroom_cdp::{BrowserPipe, CdpClient, Closed, Events};
use greenroom_core::{Lost, StartError, View};
use serde::Deserialize;
use serde_json::json;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::{
    cgroup::BrowserCgroup,
    context_ports::ContextPorts,
    downloads::{self, BrowserCall, Downloads},
    endpoint::Endpoint,
};
pub(crate) use crashes::Crashes;
use task::{EndedPages, ObserverCommand, ObserverTask, ScopeTabs};
use why_killed::WhyKilled;

/// Commands that may wait for the observer's task; each comes from one seat, and a seat has at most one waiting.
const COMMANDS_MAX: usize = 64;

/// How long an answer may wait for the titles of its pages. It usually takes half a millisecond.
const REFRESH_WITHIN: Duration = Duration::from_millis(250);

/// How long closing leftover tabs and contexts may take. A page that hangs takes half a second.
const CLOSE_ORPHANS_WITHIN: Duration = Duration::from_secs(2);

/// Which pages of a browser a seat follows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Scope {
    /// All pages of a context.
    Context(String),
    /// The tabs of one seat, in a context that it shares with others.
    SeatTabs(u64),
    /// All pages of a browser that belongs to one seat.
    Browser,
}

/// What a seat learns about its pages.
#[derive(Debug, Clone)]
pub(crate) struct WatchedPages {
    pub(crate) view: watch::Receiver<View>,
    pub(crate) crashes: watch::Receiver<Crashes>,
}

/// A handle to the observer's task. The task ends when the handle is dropped.
pub(crate) struct Observer {
    client: CdpClient,
    commands: mpsc::Sender<ObserverCommand>,
    why_killed: Arc<WhyKilled>,
    next_scope: AtomicU64,
    _task: JoinSet<()>,
}

/// Whether an empty tab replaces closed ones: a browser with windows exits with its last tab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplacementTab {
    Never,
    /// Whether or not there are others.
    Always,
    /// If no other tab is left.
    IfNoOther,
}

/// The contexts of a browser.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Contexts {
    /// Contexts that clients created, without the default one.
    #[serde(rename = "browserContextIds")]
    pub(crate) created: BTreeSet<String>,
    /// The default context, that of its profile. Older browsers do not name it.
    #[serde(rename = "defaultBrowserContextId")]
    pub(crate) default: Option<String>,
}

/// Where a new tab opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TabPosition {
    InFront,
    /// Behind the tab that the browser's user looks at. The browser does not draw it there, unless its engine takes care of
    /// that.
    Behind,
}

impl Observer {
    /// Observes a browser that greenroom started. None of its pages loads a file of this machine, and a document that one of
    /// its egress ports refuses says so.
    pub(crate) async fn connect(
        debugger: &BrowserPipe,
        context_ports: Option<Arc<ContextPorts>>,
    ) -> Result<Self, StartError> {
        let (client, events) = debugger.client().await.map_err(observe_error)?;
        Self::observe_started(client, events, context_ports).await
    }

    async fn observe_started(
        client: CdpClient,
        events: Events,
        context_ports: Option<Arc<ContextPorts>>,
    ) -> Result<Self, StartError> {
        client
            .call("Fetch.enable", &json!({ "patterns": paused_requests::PATTERNS }))
            .await
            .map_err(observe_error)?;
        Self::start(client, events, context_ports).await
    }

    /// Observes an attached browser, at the address where it was reached.
    pub(crate) async fn attach(endpoint: &Endpoint, address: &str) -> Result<Self, StartError> {
        let connected = CdpClient::connect_with(address, &endpoint.sent_headers()).await;
        let (client, events) = connected.map_err(|error| endpoint.unreachable_error(&error))?;
        Self::start(client, events, None).await
    }

    async fn start(
        client: CdpClient,
        events: Events,
        context_ports: Option<Arc<ContextPorts>>,
    ) -> Result<Self, StartError> {
        client
            .call("Target.setDiscoverTargets", &json!({ "discover": true, "filter": [{ "type": "page" }] }))
            .await
            .map_err(observe_error)?;
        let (commands, queue) = mpsc::channel(COMMANDS_MAX);
        let mut task = JoinSet::new();
        let why_killed = Arc::<WhyKilled>::default();
        task.spawn(ObserverTask::new(client.clone(), events, why_killed.clone(), context_ports).run(queue));
        Ok(Self { client, commands, why_killed, next_scope: AtomicU64::new(0), _task: task })
    }

    /// The debugger's port, if the browser is on this machine.
    pub(crate) fn local_port(&self) -> Option<u16> {
        self.client.local_port()
    }

    /// The context of a page that shows this URL.
    pub(crate) async fn context_showing(&self, url: &str) -> Option<String> {
        self.request(|reply| ObserverCommand::ContextShowing(url.to_owned(), reply)).await.ok().flatten()
    }

    /// The browser's contexts. `None` if the browser is gone, or too slow to answer.
    pub(crate) async fn sync(&self) -> Option<Contexts> {
        self.request(ObserverCommand::Sync).await.ok().flatten()
    }

    /// Asks the browser whether it is gone. A browser that is too slow to answer is not gone.
    pub(crate) async fn is_gone(&self) -> bool {
        self.request(ObserverCommand::Sync).await.is_err()
    }

    /// Pings the browser, independently of the observer's task.
    pub(crate) async fn ping(&self) -> Result<(), greenroom_cdp::Error> {
        self.client.call("Browser.getVersion", &json!({})).await.map(|_| ())
    }

    /// From now on this is the reason for killed renderers: greenroom ended them. With `None` the reason is unknown.
    pub(crate) fn tell_why_killed(&self, why: Option<Arc<str>>) {
        self.why_killed.tell(why);
    }

    /// The kernel may end renderers that are in this group.
    pub(crate) fn ask_cgroup(&self, cgroup: Arc<BrowserCgroup>) {
        self.why_killed.ask_cgroup(cgroup);
    }

    /// Declares the seats lost whose pages greenroom has ended for this reason since a time.
    pub(crate) async fn lose_seats_of_ended_pages(&self, why: &'static str, since: Instant, lost: Lost) {
        // Without a browser there are no seats.
        let _ = self.commands.send(ObserverCommand::LoseEnded(EndedPages { why, since, lost })).await;
    }

    /// Resolves when the observer has ended, with the reason why the connection to the browser ended, if it did.
    pub(crate) async fn ended(&self) -> Option<Closed> {
        self.commands.closed().await;
        self.client.why_closed()
    }

    /// Reads the state of all pages anew: the browser announces new URLs, but not titles that change later.
    pub(crate) async fn refresh(&self) {
        let (reply, done) = oneshot::channel();
        // An answer waits for this. If the browser is too busy, the agent sees older titles.
        let _ = timeout(REFRESH_WITHIN, async {
            if self.commands.send(ObserverCommand::Refresh(reply)).await.is_ok() {
                let _ = done.await;
            }
        })
        .await;
    }

    /// Begins to follow pages.
    pub(crate) async fn watch(&self, scope: &Scope) -> Option<WatchedPages> {
        let (reply, watched) = oneshot::channel();
        self.commands.send(ObserverCommand::Watch(scope.clone(), reply)).await.ok()?;
        watched.await.ok()
    }

    /// Stops following a context and makes sure that it is gone.
    pub(crate) async fn dispose(&self, context: &str) {
        let _ = self.commands.send(ObserverCommand::Forget(Scope::Context(context.to_owned()))).await;
        // If the browser is too slow to list its contexts, the observer disposes of this one anyway.
        if self.sync().await.is_some_and(|contexts| !contexts.created.contains(context)) {
            return;
        }
        let params = json!({ "browserContextId": context });
        if let Err(error) = self.client.call("Target.disposeBrowserContext", &params).await {
            tracing::debug!(%error, context, "cannot dispose of a context");
        }
    }

    async fn request<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> ObserverCommand,
    ) -> Result<T, greenroom_cdp::Error> {
        let (reply, answer) = oneshot::channel();
        let gone = || greenroom_cdp::Error::from(Closed::ByBrowser);
        self.commands.send(command(reply)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())
    }
}

impl Observer {
    /// Opens a tab in the browser's default context, and returns its id. It belongs to no scope yet.
    pub(crate) async fn open_tab(
        &self,
        url: &str,
        position: TabPosition,
    ) -> Result<String, greenroom_cdp::Error> {
        let params = json!({ "url": url, "background": position == TabPosition::Behind });
        let made = self.client.call("Target.createTarget", &params).await?;
        serde_json::from_str(made.get()).map(|CreatedTarget { target_id }| target_id).map_err(|error| {
            let why = format!("a new tab has no id: {error}");
            Closed::Protocol(why.into()).into()
        })
    }

    /// Sets a page's size, whatever window frame is around it. A browser that cannot do that keeps the size of its flags.
    pub(crate) async fn resize(&self, tab: &str, (width, height): (u32, u32)) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct WindowForTarget {
            window_id: i64,
        }
        let resized = async {
            let window = self.client.call("Browser.getWindowForTarget", &json!({ "targetId": tab })).await?;
            let Ok(WindowForTarget { window_id }) = serde_json::from_str(window.get()) else { return Ok(()) };
            let size = json!({ "windowId": window_id, "width": width, "height": height });
            self.client.call("Browser.setContentsSize", &size).await.map(drop)
        };
        if let Err(error) = resized.await {
            tracing::debug!(%error, "cannot give a page its size");
        }
    }

    /// Makes a crashed tab show an empty page, in a new renderer.
    pub(crate) async fn reset_tab(&self, tab: &str) -> Result<(), greenroom_cdp::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct AttachedSession {
            session_id: String,
        }
        let attach = json!({ "targetId": tab, "flatten": true });
        let attached = self.client.call("Target.attachToTarget", &attach).await?;
        let AttachedSession { session_id } = serde_json::from_str(attached.get())
            .map_err(|error| Closed::Protocol(format!("a tab has no session: {error}").into()))?;
        let shown = self.client.call_in(&session_id, "Page.navigate", &json!({ "url": "about:blank" })).await;
        // The new renderer answers once the empty page is loaded: a page that is opened after this is not replaced by it.
        let nothing = json!({ "expression": "0" });
        let _ = timeout(CLOSE_ORPHANS_WITHIN, self.client.call_in(&session_id, "Runtime.evaluate", &nothing))
            .await;
        let detach = json!({ "sessionId": session_id });
        let detached = self.client.call("Target.detachFromTarget", &detach).await;
        shown.and(detached).map(drop)
    }

    /// Makes the browser write the downloads of its default context into a folder, as long as this observer is connected,
    /// and stops downloads over the quota.
    pub(crate) async fn downloads_to(
        &self,
        folder: &Path,
        downloads: Arc<Downloads>,
    ) -> Result<(), greenroom_cdp::Error> {
        // Without a browser there are no downloads.
        let _ = self.commands.send(ObserverCommand::Count(downloads)).await;
        let behaviour = json!({ "behavior": "allow", "downloadPath": folder, "eventsEnabled": true });
        self.client.call("Browser.setDownloadBehavior", &behaviour).await.map(drop)
    }

    /// Cancels a download, in whichever context it is.
    pub(crate) async fn cancel_download(&self, guid: &str) {
        let Some(Contexts { created, .. }) = self.sync().await else { return };
        for context in created.into_iter().map(Some).chain([None]) {
            let BrowserCall { method, params } = downloads::cancel(guid, &context);
            // Only the context that has the download accepts the call.
            if self.client.call(method, &params).await.is_ok() {
                return;
            }
        }
    }

    /// A scope without any tab yet.
    pub(crate) fn new_scope(&self) -> u64 {
        self.next_scope.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds tabs to such a scope, with all tabs that they open, or have opened.
    pub(crate) async fn claim_tabs(&self, scope: u64, tabs: Vec<String>) {
        // Without a browser there are no tabs.
        let _ = self.commands.send(ObserverCommand::Claim(scope, tabs)).await;
    }

    /// How many tabs are outside of this scope.
    pub(crate) async fn count_other_tabs(&self, scope: &Scope) -> Result<usize, greenroom_cdp::Error> {
        Ok(self.request(|reply| ObserverCommand::Tabs(scope.clone(), reply)).await?.others)
    }

    /// Closes those of these tabs that exist, within [`CLOSE_ORPHANS_WITHIN`], and returns how many these were. Tabs of
    /// another browser do not exist here.
    pub(crate) async fn close_orphan_tabs(&self, tabs: &[String]) -> Result<usize, greenroom_cdp::Error> {
        let scope = self.new_scope();
        self.claim_tabs(scope, tabs.to_owned()).await;
        let scope = Scope::SeatTabs(scope);
        let closed = async {
            let existing =
                self.request(|reply| ObserverCommand::Tabs(scope.clone(), reply)).await?.within.len();
            self.close_tabs(&scope, ReplacementTab::IfNoOther).await.map(|()| existing)
        };
        let timed_out = |_| greenroom_cdp::Error::NoAnswer { method: "Target.closeTarget".to_owned() };
        let closed = timeout(CLOSE_ORPHANS_WITHIN, closed).await.map_err(timed_out);
        self.forget(&scope).await;
        closed?
    }

    /// Disposes of those of these contexts that exist, within [`CLOSE_ORPHANS_WITHIN`], and returns how many these were.
    pub(crate) async fn dispose_orphan_contexts(
        &self,
        contexts: &[String],
    ) -> Result<usize, greenroom_cdp::Error> {
        if contexts.is_empty() {
            return Ok(0);
        }
        let disposed = async {
            let gone = || greenroom_cdp::Error::from(Closed::ByBrowser);
            let Contexts { created, .. } = self.sync().await.ok_or_else(gone)?;
            let existing: Vec<_> = contexts.iter().filter(|context| created.contains(*context)).collect();
            for context in &existing {
                self.dispose(context).await;
            }
            Ok(existing.len())
        };
        let timed_out =
            |_| greenroom_cdp::Error::NoAnswer { method: "Target.disposeBrowserContext".to_owned() };
        timeout(CLOSE_ORPHANS_WITHIN, disposed).await.map_err(timed_out)?
    }

    /// Stops following pages.
    pub(crate) async fn forget(&self, scope: &Scope) {
        let _ = self.commands.send(ObserverCommand::Forget(scope.clone())).await;
    }

    /// Closes tabs of a context that stays. Returns when they are closed, for which a page that hangs needs half a second.
    pub(crate) async fn close_tabs(
        &self,
        scope: &Scope,
        replacement: ReplacementTab,
    ) -> Result<(), greenroom_cdp::Error> {
        let gone = || greenroom_cdp::Error::from(Closed::ByBrowser);
        let tabs = || self.request(|reply| ObserverCommand::Tabs(scope.clone(), reply));
        let mut watched = self.watch(scope).await.ok_or_else(gone)?;
        let ScopeTabs { within: mut old, others } = tabs().await?;
        let opens_replacement = match replacement {
            ReplacementTab::Never => false,
            ReplacementTab::Always => true,
            ReplacementTab::IfNoOther => others == 0 && !old.is_empty(),
        };
        if opens_replacement {
            self.client.call("Target.createTarget", &json!({ "url": "about:blank" })).await?;
        }
        for tab in &old {
            // The browser refuses this for a tab that is already gone.
            let _ = self.client.call("Target.closeTarget", &json!({ "targetId": tab })).await;
        }
        loop {
            watched.view.mark_unchanged();
            let now = tabs().await?.within;
            old.retain(|tab| now.contains(tab));
            if old.is_empty() {
                return Ok(());
            }
            watched.view.changed().await.map_err(|_| gone())?;
        }
    }
}

#[allow(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn observe_error(error: greenroom_cdp::Error) -> StartError {
    StartError::new(format!("cannot observe the browser: {error}"))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreatedTarget {
    target_id: String,
}
