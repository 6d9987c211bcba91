//! Shortens a page's own text in the browser's events: addresses, headers, bodies, messages, names. A page can make each of
//! them as long as it likes (an address up to 2 MB), the engine keeps many of them, and one Node process serves all sessions
//! of a browser.
//!
//! A text that is too long is cut and ends with an ellipsis. Identifiers are short, so events can still be matched to each
//! other. Events by which the engine decides whether a request may go on (`Fetch`) are not shortened here: see
//! [`super::network_limit`].

use greenroom_cdp::message_stream::Text;
use memchr::{memchr, memchr2};
use serde_json::Value;

/// The longest text in an event. No server accepts an address of that length, and an agent is shown less of a body.
const STRING_BYTES_MAX: usize = 128 << 10;

/// The longest event.
pub(super) const EVENT_BYTES_MAX: usize = 1 << 20;

/// What is left of a longer event: of each text, and of each list or object.
const TRIMMED_STRING_BYTES_MAX: usize = 1 << 10;
const TRIMMED_MEMBERS_MAX: usize = 64;

/// The longest call of a function that the engine has put into a page. This cannot be shortened.
const BINDING_BYTES_MAX: usize = 16 << 20;

/// Marks the end of a text that was cut. It is no part of an address, and no digit of base64.
const ELLIPSIS: char = '…';

/// The domains whose events are shortened. Other events of `Runtime` have limits of their own ([`super::console_limit`]),
/// and an agent asked for those of `Tracing`, `HeapProfiler` and the like.
const DOMAINS: [&str; 6] = ["Audits.", "Browser.", "Log.", "Network.", "Page.", "Target."];

/// The event of a document or worker that can run scripts, which names its address.
const SCRIPTS: &str = "Runtime.executionContextCreated";

/// Events that name the address of a frame or worker. The browser copies it several times for each of them.
const EVENTS_WITH_ADDRESS: [&str; 8] = [
    "Page.frameNavigated",
    "Page.frameRequestedNavigation",
    "Page.frameStartedNavigating",
    "Page.navigatedWithinDocument",
    SCRIPTS,
    "Target.attachedToTarget",
    "Target.targetCreated",
    "Target.targetInfoChanged",
];

/// From this length on an address is long. Documents and workers have addresses of some hundred characters, and pages that
/// keep their state in their addresses some thousand.
const LONG_ADDRESS_BYTES: usize = 64 << 10;

/// Whether an event names a long address of a frame or worker.
pub(super) fn names_long_address(name: &str, text: &str) -> bool {
    text.len() > LONG_ADDRESS_BYTES && EVENTS_WITH_ADDRESS.contains(&name)
}

/// A picture of the page, which cannot be cut. Its size is that of the page.
const PICTURE: &str = "Page.screencastFrame";

/// The event as the engine gets it. `None` if it cannot be made short enough.
pub(super) fn shortened(name: &str, text: Text) -> Option<Text> {
    if name == "Runtime.bindingCalled" {
        return (text.len() <= BINDING_BYTES_MAX).then_some(text);
    }
    if text.len() <= STRING_BYTES_MAX
        || name == PICTURE
        || !(name == SCRIPTS || DOMAINS.iter().any(|domain| name.starts_with(domain)))
    {
        return Some(text);
    }
    let cut = cut_strings(&text, STRING_BYTES_MAX);
    if cut.len() <= EVENT_BYTES_MAX {
        return Some(cut.into());
    }
    let mut event: Value = serde_json::from_str(&cut_strings(&cut, TRIMMED_STRING_BYTES_MAX)).ok()?;
    trim(&mut event);
    let trimmed = event.to_string();
    (trimmed.len() <= EVENT_BYTES_MAX).then(|| trimmed.into())
}

/// The JSON text with every string literal in it cut to this length.
fn cut_strings(text: &str, bytes_max: usize) -> String {
    let bytes = text.as_bytes();
    let mut cut_text = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(quote) = bytes.get(at..).and_then(|rest| memchr(b'"', rest)) {
        let start = at + quote + 1;
        let end = string_end(bytes, start);
        if end - start > bytes_max {
            cut_text.push_str(&text[copied..cut_at(text, start, start + bytes_max)]);
            cut_text.push(ELLIPSIS);
            copied = end;
        }
        at = end + 1;
    }
    cut_text.push_str(&text[copied..]);
    cut_text
}

/// The index of the quote that ends the string which starts here.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        match bytes[at + found] {
            b'"' => return at + found,
            _ => at += found + 2,
        }
    }
    bytes.len()
}

/// The last position before `limit` where the string that starts at `start` may be cut: not inside a character, an escape or
/// a surrogate pair of escapes.
fn cut_at(text: &str, start: usize, limit: usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = start;
    while let Some(found) = bytes.get(at..limit).and_then(|rest| memchr(b'\\', rest)) {
        let escape = at + found;
        let length = escape_length(&bytes[escape..]);
        if escape + length > limit {
            return escape;
        }
        at = escape + length;
    }
    text.floor_char_boundary(limit)
}

/// The length of the escape at the start of these bytes. A surrogate pair of escapes counts as one; half a pair, which pages
/// can write, counts alone.
fn escape_length(bytes: &[u8]) -> usize {
    match bytes {
        [
            _,
            b'u',
            b'd' | b'D',
            b'8' | b'9' | b'a' | b'b' | b'A' | b'B',
            _,
            _,
            b'\\',
            b'u',
            b'd' | b'D',
            b'c'..=b'f' | b'C'..=b'F',
            ..,
        ] => 12,
        [_, b'u', ..] => 6,
        _ => 2,
    }
}

