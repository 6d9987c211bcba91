//! The part of a browser that a seat uses: a context of its own, the browser's default context, or tabs of its own in that
//! one. Creates it when the seat opens, and removes it when the seat closes.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use greenroom_core::{Agent, Lost, Raw, StartError, plural, raw::encode};
use serde_json::json;
use tokio::{task::JoinHandle, time::timeout};
use tokio_util::task::TaskTracker;

use super::{
    instance::{OPEN_WITHIN, PlaywrightState},
    reply::ensure_success,
};
use crate::{
    downloads::ContextId,
    observer::{ReplacementTab, Scope, TabPosition, WatchedPages},
    own_tabs::OwnTabs,
    upstream::Upstream,
};

/// How long the tabs of a default context may take to close. A page that hangs takes half a second.
const CLOSE_TABS_WITHIN: Duration = Duration::from_secs(5);

/// The part of the browser that belongs to a seat.
pub(super) enum SeatContext {
    /// A whole context.
    Exclusive(Scope),
    /// Tabs of its own in a context of the browser's user.
    Tabs(OwnTabs),
}

/// Contexts that the engine is still making for seats. greenroom never cancels these calls: no code would remove a
/// half-made context.
#[derive(Clone, Default)]
pub(super) struct PendingContexts {
    tasks: TaskTracker,
    /// Whether the engine took too long, and may later have a context that greenroom does not know.
    has_timed_out: Arc<AtomicBool>,
}

impl PendingContexts {
    /// Runs `work` to its end even if its caller stops waiting. Stopping the instance waits for it, too.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        tasks: &TaskTracker,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        tasks.spawn(self.tasks.track_future(work))
    }

    fn mark_timed_out(&self) {
        self.has_timed_out.store(true, Ordering::Relaxed);
    }

    /// Whether the engine was late since the last call of this function.
    pub(super) fn take_timed_out(&self) -> bool {
        self.has_timed_out.swap(false, Ordering::Relaxed)
    }

    /// Returns when the engine is done.
    pub(super) async fn wait_until_made(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.tasks.reopen();
    }
}

impl PlaywrightState {
    /// Makes the engine create a context for a seat, and finds out which one it is. Contexts are made one at a time in an
    /// instance, so the new one belongs to this seat. If a second new context appears, made late for a seat that
    /// greenroom has given up, `context_of_session` finds out which is this seat's.
    pub(super) async fn new_context(
        self: &Arc<Self>,
        pending: &PendingContexts,
        upstream: &Arc<Upstream>,
        agent: Arc<dyn Agent>,
    ) -> Result<(SeatContext, WatchedPages), StartError> {
        let _opening_lock = self.opening.lock().await;
        if self.engine.options.has_own_tabs() {
            return self.open_own_tab(pending, upstream, agent).await;
        }
        let gone = || StartError::new("the browser is gone, or does not answer");
        let contexts_before = self.observer().sync().await.ok_or_else(gone)?;
        self.list_tabs(pending, upstream, agent.clone()).await?;
        let contexts_after = self.observer().sync().await.ok_or_else(gone)?;
        let new: BTreeSet<_> = contexts_after.created.difference(&contexts_before.created).collect();
        let context = match (new.first(), new.len()) {
            (None, 0) if !self.engine.options.pool.isolated => contexts_after.default.ok_or_else(|| {
                StartError::new("the browser does not say which its own context is")
                    .hint("use a newer browser, or set `isolated` to true")
            })?,
            (Some(context), 1) if self.engine.options.pool.isolated => (*context).clone(),
            (Some(_), _) if self.engine.options.pool.isolated => {
                let shown = self.context_of_session(upstream, agent).await?;
                let shown = shown.filter(|context| new.contains(context));
                shown
                    .ok_or_else(|| StartError::new("the engine does not show which context is the seat's"))?
            }
            (_, count) => {
                return Err(StartError::new(format!(
                    "the engine made {} more than it should",
                    plural::count(count, "context")
                )));
            }
        };
        let context = Scope::Context(context);
        let watched = self.observer().watch(&context).await.ok_or_else(gone)?;
        Ok((SeatContext::Exclusive(context), watched))
    }

    /// Opens a tab for a seat in a context of the browser's user, and checks that the engine keeps to it.
    async fn open_own_tab(
        self: &Arc<Self>,
        pending: &PendingContexts,
        upstream: &Arc<Upstream>,
        agent: Arc<dyn Agent>,
    ) -> Result<(SeatContext, WatchedPages), StartError> {
        let (own, tab) =
            OwnTabs::open(self.observer(), self.folder.path(), "about:blank", TabPosition::Behind).await?;
        self.handle().declare_own_tab(&tab);
        let watched = self.observer().watch(&own.scope()).await;
        let watched = watched.ok_or_else(|| StartError::new("the browser is gone"))?;
        let listed_own_tab = match self.list_tabs(pending, upstream, agent).await {
            Ok(()) if !own.is_claimed_by_engine(&tab).await => {
                Err(StartError::new("the engine does not keep to a tab of its own"))
            }
            listed => listed,
        };
        let context = SeatContext::Tabs(own);
        match listed_own_tab {
            Ok(()) => Ok((context, watched)),
            Err(error) => {
                self.dispose_context(context).await;
                Err(error)
            }
        }
    }

