//! The field `sessionId` of a message: which session it belongs to, found without parsing the megabytes that a message may
//! have.
//!
//! Chromium and the engines write the field last. Inside a JSON text every quote is escaped, so bytes that look like the last
//! field of a message are its last field. A message without the field at its end is parsed.

use std::borrow::Cow;

use memchr::memmem;
use serde::Deserialize;

const FIELD: &[u8] = br#","sessionId":""#;

/// How many bytes at the end of a message are searched for the field: the field's name, and twice as many characters as
/// Chromium's ids have.
const TAIL_BYTES: usize = 96;

/// The fields of a message that routing needs.
#[derive(Deserialize)]
pub(crate) struct RoutedFields<'a> {
    pub(crate) id: Option<u32>,
    #[serde(rename = "sessionId", borrow)]
    session: Option<Cow<'a, str>>,
}

/// The text before the last field and the session, if the last field is `sessionId`.
fn last_field(text: &str) -> Option<(&str, &str)> {
    let start = text.len().saturating_sub(TAIL_BYTES);
    let at = start + memmem::rfind(text.as_bytes().get(start..)?, FIELD)?;
    let session = text.get(at + FIELD.len()..)?.strip_suffix("\"}")?;
    let is_id = session.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    Some((text.get(..at)?, session)).filter(|_| is_id)
}

/// The session of a message; `None` if it names none. Fails for a text that is not a message.
pub(crate) fn session_of(text: &str) -> Result<Option<Cow<'_, str>>, serde_json::Error> {
    match last_field(text) {
        Some((_, session)) => Ok(Some(Cow::Borrowed(session))),
        None => serde_json::from_str::<RoutedFields<'_>>(text).map(|fields| fields.session),
    }
}

/// The number of a call or an answer, if it has one.
pub(crate) fn id_of(text: &str) -> Option<u32> {
    let first = text.strip_prefix(r#"{"id":"#).and_then(|rest| rest.split_once(','));
    match first.map(|(id, _)| id.parse()) {
        Some(Ok(id)) => Some(id),
        _ => serde_json::from_str::<RoutedFields<'_>>(text).ok()?.id,
    }
}

/// A message of no session as one of this session.
pub(crate) fn with_session(text: &str, session: &str) -> String {
    let fields = text.trim_end().strip_suffix('}').unwrap_or(text);
    let mut message = String::with_capacity(fields.len() + FIELD.len() + session.len() + 2);
    message.push_str(fields);
    message.push_str(r#","sessionId":""#);
    message.push_str(session);
    message.push_str("\"}");
    message
}

/// A message that Chromium sent in a session, without the session.
pub(crate) fn without_session(mut text: String) -> String {
    if let Some((fields, _)) = last_field(&text) {
        text.truncate(fields.len());
        text.push('}');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The session is found at the end, elsewhere by parsing, and never in a text or in an inner object.
    #[test]
    fn session_is_found_in_its_field_only() {
        for (text, expected) in [
            (r#"{"id":1,"result":{},"sessionId":"A1-b"}"#, Some("A1-b")),
            (r#"{"sessionId":"A1","id":1,"result":{}}"#, Some("A1")),
            (r#"{"id":1,"result":{}, "sessionId" : "A1" }"#, Some("A1")),
            (r#"{"method":"T.d","params":{"x":1,"sessionId":"A1"}}"#, None),
            (r#"{"method":"T.d","params":{"x":1,"sessionId":"A1"},"sessionId":"B2"}"#, Some("B2")),
            (r#"{"method":"T.d","x":",\"sessionId\":\"A1"}"#, None),
            (r#"{"id":1}"#, None),
        ] {
            assert_eq!(session_of(text).unwrap().as_deref(), expected, "{text}");
        }
        assert!(session_of("no message").is_err());
        let long = format!(r#"{{"id":1,"result":"{}","sessionId":"A1"}}"#, "ü".repeat(1_000));
        assert_eq!(session_of(&long).unwrap().as_deref(), Some("A1"));
    }

    /// A session that is added can be removed again, and nothing else changes.
    #[test]
    fn added_session_is_removed_again() {
        let call = r#"{"id":1,"method":"A.b","params":{"x":"\"}"}}"#;
        let added = with_session(call, "S");
        assert_eq!(added, r#"{"id":1,"method":"A.b","params":{"x":"\"}"},"sessionId":"S"}"#);
        assert_eq!(without_session(added), call);
        assert_eq!(without_session(call.to_owned()), call);
    }

    /// The number is found wherever it stands.
    #[test]
    fn number_is_found() {
        for (text, expected) in [
            (r#"{"id":7,"result":{}}"#, Some(7)),
            (r#"{"method":"A.b","params":{"id":3},"id":7}"#, Some(7)),
            (r#"{"id":7}"#, Some(7)),
            (r#"{"method":"A.b","params":{"id":3}}"#, None),
        ] {
            assert_eq!(id_of(text), expected, "{text}");
        }
    }
}
