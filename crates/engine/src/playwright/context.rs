//! What of a browser is a seat's: a context of its own, the browser's own one, or tabs of its own in that. How it comes to
//! it, and how nothing of it stays.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use greenroom_core::{Agent, Lost, StartError, raw::encode};
use serde_json::json;
use tokio::time::timeout;

use super::{instance::Shared, shape::failure};
use crate::{
    observer::{Leave, Scope, TabPlace, Watched},
    own_tabs::OwnTabs,
    upstream::Upstream,
};

/// How long the tabs of a default context may take to close. A page that hangs takes half a second.
const TABS: Duration = Duration::from_secs(5);

/// What of the browser is a seat's.
pub(super) enum Context {
    /// A whole context.
    Whole(Scope),
    /// Tabs of its own in a context that is somebody else's.
    Tabs(OwnTabs),
}

impl Context {
    pub(super) fn scope(&self) -> Scope {
        match self {
            Self::Whole(scope) => scope.clone(),
            Self::Tabs(own) => own.scope(),
        }
    }
}

impl Shared {
    /// Has the engine make a context for a seat, and learns which one it is. Contexts are made one at a time in
    /// an instance, so the one that is new is this seat's.
    pub(super) async fn new_context(
        &self,
        upstream: &Upstream,
        agent: Arc<dyn Agent>,
    ) -> Result<(Context, Watched), StartError> {
        let _turn = self.opening.lock().await;
        if self.engine.options.has_own_tabs() {
            return self.new_tabs(upstream, agent).await;
        }
        let gone = || StartError::new("the browser is gone");
        let before = self.observer.sync().await.ok_or_else(gone)?;
        self.list_tabs(upstream, agent).await?;
        let after = self.observer.sync().await.ok_or_else(gone)?;
        let new: BTreeSet<_> = after.made.difference(&before.made).collect();
        let context = match (new.first(), new.len()) {
            (None, 0) if !self.engine.options.isolated => after.default.ok_or_else(|| {
                StartError::new("the browser does not say which its own context is")
                    .hint("use a newer browser, or set `isolated` to true")
            })?,
            (Some(context), 1) if self.engine.options.isolated => (*context).clone(),
            (_, count) => {
                return Err(StartError::new(format!("the engine made {count} contexts more than it should")));
            }
        };
        let context = Scope::Context(context);
        let watched = self.observer.watch(&context).await.ok_or_else(gone)?;
        Ok((Context::Whole(context), watched))
    }

    /// Opens a tab for a seat in a context that is somebody else's, and sees that the engine keeps to it.
    async fn new_tabs(
        &self,
        upstream: &Upstream,
        agent: Arc<dyn Agent>,
    ) -> Result<(Context, Watched), StartError> {
        let (own, tab) =
            OwnTabs::open(&self.observer, self.folder.path(), "about:blank", TabPlace::Behind).await?;
        self.browser.opened(&tab);
        let watched = self.observer.watch(&own.scope()).await;
        let watched = watched.ok_or_else(|| StartError::new("the browser is gone"))?;
        let kept = match self.list_tabs(upstream, agent).await {
            Ok(()) if !own.is_kept(&tab).await => {
                Err(StartError::new("the engine does not keep to a tab of its own"))
            }
            listed => listed,
        };
        let context = Context::Tabs(own);
        match kept {
            Ok(()) => Ok((context, watched)),
            Err(error) => {
                self.give_up(context).await;
                Err(error)
            }
        }
    }

    /// The first call of a session, with which the engine connects to the browser.
    async fn list_tabs(&self, upstream: &Upstream, agent: Arc<dyn Agent>) -> Result<(), StartError> {
        let list = encode(&json!({ "name": "browser_tabs", "arguments": { "action": "list" } }));
        let listed =
            async { upstream.call(&list, agent).await.map_err(|gone| StartError::new(gone.to_string())) };
        failure(&self.answer(listed).await?).map_err(|text| {
            let text = self.browser.cdp_proxy.unnamed(text);
            StartError::new(format!("the engine cannot make a context: {text}"))
        })
    }

    /// Makes sure that nothing is left of what a seat did: the context is gone, or the tabs of the default one are, or
    /// the seat's own.
    pub(super) async fn give_up(&self, context: Context) {
        let scope = match context {
            Context::Whole(Scope::Context(id)) if self.engine.options.isolated => {
                return self.observer.dispose(&id).await;
            }
            Context::Whole(scope) => {
                let leave = if self.engine.options.headless { Leave::Nothing } else { Leave::Tab };
                self.close_tabs(self.observer.close_tabs(&scope, leave)).await;
                scope
            }
            Context::Tabs(mut own) => {
                self.close_tabs(own.close(&self.observer)).await;
                own.scope()
            }
        };
        self.observer.forget(&scope).await;
    }

    /// Waits until tabs are closed.
    pub(super) async fn close_tabs(&self, closed: impl Future<Output = Result<(), greenroom_cdp::Error>>) {
        if !matches!(timeout(TABS, closed).await, Ok(Ok(()))) {
            // The next seat must not find the tabs of this one.
            self.lose(Lost::Hung(TABS));
        }
    }
}
