//! Requests that the browser pauses in all of its contexts until the observer has answered: for files of this machine, and
//! for https documents that failed.
//!
//! A page never loads a file. A document that the egress proxy has refused becomes a page that says so: the proxy can answer
//! plain http itself, but a browser drops the answer to a refused `CONNECT` and shows a general error.

use std::sync::Arc;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use greenroom_core::network::Blocked;
use serde::{Deserialize, Serialize};
use serde_json::json;
use url::Url;

use crate::{
    context_ports::ContextPorts,
    downloads::{BrowserCall, ContextId},
};

/// Which requests the browser pauses.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FetchPattern {
    url_pattern: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_type: Option<&'static str>,
    request_stage: &'static str,
}

pub(super) const PATTERNS: [FetchPattern; 2] = [
    FetchPattern { url_pattern: "file:*", resource_type: None, request_stage: "Request" },
    FetchPattern { url_pattern: "https://*", resource_type: Some("Document"), request_stage: "Response" },
];

/// The event `Fetch.requestPaused`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PausedRequest {
    request_id: String,
    request: RequestUrl,
    /// For a tab's own document this is the tab's id.
    pub(super) frame_id: String,
    /// Why the request failed, if it did.
    response_error_reason: Option<String>,
}

#[derive(Deserialize)]
struct RequestUrl {
    url: String,
}

impl PausedRequest {
    /// How the browser goes on with the request. `context` is that of the request's tab, if it is a tab's own document.
    pub(super) fn answer(&self, ports: Option<&Arc<ContextPorts>>, context: &ContextId) -> BrowserCall {
        let id = &self.request_id;
        // An address that is not https was paused as a file's, or cannot be read.
        let Some((host, port)) = https_target(&self.request.url) else {
            tracing::warn!("refused a page's request for a file of this machine");
            let params = json!({ "requestId": id, "errorReason": "AccessDenied" });
            return BrowserCall { method: "Fetch.failRequest", params };
        };
        let refusal = self.response_error_reason.as_ref().and(ports);
        match refusal.and_then(|ports| ports.refusal_of(context, &host, port)) {
            None => BrowserCall { method: "Fetch.continueRequest", params: json!({ "requestId": id }) },
            Some(reason) => {
                let params = refused_page(id, &format!("greenroom: {host}:{port} is refused: {reason}\n"));
                BrowserCall { method: "Fetch.fulfillRequest", params }
            }
        }
    }
}

/// The host and port of an https address.
fn https_target(url: &str) -> Option<(String, u16)> {
    let url = Url::parse(url).ok().filter(|url| url.scheme() == "https")?;
    Some((url.host_str()?.to_owned(), url.port_or_known_default()?))
}

/// The same answer as the proxy's own to plain http. The browser keeps it in no cache, and it can load nothing.
fn refused_page(request: &str, text: &str) -> serde_json::Value {
    json!({
        "requestId": request,
        "responseCode": 403,
        "responseHeaders": [
            { "name": "content-type", "value": "text/plain; charset=utf-8" },
            { "name": "cache-control", "value": "no-store" },
            { "name": "content-security-policy", "value": "sandbox; default-src 'none'" },
        ],
        "body": BASE64_STANDARD.encode(text),
    })
}

impl ContextPorts {
    /// Why the context's port has refused this host and port. A context without a port of its own, or an unknown one, has the
    /// browser's: what another session's port refused is not for this one to read.
    fn refusal_of(&self, context: &ContextId, host: &str, port: u16) -> Option<Blocked> {
        let own = self.port(context).or_else(|| self.port(&None))?;
        own.refusal_of(host, port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(url: &str, failed: bool) -> &'static str {
        let event = json!({
            "requestId": "r", "request": { "url": url }, "frameId": "f",
            "responseErrorReason": failed.then_some("Failed"),
        });
        serde_json::from_value::<PausedRequest>(event).unwrap().answer(None, &None).method
    }

    /// Files and unreadable addresses are refused; an https document goes on, also if it failed for another reason.
    #[test]
    fn only_https_documents_go_on() {
        for url in ["file:///etc/passwd", "FILE:///x", "https://", "nonsense", "http://127.0.0.1/"] {
            assert_eq!(answer(url, false), "Fetch.failRequest", "{url}");
        }
        for failed in [false, true] {
            assert_eq!(answer("https://example.com/a?b#c", failed), "Fetch.continueRequest");
        }
    }
}
