//! Reads the body of a request: JSON, no longer than it may be, in time.

use std::time::Duration;

use axum::{
    body::{Body, to_bytes},
    http::HeaderMap,
};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::Problem;
use crate::front::http::is_json;

/// How long a body may be, and how long it may take to arrive.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    bytes_max: usize,
    within: Duration,
}

/// A command has some fifty bytes and fits into one packet.
pub(super) const COMMAND: Bounds = Bounds { bytes_max: 64 * 1024, within: Duration::from_secs(10) };

/// A call may bring a script or a form's worth of text along, from far away. Files are not sent this way.
pub(super) const CALL: Bounds = Bounds { bytes_max: 8 * 1024 * 1024, within: Duration::from_secs(60) };

/// The body as this type; `None` when there is none.
pub(super) async fn read<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: Body,
    bounds: Bounds,
) -> Result<Option<T>, Problem> {
    let read = timeout(bounds.within, to_bytes(body, bounds.bytes_max)).await;
    let bytes = match read {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(error)) => {
            let source = std::error::Error::source(&error);
            return Err(match source.is_some_and(|source| source.is::<http_body_util::LengthLimitError>()) {
                true => Problem::too_big(bounds.bytes_max),
                false => Problem::bad_body("the body cannot be read"),
            });
        }
        Err(_) => return Err(Problem::bad_body("the body did not arrive in time")),
    };
    if bytes.is_empty() {
        return Ok(None);
    }
    if !is_json(headers) {
        return Err(Problem::not_json());
    }
    let parsed = serde_json::from_slice(&bytes);
    parsed.map(Some).map_err(|error| Problem::bad_body(format!("the body cannot be used: {error}")))
}
