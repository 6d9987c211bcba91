//! What the gate reads of the protocol, and the few messages that it writes itself.

use std::borrow::Cow;

use greenroom_cdp::link::Text;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

/// The outside of any message, either way. What is inside stays raw.
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

/// `Target.attachedToTarget`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Attached {
    pub(super) session_id: String,
    pub(super) target_info: TargetInfo,
    #[serde(default)]
    pub(super) waiting_for_debugger: bool,
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
pub(super) struct Detached {
    pub(super) session_id: String,
}

/// What an engine has made, or asks for.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Made {
    pub(super) target_id: Option<String>,
    pub(super) browser_context_id: Option<String>,
}

/// An error.
#[derive(Deserialize)]
pub(super) struct Fault {
    pub(super) code: i64,
}

pub(super) fn read<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

/// A call of the gate's own.
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
