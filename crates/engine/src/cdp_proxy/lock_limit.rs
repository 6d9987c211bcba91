//! Bounds how many Web Locks (`navigator.locks`) a page has. When a renderer process ends, Chromium takes time that grows
//! with the square of that process's locks, on the thread that serves all sessions: 2 s for 20,000 locks, a minute for
//! 100,000. A page can take that many in seconds.
//!
//! No setting of Chromium limits locks, so a script does (`realm.js`). The proxy puts it into every document and every worker
//! before their own scripts run. Requests beyond the limit wait until the page closes others.

use std::collections::HashSet;

use serde_json::json;

use super::{
    Out,
    message::{AttachedTarget, Envelope, OwnIds, call},
    script::without_comments,
};

/// How many locks and open requests the document of a tab may have. Pages have a handful: one for each database or leader of
/// their tabs.
const IN_TAB_MAX: u32 = 64;

/// How many each frame and each worker may have. Chromium allows a tab 1,000 frames, which together stay below the number
/// that costs other sessions a second.
const ELSEWHERE_MAX: u32 = 8;

/// How long the name of a lock may be. `navigator.locks.query()` copies the names of all locks, on the thread that serves all
/// sessions.
const NAME_LENGTH_MAX: u32 = 256;

pub(super) struct LockLimit {
    script: String,
    /// Sessions of pages and frames that do not have the script yet.
    pending: HashSet<String>,
}

impl LockLimit {
    pub(super) fn new() -> Self {
        let script = without_comments(include_str!("lock_limit/realm.js"));
        let script = format!("({script})({IN_TAB_MAX}, {ELSEWHERE_MAX}, {NAME_LENGTH_MAX})");
        Self { script, pending: HashSet::new() }
    }

    /// The browser attaches the engine to a target. Returns what the proxy sends to the target before the engine does. A
    /// worker runs nothing until the engine resumes it.
    pub(super) fn attached(&mut self, attached: &AttachedTarget, ids: &mut OwnIds) -> Vec<Out> {
        let session = &attached.session_id;
        match &*attached.target_info.r#type {
            "page" | "iframe" => {
                self.pending.insert(session.clone());
                Vec::new()
            }
            "worker" | "shared_worker" | "service_worker" => {
                let evaluate = json!({ "expression": self.script });
                // The engine asks for a worker's own workers only after it resumes the worker.
                let attach = json!({ "autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true });
                [("Runtime.evaluate", evaluate), ("Target.setAutoAttach", attach)]
                    .iter()
                    .map(|(method, params)| Out::ToBrowser(call(ids.next(), Some(session), method, params)))
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
    pub(super) fn on_engine_call(&mut self, said: &Envelope<'_>, ids: &mut OwnIds) -> Option<Out> {
        let session = said.session.as_deref().filter(|_| said.method.as_deref() == Some("Runtime.enable"))?;
        if !self.pending.remove(session) {
            return None;
        }
        let params = json!({ "source": self.script, "runImmediately": true });
        let add = "Page.addScriptToEvaluateOnNewDocument";
        Some(Out::ToBrowser(call(ids.next(), Some(session), add, &params)))
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

    fn sent(out: impl IntoIterator<Item = Out>) -> Vec<(String, String)> {
        let read = |out| match out {
            Out::ToBrowser(text) => {
                let call: Value = serde_json::from_str(&text).unwrap();
                let text = |name: &str| call[name].as_str().unwrap().to_owned();
                (text("method"), text("sessionId"))
            }
            Out::ToEngine(text) => panic!("{text}"),
        };
        out.into_iter().map(read).collect()
    }

    /// A worker has the script, and its own workers wait, before the engine sees it. A page gets the script once, after the
    /// call that enables its runtime.
    #[test]
    fn scripts_come_first() {
        let mut limit = LockLimit::new();
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
        assert_eq!(enables("page", "Runtime.enable"), [script("page")]);
        assert_eq!(enables("page", "Runtime.enable"), []);
        assert_eq!(enables("iframe", "Runtime.enable"), [script("iframe")]);
        for other in ["tab", "W", "unknown"] {
            assert_eq!(enables(other, "Runtime.enable"), [], "{other}");
        }
    }
}
