//! Bounds how much work a page can give to the browser's thread that serves all sessions. Chromium has no settings for
//! these limits, so scripts in the page enforce them. The proxy puts them into every document and every worker before
//! their own scripts run.
//!
//! - Web Locks (`navigator.locks`): when a renderer process ends, Chromium takes time that grows with the square of that
//!   process's locks: 2 s for 20,000 locks, a minute for 100,000. A page can take that many in seconds. Requests beyond the
//!   limit wait until the page closes others (`locks.js`).
//! - Workers: each may have locks of its own, so their number is bounded. The proxy closes workers beyond it, and workers in
//!   which the scripts fail, before they run.
//! - Prerendered documents: pages may not have any, since the scripts might miss them.
//! - Messages of a `BroadcastChannel`: Chromium copies each for every receiver. A page that sends 4 MiB to 50 receivers in a
//!   loop asks for minutes of work within a second. Larger messages are refused (`broadcasts.js`).

use std::collections::HashMap;

use greenroom_cdp::message_stream::Text;
use serde::{Deserialize, de::IgnoredAny};
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

/// How many workers the pages of a context may have at a time. Pages have as many as the machine has processors, and some a
/// few dozen. With their locks, 128 stay far below the number that costs other sessions a second.
const WORKERS_PER_CONTEXT_MAX: usize = 128;

/// How long the name of a lock may be. `navigator.locks.query()` copies the names of all locks, on the thread that serves all
/// sessions.
const LOCK_NAME_LENGTH_MAX: u32 = 256;

/// How large a broadcast message may be. The browser sends smaller ones through sockets, so the renderer's thread that reads
/// them works as much as the browser, and `overload/` finds the page by that work. Larger ones cost a renderer nothing.
const BROADCAST_BYTES_MAX: u32 = 64 * 1024;

/// The answer to `Runtime.evaluate`.
#[derive(Default, Deserialize)]
struct Answer {
    result: Option<Evaluated>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Evaluated {
    exception_details: Option<IgnoredAny>,
}

pub(super) struct RealmLimits {
    /// Two, since one long script takes much more memory in each page than two short ones.
    scripts: [String; 2],
    /// Sessions of pages and frames that do not have the scripts yet.
    pending: HashMap<String, PendingKind>,
    /// Open workers, by their sessions.
    workers: HashMap<String, OpenWorker>,
    /// The calls that put the scripts into workers and have no answer yet, with the workers' sessions.
    evaluations: HashMap<u32, String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PendingKind {
    Page,
    Frame,
}

struct OpenWorker {
    context: Option<String>,
    target: String,
    /// Whether it belongs to one page, and not to all pages of an origin.
    is_dedicated: bool,
}

impl OpenWorker {
    /// The call that closes it. The browser closes no dedicated worker by its target; such a worker closes itself.
    fn close(&self, session: &str, ids: &mut OwnIds) -> ProxyMessage {
        ProxyMessage::ToBrowser(if self.is_dedicated {
            call(ids.next(), Some(session), "Runtime.evaluate", &json!({ "expression": "close()" }))
        } else {
            call(ids.next(), None, "Target.closeTarget", &json!({ "targetId": self.target }))
        })
    }
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
        Self { scripts, pending: HashMap::new(), workers: HashMap::new(), evaluations: HashMap::new() }
    }

    /// The browser attaches the engine to a target. Returns what the proxy sends to the target before the engine does. A
    /// worker runs nothing until the engine resumes it.
    pub(super) fn attached(&mut self, attached: &AttachedTarget, ids: &mut OwnIds) -> Vec<ProxyMessage> {
        let session = &attached.session_id;
        let kind = match &*attached.target_info.r#type {
            "page" => PendingKind::Page,
            "iframe" => PendingKind::Frame,
            "worker" | "shared_worker" | "service_worker" => return self.worker_attached(attached, ids),
            _ => return Vec::new(),
        };
        self.pending.insert(session.clone(), kind);
        Vec::new()
    }

