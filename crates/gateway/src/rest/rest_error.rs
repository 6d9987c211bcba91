//! REST errors: `{"error": "error_type", "message": "…", "details": {…}}` with the right HTTP status.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, Uri, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use greenroom_core::{
    BlobId, RefId,
    excerpt::echoed,
    record::{InvalidRefId, NotRecorded, Unreadable},
};
use greenroom_fleet::{FleetError, NotChosen};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::{IntoResponses, ToSchema};

use crate::{
    attach::{AttachError, NotAttached},
    error_response::{ErrorResponse, STOPPING},
    recall::content::ContentError,
};

/// After how many seconds a client that has reached one of its limits may try again. It has room as soon as one of its own
/// calls or sessions ends, which nobody can foresee; a second is about as long as a call takes.
const RETRY_AFTER_SECONDS: &str = "1";

/// An error on its way to the client.
#[derive(Debug)]
pub struct RestError {
    status: StatusCode,
    error: &'static str,
    message: String,
    details: Value,
}

/// An error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProblemBody {
    /// A stable code for programs.
    pub error: String,
    /// A message for people.
    pub message: String,
    /// Further facts; their names depend on `error`.
    #[serde(default)]
    #[schema(required, value_type = Object)]
    pub details: Map<String, Value>,
}

/// The request is invalid
#[derive(IntoResponses)]
#[response(status = 400)]
pub(super) struct BadRequest(#[allow(dead_code, reason = "described, never made")] ProblemBody);

/// What the request names does not exist
#[derive(IntoResponses)]
#[response(status = 404)]
pub(super) struct NotFound(#[allow(dead_code, reason = "as above")] ProblemBody);

/// The configuration or another owner forbids this
#[derive(IntoResponses)]
#[response(status = 403)]
pub(super) struct Forbidden(#[allow(dead_code, reason = "as above")] ProblemBody);

/// The request conflicts with the current state
#[derive(IntoResponses)]
#[response(status = 409)]
pub(super) struct Conflict(#[allow(dead_code, reason = "as above")] ProblemBody);

/// The request body is too large
#[derive(IntoResponses)]
#[response(status = 413)]
pub(super) struct BodyTooLarge(#[allow(dead_code, reason = "as above")] ProblemBody);

/// The request body is not JSON
#[derive(IntoResponses)]
#[response(status = 415)]
pub(super) struct NotJson(#[allow(dead_code, reason = "as above")] ProblemBody);

/// The owner has as many sessions or calls as it may have; `Retry-After` says when to try again
#[derive(IntoResponses)]
#[response(status = 429)]
pub(super) struct TooMany(#[allow(dead_code, reason = "as above")] ProblemBody);

/// greenroom cannot do this now; try again later
#[derive(IntoResponses)]
#[response(status = 503)]
pub(super) struct Unavailable(#[allow(dead_code, reason = "as above")] ProblemBody);

impl RestError {
    pub(super) fn new(status: StatusCode, error: &'static str, message: impl Into<String>) -> Self {
        Self { status, error, message: message.into(), details: json!({}) }
    }

    fn details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }

    /// A request that its key does not permit.
    pub(crate) fn refused(status: StatusCode, error: &'static str, message: String) -> Self {
        Self::new(status, error, message)
    }

    /// The client's key has become invalid while the request ran.
    pub(crate) fn key_ended(message: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    /// The owner has as much as it may have at once.
    fn over_limit(error: &'static str, message: String, used: usize, max: usize) -> Self {
        let details = json!({ "used": used, "limit": max });
        Self::new(StatusCode::TOO_MANY_REQUESTS, error, message).details(details)
    }

    pub(super) fn no_route(uri: &Uri) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "no_route",
            format!("nothing is served at `/api{}`", echoed(uri.path())),
        )
    }

    pub(super) fn wrong_method() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "wrong_method", "this path does not accept this method")
    }

    pub(super) fn not_json() -> Self {
        let message = "a body is `application/json`: say so in `Content-Type`";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
    }

    pub(super) fn too_big(max: usize) -> Self {
        let message = format!("the body is too big: at most {max} bytes are taken");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_big", message)
    }

    pub(super) fn bad_query(why: &str) -> Self {
        let why = why.replace("unknown field", "unknown parameter");
        Self::new(StatusCode::BAD_REQUEST, "bad_request", format!("the query cannot be used: {why}"))
    }

    pub(super) fn bad_path() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", "the path is not encoded as UTF-8")
    }

    pub(super) fn bad_ref_id(given: &str, invalid: InvalidRefId) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", format!("{invalid}: `{}`", echoed(given)))
            .details(json!({ "ref_id": echoed(given) }))
    }

    pub(super) fn still_runs(id: &RefId) -> Self {
        let message = format!("the call has not ended, or greenroom ended while it ran: `{id}`");
        Self::new(StatusCode::CONFLICT, "call_running", message).details(json!({ "ref_id": id }))
    }

    /// Why a call did not run. A call that ran and failed has an answer instead. `ref_id` is its record, if it has one.
    pub(super) fn not_run(failure: &ErrorResponse, tool: &str, ref_id: Option<&RefId>) -> Self {
        let (status, word) = match failure.code() {
            "invalid_request" => (StatusCode::NOT_FOUND, "no_such_tool"),
            word @ ("no_such_pool" | "no_such_instance") => (StatusCode::NOT_FOUND, word),
            word @ ("tool_refused" | "not_yours") => (StatusCode::FORBIDDEN, word),
            word @ ("request_id_taken" | "request_id_reused" | "call_interrupted" | "session_over"
            | "session_elsewhere" | "session_exists") => (StatusCode::CONFLICT, word),
            word @ ("start_failed"
            | "open_timeout"
            | "lease_timeout"
            | "queue_full"
            | "line_full"
            | "no_healthy_instance"
            | "instance_down"
            | "browser_down"
            | "no_browser"
            | "shutting_down"
            | "records_unavailable") => (StatusCode::SERVICE_UNAVAILABLE, word),
            word @ ("session_limit" | "call_limit" | "waiting_limit") => {
                (StatusCode::TOO_MANY_REQUESTS, word)
            }
            word => (StatusCode::BAD_REQUEST, word),
        };
        let mut details = json!({ "tool": echoed(tool) });
        if let Some(ref_id) = ref_id {
            details["ref_id"] = json!(ref_id);
        }
        Self::new(status, word, failure.text()).details(details)
    }

    pub(super) fn bad_blob_id(given: &str) -> Self {
        let message =
            format!("a blob is named by its SHA-256, 64 hex digits in lower case: `{}`", echoed(given));
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message).details(json!({ "sha256": echoed(given) }))
    }

    pub(super) fn no_call(id: &RefId) -> Self {
        let message = format!("no such call: `{id}`; records are removed when they are old");
        Self::new(StatusCode::NOT_FOUND, "no_such_call", message).details(json!({ "ref_id": id }))
    }

    pub(super) fn no_blob(id: &BlobId) -> Self {
        let message = format!("no such blob: `{id}`; blobs are removed some time after their last use");
        Self::new(StatusCode::NOT_FOUND, "no_such_blob", message).details(json!({ "sha256": id }))
    }

    pub(super) fn no_session(name: &str) -> Self {
        let name = echoed(name);
        let message = format!("no such session: `{name}`; one is kept from its first call on");
        Self::new(StatusCode::NOT_FOUND, "no_such_session", message).details(json!({ "session_id": name }))
    }

    /// The server stops while the request runs.
    pub(crate) fn stopping() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", STOPPING)
    }

    /// A fault of greenroom itself.
    pub(super) fn failed() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "greenroom failed; its log says why")
    }

    /// Records are off.
    pub(super) fn records_off() -> Self {
        let hint = "set `records.enabled = true` and restart greenroom";
        let message = format!("records are off on this server\n\nhint: {hint}");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "records_off", message).details(json!({ "hint": hint }))
    }

    pub(super) fn uploads_busy() -> Self {
        let message = "other files are being uploaded; try again when they are done";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "uploads_busy", message)
    }

    pub(super) fn not_kept(why: &NotRecorded) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "not_recorded", format!("the file cannot be kept: {why}"))
    }

    pub(super) fn bad_body(why: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", why)
    }
}

