//! The parts of the protocol that the proxy reads, and the few messages that it writes itself.

use std::borrow::Cow;

use greenroom_cdp::message_stream::Text;
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};

/// The protocol's error for a session that has ended.
pub(super) const SESSION_NOT_FOUND: i64 = -32001;

/// The outer fields of any message, in either direction. The inner ones stay raw.
#[derive(Deserialize)]
pub(super) struct Envelope<'a> {
    pub(super) id: Option<u32>,
    #[serde(borrow)]
    pub(super) method: Option<Cow<'a, str>>,
    #[serde(rename = "sessionId", borrow)]
    pub(super) session: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) params: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// What a message of the browser is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MessageKind<'a> {
    /// The answer to the call with this number.
    Answer(u32),
    /// An event of this name.
    Event(Cow<'a, str>),
    /// Nothing of the protocol.
    Neither,
}

/// Classifies a message. A browser writes the number or the name first, so the rest, which may be a picture of megabytes, is
/// parsed only if it does not.
pub(super) fn kind(text: &str) -> MessageKind<'_> {
    if let Some((id, _)) = text.strip_prefix(r#"{"id":"#).and_then(|rest| rest.split_once(','))
        && let Ok(id) = id.parse()
    {
        return MessageKind::Answer(id);
    }
    if let Some((name, _)) = text.strip_prefix(r#"{"method":""#).and_then(|rest| rest.split_once('"')) {
        return MessageKind::Event(Cow::Borrowed(name));
    }
    match serde_json::from_str(text) {
        Ok(Envelope { id: Some(id), .. }) => MessageKind::Answer(id),
        Ok(Envelope { method: Some(name), .. }) => MessageKind::Event(name),
        Ok(_) | Err(_) => MessageKind::Neither,
    }
}

/// The session of a message. A browser writes it last, so the megabytes that may come before it are not parsed.
pub(super) fn session_of(text: &str) -> Option<&str> {
    let (_, rest) = text.rsplit_once(r#""sessionId":""#)?;
    rest.split_once('"').map(|(session, _)| session)
}

/// Numbers for the proxy's own calls. They count down from half of the number range, so that they collide neither with the
/// engine's nor with those of [`super::silent_tabs`].
pub(super) struct OwnIds {
    next: u32,
}

impl OwnIds {
    const FIRST: u32 = 1 << 30;

    pub(super) fn next(&mut self) -> u32 {
        self.next -= 1;
        self.next
    }

    /// Whether a number is one of these.
    pub(super) fn contains(&self, id: u32) -> bool {
        (self.next..Self::FIRST).contains(&id)
    }
}

impl Default for OwnIds {
    fn default() -> Self {
        Self { next: Self::FIRST }
    }
}

/// `Target.attachedToTarget`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AttachedTarget {
    pub(super) session_id: String,
    pub(super) target_info: TargetInfo,
    #[serde(default)]
    pub(super) waiting_for_debugger: bool,
}

