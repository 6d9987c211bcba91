//! Refuses answers of the browser that would keep Node or greenroom busy for long. One Node process serves all sessions of a
//! browser, and serves none of them while it reads an answer.
//!
//! A page's own values are expensive: an agent's function runs among the page's scripts, and the engine checks, copies and
//! prints each value that it returns. The engine takes snapshots in a world of its own ([`EngineWorlds`]), and only turns
//! what these return into text. So the number of values is limited for the page's world alone, and the number of bytes for
//! both.

use std::collections::{HashMap, HashSet};

use greenroom_cdp::message_stream::Text;
use serde::Deserialize;

use super::message::{
    Envelope, ExecutionContextCreated, ExecutionContextDestroyed, params, read, refusal, session_of, thrown,
};

/// The longest value that a page may return to the engine: a title, a snapshot, a function's result. Node took 0.45 s for a
/// snapshot of 80,000 elements and 10 MB, so about 0.7 s for one of this length. It takes longer for a text: about 0.1 s for
/// each megabyte.
pub(super) const VALUE_BYTES_MAX: usize = 16 << 20;

/// How many values a function in the page's world may return. Node takes about 4 microseconds for each, whatever its length.
const VALUES_MAX: usize = 200_000;

/// The longest picture or file that an engine may get from a page, in base64. Node takes more than a second for it, in which
/// other sessions wait; greenroom passes on no part of a much longer answer.
const PICTURE_BYTES_MAX: usize = 48 << 20;

/// How many worlds, and how many open calls in them, are known for each session of the protocol. Chromium allows 1,000 frames
/// in a page, with a world of the engine in each. A call in an unknown world has the limits of the page's world.
const WORLDS_MAX: usize = 4_096;

/// What an agent can do if a value is too long for the engine.
pub(super) const RETURN_LESS: &str =
    "Take a snapshot of a part of the page (`target`, or a smaller `depth`), or return less of the page";

/// The limits of one connection's answers.
#[derive(Default)]
pub(super) struct AnswerLimit {
    worlds: EngineWorlds,
}

impl AnswerLimit {
    pub(super) fn on_engine_call(&mut self, call: &Envelope<'_>) {
        self.worlds.on_engine_call(call);
    }

    pub(super) fn on_event(&mut self, name: &str, text: &str) {
        self.worlds.on_event(name, text);
    }

    pub(super) fn detached(&mut self, session: &str) {
        self.worlds.detached(session);
    }

    /// What the engine gets instead of an answer that is too long for Node or for greenroom.
    pub(super) fn refuse(&mut self, id: u32, text: &Text) -> Option<Text> {
        let is_of_engine_world = self.worlds.take_call(id);
        let session = session_of(text);
        let bytes = text.len();
        if is_picture(text) {
            let why = format!(
                "the picture or file is too long: {bytes} bytes, and {PICTURE_BYTES_MAX} are allowed. Take a picture as JPEG \
                 (`type: \"jpeg\"`), leave the full page out, or take an element of it"
            );
            return (bytes > PICTURE_BYTES_MAX).then(|| refusal(id, session, &why));
        }
        if is_value(text) {
            let why = if bytes > VALUE_BYTES_MAX {
                format!(
                    "the page's value is too long: {bytes} bytes, and {VALUE_BYTES_MAX} are allowed. {RETURN_LESS}"
                )
            } else if !is_of_engine_world && has_too_many_values(text) {
                format!(
                    "the page returned too many values: {VALUES_MAX} are allowed in one answer. Return fewer, or all of them \
                     in one text (`JSON.stringify`)"
                )
            } else {
                return None;
            };
            return Some(thrown(id, session, &why));
        }
        // Trees of accessible elements, bodies of responses.
        let why = format!(
            "the browser's answer is too long: {bytes} bytes, and {VALUE_BYTES_MAX} are allowed. {RETURN_LESS}"
        );
        (bytes > VALUE_BYTES_MAX).then(|| refusal(id, session, &why))
    }
}

/// Whether an answer has more values than [`VALUES_MAX`]: each is followed by a comma, or by the end of a list or an object.
fn has_too_many_values(answer: &str) -> bool {
    // Most answers are too short for that.
    if answer.len() < 2 * VALUES_MAX {
        return false;
    }
    let mut values = 0_usize;
    let mut is_text = false;
    let mut is_escaped = false;
    for byte in answer.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b',' | b']' | b'}' if !is_text => values += 1,
            _ => {}
        }
    }
    values > VALUES_MAX
}