impl From<Unreadable> for RestError {
    fn from(error: Unreadable) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "records_unreadable", error.to_string())
    }
}

impl From<ContentError> for RestError {
    fn from(error: ContentError) -> Self {
        match error {
            ContentError::NoRecord(given) => match RefId::parse(&given) {
                Ok(id) => Self::no_call(&id),
                Err(invalid) => Self::bad_ref_id(&given, invalid),
            },
            ContentError::NotEnded(id) => Self::still_runs(&id),
            ContentError::Unreadable(error) => error.into(),
        }
    }
}

impl From<FleetError> for RestError {
    fn from(error: FleetError) -> Self {
        let message = error.to_string();
        match error {
            FleetError::NoPool { name, known } => Self::new(StatusCode::NOT_FOUND, "no_such_pool", message)
                .details(json!({ "pool": echoed(&name), "known": known })),
            FleetError::NoInstance { pool, name, known, .. } => {
                Self::new(StatusCode::NOT_FOUND, "no_such_instance", message)
                    .details(json!({ "pool": pool, "instance": echoed(&name), "known": known }))
            }
            FleetError::NotFixed { pool } => {
                Self::new(StatusCode::CONFLICT, "not_fixed", message).details(json!({ "pool": pool }))
            }
            FleetError::NoHealthy { pool, why, .. } => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "no_healthy_instance", message)
                    .details(json!({ "pool": pool, "why": why }))
            }
            FleetError::NotChosen(NotChosen::Unknown { name, known }) => {
                Self::new(StatusCode::NOT_FOUND, "no_such_browser", message)
                    .details(json!({ "browser": echoed(&name), "known": known }))
            }
            FleetError::NotChosen(_) => Self::new(StatusCode::NOT_FOUND, "no_such_browser", message),
            FleetError::BrowserRemoved { .. } => Self::new(StatusCode::NOT_FOUND, "no_such_browser", message),
            FleetError::BadLabel { .. } => Self::new(StatusCode::BAD_REQUEST, "bad_browser", message),
            FleetError::BrowserExists { name, index } => {
                Self::new(StatusCode::CONFLICT, "browser_exists", message)
                    .details(json!({ "browser": echoed(&name), "index": index }))
            }
            FleetError::BrowserDown { index, retry_in, .. } => {
                let seconds = retry_in.map(|wait| wait.as_secs());
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "browser_down", message)
                    .details(json!({ "browser": index.to_string(), "retryInSeconds": seconds }))
            }
            FleetError::TooManySessions { used, max } => {
                Self::over_limit("session_limit", message, used, max)
            }
            FleetError::TooManyCalls { used, max } => Self::over_limit("call_limit", message, used, max),
            FleetError::TooManyWaitingCalls { used, max } => {
                Self::over_limit("waiting_limit", message, used, max)
            }
            FleetError::ShuttingDown => Self::new(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", message),
            _ => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", message),
        }
    }
}

