//! The HTTP front's answers to requests that do not reach the protocol: a status, and a JSON-RPC error that names the
//! fault.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header::CONTENT_TYPE},
    response::Response,
};
use greenroom_mcp::{
    Id, Malformed, Message, RpcError,
    error::{INVALID_REQUEST, SERVER},
    message::{self, Parsed},
};

use super::auth::RequestEnd;

/// A JSON answer.
pub(super) fn json(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub(super) fn rpc(status: StatusCode, id: Option<&Id>, error: &RpcError) -> Response {
    json(status, message::response(id, &Err(error.to_raw())))
}

pub(super) fn because(status: StatusCode, why: impl Into<String>) -> Response {
    rpc(status, None, &RpcError::new(INVALID_REQUEST, why))
}

/// 202: accepted, without a body.
pub(super) fn accepted() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// 204: done, without a body. Some clients take any status but 200 and 204 for a failure.
pub(super) fn done() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

pub(super) fn not_found() -> Response {
    because(StatusCode::NOT_FOUND, "nothing is here; MCP is at /mcp")
}

pub(super) fn wrong_method() -> Response {
    because(StatusCode::METHOD_NOT_ALLOWED, "this path does not accept this method")
}

/// The requests that one HTTP answer is for. If the server stops before they are answered, or their key
/// ends, each gets an error.
#[derive(Debug, Clone, Default)]
pub(super) enum Requests {
    /// No request that needs an answer.
    #[default]
    None,
    One(Id),
    Batch(Arc<[Id]>),
}

impl Requests {
    pub(super) fn from_parsed(parsed: &Parsed) -> Self {
        let id = |part: &Result<Message, Malformed>| match part {
            Ok(Message::Request { id, .. }) => Some(id.clone()),
            _ => None,
        };
        match parsed {
            Parsed::One(one) => id(one).map_or(Self::None, Self::One),
            Parsed::Batch(parts) => Self::Batch(parts.iter().filter_map(id).collect()),
        }
    }

    /// The errors for requests that the server cuts off, because it stops or because their key has ended.
    pub(super) fn cut_off(&self, end: &RequestEnd) -> Option<Vec<u8>> {
        let error = Err(RpcError::new(SERVER, end.message()).to_raw());
        match self {
            Self::None => None,
            Self::One(id) => Some(message::response(Some(id), &error)),
            Self::Batch(ids) if ids.is_empty() => None,
            Self::Batch(ids) => {
                let errors = ids.iter().map(|id| message::response(Some(id), &error)).collect::<Vec<_>>();
                Some([b"[", &errors.join(&b","[..])[..], b"]"].concat())
            }
        }
    }
}

/// The answer if the server stops, or the key ends, before the requests are answered.
pub(super) fn cut_off(requests: &Requests, end: &RequestEnd) -> Response {
    let status = if end.is_of_key() { StatusCode::UNAUTHORIZED } else { StatusCode::SERVICE_UNAVAILABLE };
    match requests.cut_off(end) {
        Some(errors) => json(status, errors),
        None => rpc(status, None, &RpcError::new(SERVER, end.message())),
    }
}
