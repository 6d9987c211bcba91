//! JSON-RPC error objects that greenroom makes itself.

use greenroom_core::{Raw, raw::encode};
use serde::{Deserialize, Serialize};

pub const PARSE: i64 = -32700;
pub const INVALID_REQUEST: i64 = -32600;
pub const METHOD_NOT_FOUND: i64 = -32601;
pub const INVALID_PARAMS: i64 = -32602;
pub const INTERNAL: i64 = -32603;
/// Server-defined: the request could not be carried out, for the reason in the message.
pub const SERVER: i64 = -32000;

/// The headers of an HTTP request contradict its body (revision 2026-07-28).
pub const HEADER_MISMATCH: i64 = -32020;
/// The request needs a capability that its client has not declared (revision 2026-07-28).
pub const MISSING_CAPABILITY: i64 = -32021;
/// The request names a revision that greenroom does not speak (revision 2026-07-28).
pub const UNSUPPORTED_REVISION: i64 = -32022;

/// A JSON-RPC error object.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RpcError {
    pub code: i64,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Raw>,
}

impl RpcError {
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub fn to_raw(&self) -> Raw {
        encode(self)
    }
}
