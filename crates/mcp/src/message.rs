//! JSON-RPC messages. This module parses only the envelope; `params`, `result` and `error` stay raw.
//!
//! An id is kept as its sender wrote it (`1`, `1.0` and `"1"` are three ids), so an answer carries back the
//! very same text.
//!
//! [`parse`] is for messages of an engine or a server, [`parse_from_client`] for those of a client. The latter refuses
//! requests whose parameters two programs could read differently: greenroom checks them, and engines parse them again.

use std::{borrow::Cow, fmt};

use greenroom_core::{Raw, excerpt::echoed, json_check};
use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::error::{INVALID_PARAMS, INVALID_REQUEST, PARSE, RpcError};

/// How many messages a batch may have: as many as a connection may have calls in flight.
const BATCH_MAX: usize = 1024;

/// A request id, as its sender wrote it: a JSON string or number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Id(Box<str>);

impl Id {
    pub fn number(n: u64) -> Self {
        Self(n.to_string().into())
    }

    /// `None` unless it is a string or a number: JSON-RPC has no other ids, and MCP forbids `null`.
    pub fn from_raw(raw: &RawValue) -> Option<Self> {
        let text = raw.get();
        matches!(text.as_bytes().first(), Some(b'"' | b'-' | b'0'..=b'9')).then(|| Self(text.into()))
    }

    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// The id as a number, the form of the ids that greenroom gives out.
    pub fn as_number(&self) -> Option<u64> {
        self.0.parse().ok()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug)]
pub enum Message {
    Request { id: Id, method: String, params: Option<Raw> },
    Notification { method: String, params: Option<Raw> },
    Response { id: Id, body: Result<Raw, Raw> },
}

/// Why a text is not a message: the error to answer with, and the id if one could be read.
#[derive(Debug, thiserror::Error)]
#[error("{error}", error = .error.message)]
pub struct Malformed {
    pub id: Option<Id>,
    pub error: RpcError,
}

#[derive(Deserialize)]
struct RpcEnvelope<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// Keeps `null` apart from absent: serde would make both `None`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// One line or HTTP body: a message, or a batch of them (revision 2025-03-26 has batches).
pub enum Parsed {
    One(Result<Message, Malformed>),
    Batch(Vec<Result<Message, Malformed>>),
}

/// Parses one line or body.
pub fn parse(text: &[u8]) -> Parsed {
    if text.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'[') {
        return Parsed::One(parse_one(text));
    }
    match serde_json::from_slice::<BatchParts<'_>>(text) {
        Ok(BatchParts(parts)) if parts.is_empty() => Parsed::One(Err(invalid(None, "an empty batch"))),
        Ok(BatchParts(parts)) => {
            Parsed::Batch(parts.iter().map(|part| parse_one(part.get().as_bytes())).collect())
        }
        Err(error) if error.is_data() => Parsed::One(Err(invalid(None, &error.to_string()))),
        Err(error) => Parsed::One(Err(syntax(&error))),
    }
}

/// Parses one line or body of a client. A request is malformed if readers could disagree about its `params`; the error names
/// the place, and carries the request's id.
pub fn parse_from_client(text: &[u8]) -> Parsed {
    match parse(text) {
        Parsed::One(one) => Parsed::One(one.and_then(unambiguous)),
        Parsed::Batch(parts) => {
            Parsed::Batch(parts.into_iter().map(|part| part.and_then(unambiguous)).collect())
        }
    }
}

fn unambiguous(message: Message) -> Result<Message, Malformed> {
    if let Message::Request { id, method, params: Some(params) } = &message
        && let Err(ambiguous) = json_check::check(params)
    {
        let why = format!("the parameters of `{}` cannot be taken: {ambiguous}", echoed(method));
        return Err(Malformed { id: Some(id.clone()), error: RpcError::new(INVALID_PARAMS, why) });
    }
    Ok(message)
}

/// The parts of a batch. Each is as costly as a message, so their number is limited.
struct BatchParts<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for BatchParts<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bounded;
        impl<'de> Visitor<'de> for Bounded {
            type Value = Vec<&'de RawValue>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a batch of at most {BATCH_MAX} messages")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
                let mut taken = Vec::new();
                while let Some(part) = parts.next_element()? {
                    if taken.len() == BATCH_MAX {
                        return Err(A::Error::invalid_length(BATCH_MAX + 1, &self));
                    }
                    taken.push(part);
                }
                Ok(taken)
            }
        }
        deserializer.deserialize_seq(Bounded).map(Self)
    }
}

