//! Shows an engine's connection only what is in browser contexts that this connection made itself.
//!
//! Each seat has a connection and a context of its own in a browser that many share. An engine that attaches to a browser
//! attaches to every page of it, waits for each of them before it goes on, and keeps an account of each: a busy page of
//! one session would hold up the next session's start, and a hundred sessions would have ten thousand accounts. So the
//! proxy lets go of what belongs to others at once, and the engine does not hear of it.

use std::collections::HashSet;

use greenroom_cdp::link::Text;
use serde_json::json;

use super::{
    Out,
    message::{Attached, Envelope, Made, OwnIds, call, read},
};

#[derive(Default)]
pub(super) struct OwnContexts {
    contexts: HashSet<String>,
    /// Calls of the engine that make a context and are not answered yet.
    making: HashSet<u32>,
    /// Sessions with targets of others that the browser has not ended yet.
    hidden: HashSet<String>,
}

impl OwnContexts {
    /// Notes which contexts the engine makes, and which it disposes of.
    pub(super) fn engine_says(&mut self, call: &Envelope<'_>) {
        match call.method.as_deref() {
            Some("Target.createBrowserContext") => self.making.extend(call.id),
            Some("Target.disposeBrowserContext") => {
                if let Some(context) = read::<Made>(call.params).and_then(|made| made.browser_context_id) {
                    self.contexts.remove(&context);
                }
            }
            _ => {}
        }
    }

    /// The browser answers a call of the engine's.
    pub(super) fn answered(&mut self, id: u32, text: &Text) {
        if self.making.remove(&id)
            && let Ok(answer) = serde_json::from_str::<Envelope<'_>>(text)
        {
            self.contexts.extend(read::<Made>(answer.result).and_then(|made| made.browser_context_id));
        }
    }

    /// The browser attaches the connection to a target. One that is not the engine's own is let go on and left, and this
    /// says how.
    pub(super) fn attached(&mut self, attached: &Attached, ids: &mut OwnIds) -> Option<Vec<Out>> {
        let context = attached.target_info.browser_context_id.as_ref();
        if context.is_some_and(|context| self.contexts.contains(context)) {
            return None;
        }
        let session = &attached.session_id;
        self.hidden.insert(session.clone());
        let mut out = Vec::new();
        if attached.waiting_for_debugger {
            let go_on = call(ids.next(), Some(session), "Runtime.runIfWaitingForDebugger", &json!({}));
            out.push(Out::ToBrowser(go_on));
        }
        let leave = call(ids.next(), None, "Target.detachFromTarget", &json!({ "sessionId": session }));
        out.push(Out::ToBrowser(leave));
        Some(out)
    }

    /// A session has ended. Says whether the engine never heard of it.
    pub(super) fn detached(&mut self, session: &str) -> bool {
        self.hidden.remove(session)
    }

    /// Whether an event is of a session that the engine never heard of.
    pub(super) fn hides(&self, text: &Text) -> bool {
        // Mostly there is none, and then nothing is read.
        !self.hidden.is_empty()
            && serde_json::from_str::<Envelope<'_>>(text)
                .is_ok_and(|event| event.session.is_some_and(|session| self.hidden.contains(&*session)))
    }
}
