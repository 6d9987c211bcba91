//! The HTTP front's answers to requests that do not reach the protocol: a status, and a JSON-RPC error that names the
//! fault.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header::CONTENT_TYPE},
    response::Response,
};
use greenroom_mcp::{Id, RpcError, error::INVALID_REQUEST, message};

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

/// Done, without a body. Some clients take any status but 200 and 204 for a failure.
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

/// No answer will come: the server stops.
pub(super) fn stopping() -> Response {
    because(
        StatusCode::SERVICE_UNAVAILABLE,
        "the server is stopping; whether the call took effect is unknown",
    )
}