/// Parses one message.
pub fn parse_one(text: &[u8]) -> Result<Message, Malformed> {
    let envelope: RpcEnvelope<'_> = serde_json::from_slice(text).map_err(|error| {
        // Invalid JSON is one error, JSON that is not a message another. Either may have an id to answer to.
        let id = id_of(text);
        if error.is_data() { invalid(id, &error.to_string()) } else { Malformed { id, ..syntax(&error) } }
    })?;
    // Serde would also read the fields from an array, in their order.
    if text.trim_ascii_start().first() == Some(&b'[') {
        return Err(invalid(None, "it is an array"));
    }
    let id = match envelope.id {
        None => None,
        Some(raw) => {
            Some(Id::from_raw(raw).ok_or_else(|| invalid(None, "`id` must be a string or a number"))?)
        }
    };
    if envelope.jsonrpc.as_deref() != Some("2.0") {
        return Err(invalid(id, "`jsonrpc` must be \"2.0\""));
    }
    let params = envelope.params.map(ToOwned::to_owned);
    match (envelope.method, id, envelope.result, envelope.error) {
        (Some(method), Some(id), None, None) => {
            Ok(Message::Request { id, method: method.into_owned(), params })
        }
        (Some(method), None, None, None) => Ok(Message::Notification { method: method.into_owned(), params }),
        (None, Some(id), Some(result), None) => Ok(Message::Response { id, body: Ok(result.to_owned()) }),
        (None, Some(id), None, Some(error)) => Ok(Message::Response { id, body: Err(error.to_owned()) }),
        (_, id, ..) => Err(invalid(id, "a message has a `method`, or an `id` with a `result` or an `error`")),
    }
}

/// The id of a text that is not a valid message, for example because a string is not Unicode or a member is there
/// twice.
fn id_of(text: &[u8]) -> Option<Id> {
    #[derive(Deserialize)]
    struct OnlyId<'a> {
        #[serde(borrow)]
        id: &'a RawValue,
    }
    if text.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    serde_json::from_slice::<OnlyId<'_>>(text).ok().and_then(|only| Id::from_raw(only.id))
}

fn syntax(error: &serde_json::Error) -> Malformed {
    Malformed { id: None, error: RpcError::new(PARSE, format!("not JSON: {error}")) }
}

fn invalid(id: Option<Id>, why: &str) -> Malformed {
    Malformed { id, error: RpcError::new(INVALID_REQUEST, format!("not a JSON-RPC message: {why}")) }
}

/// Encodes a request as one line, without the newline.
pub fn request(id: &Id, method: &str, params: Option<&RawValue>) -> Vec<u8> {
    let mut line = head(params);
    push(&mut line, "\"id\":");
    push(&mut line, id.as_json());
    push(&mut line, ",");
    method_and_params(line, method, params)
}

pub fn notification(method: &str, params: Option<&RawValue>) -> Vec<u8> {
    method_and_params(head(params), method, params)
}

/// Encodes an answer. If the request's id was unreadable, the answer's id is `null`, as JSON-RPC demands.
pub fn response(id: Option<&Id>, body: &Result<Raw, Raw>) -> Vec<u8> {
    let (name, raw) = match body {
        Ok(result) => ("\"result\":", result),
        Err(error) => ("\"error\":", error),
    };
    let mut line = head(Some(raw));
    push(&mut line, "\"id\":");
    push(&mut line, id.map_or("null", Id::as_json));
    push(&mut line, ",");
    push(&mut line, name);
    push_flat(&mut line, raw);
    push(&mut line, "}");
    line
}

fn head(payload: Option<&RawValue>) -> Vec<u8> {
    let mut line = Vec::with_capacity(64 + payload.map_or(0, |raw| raw.get().len()));
    push(&mut line, "{\"jsonrpc\":\"2.0\",");
    line
}

fn method_and_params(mut line: Vec<u8>, method: &str, params: Option<&RawValue>) -> Vec<u8> {
    push(&mut line, "\"method\":");
    push(&mut line, greenroom_core::raw::encode(method).get());
    if let Some(params) = params {
        push(&mut line, ",\"params\":");
        push_flat(&mut line, params);
    }
    push(&mut line, "}");
    line
}

fn push(line: &mut Vec<u8>, text: &str) {
    line.extend_from_slice(text.as_bytes());
}

