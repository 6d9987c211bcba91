//! An engine's answer to `tools/call`, as far as it is the same whatever engine it is of: whether it failed, what its text
//! is, and what an answer of greenroom's own looks like. Adapters call this.

use std::time::Duration;

use greenroom_core::{
    Fields, Raw, Reply,
    raw::{encode, parse},
};
use serde_json::json;

use crate::endpoint::Endpoint;

/// A call may ask for a longer wait than the deadline, but not for one that would hold its slot for ever.
pub(crate) const OWN_WAIT_MAX: Duration = Duration::from_secs(3600);

/// The text of a failed answer.
pub(crate) fn failure(body: &Result<Raw, Raw>) -> Result<(), String> {
    let result = body.as_ref().map_err(|error| error.get().to_owned())?;
    let is_error = Fields::open(result).ok().and_then(|fields| fields.read::<bool>("isError").ok().flatten());
    if is_error == Some(true) { Err(result.get().to_owned()) } else { Ok(()) }
}

/// A failed tool of our own making, with a code that stays the same.
pub(crate) fn failed(code: &str, message: &str) -> Reply {
    let body = encode(&json!({
        "content": [{ "type": "text", "text": format!("### Error\n{message}") }],
        "isError": true,
        "_meta": { "greenroom/error": { "code": code, "retryable": false } },
    }));
    Ok(body).into()
}

/// An answer that does not show what is secret of a connection: what an engine says of a failure may name it.
pub(crate) fn without_secrets(endpoint: &Endpoint, body: Result<Raw, Raw>) -> Result<Raw, Raw> {
    if !endpoint.has_secrets() || failure(&body).is_ok() {
        return body;
    }
    let hidden = |raw: &Raw| parse(endpoint.without_secrets(raw.get()));
    match body.as_ref().map(hidden).map_err(hidden) {
        Ok(Ok(body)) => Ok(body),
        Err(Ok(body)) => Err(body),
        // A secret that looks like JSON was part of its grammar.
        Ok(Err(_)) | Err(Err(_)) => {
            failed("failed", "the engine failed; what it said of it is not shown").body
        }
    }
}

/// The text of an answer.
pub(crate) fn first_text(body: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Result {
        content: Vec<Part>,
    }
    #[derive(serde::Deserialize)]
    struct Part {
        text: Option<String>,
    }
    let result: Result = serde_json::from_str(body).ok()?;
    result.content.into_iter().find_map(|part| part.text)
}

/// A part of a JSON string as the text it stands for.
pub(crate) fn unescape(escaped: &str) -> Option<String> {
    serde_json::from_str(&format!("\"{escaped}\"")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A failure shows no secret of the connection, however JSON writes it, and even where it cannot be cut out.
    #[test]
    fn secrets_are_hidden() {
        let secrets = |value: &str| Endpoint {
            url: "http://a:1".to_owned(),
            headers: vec![("X".to_owned(), value.to_owned())],
            start_command: crate::StartCommand::default(),
        };
        let said = |value: &str| {
            let body = json!({ "content": [{ "type": "text", "text": format!("saw {value} there") }], "isError": true });
            let body = without_secrets(&secrets(value), Ok(encode(&body))).unwrap();
            (first_text(body.get()).unwrap(), failure(&Ok(body)).is_err())
        };
        assert_eq!(said("sesame"), ("saw … there".to_owned(), true));
        assert_eq!(said(r#"a"b\c"#), ("saw … there".to_owned(), true));
        let (text, is_failure) = said("[{");
        assert!(is_failure && text.contains("is not shown"), "{text}");
        let fine = encode(&json!({ "content": [{ "type": "text", "text": "sesame" }] }));
        assert!(without_secrets(&secrets("sesame"), Ok(fine)).unwrap().get().contains("sesame"));
    }
}
