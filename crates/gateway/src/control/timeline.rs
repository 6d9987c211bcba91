//! `GET /control/timeline?session=…`: what happened in a session of any owner, open or long closed, page by page. The
//! answer is that of `/api/sessions/{id}/timeline`.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
};
use greenroom_core::Owner;
use serde::Deserialize;

use super::{Control, ControlProblem};
use crate::rest::{CALLS_MAX, TimelineView, timeline_of};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TimelineQuery {
    /// The session's owner; `local` by default.
    owner: Option<String>,
    /// Its UUID, its id, or `#7` for the own session of connection 7.
    session: String,
    #[serde(default)]
    from: u64,
    /// How many calls at most.
    limit: Option<usize>,
}

pub(super) async fn show(
    State(control): State<Arc<Control>>,
    wish: Result<Query<TimelineQuery>, QueryRejection>,
) -> Result<Json<TimelineView>, ControlProblem> {
    let Query(wish) = wish.map_err(|rejection| ControlProblem::bad_query(&rejection.body_text()))?;
    let Some(records) = control.gateway.recall.records.as_deref() else {
        return Err(ControlProblem::records_off());
    };
    let owner = wish.owner.map_or_else(Owner::local, |owner| Owner::new(&owner));
    let limit = wish.limit.unwrap_or(CALLS_MAX).clamp(1, CALLS_MAX);
    let view = timeline_of(records, &owner, &wish.session, wish.from, limit).await;
    let view = view.map_err(|error| ControlProblem::records_unreadable(&error))?;
    view.map(Json).ok_or_else(|| ControlProblem::no_kept_session(&wish.session))
}