impl AttachedTarget {
    /// Whether it is a page, or a worker that belongs to no page, and not a part of the page whose session is `parent`.
    /// Puppeteer attaches to a tab, and in the tab's session to its page. The page is what it navigates.
    pub(super) fn is_page(&self, parent: Option<&str>) -> bool {
        parent.is_none() || self.target_info.r#type == "page"
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TargetInfo {
    pub(super) target_id: String,
    pub(super) r#type: String,
    pub(super) opener_id: Option<String>,
    pub(super) browser_context_id: Option<String>,
}

/// `Target.detachedFromTarget`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DetachedTarget {
    pub(super) session_id: String,
}

/// `Runtime.executionContextCreated`: a document or worker has a new world for scripts.
#[derive(Deserialize)]
pub(super) struct ExecutionContextCreated {
    pub(super) context: ExecutionContext,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExecutionContext {
    pub(super) id: i64,
    pub(super) name: String,
    aux_data: Option<ExecutionContextData>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecutionContextData {
    is_default: Option<bool>,
}

impl ExecutionContext {
    /// Whether the page's own scripts run there. Only the debugger's clients make other worlds, and say so.
    pub(super) fn is_of_page(&self) -> bool {
        self.aux_data.as_ref().and_then(|data| data.is_default) != Some(false)
    }
}

/// `Runtime.executionContextDestroyed`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExecutionContextDestroyed {
    pub(super) execution_context_id: i64,
}

/// The target or browser context that an engine has made or asks for.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TargetOrContext {
    pub(super) target_id: Option<String>,
    pub(super) browser_context_id: Option<String>,
}

/// The error in an answer.
#[derive(Deserialize)]
pub(super) struct CdpError {
    pub(super) code: i64,
}

pub(super) fn read<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

/// One of the proxy's own calls.
pub(super) fn call(id: u32, session: Option<&str>, method: &str, params: &Value) -> Text {
    let mut message = json!({ "id": id, "method": method, "params": params });
    if let Some(session) = session {
        message["sessionId"] = session.into();
    }
    message.to_string().into()
}

/// An event that the browser would send if a tab had come or gone.
pub(super) fn event(method: &str, params: &Value) -> Text {
    json!({ "method": method, "params": params }).to_string().into()
}

/// An event's session and its parameters.
pub(super) fn params<T: serde::de::DeserializeOwned>(text: &str) -> Option<(Option<String>, T)> {
    let event: Envelope<'_> = serde_json::from_str(text).ok()?;
    Some((event.session.map(Cow::into_owned), read(event.params)?))
}

/// An engine's call with other parameters.
pub(super) fn rewritten(id: u32, session: Option<&str>, method: &str, params: Map<String, Value>) -> Text {
    call(id, session, method, &Value::Object(params))
}

/// The answer to a call that does not reach the browser.
pub(super) fn refusal(id: u32, session: Option<&str>, why: &str) -> Text {
    /// The protocol's error for a call that cannot be carried out.
    const SERVER_ERROR: i64 = -32_000;
    let mut answer = json!({ "id": id, "error": { "code": SERVER_ERROR, "message": why } });
    if let Some(session) = session {
        answer["sessionId"] = session.into();
    }
    answer.to_string().into()
}

/// The answer that a browser gives to a call in a session that it does not know.
pub(super) fn unknown_session(id: u32, session: &str) -> Text {
    let error = json!({ "code": SESSION_NOT_FOUND, "message": "Session with given id not found." });
    json!({ "id": id, "error": error, "sessionId": session }).to_string().into()
}

/// The answer to an evaluation that threw an error with this text. An engine repeats the text; for a protocol error it would
/// say that the page had navigated.
pub(super) fn thrown(id: u32, session: Option<&str>, why: &str) -> Text {
    let description = format!("Error: {why}");
    let error =
        json!({ "type": "object", "subtype": "error", "className": "Error", "description": description });
    let details = json!({ "exceptionId": 1, "text": "Uncaught", "lineNumber": 0, "columnNumber": 0, "exception": error });
    let mut answer = json!({ "id": id, "result": { "result": error, "exceptionDetails": details } });
    if let Some(session) = session {
        answer["sessionId"] = session.into();
    }
    answer.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message is classified by its first field, and by all of it if another field comes first.
    #[test]
    fn messages_are_classified() {
        for (text, expected) in [
            (r#"{"id":7,"result":{}}"#, MessageKind::Answer(7)),
            (r#"{"result":{},"id":7}"#, MessageKind::Answer(7)),
            (r#"{ "id": 7 }"#, MessageKind::Answer(7)),
            (r#"{"method":"Page.x","params":{}}"#, MessageKind::Event("Page.x".into())),
            (r#"{"params":{"id":3},"method":"Page.x"}"#, MessageKind::Event("Page.x".into())),
            (r#"{"error":{}}"#, MessageKind::Neither),
            ("", MessageKind::Neither),
            (r#"{"id":-1,"result":{}}"#, MessageKind::Neither),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
    }

    /// The proxy recognises its own numbers.
    #[test]
    fn own_ids_are_recognised() {
        let mut ids = OwnIds::default();
        let first = ids.next();
        assert!(
            ids.contains(first) && !ids.contains(first - 1) && !ids.contains(first + 1) && !ids.contains(1)
        );
    }
}
