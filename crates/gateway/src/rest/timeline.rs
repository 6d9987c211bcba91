//! `/api/sessions/{id}/timeline`: what happened in a session, in the order of time.
//!
//! The control socket serves the same view for any owner, and `greenroom logs --session` makes it itself if no
//! greenroom runs; [`timeline_of`] is what all of them share.

use axum::Json;
use greenroom_core::{
    Owner, Records,
    record::{SessionEvent, SessionRow, Status, Unreadable, What},
    time::{timestamp, timestamp_ms},
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    RestContext, RestError, RestState,
    input::{CallPosition, PathName, QueryParams},
    record::CallStatus,
    rest_error::{BadRequest, NotFound, Unavailable},
};

/// How many calls a part of a timeline has by default.
const CALLS_DEFAULT: usize = 100;

/// The most calls of a part. Each may have dozens of console lines.
pub(crate) const CALLS_MAX: usize = 1_000;

/// A part of a session's timeline.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct TimelineView {
    pub session: SessionView,
    pub events: Vec<TimelineEvent>,
    /// The `from` of the next request, which returns later events.
    pub next: u64,
}

/// A session's record.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SessionView {
    #[schema(format = Uuid)]
    pub session_id: String,
    /// Its name: the `sessionId` that its owner chose, or `#7` for the default session of MCP connection 7.
    pub name: String,
    pub pool: String,
    /// `active`, `closed` or `error`.
    pub state: String,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(format = DateTime)]
    pub last_activity: String,
}

/// An event in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TimelineEvent {
    #[schema(format = DateTime)]
    pub timestamp: String,
    /// The call during which it happened.
    #[schema(format = Uuid)]
    pub ref_id: String,
    #[serde(flatten)]
    pub what: TimelineEventKind,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum TimelineEventKind {
    /// A call.
    Call {
        tool: String,
        status: CallStatus,
        #[schema(required)]
        took_ms: Option<u64>,
    },
    /// The session's page has another URL now.
    Navigation {
        url: String,
        #[schema(required)]
        title: Option<String>,
    },
    /// The page wrote to its console.
    Console { level: String, message: String },
    /// A call failed.
    Error { message: String },
}

pub(super) fn routes() -> OpenApiRouter<RestState> {
    OpenApiRouter::new().routes(routes!(timeline))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct TimelineParameters {
    /// The position to begin at: the `next` of the previous part.
    #[serde(default)]
    #[param(value_type = Option<u64>)]
    from: CallPosition,
    /// The maximum number of calls; 100 by default.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<usize>,
}

/// Show what happened in a session: calls, pages, console messages and errors, in order
#[utoipa::path(
    get, operation_id = "read_timeline", path = "/sessions/{id}/timeline", tag = "sessions",
    params(("id" = String, Path, description = "The session's UUID or its name"), TimelineParameters),
    responses((status = 200, body = TimelineView), BadRequest, NotFound, Unavailable)
)]
async fn timeline(
    RestContext(rest_state): RestContext,
    PathName(name): PathName,
    QueryParams(part): QueryParams<TimelineParameters>,
) -> Result<Json<TimelineView>, RestError> {
    let limit = part.limit.unwrap_or(CALLS_DEFAULT);
    if !(1..=CALLS_MAX).contains(&limit) {
        return Err(RestError::bad_query(&format!("`limit` must be 1 to {CALLS_MAX}: `{limit}`")));
    }
    let view = timeline_of(rest_state.records()?, &rest_state.owner, &name, part.from.0, limit).await?;
    view.map(Json).ok_or_else(|| RestError::no_session(&name))
}

/// A part of the timeline of the session with this name or UUID; `None` if there is no such session.
pub async fn timeline_of(
    records: &dyn Records,
    owner: &Owner,
    name: &str,
    from: u64,
    calls_max: usize,
) -> Result<Option<TimelineView>, Unreadable> {
    let Some(row) = records.session(owner, name).await? else { return Ok(None) };
    let part = records.timeline(owner, &row.session.uid, from, calls_max).await?;
    let events = part.events.into_iter().map(TimelineEvent::from).collect();
    Ok(Some(TimelineView { session: row.into(), events, next: part.next }))
}

impl From<SessionRow> for SessionView {
    fn from(row: SessionRow) -> Self {
        Self {
            session_id: row.session.uid.to_string(),
            name: row.session.name.to_string(),
            pool: row.session.pool.to_string(),
            state: row.state.as_str().to_owned(),
            created_at: timestamp(row.created),
            last_activity: timestamp(row.last_activity),
        }
    }
}

impl From<SessionEvent> for TimelineEvent {
    fn from(event: SessionEvent) -> Self {
        let what = match event.what {
            What::Call { tool, status, took } => TimelineEventKind::Call {
                tool,
                status: match status {
                    Some(Status::Success) => CallStatus::Success,
                    Some(Status::Error) => CallStatus::Error,
                    None => CallStatus::Pending,
                },
                took_ms: took.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
            },
            What::Navigation { url, title } => TimelineEventKind::Navigation { url, title },
            What::Console { level, message } => {
                TimelineEventKind::Console { level: level.as_str().to_owned(), message }
            }
            What::Error { message } => TimelineEventKind::Error { message },
        };
        Self { timestamp: timestamp_ms(event.at), ref_id: event.ref_id.to_string(), what }
    }
}
