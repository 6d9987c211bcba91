//! The headers of MCP over HTTP, and what requests of revision 2026-07-28 must say in them. [`super::param_headers`]
//! has the headers that repeat a tool's arguments.

use axum::http::{
    HeaderMap,
    header::{ACCEPT, CONTENT_TYPE},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use greenroom_core::{Fields, excerpt::echoed};
use greenroom_mcp::{RpcError, error::HEADER_MISMATCH};
use serde_json::value::RawValue;

use crate::front::stateless;

pub(super) const SESSION: &str = "mcp-session-id";
pub(super) const REVISION: &str = "mcp-protocol-version";
pub(super) const LAST_EVENT: &str = "last-event-id";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";

/// A header as text; a value that is not text counts as empty.
pub(super) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("\u{fffd}"))
}

pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(|kind| {
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("application/json")
    })
}

/// Whether the client accepts this type. A client without the header accepts any.
pub(super) fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let mut given = headers.get_all(ACCEPT).iter().peekable();
    if given.peek().is_none() {
        return true;
    }
    let family = kind.split('/').next().unwrap_or_default();
    given.filter_map(|value| value.to_str().ok()).flat_map(|list| list.split(',')).any(|one| {
        let one = one.split(';').next().unwrap_or_default().trim();
        one.eq_ignore_ascii_case(kind) || one == "*/*" || one.strip_suffix("/*") == Some(family)
    })
}

/// Checks that the header names the revision that the body names. This check comes first: a proxy that reads the
/// header must not take the request for one of another revision. A body that names no revision is refused later.
pub(super) fn match_revision(headers: &HeaderMap, params: Option<&RawValue>) -> Result<(), RpcError> {
    stateless::revision_of(params).map_or(Ok(()), |revision| expect(headers, REVISION, &revision))
}

/// Checks that the headers of a stateless request say what its body says.
pub(super) fn match_body(
    headers: &HeaderMap,
    method: &str,
    params: Option<&RawValue>,
) -> Result<(), RpcError> {
    expect(headers, METHOD, method)?;
    let named_by = match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        _ => None,
    };
    let Some(field) = named_by else { return Ok(()) };
    let name = params.and_then(|params| Fields::open(params).ok()?.read::<String>(field).ok()?);
    expect(headers, NAME, &name.unwrap_or_default())
}

fn expect(headers: &HeaderMap, header: &str, in_body: &str) -> Result<(), RpcError> {
    match header_value(headers, header)? {
        Some(header_value) if header_value == in_body => Ok(()),
        Some(header_value) => Err(mismatch(format!(
            "the header `{header}` says `{}`, the body says `{}`",
            echoed(&header_value),
            echoed(in_body)
        ))),
        None => {
            Err(mismatch(format!("the header `{header}` is missing; the body says `{}`", echoed(in_body))))
        }
    }
}

/// The value of a header that repeats a part of the body. A header that is given twice, or that cannot be read, cannot
/// be compared and is an error.
pub(super) fn header_value(headers: &HeaderMap, header: &str) -> Result<Option<String>, RpcError> {
    let mut given = headers.get_all(header).iter();
    let Some(value) = given.next() else { return Ok(None) };
    if given.next().is_some() {
        return Err(mismatch(format!("the header `{header}` is given twice")));
    }
    let read = value.to_str().ok().and_then(decoded);
    read.map(Some).ok_or_else(|| {
        let value = String::from_utf8_lossy(value.as_bytes());
        mismatch(format!("the header `{header}` cannot be read: `{}`", echoed(&value)))
    })
}

pub(super) fn mismatch(why: String) -> RpcError {
    RpcError::new(HEADER_MISMATCH, why)
}

/// Decodes a value that is wrapped as `=?base64?…?=` because it is not plain ASCII.
fn decoded(value: &str) -> Option<String> {
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(wrapped) => String::from_utf8(STANDARD.decode(wrapped).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse::<axum::http::HeaderName>().unwrap(), value.parse().unwrap()))
            .collect()
    }

    /// Types are compared without parameters and case; no header means any type.
    #[test]
    fn accept_types_ignore_parameters_and_case() {
        assert!(is_json(&headers(&[("content-type", "Application/JSON; charset=utf-8")])));
        assert!(!is_json(&headers(&[("content-type", "text/plain")])) && !is_json(&HeaderMap::new()));
        let accept = |value: &str| accepts(&headers(&[("accept", value)]), "text/event-stream");
        assert!(accept("application/json, text/event-stream") && accept("*/*") && accept("text/*;q=0.5"));
        assert!(!accept("application/json") && accepts(&HeaderMap::new(), "text/event-stream"));
    }

    /// Headers and body must agree, also when a name is wrapped.
    #[test]
    fn headers_must_match_the_body() {
        let params = r#"{"name":"größe","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;
        let params = greenroom_core::raw::parse(params.to_owned()).unwrap();
        let judge = |revision, method, name| {
            let headers = headers(&[(REVISION, revision), (METHOD, method), (NAME, name)]);
            match_revision(&headers, Some(&params))
                .and_then(|()| match_body(&headers, "tools/call", Some(&params)))
                .map_err(|error| error.message)
        };
        let wrapped = "=?base64?Z3LDtsOfZQ==?=";
        assert_eq!(judge("2026-07-28", "tools/call", wrapped), Ok(()));
        assert!(judge("2025-11-25", "tools/call", wrapped).unwrap_err().contains(REVISION));
        assert!(judge("2026-07-28", "tools/list", wrapped).unwrap_err().contains(METHOD));
        assert!(judge("2026-07-28", "tools/call", "other").unwrap_err().contains(NAME));
        assert!(judge("2026-07-28", "tools/call", "=?base64?!?=").unwrap_err().contains(NAME));
        let read = r#"{"uri":"a:b","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;
        let read = greenroom_core::raw::parse(read.to_owned()).unwrap();
        let judge_read = |name| {
            let sent = headers(&[(REVISION, "2026-07-28"), (METHOD, "resources/read"), (NAME, name)]);
            match_body(&sent, "resources/read", Some(&read)).is_ok()
        };
        assert!(judge_read("a:b") && !judge_read("a:c"));
        assert!(
            match_body(&HeaderMap::new(), "tools/list", Some(&params))
                .unwrap_err()
                .message
                .contains("missing")
        );
        let twice = headers(&[(METHOD, "tools/list"), (METHOD, "tools/list")]);
        assert!(match_body(&twice, "tools/list", None).unwrap_err().message.contains("given twice"));
    }
}