    /// The first call of a session, with which the engine connects to the browser and makes the session's context. If it
    /// takes too long, it goes on, and its context is removed when the seat is closed.
    async fn list_tabs(
        self: &Arc<Self>,
        pending: &PendingContexts,
        upstream: &Arc<Upstream>,
        agent: Arc<dyn Agent>,
    ) -> Result<(), StartError> {
        let instance = self.clone();
        let upstream = upstream.clone();
        let mut listed = pending.spawn(&self.base.tasks, async move {
            let list = encode(&json!({ "name": "browser_tabs", "arguments": { "action": "list" } }));
            instance.ask_engine(&upstream, &list, agent).await
        });
        match timeout(OPEN_WITHIN, &mut listed).await {
            Ok(Ok(listed)) => listed,
            Ok(Err(_)) => Err(StartError::new("the engine's adapter panicked")),
            Err(_) => {
                pending.mark_timed_out();
                Err(self.open_timeout_error())
            }
        }
    }

    /// Finds out from the engine itself which context is this session's: its tab shows a unique address.
    async fn context_of_session(
        &self,
        upstream: &Upstream,
        agent: Arc<dyn Agent>,
    ) -> Result<Option<String>, StartError> {
        let navigate =
            |url: &str| encode(&json!({ "name": "browser_navigate", "arguments": { "url": url } }));
        let marker_url = format!("about:blank#{}", uuid::Uuid::new_v4().simple());
        self.ask_engine(upstream, &navigate(&marker_url), agent.clone()).await?;
        let context = self.observer().context_showing(&marker_url).await;
        self.ask_engine(upstream, &navigate("about:blank"), agent).await?;
        Ok(context)
    }

    /// Calls the engine on behalf of a new session.
    async fn ask_engine(
        &self,
        upstream: &Upstream,
        call: &Raw,
        agent: Arc<dyn Agent>,
    ) -> Result<(), StartError> {
        let answer =
            async { upstream.call(call, agent).await.map_err(|gone| StartError::new(gone.to_string())) };
        ensure_success(&self.base.loss.unless_declared(answer).await?).map_err(|text| {
            let text = self.handle().cdp_proxy.without_secret(text);
            StartError::new(format!("the engine cannot make a context: {text}"))
        })
    }

    /// The context under which the browser counts the downloads of a seat, and has its egress port. There is none for a seat's own tabs in a user's browser.
    pub(super) fn account(&self, context: &SeatContext) -> Option<ContextId> {
        match context {
            SeatContext::Exclusive(Scope::Context(id)) => {
                Some(self.engine.options.pool.isolated.then(|| id.clone()))
            }
            SeatContext::Exclusive(_) => Some(None),
            SeatContext::Tabs(_) => None,
        }
    }

    /// Makes sure that nothing of a seat remains: closes its context, or the tabs of the default one, or the seat's own
    /// tabs.
    pub(super) async fn dispose_context(&self, context: SeatContext) {
        let account = self.account(&context);
        self.close_context(context).await;
        // The account and the port close after the context, because downloads may begin until then.
        if let (Some(downloads), Some(account)) = (&self.downloads, &account) {
            downloads.forget(account);
        }
        if let (Some(ports), Some(Some(context))) = (&self.context_ports, &account) {
            ports.forget(context);
        }
    }

    async fn close_context(&self, context: SeatContext) {
        let scope = match context {
            SeatContext::Exclusive(Scope::Context(id)) if self.engine.options.pool.isolated => {
                return self.observer().dispose(&id).await;
            }
            SeatContext::Exclusive(scope) => {
                let replacement = if self.engine.options.pool.headless {
                    ReplacementTab::Never
                } else {
                    ReplacementTab::Always
                };
                self.close_tabs(self.observer().close_tabs(&scope, replacement)).await;
                scope
            }
            SeatContext::Tabs(mut own) => {
                self.close_tabs(own.close(self.observer())).await;
                own.scope()
            }
        };
        self.observer().forget(&scope).await;
    }

    /// Waits until tabs are closed.
    pub(super) async fn close_tabs(&self, closed: impl Future<Output = Result<(), greenroom_cdp::Error>>) {
        if !matches!(timeout(CLOSE_TABS_WITHIN, closed).await, Ok(Ok(()))) {
            // The next seat must not find the tabs of this one.
            self.base.loss.declare(Lost::Hung(CLOSE_TABS_WITHIN));
        }
    }
}
