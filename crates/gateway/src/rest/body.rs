//! Reads the body of a request: small, JSON, in time.

use std::time::Duration;

use axum::{
    body::{Body, to_bytes},
    http::HeaderMap,
};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::Problem;
use crate::front::http::is_json;

/// The longest body. A command has some fifty bytes.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// How long a body may take to arrive. It fits into one packet.
const BODY: Duration = Duration::from_secs(10);

/// The body as this type; `None` when there is none.
pub(super) async fn read<T: DeserializeOwned>(headers: &HeaderMap, body: Body) -> Result<Option<T>, Problem> {
    let read = timeout(BODY, to_bytes(body, BODY_BYTES_MAX)).await;
    let bytes = match read {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(error)) => {
            let source = std::error::Error::source(&error);
            return Err(match source.is_some_and(|source| source.is::<http_body_util::LengthLimitError>()) {
                true => Problem::too_big(BODY_BYTES_MAX),
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