/// Whether the browser's answer carries a value of the page, and not a picture or a file.
pub(super) fn is_value(answer: &str) -> bool {
    let head = &answer[..answer.floor_char_boundary(64)];
    head.contains(r#""result":{"result":{"#)
}

/// Whether the browser's answer carries a picture or a file.
fn is_picture(answer: &str) -> bool {
    let head = &answer[..answer.floor_char_boundary(64)];
    head.contains(r#""result":{"data":""#)
}

/// The worlds that the engine has made in documents, and its open calls in them. Scripts of a page and functions of an agent
/// do not run there.
#[derive(Default)]
struct EngineWorlds {
    worlds: HashMap<String, HashSet<i64>>,
    /// The session of each call.
    calls: HashMap<u32, String>,
}

/// The parameters of `Runtime.callFunctionOn` that say where the function runs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FunctionCall {
    object_id: Option<String>,
    execution_context_id: Option<i64>,
}

impl FunctionCall {
    /// The world in which the function runs. The browser names objects `<isolate>.<world>.<number>`.
    fn world(&self) -> Option<i64> {
        match &self.object_id {
            Some(object) => object.split('.').nth(1)?.parse().ok(),
            None => self.execution_context_id,
        }
    }
}

impl EngineWorlds {
    fn on_engine_call(&mut self, call: &Envelope<'_>) {
        let (Some(id), Some("Runtime.callFunctionOn"), Some(session)) =
            (call.id, call.method.as_deref(), call.session.as_deref())
        else {
            return;
        };
        let Some(worlds) = self.worlds.get(session) else { return };
        let world = read::<FunctionCall>(call.params).and_then(|function| function.world());
        if world.is_some_and(|world| worlds.contains(&world)) && self.calls.len() < WORLDS_MAX {
            self.calls.insert(id, session.to_owned());
        }
    }

    fn on_event(&mut self, name: &str, text: &str) {
        match name {
            "Runtime.executionContextCreated" => {
                let Some((Some(session), ExecutionContextCreated { context })) = params(text) else { return };
                let worlds = self.worlds.entry(session).or_default();
                // A new process counts its worlds from 1 again.
                worlds.remove(&context.id);
                if !context.is_of_page() && worlds.len() < WORLDS_MAX {
                    worlds.insert(context.id);
                }
            }
            "Runtime.executionContextDestroyed" => {
                if let Some((Some(session), ExecutionContextDestroyed { execution_context_id })) =
                    params(text)
                    && let Some(worlds) = self.worlds.get_mut(&session)
                {
                    worlds.remove(&execution_context_id);
                }
            }
            "Runtime.executionContextsCleared" => {
                self.worlds.remove(session_of(text).unwrap_or_default());
            }
            _ => {}
        }
    }

    fn detached(&mut self, session: &str) {
        self.worlds.remove(session);
        self.calls.retain(|_, of| of != session);
    }

    /// Whether the answer with this number is that of a call in a world of the engine.
    fn take_call(&mut self, id: u32) -> bool {
        self.calls.remove(&id).is_some()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn created(world: i64, is_default: bool) -> String {
        let context =
            json!({ "id": world, "origin": "", "name": "", "auxData": { "isDefault": is_default } });
        let params = json!({ "context": context });
        json!({ "method": "Runtime.executionContextCreated", "params": params, "sessionId": "S" }).to_string()
    }

    /// The error that the engine gets for an answer with this value, if it does not get the answer.
    fn refused(limit: &mut AnswerLimit, value: &str) -> Option<Value> {
        let text = format!(
            r#"{{"id":7,"result":{{"result":{{"type":"object","value":{value}}}}},"sessionId":"S"}}"#
        );
        let refused = limit.refuse(7, &text.into());
        refused.map(|refused| serde_json::from_str(&refused).unwrap())
    }

    fn call_in(limit: &mut AnswerLimit, params: &Value) {
        let text = json!({ "id": 7, "method": "Runtime.callFunctionOn", "params": params, "sessionId": "S" });
        limit.on_engine_call(&serde_json::from_str(&text.to_string()).unwrap());
    }

    fn list(count: usize) -> String {
        format!("[{}]", vec!["0"; count].join(","))
    }

    /// An answer with too many values becomes an error that says what to do, whatever their length. Commas and brackets in
    /// texts do not count.
    #[test]
    fn answers_with_too_many_values_become_errors() {
        let mut limit = AnswerLimit::default();
        assert_eq!(refused(&mut limit, &list(VALUES_MAX - 10)), None);
        let error = refused(&mut limit, &list(VALUES_MAX + 10)).unwrap();
        assert!(error.to_string().contains("JSON.stringify"), "{error}");
        let after_backslash = format!(r#"["a\\",{}]"#, list(VALUES_MAX));
        assert!(refused(&mut limit, &after_backslash).is_some(), "after a text that ends with a backslash");
        assert_eq!(refused(&mut limit, &format!(r#"["\"{}"]"#, "],}".repeat(VALUES_MAX))), None);
    }

    /// A snapshot has many values, and is not refused for them. A call in the page's world is: also if its world has the
    /// number of a former world of the engine's, or is unknown.
    #[test]
    fn values_of_engine_worlds_are_not_counted() {
        let many = list(VALUES_MAX + 10);
        let mut limit = AnswerLimit::default();
        limit.on_event("Runtime.executionContextCreated", &created(3, true));
        limit.on_event("Runtime.executionContextCreated", &created(4, false));
        let object = |world: &str| json!({ "objectId": format!("-236788057069843301.{world}.2") });
        let in_world = |world: i64| json!({ "executionContextId": world });
        for (params, is_refused) in [
            (object("4"), false),
            (in_world(4), false),
            (object("3"), true),
            (in_world(3), true),
            (object("5"), true),
            (json!({ "objectId": "4", "executionContextId": 4 }), true),
            (json!({}), true),
        ] {
            call_in(&mut limit, &params);
            assert_eq!(refused(&mut limit, &many).is_some(), is_refused, "{params}");
            assert!(refused(&mut limit, &many).is_some(), "a call has one answer");
        }
        for (name, event) in [
            ("Runtime.executionContextCreated", created(4, true)),
            (
                "Runtime.executionContextDestroyed",
                json!({ "params": { "executionContextId": 4 }, "sessionId": "S" }).to_string(),
            ),
            ("Runtime.executionContextsCleared", json!({ "params": {}, "sessionId": "S" }).to_string()),
        ] {
            limit.on_event("Runtime.executionContextCreated", &created(4, false));
            call_in(&mut limit, &object("4"));
            assert_eq!(refused(&mut limit, &many), None, "{name}");
            limit.on_event(name, &event);
            call_in(&mut limit, &object("4"));
            assert!(refused(&mut limit, &many).is_some(), "{name}");
        }
        limit.on_event("Runtime.executionContextCreated", &created(4, false));
        call_in(&mut limit, &object("4"));
        limit.detached("S");
        assert!(limit.worlds.worlds.is_empty() && limit.worlds.calls.is_empty());
    }

    /// The number of bytes is limited in every world, and the error says how to get less.
    #[test]
    fn long_values_become_errors_in_every_world() {
        let mut limit = AnswerLimit::default();
        limit.on_event("Runtime.executionContextCreated", &created(4, false));
        for bytes in [VALUE_BYTES_MAX - 200, VALUE_BYTES_MAX] {
            call_in(&mut limit, &json!({ "executionContextId": 4 }));
            let error = refused(&mut limit, &format!(r#""{}""#, "a".repeat(bytes)));
            assert_eq!(error.is_some(), bytes == VALUE_BYTES_MAX);
            assert!(error.is_none_or(|error| error.to_string().contains("snapshot of a part")));
        }
    }

    /// A picture that is too long becomes an error that says what to do; the engine does not get to read it. Others pass.
    #[test]
    fn long_pictures_become_errors() {
        let mut limit = AnswerLimit::default();
        let mut refused = |bytes: usize| {
            let text = format!(r#"{{"id":7,"result":{{"data":"{}"}},"sessionId":"S"}}"#, "a".repeat(bytes));
            limit.refuse(7, &text.into())
        };
        assert_eq!(refused(PICTURE_BYTES_MAX - 100), None);
        let error: Value = serde_json::from_str(&refused(PICTURE_BYTES_MAX).unwrap()).unwrap();
        assert_eq!((&error["id"], &error["sessionId"]), (&json!(7), &json!("S")));
        assert!(error["error"]["message"].as_str().unwrap().contains("Take a picture as JPEG"), "{error}");
    }
}
