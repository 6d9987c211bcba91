//! An engine's answer to `tools/call`, as far as all engines have it in common: whether it failed, its text, and the form of
//! answers that greenroom makes itself. The adapters call these functions.

use std::time::Duration;

use greenroom_core::{Fields, Raw, Reply, json_check::mended, raw::encode};
use serde_json::json;

/// A call may ask for a longer wait than the deadline, but not for one that would hold its slot for ever.
pub(crate) const OWN_WAIT_MAX: Duration = Duration::from_secs(3600);

/// `Err` with the JSON text of the answer if it is a failed one.
pub(crate) fn ensure_success(body: &Result<Raw, Raw>) -> Result<(), String> {
    let result = body.as_ref().map_err(|error| error.get().to_owned())?;
    let is_error = Fields::open(result).ok().and_then(|fields| fields.read::<bool>("isError").ok().flatten());
    if is_error == Some(true) { Err(result.get().to_owned()) } else { Ok(()) }
}

/// A failed answer that greenroom makes itself, with a stable code.
pub(crate) fn failed_reply(code: &str, message: &str) -> Reply {
    let body = encode(&json!({
        "content": [{ "type": "text", "text": format!("### Error\n{message}") }],
        "isError": true,
        "_meta": { "greenroom/error": { "code": code, "retryable": false } },
    }));
    Ok(body).into()
}

/// The text of an answer.
pub(crate) fn first_text(body: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct ToolResult {
        content: Vec<ContentBlock>,
    }
    #[derive(serde::Deserialize)]
    struct ContentBlock {
        text: Option<String>,
    }
    let result: ToolResult = serde_json::from_str(&mended(body)).ok()?;
    result.content.into_iter().find_map(|part| part.text)
}

/// A part of a JSON string with its escapes decoded.
pub(crate) fn unescape(escaped: &str) -> Option<String> {
    serde_json::from_str(&format!("\"{}\"", mended(escaped))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page that shows half a surrogate pair is still read: its marks of password fields count.
    #[test]
    fn text_with_half_a_surrogate_pair_is_read() {
        let body = r#"{"content":[{"type":"text","text":"a \ud800 b"}]}"#;
        assert_eq!(first_text(body).as_deref(), Some("a \u{fffd} b"));
        assert_eq!(
            unescape(r#"- textbox \"Password\ud800\" [ref=e3]"#).as_deref(),
            Some("- textbox \"Password\u{fffd}\" [ref=e3]")
        );
    }
}
