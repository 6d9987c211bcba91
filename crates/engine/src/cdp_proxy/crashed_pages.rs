//! Replaces answers for pages that have crashed.
//!
//! When Playwright learns that a page has crashed, it forgets its calls to that page. A later answer to one of them ends
//! Node with a failed assertion, and all of its sessions with it. Chromium sends such answers: a call may be on its way when
//! the page crashes. Playwright ignores only the error for an unknown session, so the engine gets that error instead.

use std::collections::HashSet;

use greenroom_cdp::message_stream::Text;

use super::{
    ProxyMessage,
    message::{AttachedTarget, MessageKind, kind, session_of, unknown_session},
};

/// The crashed pages of one connection, by session. A crashed page stays one: the browser may load it again for a navigation
/// that was on its way, but Playwright is done with the session.
#[derive(Default)]
pub(super) struct CrashedPages {
    crashed: HashSet<String>,
    /// The sessions of service workers. The browser restarts them, and Playwright goes on with their sessions.
    service_workers: HashSet<String>,
}

impl CrashedPages {
    /// Checks messages on their way out, in their order.
    pub(super) fn check(&mut self, out: &mut [ProxyMessage]) {
        for message in out {
            if let ProxyMessage::ToEngine(text) = message
                && let Some(replacement) = self.on_message_to_engine(text)
            {
                *text = replacement;
            }
        }
    }

    fn on_message_to_engine(&mut self, text: &Text) -> Option<Text> {
        match kind(text) {
            MessageKind::Answer(id) => {
                // The usual case; a picture of megabytes is not searched for its session.
                if self.crashed.is_empty() {
                    return None;
                }
                let session = session_of(text).filter(|session| self.crashed.contains(*session))?;
                Some(unknown_session(id, session))
            }
            MessageKind::Event(name) => {
                if name == "Inspector.targetCrashed" {
                    let session = session_of(text).filter(|session| !self.service_workers.contains(*session));
                    self.crashed.extend(session.map(str::to_owned));
                }
                None
            }
            MessageKind::Neither => None,
        }
    }

    pub(super) fn attached(&mut self, attached: &AttachedTarget) {
        if attached.target_info.r#type == "service_worker" {
            self.service_workers.insert(attached.session_id.clone());
        }
    }

    pub(super) fn detached(&mut self, session: &str) {
        self.crashed.remove(session);
        self.service_workers.remove(session);
    }
}
