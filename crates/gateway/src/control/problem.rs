//! The control socket's errors: `{"error": {"code", "message", "hint"}}` with the right HTTP status.

use axum::{
    Json,
    http::{StatusCode, Uri},
    response::{IntoResponse, Response},
};
use greenroom_core::{excerpt::echoed, record::Unreadable};
use greenroom_fleet::FleetError;
use serde::{Deserialize, Serialize};

/// An error on its way to the client.
#[derive(Debug)]
pub struct ControlProblem {
    status: StatusCode,
    code: &'static str,
    message: String,
    hint: Option<String>,
}

/// An error as JSON.
#[derive(Debug, Serialize, Deserialize)]
pub struct ControlProblemBody {
    pub code: String,
    pub message: String,
    #[serde(default)]
    pub hint: Option<String>,
}

impl ControlProblem {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), hint: None }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn no_session(key: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "no_session", format!("no such session: `{}`", echoed(key)))
            .hint("GET /control/sessions lists them with their keys")
    }

    pub(super) fn no_kept_session(name: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "no_session",
            format!("there are no records of this session: `{}`", echoed(name)),
        )
        .hint("a session is kept from its first call on, until it is older than `records.max_age`")
    }

    pub(super) fn records_off() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "records_off", "records are off on this server")
            .hint("set `records.enabled = true` and restart greenroom")
    }

    pub(super) fn records_unreadable(error: &Unreadable) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "records_unreadable", error.to_string())
    }

    pub(super) fn bad_query(why: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_query", format!("the query cannot be read: {why}"))
    }
}

/// The answer to an unknown path. The caller sets it as the fallback once it has merged these routes with others.
pub async fn fallback(uri: Uri) -> ControlProblem {
    ControlProblem::new(
        StatusCode::NOT_FOUND,
        "no_route",
        format!("nothing is served at `{}`", echoed(uri.path())),
    )
}

impl From<FleetError> for ControlProblem {
    fn from(error: FleetError) -> Self {
        let (status, code) = match error {
            FleetError::NoSession(_) | FleetError::NoConnectionSession => {
                (StatusCode::NOT_FOUND, "no_session")
            }
            FleetError::ShuttingDown => (StatusCode::SERVICE_UNAVAILABLE, "shutting_down"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
        };
        Self::new(status, code, error.to_string())
    }
}

impl IntoResponse for ControlProblem {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct ErrorEnvelope {
            error: ControlProblemBody,
        }
        let error = ControlProblemBody { code: self.code.to_owned(), message: self.message, hint: self.hint };
        (self.status, Json(ErrorEnvelope { error })).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error repeats the beginning of a name alone.
    #[test]
    fn long_names_are_cut() {
        let name = "x".repeat(60_000);
        for problem in [ControlProblem::no_session(&name), ControlProblem::no_kept_session(&name)] {
            assert!(
                problem.message.len() < 400 && problem.message.contains("60000 bytes"),
                "{}",
                problem.message
            );
        }
    }
}
