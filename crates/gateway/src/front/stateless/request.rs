//! A stateless request, parsed and checked: its revision, the client's capabilities, its method and parameters.

use greenroom_core::{Fields, Raw, excerpt::echoed, raw::tree};
use greenroom_mcp::{
    Id, RpcError,
    error::{INVALID_PARAMS, METHOD_NOT_FOUND, UNSUPPORTED_REVISION},
    revision::{SPOKEN, STATELESS},
};
use serde_json::{Value, json, value::RawValue};

use crate::{
    Gateway,
    passthrough::{self, Passthrough, PassthroughMethod},
};

const REVISION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// The method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::front) enum StatelessMethod {
    Discover,
    List,
    Call,
    Listen,
    Passthrough(PassthroughMethod),
}

/// The parts of a request that are the same when the client repeats it.
#[derive(Debug, PartialEq)]
pub(super) struct RequestFingerprint {
    method: StatelessMethod,
    arguments: Value,
    session: Value,
}

#[derive(Debug)]
pub(in crate::front) struct StatelessRequest {
    pub(super) id: Id,
    pub(in crate::front) method: StatelessMethod,
    pub(super) params: Option<Raw>,
    pub(super) capabilities: Raw,
    pub(super) log_level: Option<String>,
    /// The client's description of itself.
    pub(in crate::front) client: Option<Fields>,
    /// The key of the suspended call that this request continues, and the client's answers.
    pub(super) state: Option<String>,
    pub(super) responses: Option<Fields>,
}

/// Whether a request names its revision itself.
pub(in crate::front) fn is_stateless(params: Option<&RawValue>) -> bool {
    // Most requests do not contain the key at all: do not parse those.
    let Some(params) = params.filter(|params| params.get().contains(REVISION)) else { return false };
    meta(params).is_some_and(|meta| meta.get(REVISION).is_some())
}

/// The revision that a request names.
pub(in crate::front) fn revision_of(params: Option<&RawValue>) -> Option<String> {
    meta(params?)?.read(REVISION).ok().flatten()
}

fn meta(params: &RawValue) -> Option<Fields> {
    Fields::open(params).ok()?.read::<Fields>("_meta").ok().flatten()
}

impl StatelessRequest {
    pub(in crate::front) fn parse(id: Id, method: &str, params: Option<&RawValue>) -> Result<Self, RpcError> {
        let bad = |why: String| RpcError::new(INVALID_PARAMS, why);
        let fields = params.and_then(|params| Fields::open(params).ok()).unwrap_or_default();
        let meta = fields.read::<Fields>("_meta").ok().flatten().unwrap_or_default();
        match meta.read::<String>(REVISION) {
            Ok(Some(revision)) if revision == STATELESS => {}
            Ok(Some(revision)) => return Err(unsupported_revision(&revision)),
            _ => return Err(bad(format!("`_meta` must have `{REVISION}`, as text"))),
        }
        let capabilities = match meta.get(CAPABILITIES) {
            Some(capabilities) if capabilities.get().starts_with('{') => capabilities.to_owned(),
            _ => return Err(bad(format!("`_meta` must have `{CAPABILITIES}`, an object"))),
        };
        let method = match method {
            "server/discover" => StatelessMethod::Discover,
            "tools/list" => StatelessMethod::List,
            "tools/call" => StatelessMethod::Call,
            "subscriptions/listen" => StatelessMethod::Listen,
            _ => match PassthroughMethod::stateless(method) {
                Some(method) => StatelessMethod::Passthrough(method),
                None => {
                    let message = format!("method not found: `{}` (revision {STATELESS})", echoed(method));
                    return Err(RpcError::new(METHOD_NOT_FOUND, message));
                }
            },
        };
        let text =
            |name: &str| fields.read::<String>(name).map_err(|_| bad(format!("`{name}` must be text")));
        Ok(Self {
            id,
            method,
            params: params.map(ToOwned::to_owned),
            capabilities,
            log_level: meta.read(LOG_LEVEL).ok().flatten(),
            client: meta.read(CLIENT).ok().flatten(),
            state: text("requestState")?,
            responses: fields
                .read("inputResponses")
                .map_err(|_| bad("`inputResponses` must be an object".to_owned()))?,
        })
    }

    /// Whether the request may run for long: a call, or a request that the gateway passes on to a server.
    pub(in crate::front) fn is_work(&self) -> bool {
        matches!(self.method, StatelessMethod::Call | StatelessMethod::Passthrough(_))
    }

