//! Shows an engine's connection only the targets in browser contexts that this connection made itself.
//!
//! An engine that connects to a browser attaches to every page of it, waits for each of them before it goes on, and keeps
//! track of each. It has no use for pages in other contexts: those of another engine process in the same browser, of the
//! browser's user, or of a connection that broke and left its context. A busy page among those would delay the engine.
//! So the proxy detaches from other contexts' targets at once, and the engine does not see them.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::Duration,
};

use greenroom_cdp::message_stream::Text;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    ProxyMessage,
    message::{AttachedTarget, Envelope, OwnIds, TargetOrContext, call, read},
};

/// How many tabs a context may have. Each takes a process of 10 MB and its page's memory; a page can open them by itself.
pub(super) const TABS_MAX: usize = 64;

/// How many tabs the pages of a context may open within [`POPUPS_WITHIN`]. A browser with a user allows one per click. Each
/// starts a process, and many at once keep the browser busy.
const POPUPS_MAX: usize = 8;
const POPUPS_WITHIN: Duration = Duration::from_secs(10);

/// A tab of the engine.
struct EngineTab {
    context: String,
    /// Whether a page opened it, and chose its size.
    is_popup: bool,
}

#[derive(Default)]
pub(super) struct OwnContexts {
    contexts: HashSet<String>,
    /// The engine's tabs, by session.
    tabs: HashMap<String, EngineTab>,
    /// The engine's calls that make a context and have no answer yet.
    creating_contexts: HashSet<u32>,
    /// The engine's calls that open a tab which the browser has not announced yet, and the context of each.
    opening_tabs: HashMap<u32, String>,
    /// When pages opened tabs within [`POPUPS_WITHIN`], by context, oldest first.
    popups: HashMap<String, VecDeque<Instant>>,
    /// Sessions with others' targets that the browser has not ended yet.
    hidden: HashSet<String>,
}

impl OwnContexts {
    /// Notes which contexts the engine makes. Returns the one that it disposes of.
    pub(super) fn on_engine_call(&mut self, call: &Envelope<'_>) -> Option<String> {
        match call.method.as_deref()? {
            "Target.createBrowserContext" => {
                self.creating_contexts.extend(call.id);
                None
            }
            "Target.createTarget" => {
                let context = read::<TargetOrContext>(call.params)?.browser_context_id?;
                self.opening_tabs.insert(call.id?, context);
                None
            }
            "Target.disposeBrowserContext" => {
                let context = read::<TargetOrContext>(call.params)?.browser_context_id?;
                self.contexts.remove(&context);
                self.tabs.retain(|_, tab| tab.context != context);
                self.popups.remove(&context);
                Some(context)
            }
            _ => None,
        }
    }

    /// The browser answers a call of the engine. Returns the context that it has made.
    pub(super) fn answered(&mut self, id: u32, text: &Text) -> Option<String> {
        self.opening_tabs.remove(&id);
        if !self.creating_contexts.remove(&id) {
            return None;
        }
        let answer: Envelope<'_> = serde_json::from_str(text).ok()?;
        let made = read::<TargetOrContext>(answer.result)?.browser_context_id?;
        self.contexts.insert(made.clone());
        Some(made)
    }

    /// Whether a context has as many tabs as it may have.
    pub(super) fn is_full(&self, context: &str) -> bool {
        self.tabs.values().filter(|tab| tab.context == context).count() >= TABS_MAX
    }

    /// Whether a session is that of a tab that a page opened.
    pub(super) fn is_popup(&self, session: &str) -> bool {
        self.tabs.get(session).is_some_and(|tab| tab.is_popup)
    }

    /// The browser attaches the connection to a target. Returns the calls that resume and detach from a target that is not
    /// the engine's, or close a tab beyond the limit.
    pub(super) fn attached(
        &mut self,
        attached: &AttachedTarget,
        now: Instant,
        ids: &mut OwnIds,
    ) -> Option<Vec<ProxyMessage>> {
        let session = &attached.session_id;
        let info = &attached.target_info;
        let Some(context) = info.browser_context_id.as_ref().filter(|id| self.contexts.contains(*id)) else {
            let detach = json!({ "sessionId": session });
            return Some(self.hide(attached, "Target.detachFromTarget", &detach, ids));
        };
        if info.r#type != "page" {
            return None;
        }
        // The browser announces a tab before it answers the call that opened it.
        let opening =
            self.opening_tabs.iter().find_map(|(id, opened_in)| (opened_in == context).then_some(*id));
        let is_popup = opening.is_none_or(|id| self.opening_tabs.remove(&id).is_none());
        let why = if self.is_full(context) {
            "it has as many as a session may have"
        } else if is_popup && !self.admit_popup(context, now) {
            "its pages open tabs too fast"
        } else {
            self.tabs.insert(session.clone(), EngineTab { context: context.clone(), is_popup });
            return None;
        };
        tracing::debug!(context, why, "closing a tab");
        Some(self.hide(attached, "Target.closeTarget", &json!({ "targetId": info.target_id }), ids))
    }

    /// Whether a page of the context may open a tab now; if so, the tab counts.
    fn admit_popup(&mut self, context: &str, now: Instant) -> bool {
        let popups = self.popups.entry(context.to_owned()).or_default();
        while popups.front().is_some_and(|opened| now.duration_since(*opened) >= POPUPS_WITHIN) {
            popups.pop_front();
        }
        let is_admitted = popups.len() < POPUPS_MAX;
        if is_admitted {
            popups.push_back(now);
        }
        is_admitted
    }

    /// Resumes a target that waits for the engine, and closes it or its session. Until then the page that opened it
    /// waits, too.
    fn hide(
        &mut self,
        attached: &AttachedTarget,
        method: &str,
        params: &Value,
        ids: &mut OwnIds,
    ) -> Vec<ProxyMessage> {
        let session = &attached.session_id;
        self.hidden.insert(session.clone());
        let mut out = Vec::new();
        if attached.waiting_for_debugger {
            let resume = call(ids.next(), Some(session), "Runtime.runIfWaitingForDebugger", &json!({}));
            out.push(ProxyMessage::ToBrowser(resume));
        }
        out.push(ProxyMessage::ToBrowser(call(ids.next(), None, method, params)));
        out
    }

    /// A session has ended. Says whether it was hidden from the engine.
    pub(super) fn detached(&mut self, session: &str) -> bool {
        self.tabs.remove(session);
        self.hidden.remove(session)
    }

    /// Whether an event belongs to a session that is hidden from the engine.
    pub(super) fn hides(&self, text: &Text) -> bool {
        // Usually no session is hidden, and then nothing is parsed.
        !self.hidden.is_empty()
            && serde_json::from_str::<Envelope<'_>>(text)
                .is_ok_and(|event| event.session.is_some_and(|session| self.hidden.contains(&*session)))
    }
}
