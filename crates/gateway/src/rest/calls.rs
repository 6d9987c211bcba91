//! `/api/calls`: what is kept of calls: listed, shown, and read in parts.

use axum::{Json, extract::State};
use greenroom_core::{
    Records, RefId, SessionUid,
    record::{Filter, Record, Status},
};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Desk, Door, Problem,
    input::{Asked, Named, session},
    problem::{BadRequest, NotFound, Unavailable},
    record::{Call, CallDetail, Calls, Console, OfLevel},
};

/// How many calls a list has unless it is asked for more or fewer: about what people look through at once.
const LIST_DEFAULT: usize = 50;

/// The longest list. At some 300 bytes a call it is a third of a megabyte, made and sent at once.
const LIST_MAX: usize = 1_000;

pub(super) fn routes() -> OpenApiRouter<Desk> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show)).routes(routes!(console))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Which {
    /// Only calls of this session, by its UUID or its name; of several with one name the youngest is meant.
    #[param(min_length = 1, max_length = 256)]
    session_id: Option<String>,
    /// Only calls of this tool.
    tool: Option<String>,
    /// Only calls that ended so.
    #[param(inline)]
    status: Option<Ended>,
    /// How many at most; 50 unless given.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<usize>,
    /// Only calls before this position: `next` of the list before.
    before: Option<u64>,
}

#[derive(Clone, Copy, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
enum Ended {
    Success,
    Error,
}

/// Calls, newest first
#[utoipa::path(
    get, path = "/calls", tag = "calls", params(Which),
    responses((status = 200, body = Calls), BadRequest, NotFound, Unavailable)
)]
async fn list(State(desk): Door, Asked(asked): Asked<Which>) -> Result<Json<Calls>, Problem> {
    let records = desk.records()?;
    let limit = asked.limit.unwrap_or(LIST_DEFAULT);
    if !(1..=LIST_MAX).contains(&limit) {
        return Err(Problem::bad_query(&format!("`limit` must be 1 to {LIST_MAX}: `{limit}`")));
    }
    let session = match asked.session_id {
        Some(given) => Some(uid(&desk, records, &given).await?),
        None => None,
    };
    let status = asked.status.map(|ended| match ended {
        Ended::Success => Status::Success,
        Ended::Error => Status::Error,
    });
    // One more than is wanted says whether there are more.
    let filter = Filter { session, tool: asked.tool, status, before: asked.before, limit: limit + 1 };
    let mut found = records.list(&desk.owner, filter).await?;
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| more).map(|last| last.position);
    Ok(Json(Calls { calls: found.iter().map(Call::from).collect(), next }))
}

/// One call, with everything that is kept of it
#[utoipa::path(
    get, path = "/calls/{ref_id}", tag = "calls",
    params(("ref_id" = String, Path, format = Uuid)),
    responses((status = 200, body = CallDetail), BadRequest, NotFound, Unavailable)
)]
async fn show(State(desk): Door, name: Named) -> Result<Json<CallDetail>, Problem> {
    let id = name.ref_id()?;
    Ok(Json(record(desk.records()?, &desk, &id).await?.into()))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct WhichLines {
    /// Only lines of this level and graver ones; empty for all.
    #[serde(default)]
    #[param(inline, required = false)]
    level: OfLevel,
}

/// What the page's console said during a call, whole at every reading
#[utoipa::path(
    get, path = "/calls/{ref_id}/console", tag = "calls",
    params(("ref_id" = String, Path, format = Uuid), WhichLines),
    responses((status = 200, body = Console), BadRequest, NotFound, Unavailable)
)]
async fn console(
    State(desk): Door,
    name: Named,
    Asked(asked): Asked<WhichLines>,
) -> Result<Json<Console>, Problem> {
    let id = name.ref_id()?;
    let lines = desk.records()?.console(&desk.owner, &id, asked.level.level()).await?;
    let lines = lines.ok_or_else(|| Problem::no_call(&id))?;
    Ok(Json(Console { ref_id: id.to_string(), console: lines.into_iter().map(Into::into).collect() }))
}

async fn record(records: &dyn Records, desk: &Desk, id: &RefId) -> Result<Record, Problem> {
    records.record(&desk.owner, id).await?.ok_or_else(|| Problem::no_call(id))
}

/// The session that is meant by a UUID or a name.
async fn uid(desk: &Desk, records: &dyn Records, given: &str) -> Result<SessionUid, Problem> {
    let name = session(given)?;
    let row = records.session(&desk.owner, name.as_str()).await?;
    Ok(row.ok_or_else(|| Problem::no_session(given))?.session.uid)
}
