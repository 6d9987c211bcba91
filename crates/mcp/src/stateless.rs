//! Revision 2026-07-28 as a client speaks it: every request names the client and its capabilities, in `_meta` and over HTTP
//! in headers too.
//!
//! [`crate::Peer`] adds that to each request, once [`crate::Peer::discover`] was called. A server's questions come as
//! results of the type `input_required`; the peer's user answers them and repeats the request.

use std::collections::HashMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use greenroom_core::{
    Fields, Raw,
    raw::{encode, tree},
};
use hyper::http::HeaderName;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::{peer::InitializeParams, revision::STATELESS};

/// The key in a parameter's schema that names its header.
const ANNOTATION: &str = "x-mcp-header";

/// How often one request may be repeated because its server asks questions. A server that asks more often never stops.
pub const ROUNDS_MAX: usize = 32;

/// What requests to one server say about their client.
pub(crate) struct StatelessMeta {
    meta: Fields,
    /// Which arguments of a tool also go into headers, by the last tool list.
    repeated: Mutex<HashMap<String, Vec<HeaderArgument>>>,
}

/// An argument that also goes into a header.
struct HeaderArgument {
    header: String,
    /// Where the argument is: one member name for each level below `arguments`.
    path: Vec<String>,
}

impl StatelessMeta {
    pub(crate) fn new(hello: &InitializeParams) -> Self {
        let mut meta = Fields::default();
        meta.set("io.modelcontextprotocol/protocolVersion", encode(STATELESS));
        meta.set("io.modelcontextprotocol/clientInfo", encode(&hello.client_info));
        meta.set("io.modelcontextprotocol/clientCapabilities", hello.capabilities.clone());
        Self { meta, repeated: Mutex::default() }
    }

    /// The parameters with the client's `_meta` added. Other members of `_meta` stay.
    pub(crate) fn params(&self, params: Option<&RawValue>) -> Raw {
        let mut params = params.and_then(|params| Fields::open(params).ok()).unwrap_or_default();
        let mut meta = params.read::<Fields>("_meta").ok().flatten().unwrap_or_default();
        self.meta.iter().for_each(|(name, value)| meta.set(name, value.to_owned()));
        params.set("_meta", meta.to_raw());
        params.to_raw()
    }

    /// The headers of a request over HTTP.
    pub(crate) fn headers(&self, method: &str, params: &RawValue) -> Vec<(String, String)> {
        let mut headers = vec![
            ("mcp-protocol-version".to_owned(), STATELESS.to_owned()),
            ("mcp-method".to_owned(), method.to_owned()),
        ];
        let field = match method {
            "tools/call" | "prompts/get" => "name",
            "resources/read" => "uri",
            _ => return headers,
        };
        let params = Fields::open(params).unwrap_or_default();
        let name = params.read::<String>(field).ok().flatten().unwrap_or_default();
        if method == "tools/call" {
            let arguments = params.get("arguments").and_then(tree).unwrap_or_default();
            let repeated = self.repeated.lock();
            headers.extend(repeated.get(&name).into_iter().flatten().filter_map(|repeated| {
                let value = repeated.path.iter().try_fold(&arguments, |inside, name| inside.get(name))?;
                Some((repeated.header.clone(), plain(value)?))
            }));
        }
        headers.push(("mcp-name".to_owned(), wrapped(&name)));
        headers
    }

    /// Notes which arguments go into headers, for the tools in this part of a list.
    pub(crate) fn listed(&self, result: &RawValue) {
        #[derive(Deserialize)]
        struct ToolsPage {
            tools: Vec<Raw>,
        }
        let Ok(page) = serde_json::from_str::<ToolsPage>(result.get()) else { return };
        let mut known = self.repeated.lock();
        for tool in page.tools.iter().filter_map(|tool| tree(tool)) {
            let Some(name) = tool["name"].as_str() else { continue };
            let mut repeated = Vec::new();
            find(&tool["inputSchema"], &mut Vec::new(), &mut repeated);
            known.insert(name.to_owned(), repeated);
        }
    }
}

/// Finds annotated parameters; only a chain of `properties` leads to one.
fn find(schema: &Value, path: &mut Vec<String>, found: &mut Vec<HeaderArgument>) {
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        path.push(name.clone());
        let header = schema[ANNOTATION].as_str().map(|header| format!("mcp-param-{header}"));
        // Ignore an annotation that cannot be a header's name.
        if let Some(header) = header.filter(|header| HeaderName::from_bytes(header.as_bytes()).is_ok()) {
            found.push(HeaderArgument { header, path: path.clone() });
        }
        find(schema, path, found);
        path.pop();
    }
}

/// An argument as a header's text; `None` for types that a header cannot carry.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(wrapped(text)),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A text as a header carries it: in base64 unless it is plain ASCII.
fn wrapped(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && text.trim() == text
        && !(text.starts_with("=?base64?") && text.ends_with("?="));
    if is_plain { text.to_owned() } else { format!("=?base64?{}?=", STANDARD.encode(text)) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::peer::ClientInfo;

    fn spoken() -> StatelessMeta {
        StatelessMeta::new(&InitializeParams {
            protocol_version: STATELESS,
            capabilities: encode(&json!({ "sampling": {} })),
            client_info: ClientInfo { name: "test", version: "0" },
        })
    }

    /// Requests name their client, keep other members of `_meta`, and cannot name another client.
    #[test]
    fn requests_name_their_client() {
        let given = json!({ "name": "t", "_meta": {
            "progressToken": 1, "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} }
        } });
        let params: Value = serde_json::from_str(spoken().params(Some(&encode(&given))).get()).unwrap();
        assert_eq!((&params["name"], &params["_meta"]["progressToken"]), (&json!("t"), &json!(1)));
        let meta = |name: &str| params["_meta"][format!("io.modelcontextprotocol/{name}")].clone();
        assert_eq!(meta("protocolVersion"), STATELESS);
        assert_eq!(meta("clientCapabilities"), json!({ "sampling": {} }));
        assert_eq!(meta("clientInfo"), json!({ "name": "test", "version": "0" }));
    }

    /// Headers repeat the method, the name, and the arguments that the list marks, in base64 where they are not plain.
    #[test]
    fn headers_repeat_the_body() {
        let spoken = spoken();
        spoken.listed(&encode(&json!({ "tools": [{ "name": "größe", "inputSchema": { "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "deep": { "properties": { "count": { "type": "integer", "x-mcp-header": "Count" } } },
            "left": { "type": "string", "x-mcp-header": "Left" },
            "odd": { "type": "string", "x-mcp-header": "a: b" },
        } } }] })));
        let headers = |method: &str, params: Value| -> Vec<String> {
            let headers = spoken.headers(method, &encode(&params));
            headers.into_iter().skip(1).map(|(name, value)| format!("{name}: {value}")).collect()
        };
        let arguments = json!({ "region": " eu", "deep": { "count": 7 }, "left": null, "odd": "o" });
        assert_eq!(
            headers("tools/call", json!({ "name": "größe", "arguments": arguments })),
            [
                "mcp-method: tools/call",
                "mcp-param-Region: =?base64?IGV1?=",
                "mcp-param-Count: 7",
                "mcp-name: =?base64?Z3LDtsOfZQ==?="
            ]
        );
        assert_eq!(
            headers("resources/read", json!({ "uri": "a:b" })),
            ["mcp-method: resources/read", "mcp-name: a:b"]
        );
        assert_eq!(headers("tools/list", json!({})), ["mcp-method: tools/list"]);
        assert_eq!(wrapped("=?base64?x?="), "=?base64?PT9iYXNlNjQ/eD89?=");
    }
}