/// A message is one line. JSON strings cannot hold a bare newline, so any newline in a payload is white space
/// between its tokens and may become a blank.
fn push_flat(line: &mut Vec<u8>, raw: &RawValue) {
    let start = line.len();
    push(line, raw.get());
    for byte in line.iter_mut().skip(start) {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(text: &str) -> (i64, Option<String>) {
        let malformed = parse_one(text.as_bytes()).unwrap_err();
        (malformed.error.code, malformed.id.map(|id| id.to_string()))
    }

    /// Payloads come out as they went in, down to white space and number formats.
    #[test]
    fn payloads_stay_raw() {
        let text = r#"{"jsonrpc":"2.0","id":"a\u0041","method":"m","params":{"x": 1.50, "y":1e400}}"#;
        let Ok(Message::Request { id, method, params }) = parse_one(text.as_bytes()) else {
            panic!("a request")
        };
        assert_eq!(params.as_ref().unwrap().get(), r#"{"x": 1.50, "y":1e400}"#);
        assert_eq!(String::from_utf8(request(&id, &method, params.as_deref())).unwrap(), text);
    }

    /// The error of a malformed message says whether its JSON or its envelope is bad, and has the id if the message has one.
    #[test]
    fn malformed_messages_have_distinct_errors() {
        assert_eq!(error_of("{"), (PARSE, None));
        assert_eq!(error_of("nonsense"), (PARSE, None));
        assert_eq!(error_of("\u{fffd}"), (PARSE, None));
        assert_eq!(error_of("7"), (INVALID_REQUEST, None));
        assert_eq!(error_of(r#"["2.0",7,"ping"]"#), (INVALID_REQUEST, None));
        assert_eq!(error_of(r#"{"id":1,"method":"m"}"#), (INVALID_REQUEST, Some("1".into())));
        assert_eq!(error_of(r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#), (INVALID_REQUEST, None));
        assert_eq!(error_of(r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#), (INVALID_REQUEST, None));
        assert_eq!(error_of(r#"{"jsonrpc":"2.0","id":3}"#), (INVALID_REQUEST, Some("3".into())));
        assert_eq!(
            error_of(r#"{"jsonrpc":"2.0","id":3,"result":1,"error":2}"#),
            (INVALID_REQUEST, Some("3".into()))
        );
        assert!(parse_one(b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}").is_err());
    }

    /// A client's request whose parameters two programs could read differently is refused under its id, and the error
    /// names the place; the same from an engine is accepted.
    #[test]
    fn ambiguous_requests_are_refused() {
        for (params, says) in [
            (
                r#"{"arguments":{"url":"view-source:file:///s#\ud800"}}"#,
                "`arguments.url` is not valid Unicode",
            ),
            (r#"{"arguments":{"commands":[{"args":{"u\udc00":1}}]}}"#, "is not valid Unicode"),
            (r#"{"arguments":{"url":"a","url":"file:///b"}}"#, "`arguments.url` is given twice"),
            (r#"{"arguments":{},"arguments":{}}"#, "`arguments` is given twice"),
            (r#"{"arguments":{"__proto__":{}}}"#, "`arguments.__proto__` is a name"),
        ] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{params}}}"#);
            for batch in [false, true] {
                let text = if batch { format!("[{text}]") } else { text.clone() };
                let malformed = match parse_from_client(text.as_bytes()) {
                    Parsed::One(Err(malformed)) => malformed,
                    Parsed::Batch(mut parts) => parts.remove(0).unwrap_err(),
                    Parsed::One(Ok(_)) => panic!("it is taken: {text}"),
                };
                assert_eq!(malformed.id.map(|id| id.to_string()).as_deref(), Some("\"a\""));
                assert_eq!(malformed.error.code, INVALID_PARAMS);
                assert!(malformed.error.message.contains(says), "{}", malformed.error.message);
            }
            assert!(matches!(parse(text.as_bytes()), Parsed::One(Ok(_))));
        }
        let answer = br#"{"jsonrpc":"2.0","id":1,"result":{"a":"\ud800","a":1}}"#;
        assert!(matches!(parse_from_client(answer), Parsed::One(Ok(Message::Response { .. }))));
    }

    /// A message that is malformed because a string is not Unicode, or a member is there twice, is answered under its id.
    #[test]
    fn malformed_messages_keep_their_id() {
        for text in [
            &b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"m\",\"params\":{\"url\":\"\xff\"}}"[..],
            br#"{"jsonrpc":"2.0","id":7,"method":"\ud800"}"#,
            br#"{"jsonrpc":"2.0","id":7,"method":"m","params":{},"params":{}}"#,
        ] {
            let malformed = parse_one(text).unwrap_err();
            assert_eq!(malformed.id, Some(Id::number(7)), "{}", String::from_utf8_lossy(text));
        }
        assert!(parse_one(br#"{"jsonrpc":"2.0","id":7,"id":8,"method":"m"}"#).unwrap_err().id.is_none());
    }

    /// A batch is split, and each part is parsed on its own.
    #[test]
    fn batch_parts_are_parsed_one_by_one() {
        let Parsed::Batch(parts) = parse(br#" [{"jsonrpc":"2.0","method":"m"}, 1]"#) else {
            panic!("a batch")
        };
        assert!(parts[0].is_ok() && parts[1].is_err());
        assert!(matches!(parse(b"[]"), Parsed::One(Err(_))));
        let parts = |count: usize| parse(format!("[{}1]", "1,".repeat(count - 1)).as_bytes());
        assert!(matches!(parts(BATCH_MAX), Parsed::Batch(_)));
        let Parsed::One(Err(malformed)) = parts(BATCH_MAX + 1) else { panic!("too many") };
        assert_eq!(malformed.error.code, INVALID_REQUEST);
    }

    /// A payload that was written over several lines is sent as one.
    #[test]
    fn a_message_is_one_line() {
        let raw = greenroom_core::raw::parse("{\n  \"a\": \"x\\ny\"\r\n}".to_owned()).unwrap();
        let line = response(Some(&Id::number(1)), &Ok(raw));
        assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
        let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(value["result"]["a"], "x\ny");
    }
}
