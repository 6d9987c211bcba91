//! What REST answers when it cannot do what was asked: `{"error": "error_type", "message": "…", "details": {…}}` with
//! the right HTTP status.

use axum::{
    Json,
    http::{StatusCode, Uri},
    response::{IntoResponse, Response},
};
use greenroom_fleet::FleetError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A refusal on its way out.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    error: &'static str,
    message: String,
    details: Value,
}

/// A refusal as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProblemBody {
    pub error: String,
    pub message: String,
    #[serde(default)]
    pub details: Map<String, Value>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, error: &'static str, message: impl Into<String>) -> Self {
        Self { status, error, message: message.into(), details: json!({}) }
    }

    fn details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }

    pub(super) fn no_route(uri: &Uri) -> Self {
        Self::new(StatusCode::NOT_FOUND, "no_route", format!("nothing is served at `/api{}`", uri.path()))
    }

    pub(super) fn wrong_method() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "wrong_method", "this method makes no sense here")
    }

    pub(super) fn not_json() -> Self {
        let message = "a body is `application/json`: say so in `Content-Type`";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
    }

    pub(super) fn too_big(max: usize) -> Self {
        let message = format!("the body is too big: at most {max} bytes are taken");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_big", message)
    }

    pub(super) fn bad_body(why: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", why)
    }
}

impl From<FleetError> for Problem {
    fn from(error: FleetError) -> Self {
        let message = error.to_string();
        match error {
            FleetError::NoPool { name, known } => Self::new(StatusCode::NOT_FOUND, "no_such_pool", message)
                .details(json!({ "pool": name, "known": known })),
            FleetError::NoInstance { pool, name, known } => {
                Self::new(StatusCode::NOT_FOUND, "no_such_instance", message)
                    .details(json!({ "pool": pool, "instance": name, "known": known }))
            }
            FleetError::NotFixed { pool } => {
                Self::new(StatusCode::CONFLICT, "not_fixed", message).details(json!({ "pool": pool }))
            }
            FleetError::NoHealthy { pool, why, .. } => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "no_healthy_instance", message)
                    .details(json!({ "pool": pool, "why": why }))
            }
            FleetError::ShuttingDown => Self::new(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", message),
            _ => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", message),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = json!({ "error": self.error, "message": self.message, "details": self.details });
        (self.status, Json(body)).into_response()
    }
}
