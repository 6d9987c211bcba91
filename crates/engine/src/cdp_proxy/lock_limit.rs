//! Bounds how many Web Locks (`navigator.locks`) a page has. When a renderer process ends, Chromium takes time that grows
//! with the square of that process's locks, on the thread that serves all sessions: 2 s for 20,000 locks, a minute for
//! 100,000. A page can take that many in seconds.
//!
//! No setting of Chromium limits locks, so a script does (`realm.js`). The proxy puts it into every document and every worker
//! before their own scripts run. Requests beyond the limit wait until the page closes others. A worker that does not take
//! the script never runs: the engine's call that resumes it waits for the browser's answer, and is refused if that is an error.

use std::collections::HashMap;

use greenroom_cdp::link::Text;
use serde::Deserialize;
use serde_json::{json, value::RawValue};

use super::{
    Out,
    message::{Attached, Envelope, OwnIds, call, read, refusal},
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

/// How much of an unexpected answer the log shows, in bytes.
const ANSWER_BYTES_MAX: usize = 500;

pub(super) struct LockLimit {
    script: String,
    /// Workers that do not have the script, by session.
    workers: HashMap<String, Worker>,
}

/// A worker without the script.
struct Worker {
    target: String,
    state: WorkerState,
}

enum WorkerState {
    /// The browser has yet to answer the call of this number, which runs the script.
    Asked {
        call: u32,
        /// The engine's call that resumes the worker, and its number.
        held: Option<(u32, Text)>,
    },
    /// The script cannot run there.
    Refused,
}

/// The answer to `Runtime.evaluate`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Evaluated<'a> {
    #[serde(borrow)]
    exception_details: Option<&'a RawValue>,
}

/// Why the engine cannot resume a worker.
const UNLIMITED: &str = "the worker cannot run: its locks cannot be limited";

impl LockLimit {
    pub(super) fn new() -> Self {
        let script = without_comments(include_str!("lock_limit/realm.js"));
        let script = format!("({script})({IN_TAB_MAX}, {ELSEWHERE_MAX}, {NAME_LENGTH_MAX})");
        Self { script, workers: HashMap::new() }
    }

