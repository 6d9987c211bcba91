//! Bounds how much work a page can give to the browser's thread that serves all sessions. Chromium has no settings for
//! these limits, so scripts in the page enforce them. The proxy puts them into every document and every worker before
//! their own scripts run.
//!
//! - Web Locks (`navigator.locks`): when a renderer process ends, Chromium takes time that grows with the square of that
//!   process's locks: 2 s for 20,000 locks, a minute for 100,000. A page can take that many in seconds. Requests beyond the
//!   limit wait until the page closes others (`locks.js`).
//! - Messages of a `BroadcastChannel`: Chromium copies each for every receiver. A page that sends 4 MiB to 50 receivers in a
//!   loop asks for minutes of work within a second. Larger messages are refused (`broadcasts.js`).

use std::collections::HashSet;

use serde_json::json;

use super::{
    ProxyMessage,
    message::{AttachedTarget, Envelope, OwnIds, call},
    script::without_comments,
};

/// How many locks and open requests the document of a tab may have. Pages have a handful: one for each database or leader of
/// their tabs.
const LOCKS_PER_TAB_MAX: u32 = 64;

/// How many each frame and each worker may have. Chromium allows a tab 1,000 frames, which together stay below the number
/// that costs other sessions a second.
const LOCKS_PER_FRAME_OR_WORKER_MAX: u32 = 8;

/// How long the name of a lock may be. `navigator.locks.query()` copies the names of all locks, on the thread that serves all
/// sessions.
const LOCK_NAME_LENGTH_MAX: u32 = 256;

/// How large a broadcast message may be. The browser sends smaller ones through sockets, so the renderer's thread that reads
/// them works as much as the browser, and `overload/` finds the page by that work. Larger ones cost a renderer nothing.
const BROADCAST_BYTES_MAX: u32 = 64 * 1024;

pub(super) struct RealmLimits {
    /// Two, since one long script takes much more memory in each page than two short ones.
    scripts: [String; 2],
    /// Sessions of pages and frames that do not have the scripts yet.
    pending: HashSet<String>,
}

impl RealmLimits {
    pub(super) fn new() -> Self {
        let locks = without_comments(include_str!("realm_limits/locks.js"));
        let broadcasts = without_comments(include_str!("realm_limits/broadcasts.js"));
        let scripts = [
            format!(
                "({locks})({LOCKS_PER_TAB_MAX}, {LOCKS_PER_FRAME_OR_WORKER_MAX}, {LOCK_NAME_LENGTH_MAX})"
            ),
            format!("({broadcasts})({BROADCAST_BYTES_MAX})"),
        ];
        Self { scripts, pending: HashSet::new() }
    }

    /// The browser attaches the engine to a target. Returns what the proxy sends to the target before the engine does. A
    /// worker runs nothing until the engine resumes it.
    pub(super) fn attached(&mut self, attached: &AttachedTarget, ids: &mut OwnIds) -> Vec<ProxyMessage> {
        let session = &attached.session_id;
        match &*attached.target_info.r#type {
            "page" | "iframe" => {
                self.pending.insert(session.clone());
                Vec::new()
            }
            "worker" | "shared_worker" | "service_worker" => {
                let evaluate = json!({ "expression": self.scripts.join(";") });
                // The engine asks for a worker's own workers only after it resumes the worker.
                let attach = json!({ "autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true });
                [("Runtime.evaluate", evaluate), ("Target.setAutoAttach", attach)]
                    .iter()
                    .map(|(method, params)| {
                        ProxyMessage::ToBrowser(call(ids.next(), Some(session), method, params))
                    })
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn detached(&mut self, session: &str) {
        self.pending.remove(session);
    }

    /// The engine calls a target. Returns what the proxy sends after that call: the browser runs scripts in new documents
    /// only once the engine has enabled the page, which it does before it enables the runtime.
    pub(super) fn on_engine_call(
        &mut self,
        call_of_engine: &Envelope<'_>,
        ids: &mut OwnIds,
    ) -> Vec<ProxyMessage> {
        let session = call_of_engine
            .session
            .as_deref()
            .filter(|_| call_of_engine.method.as_deref() == Some("Runtime.enable"));
        let Some(session) = session.filter(|session| self.pending.remove(*session)) else {
            return Vec::new();
        };
        let add = |script: &String| {
            let params = json!({ "source": script, "runImmediately": true });
            let method = "Page.addScriptToEvaluateOnNewDocument";
            ProxyMessage::ToBrowser(call(ids.next(), Some(session), method, &params))
        };
        self.scripts.iter().map(add).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn attached(session: &str, kind: &str) -> AttachedTarget {
        let info = json!({ "targetId": "T", "type": kind, "browserContextId": "C" });
        serde_json::from_value(json!({ "sessionId": session, "targetInfo": info })).unwrap()
    }

    fn sent(out: impl IntoIterator<Item = ProxyMessage>) -> Vec<(String, String)> {
        let read = |out| match out {
            ProxyMessage::ToBrowser(text) => {
                let call: Value = serde_json::from_str(&text).unwrap();
                let text = |name: &str| call[name].as_str().unwrap().to_owned();
                (text("method"), text("sessionId"))
            }
            ProxyMessage::ToEngine(text) => panic!("{text}"),
        };
        out.into_iter().map(read).collect()
    }

    /// A worker has the scripts, and its own workers wait, before the engine sees it. A page gets the scripts once, after the
    /// call that enables its runtime. None is so long that it takes much memory in every page.
    #[test]
    fn scripts_precede_the_engine() {
        let mut limit = RealmLimits::new();
        assert!(limit.scripts.iter().all(|script| script.len() < 4096));
        let mut ids = OwnIds::default();
        for kind in ["worker", "shared_worker", "service_worker"] {
            let expected = ["Runtime.evaluate", "Target.setAutoAttach"]
                .map(|method| (method.to_owned(), "W".to_owned()));
            assert_eq!(sent(limit.attached(&attached("W", kind), &mut ids)), expected, "{kind}");
        }
        for kind in ["page", "iframe", "browser", "tab"] {
            assert_eq!(sent(limit.attached(&attached(kind, kind), &mut ids)), [], "{kind}");
        }
        let mut enables = |session: &str, method: &str| {
            let text = json!({ "id": 1, "sessionId": session, "method": method }).to_string();
            sent(limit.on_engine_call(&serde_json::from_str(&text).unwrap(), &mut ids))
        };
        let script = |session: &str| ("Page.addScriptToEvaluateOnNewDocument".to_owned(), session.to_owned());
        assert_eq!(enables("page", "Page.enable"), []);
        assert_eq!(enables("page", "Runtime.enable"), [script("page"), script("page")]);
        assert_eq!(enables("page", "Runtime.enable"), []);
        assert_eq!(enables("iframe", "Runtime.enable"), [script("iframe"), script("iframe")]);
        for other in ["tab", "W", "unknown"] {
            assert_eq!(enables(other, "Runtime.enable"), [], "{other}");
        }
    }
}