    /// The error for a method that neither the gateway nor a server answers. Asks servers whose capabilities are
    /// unknown.
    pub(in crate::front) async fn unserved(&self, gateway: &Gateway) -> Option<RpcError> {
        let StatelessMethod::Passthrough(method) = self.method else { return None };
        match Passthrough::new(gateway, method, INVALID_PARAMS) {
            Ok(passthrough) if passthrough.is_passed_on(gateway) => {
                let _ = gateway.catalog.list().await;
                Passthrough::new(gateway, method, INVALID_PARAMS).err()
            }
            Ok(_) => None,
            Err(error) => Some(error),
        }
    }

    /// The parts by which a repetition of this request is recognised.
    pub(super) fn fingerprint(&self) -> RequestFingerprint {
        // Parameters that cannot be parsed are compared as text.
        let as_text = |params: &RawValue| Value::String(params.get().to_owned());
        let read = |params: &RawValue| tree(params).unwrap_or_else(|| as_text(params));
        let mut arguments = self.params.as_deref().map(read).unwrap_or_default();
        let mut session = Value::Null;
        if let Some(arguments) = arguments.as_object_mut() {
            if let Some(named) =
                arguments.get_mut("_meta").and_then(|meta| meta.get_mut(passthrough::SESSION))
            {
                session = named.take();
            }
            arguments.retain(|name, _| !["_meta", "requestState", "inputResponses"].contains(&name.as_str()));
        }
        RequestFingerprint { method: self.method, arguments, session }
    }
}

/// The error for a revision that greenroom does not speak.
pub(in crate::front) fn unsupported_revision(requested: &str) -> RpcError {
    let data = json!({ "supported": SPOKEN, "requested": echoed(requested) });
    RpcError {
        code: UNSUPPORTED_REVISION,
        message: format!("unsupported protocol revision: `{}`", echoed(requested)),
        data: Some(greenroom_core::raw::encode(&data)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: &str, params: &str) -> Result<StatelessRequest, RpcError> {
        let params = greenroom_core::raw::parse(params.to_owned()).unwrap();
        StatelessRequest::parse(Id::number(1), method, Some(&params))
    }

    const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}"#;

    /// A complete request is parsed; the error names a field that is missing or has the wrong type.
    #[test]
    fn incomplete_requests_are_refused_by_field() {
        let request = parse(
            "tools/call",
            &format!(r#"{{"name":"t",{META},"requestState":"s","inputResponses":{{"q1":{{}}}}}}"#),
        )
        .unwrap();
        assert_eq!((request.method, request.state.as_deref()), (StatelessMethod::Call, Some("s")));
        assert_eq!(request.capabilities.get(), r#"{"elicitation":{}}"#);
        let code = |method: &str, params: &str| parse(method, params).unwrap_err().code;
        assert_eq!(code("tools/list", "{}"), INVALID_PARAMS);
        assert_eq!(
            code("tools/list", r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#),
            INVALID_PARAMS
        );
        assert_eq!(
            code("tools/list", r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"1900-01-01"}}"#),
            UNSUPPORTED_REVISION
        );
        assert_eq!(code("ping", &format!("{{{META}}}")), METHOD_NOT_FOUND);
        assert_eq!(code("tools/call", &format!(r#"{{{META},"requestState":7}}"#)), INVALID_PARAMS);
    }

    /// A later request is the same if its parameters are, whatever answers it brings; another session makes it another
    /// request.
    #[test]
    fn fingerprint_ignores_answers() {
        let print =
            |method: &str, rest: &str| parse(method, &format!("{{{META}{rest}}}")).unwrap().fingerprint();
        let complete =
            |value: &str| print("completion/complete", &format!(r#","argument":{{"value":"{value}"}}"#));
        assert_eq!(complete("a"), complete("a"));
        assert_ne!(complete("a"), complete("b"));
        let read = |rest: &str| print("resources/read", rest);
        assert_eq!(read(r#","uri":"u""#), read(r#","requestState":"s","inputResponses":{},"uri":"u""#));
        assert_ne!(read(r#","uri":"u""#), read(r#","uri":"v""#));
        // Parameters that cannot be parsed are still compared.
        assert_ne!(read(r#","uri":"u","n":1e400"#), read(r#","uri":"v","n":1e400"#));
        assert_ne!(read(r#","uri":"u\ud800""#), read(r#","uri":"v\ud800""#));
        assert_ne!(print("prompts/get", r#","name":"n""#), print("tools/call", r#","name":"n""#));
        let with = META.replace(r#""_meta":{"#, r#""_meta":{"greenroom/sessionId":"s","#);
        let named = parse("prompts/get", &format!(r#"{{{with},"name":"n"}}"#)).unwrap().fingerprint();
        assert_ne!(named, print("prompts/get", r#","name":"n""#));
    }
}