    /// The browser attaches the engine to a target. Returns what the proxy sends to the target before the engine does. A
    /// worker runs nothing until the engine resumes it.
    pub(super) fn attached(&mut self, attached: &Attached, ids: &mut OwnIds) -> Vec<Out> {
        let session = &attached.session_id;
        match &*attached.target_info.r#type {
            "worker" | "shared_worker" | "service_worker" => {
                let evaluate = json!({ "expression": self.script });
                // The engine asks for a worker's own workers only after it resumes the worker.
                let attach = json!({ "autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true });
                let asked = ids.next();
                let target = attached.target_info.target_id.clone();
                let state = WorkerState::Asked { call: asked, held: None };
                self.workers.insert(session.clone(), Worker { target, state });
                vec![
                    Out::ToBrowser(call(asked, Some(session), "Runtime.evaluate", &evaluate)),
                    Out::ToBrowser(call(ids.next(), Some(session), "Target.setAutoAttach", &attach)),
                ]
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn detached(&mut self, session: &str) {
        self.workers.remove(session);
    }

    /// The engine calls a target. Returns what happens instead, if the call would resume a worker without the script.
    pub(super) fn instead(&mut self, said: &Envelope<'_>, text: &Text) -> Option<Vec<Out>> {
        let (id, session) = (said.id?, said.session.as_deref()?);
        if said.method.as_deref() != Some("Runtime.runIfWaitingForDebugger") {
            return None;
        }
        match &mut self.workers.get_mut(session)?.state {
            WorkerState::Asked { held, .. } => {
                let former = held.replace((id, text.clone()));
                Some(
                    former
                        .into_iter()
                        .map(|(id, _)| Out::ToEngine(refusal(id, Some(session), UNLIMITED)))
                        .collect(),
                )
            }
            WorkerState::Refused => Some(vec![Out::ToEngine(refusal(id, Some(session), UNLIMITED))]),
        }
    }

    /// The browser answers one of the proxy's own calls. Returns what happens then, if a worker was to run the script.
    pub(super) fn answered(&mut self, id: u32, text: &Text, ids: &mut OwnIds) -> Option<Vec<Out>> {
        let is_it = |worker: &Worker| matches!(worker.state, WorkerState::Asked { call, .. } if call == id);
        let session =
            self.workers.iter().find(|(_, worker)| is_it(worker)).map(|(session, _)| session.clone())?;
        let worker = self.workers.remove(&session)?;
        let WorkerState::Asked { held, .. } = worker.state else { return None };
        let answer: Option<Envelope<'_>> = serde_json::from_str(text).ok();
        let evaluated = answer
            .filter(|answer| answer.error.is_none())
            .and_then(|answer| read::<Evaluated<'_>>(answer.result));
        if evaluated.is_some_and(|evaluated| evaluated.exception_details.is_none()) {
            return Some(held.into_iter().map(|(_, text)| Out::ToBrowser(text)).collect());
        }
        tracing::warn!(
            answer = text.get(..ANSWER_BYTES_MAX).unwrap_or(text),
            "a worker is ended: its locks cannot be limited"
        );
        // Chromium closes shared and service workers. A page's own worker stays as it is: it waits to be resumed.
        let close = call(ids.next(), None, "Target.closeTarget", &json!({ "targetId": worker.target }));
        let refused = held.map(|(id, _)| Out::ToEngine(refusal(id, Some(&session), UNLIMITED)));
        self.workers.insert(session, Worker { target: worker.target, state: WorkerState::Refused });
        Some(refused.into_iter().chain([Out::ToBrowser(close)]).collect())
    }

    /// Puts the script into all documents of a page or frame, existing ones included.
    pub(super) fn script(&self, session: &str, ids: &mut OwnIds) -> Out {
        let params = json!({ "source": self.script, "runImmediately": true });
        Out::ToBrowser(call(ids.next(), Some(session), "Page.addScriptToEvaluateOnNewDocument", &params))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn attached(session: &str, kind: &str) -> Attached {
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

    /// A worker is resumed once the script runs in it. A worker in which it does not run is never resumed, whether the engine
    /// asks before the browser answers or after, and is closed.
    #[test]
    fn workers_without_the_script_do_not_run() {
        let fails = r#"{"id":ID,"error":{"code":-32000,"message":"no context"},"sessionId":"W"}"#;
        let throws = r#"{"id":ID,"result":{"result":{"type":"object"},"exceptionDetails":{"text":"Uncaught"}},"sessionId":"W"}"#;
        let runs = r#"{"id":ID,"result":{"result":{"type":"undefined"}},"sessionId":"W"}"#;
        let resume: Text = r#"{"id":7,"method":"Runtime.runIfWaitingForDebugger","sessionId":"W"}"#.into();
        let refused = || Out::ToEngine(refusal(7, Some("W"), UNLIMITED));
        for (answer, is_well) in [(fails, false), (throws, false), ("{\"id\":ID}", false), (runs, true)] {
            for asks_first in [true, false] {
                let mut limit = LockLimit::new();
                let mut ids = OwnIds::default();
                limit.attached(&attached("W", "worker"), &mut ids);
                // The first call of the two that it sent is the script.
                let asked = OwnIds::default().next();
                let answer: Text = answer.replace("ID", &asked.to_string()).into();
                let resumes =
                    |limit: &mut LockLimit| limit.instead(&serde_json::from_str(&resume).unwrap(), &resume);
                if asks_first {
                    assert_eq!(resumes(&mut limit), Some(Vec::new()), "it waits for the answer");
                }
                assert_eq!(limit.answered(asked - 1, &answer, &mut ids), None, "another call");
                let mut out = limit.answered(asked, &answer, &mut ids).unwrap();
                if is_well {
                    assert_eq!(
                        out,
                        asks_first.then(|| Out::ToBrowser(resume.clone())).into_iter().collect::<Vec<_>>()
                    );
                    assert_eq!(resumes(&mut limit), None, "it passes");
                    continue;
                }
                let Some(Out::ToBrowser(close)) = out.pop() else { panic!("{out:?}") };
                assert!(
                    close.contains("Target.closeTarget") && close.contains(r#""targetId":"T""#),
                    "{close:?}"
                );
                assert_eq!(out, asks_first.then(refused).into_iter().collect::<Vec<_>>());
                assert_eq!(resumes(&mut limit), Some(vec![refused()]));
                limit.detached("W");
                assert_eq!(resumes(&mut limit), None);
            }
        }
    }

    /// A worker has the script, and its own workers wait, before the engine sees it. A page gets the script when
    /// [`super::super::script::Unscripted`] says so.
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
        let script = ("Page.addScriptToEvaluateOnNewDocument".to_owned(), "page".to_owned());
        assert_eq!(sent([limit.script("page", &mut ids)]), [script]);
    }
}