impl From<NotAttached> for RestError {
    fn from(error: NotAttached) -> Self {
        let message = error.to_string();
        match error {
            NotAttached::NotAllowed => Self::new(StatusCode::FORBIDDEN, "changes_refused", message),
            NotAttached::Refused(AttachError { hint, down: true, .. }) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "browser_down", message)
                    .details(json!({ "hint": hint }))
            }
            NotAttached::Refused(AttachError { hint, .. }) => {
                Self::new(StatusCode::BAD_REQUEST, "bad_browser", message).details(json!({ "hint": hint }))
            }
            NotAttached::TooMany => Self::new(StatusCode::CONFLICT, "too_many_browsers", message),
            NotAttached::Fleet(error) => error.into(),
        }
    }
}

impl IntoResponse for RestError {
    fn into_response(self) -> Response {
        let body = json!({ "error": self.error, "message": self.message, "details": self.details });
        let mut response = (self.status, Json(body)).into_response();
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An owner over one of its limits gets 429 with `Retry-After`, the figure and the limit; over MCP the same may be
    /// retried.
    #[test]
    fn limits_of_owners_are_429() {
        let errors = [
            (FleetError::TooManySessions { used: 3, max: 3 }, "session_limit"),
            (FleetError::TooManyCalls { used: 3, max: 3 }, "call_limit"),
            (FleetError::TooManyWaitingCalls { used: 3, max: 3 }, "waiting_limit"),
        ];
        for (error, code) in errors {
            let failure = ErrorResponse::from(error.clone());
            assert_eq!(failure.code(), code);
            let result = failure.to_result();
            assert!(result.get().contains("\"retryable\":true"), "{}", result.get());
            let direct = RestError::from(error);
            assert_eq!(direct.details, json!({ "used": 3, "limit": 3 }));
            for rest in [direct, RestError::not_run(&failure, "click", None)] {
                assert_eq!(rest.error, code);
                assert!(rest.message.contains("at most 3 are allowed"), "{}", rest.message);
                let response = rest.into_response();
                assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
                assert_eq!(response.headers()[RETRY_AFTER], RETRY_AFTER_SECONDS);
            }
        }
    }
}
