//! Ends a function that greenroom itself has the engine run in a page, if it takes too long. A page can replace what the
//! function reads by a function that never returns. The page would then answer no later call either, and cost its session.

use std::{collections::HashMap, time::Duration};

use serde_json::json;
use tokio::time::Instant;

use super::{
    ProxyMessage,
    message::{Envelope, OwnIds, call},
};
use crate::playwright::PAGE_VIEW;

/// How long the function may take. It reads a few numbers; a busy page lays itself out first.
const RETURN_WITHIN: Duration = Duration::from_secs(5);

/// Calls of the function are shorter than this.
const CALL_BYTES_MAX: usize = 4 << 10;

/// The calls that the browser has not answered: by their numbers, when and in which session they are ended. One session has one
/// such call at a time, since the engine's seats do.
#[derive(Default)]
pub(super) struct OwnEvaluations(HashMap<u32, (Instant, String)>);

impl OwnEvaluations {
    pub(super) fn on_engine_call(&mut self, call: &Envelope<'_>, text: &str, now: Instant) {
        let (Some(id), Some("Runtime.callFunctionOn"), Some(session)) =
            (call.id, call.method.as_deref(), call.session.as_deref())
        else {
            return;
        };
        if text.len() <= CALL_BYTES_MAX && text.contains(PAGE_VIEW) {
            self.0.insert(id, (now + RETURN_WITHIN, session.to_owned()));
        }
    }

    pub(super) fn answered(&mut self, id: u32) {
        self.0.remove(&id);
    }

    pub(super) fn detached(&mut self, session: &str) {
        self.0.retain(|_, (_, of)| of != session);
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.0.values().map(|(due, _)| *due).min()
    }

    /// The calls that end late functions. The browser then answers the engine with an error.
    pub(super) fn on_deadline(&mut self, now: Instant, ids: &mut OwnIds) -> Vec<ProxyMessage> {
        let late = self.0.extract_if(|_, (due, _)| *due <= now);
        late.map(|(_, (_, session))| {
            ProxyMessage::ToBrowser(call(
                ids.next(),
                Some(&session),
                "Runtime.terminateExecution",
                &json!({}),
            ))
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A late function is ended, once; one that was answered, of another session, or of an agent, is not.
    #[tokio::test(start_paused = true)]
    async fn late_function_is_ended() {
        let mut own = OwnEvaluations::default();
        let now = Instant::now();
        let send = |own: &mut OwnEvaluations, id: u32, session: &str, function: &str| {
            let params = json!({ "arguments": [{ "value": function }] });
            let text =
                json!({ "id": id, "method": "Runtime.callFunctionOn", "params": params, "sessionId": session })
                    .to_string();
            own.on_engine_call(&serde_json::from_str(&text).unwrap(), &text, now);
        };
        send(&mut own, 1, "A", PAGE_VIEW);
        send(&mut own, 2, "A", "() => document.title");
        send(&mut own, 3, "B", PAGE_VIEW);
        send(&mut own, 4, "C", PAGE_VIEW);
        own.answered(3);
        own.detached("C");
        let mut ids = OwnIds::default();
        assert_eq!(own.on_deadline(now, &mut ids), []);
        let due = own.due().unwrap();
        let out = own.on_deadline(due, &mut ids);
        let [ProxyMessage::ToBrowser(text)] = &out[..] else { panic!("{out:?}") };
        assert!(text.contains("Runtime.terminateExecution") && text.contains(r#""sessionId":"A""#), "{text}");
        assert_eq!((own.due(), own.on_deadline(due, &mut ids)), (None, Vec::new()));
    }
}