/// Cuts lists and objects to this many members. The protocol's own objects have fewer; headers, cookies and stacks may have
/// more.
fn trim(value: &mut Value) {
    match value {
        Value::Array(values) => {
            values.truncate(TRIMMED_MEMBERS_MAX);
            values.iter_mut().for_each(trim);
        }
        Value::Object(members) => {
            if members.len() > TRIMMED_MEMBERS_MAX {
                *members = std::mem::take(members).into_iter().take(TRIMMED_MEMBERS_MAX).collect();
            }
            members.values_mut().for_each(trim);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(name: &str, params: &Value) -> Text {
        json!({ "method": name, "params": params, "sessionId": "S" }).to_string().into()
    }

    fn read(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    /// Long texts are cut wherever they stand in an event, and nothing else of it changes.
    #[test]
    fn long_texts_are_cut() {
        let long = "a".repeat(2_000_000);
        let sent = json!({ "requestId": "7.1", "request": { "url": format!("http://a/?{long}"), "headers": { "b": long, "c": "\"d\\" } } });
        let shortened_event =
            shortened("Network.requestWillBeSent", event("Network.requestWillBeSent", &sent)).unwrap();
        assert!(shortened_event.len() < 3 * STRING_BYTES_MAX);
        let shortened_event = read(&shortened_event);
        assert_eq!(
            (&shortened_event["sessionId"], &shortened_event["params"]["requestId"]),
            (&json!("S"), &json!("7.1"))
        );
        let request = &shortened_event["params"]["request"];
        let url = request["url"].as_str().unwrap();
        assert!(url.starts_with("http://a/?aaa") && url.ends_with("a…"));
        assert_eq!(request["headers"]["c"], "\"d\\");
        assert!(request["headers"]["b"].as_str().unwrap().len() <= STRING_BYTES_MAX + 3);
    }

    /// Events that are short, or whose text no page can choose, pass unchanged.
    #[test]
    fn short_and_fixed_events_pass_unchanged() {
        let long = "a".repeat(2 * EVENT_BYTES_MAX);
        for (name, words) in [
            ("Network.requestWillBeSent", "http://a/"),
            (PICTURE, &*long),
            ("Tracing.dataCollected", &*long),
            ("Fetch.requestPaused", &*long),
            ("Runtime.bindingCalled", &*long),
        ] {
            let text = event(name, &json!({ "data": words }));
            assert_eq!(shortened(name, text.clone()), Some(text), "{name}");
        }
        let call = event("Runtime.bindingCalled", &json!({ "payload": "a".repeat(BINDING_BYTES_MAX) }));
        assert_eq!(shortened("Runtime.bindingCalled", call), None);
    }

    /// An event of very many short texts loses most of them, and still names its session.
    #[test]
    fn events_with_many_texts_are_trimmed() {
        let headers: serde_json::Map<String, Value> =
            (0..200_000).map(|number| (format!("h{number}"), json!("value"))).collect();
        let extra =
            json!({ "requestId": "7.1", "headers": headers, "zcookies": vec![json!({ "a": "b" }); 100_000] });
        let shortened_event = shortened(
            "Network.responseReceivedExtraInfo",
            event("Network.responseReceivedExtraInfo", &extra),
        );
        let shortened_event = read(&shortened_event.unwrap());
        assert_eq!(
            (&shortened_event["sessionId"], &shortened_event["params"]["requestId"]),
            (&json!("S"), &json!("7.1"))
        );
        assert_eq!(shortened_event["params"]["headers"].as_object().unwrap().len(), TRIMMED_MEMBERS_MAX);
        assert_eq!(shortened_event["params"]["zcookies"].as_array().unwrap().len(), TRIMMED_MEMBERS_MAX);
    }

    /// A cut leaves valid JSON wherever it falls: in characters of several bytes, in escapes, in pairs of them.
    #[test]
    fn cuts_leave_valid_json() {
        for unit in ["ä", "😀", r"\n", r#"\""#, r"\\", r"\u00e4", r"\ud83d\ude00", r"\uD83D\uDE00"] {
            let text = format!(r#"{{"a":"x{}","b":"{unit}"}}"#, unit.repeat(20));
            let whole = read(&text);
            for max in 13..40 {
                let cut = read(&cut_strings(&text, max));
                let cut_text = cut["a"].as_str().unwrap().trim_end_matches(ELLIPSIS);
                assert!(whole["a"].as_str().unwrap().starts_with(cut_text), "{unit} {max}: {cut}");
                assert_eq!(cut["b"], whole["b"], "{unit} {max}");
            }
        }
        // Readers more lenient than serde accept halves of pairs: what matters is where the string ends.
        for unit in
            [r"\ud83dabcde\n", r"\ud83d\\", r"\ud83d", r#"\ud83d\""#, r"\ude00\ud83d", r"\ud83d\u0041"]
        {
            let text = format!(r#"{{"a":"x{}","b":1}}"#, unit.repeat(20));
            for max in 13..60 {
                let cut = cut_strings(&text, max);
                let parsed: serde_json::Map<String, Value> = {
                    let raw: std::collections::HashMap<&str, &serde_json::value::RawValue> =
                        serde_json::from_str(&cut).unwrap_or_else(|error| panic!("{error}: {cut}"));
                    raw.into_iter().map(|(name, raw)| (name.to_owned(), json!(raw.get()))).collect()
                };
                assert_eq!(parsed["b"], "1", "{unit} {max}: {cut}");
                let cut_text = parsed["a"].as_str().unwrap().trim_end_matches(['…', '"']);
                let rest = cut_text.strip_prefix("\"x").unwrap();
                // The rest ends where an escape ends.
                assert!(!rest.ends_with("\\u") && rest.len() <= max, "{unit} {max}: {cut}");
            }
        }
        assert_eq!(cut_strings(r#"{"a":"without an end"#, 3), r#"{"a":"wit…"#);
    }
}