    fn worker_attached(&mut self, attached: &AttachedTarget, ids: &mut OwnIds) -> Vec<ProxyMessage> {
        let session = &attached.session_id;
        let info = &attached.target_info;
        let worker = OpenWorker {
            context: info.browser_context_id.clone(),
            target: info.target_id.clone(),
            is_dedicated: info.r#type == "worker",
        };
        let open = self.workers.values().filter(|open| open.context == worker.context).count();
        if open >= WORKERS_PER_CONTEXT_MAX {
            tracing::debug!(context = worker.context, "closing a worker: its session has too many");
            return vec![worker.close(session, ids)];
        }
        self.workers.insert(session.clone(), worker);
        let id = ids.next();
        self.evaluations.insert(id, session.clone());
        let evaluate = json!({ "expression": self.scripts.join(";") });
        // The engine asks for a worker's own workers only after it resumes the worker.
        let attach = json!({ "autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true });
        vec![
            ProxyMessage::ToBrowser(call(id, Some(session), "Runtime.evaluate", &evaluate)),
            ProxyMessage::ToBrowser(call(ids.next(), Some(session), "Target.setAutoAttach", &attach)),
        ]
    }

    /// The browser answers a call of the proxy. Returns the call that closes a worker in which the scripts failed: without
    /// limits it must not go on.
    pub(super) fn answered(&mut self, id: u32, text: &Text, ids: &mut OwnIds) -> Option<ProxyMessage> {
        let session = self.evaluations.remove(&id)?;
        let answer: Answer = serde_json::from_str(text).unwrap_or_default();
        let has_run = answer.result.is_some_and(|result| result.exception_details.is_none());
        let worker = self.workers.get(&session).filter(|_| !has_run)?;
        tracing::debug!(answer = %text.get(..200).unwrap_or(text), "closing a worker without limits");
        Some(worker.close(&session, ids))
    }

    pub(super) fn detached(&mut self, session: &str) {
        self.pending.remove(session);
        if self.workers.remove(session).is_some() {
            self.evaluations.retain(|_, of| of != session);
        }
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
        let Some((session, kind)) =
            session.and_then(|session| Some((session, self.pending.remove(session)?)))
        else {
            return Vec::new();
        };
        let add = |script: &String| {
            let params = json!({ "source": script, "runImmediately": true });
            let method = "Page.addScriptToEvaluateOnNewDocument";
            ProxyMessage::ToBrowser(call(ids.next(), Some(session), method, &params))
        };
        let mut out: Vec<_> = self.scripts.iter().map(add).collect();
        if kind == PendingKind::Page {
            let params = json!({ "isAllowed": false });
            let method = "Page.setPrerenderingAllowed";
            out.push(ProxyMessage::ToBrowser(call(ids.next(), Some(session), method, &params)));
        }
        out
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
                let text = |name: &str| call[name].as_str().unwrap_or_default().to_owned();
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
        let no_prerendering = ("Page.setPrerenderingAllowed".to_owned(), "page".to_owned());
        assert_eq!(enables("page", "Runtime.enable"), [script("page"), script("page"), no_prerendering]);
        assert_eq!(enables("page", "Runtime.enable"), []);
        assert_eq!(enables("iframe", "Runtime.enable"), [script("iframe"), script("iframe")]);
        for other in ["tab", "W", "unknown"] {
            assert_eq!(enables(other, "Runtime.enable"), [], "{other}");
        }
    }

    /// Workers of a context beyond the limit are closed, until others have ended. Other contexts have their own.
    #[test]
    fn workers_are_bounded() {
        let mut limit = RealmLimits::new();
        let mut ids = OwnIds::default();
        let mut count = |limit: &mut RealmLimits, session: &str, kind: &str| {
            sent(limit.attached(&attached(session, kind), &mut ids)).len()
        };
        for number in 0..WORKERS_PER_CONTEXT_MAX {
            assert_eq!(count(&mut limit, &number.to_string(), "worker"), 2);
        }
        assert_eq!(count(&mut limit, "surplus", "worker"), 1);
        assert_eq!(count(&mut limit, "surplus", "shared_worker"), 1);
        limit.detached("surplus");
        limit.detached("7");
        assert_eq!(count(&mut limit, "next", "worker"), 2);
        let info = json!({ "targetId": "T", "type": "worker", "browserContextId": "other" });
        let other = serde_json::from_value(json!({ "sessionId": "other", "targetInfo": info })).unwrap();
        assert_eq!(limit.attached(&other, &mut ids).len(), 2);
    }

    /// A worker in which the scripts fail is closed; one in which they run, or that has ended, is not.
    #[test]
    fn worker_without_limits_is_closed() {
        let thrown = json!({ "result": { "result": {}, "exceptionDetails": { "text": "Uncaught" } } });
        for (kind, answer, expected) in [
            ("worker", json!({ "result": { "result": { "type": "undefined" } } }), None),
            ("worker", thrown, Some(("Runtime.evaluate", "W"))),
            ("shared_worker", json!({ "error": { "code": -32000 } }), Some(("Target.closeTarget", ""))),
        ] {
            for has_ended in [false, true] {
                let mut limit = RealmLimits::new();
                let mut ids = OwnIds::default();
                let out = limit.attached(&attached("W", kind), &mut ids);
                let ProxyMessage::ToBrowser(evaluate) = &out[0] else { panic!("{out:?}") };
                let id = serde_json::from_str::<Value>(evaluate).unwrap()["id"].as_u64().unwrap();
                if has_ended {
                    limit.detached("W");
                }
                let closed = limit.answered(u32::try_from(id).unwrap(), &answer.to_string().into(), &mut ids);
                let expected = expected.filter(|_| !has_ended);
                let expected = expected.map(|(method, session)| (method.to_owned(), session.to_owned()));
                assert_eq!(sent(closed), expected.into_iter().collect::<Vec<_>>(), "{kind} {answer}");
            }
        }
    }
}
