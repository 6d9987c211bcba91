//! Parses a request's path and query. An error is a [`RestError`], as all errors here are: an unknown parameter is
//! refused by its name, never ignored.

use std::error::Error;

use axum::{
    extract::{FromRequestParts, Path, Query},
    http::request::Parts,
};
use greenroom_core::{RefId, SessionId, excerpt::shortened};
use serde::{Deserialize, de::DeserializeOwned};

use super::RestError;

/// The parameters of a query.
pub(super) struct QueryParams<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryParams<T> {
    type Rejection = RestError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, RestError> {
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(rejection) => Err(RestError::bad_query(&shortened(&cause(&rejection)))),
        }
    }
}

/// A position in the order of calls. Databases use signed numbers, so the greatest is that of an `i64`.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(try_from = "u64")]
pub(super) struct CallPosition(pub(super) u64);

impl TryFrom<u64> for CallPosition {
    type Error = String;

    fn try_from(given: u64) -> Result<Self, String> {
        if i64::try_from(given).is_ok() { Ok(Self(given)) } else { Err(format!("no position: `{given}`")) }
    }
}

/// The one name in a path.
pub(super) struct PathName(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for PathName {
    type Rejection = RestError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, RestError> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(name)) => Ok(Self(name)),
            Err(_) => Err(RestError::bad_path()),
        }
    }
}

impl PathName {
    pub(super) fn ref_id(&self) -> Result<RefId, RestError> {
        ref_id(&self.0)
    }
}

/// Parses the name of a record.
pub(super) fn ref_id(given: &str) -> Result<RefId, RestError> {
    RefId::parse(given).map_err(|invalid| RestError::bad_ref_id(given, invalid))
}

/// Parses a session's id or UUID.
pub(super) fn session(given: &str) -> Result<SessionId, RestError> {
    SessionId::new(given).map_err(|invalid| {
        // The message is for agents, whose parameter has another name.
        RestError::bad_query(&invalid.to_string().replace("sessionId", "session_id"))
    })
}

/// The root cause of an error.
fn cause(error: &dyn Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
