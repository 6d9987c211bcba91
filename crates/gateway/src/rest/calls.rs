//! `/api/calls`: makes, lists and shows calls of tools, and reads them in parts.
//!
//! A call that ran gets status 200, however it ended: whether the tool failed is in its `status`. The engine's answer
//! is not sent back; it is recorded, and read by its `ref_id`. A call that did not run is a [`RestError`].

use axum::{Json, body::Body, http::HeaderMap};
use greenroom_core::{
    Fields, Raw, Records, RefId, SessionUid, raw,
    record::{ConsoleRange, Record, RecordFilter, Status},
};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    RestContext, RestError, RestRequest, RestState, body,
    input::{CallPosition, PathName, QueryParams, ref_id, session},
    record::{CallConsole, CallContent, CallDetail, CallList, CallResponse, CallView, ConsoleLevel, OwnCall},
    rest_error::{BadRequest, BodyTooLarge, Conflict, Forbidden, NotFound, NotJson, TooMany, Unavailable},
};
use crate::{
    call,
    call_order::Turns,
    catalog::SESSION_ID,
    error_response::ErrorResponse,
    not_run::NotRun,
    offload::{offload_if_large_json, offloadable},
    outcome::CallOutcome,
    recall::content::{self, ContentQuery},
    route::CallRequest,
    tools::{self, OwnTool},
};

/// How many calls a list has by default: about what people look through at once.
const LIST_DEFAULT: usize = 50;

/// The longest list. At some 300 bytes a call it is a third of a megabyte, made and sent at once. The store cuts long
/// texts, and ends a list early when it has read or returned too much.
const LIST_MAX: usize = 1_000;

/// The largest offset or limit. A database stores no text of more than a billion bytes.
const LINES_MAX: usize = 1_000_000_000;

pub(super) fn routes() -> OpenApiRouter<RestState> {
    OpenApiRouter::new()
        .routes(routes!(list, make))
        .routes(routes!(show))
        .routes(routes!(content))
        .routes(routes!(console))
}

/// A request to make a call.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewCall {
    /// The session to call, by its UUID or its name. greenroom opens a session for a new name.
    #[schema(min_length = 1, max_length = 256)]
    session_id: Option<String>,
    tool: String,
    /// The tool's arguments.
    #[schema(value_type = Option<Object>)]
    params: Option<Raw>,
    /// The `ref_id` that the call shall have, for safe retries: greenroom does not run a second call with the same
    /// one, and answers with the first call's result.
    #[schema(format = Uuid)]
    request_id: Option<String>,
}

/// Make a call and wait until it has ended
#[utoipa::path(
    post, operation_id = "make_call", path = "/calls", tag = "calls", request_body = NewCall,
    responses(
        (status = 200, description = "The call has run; if the tool failed, its `status` is `error`", body = CallResponse),
        BadRequest, Forbidden, NotFound, Conflict, BodyTooLarge, NotJson, TooMany, Unavailable
    )
)]
async fn make(
    RestContext(rest_state): RestContext,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<CallResponse>, RestError> {
    let Some(new) = body::read::<NewCall>(&headers, body, body::CALL).await? else {
        return Err(RestError::bad_body("the body must say which tool: `{\"tool\": \"browser_snapshot\"}`"));
    };
    if new.params.as_ref().is_some_and(|params| !params.get().starts_with('{')) {
        return Err(RestError::bad_body("`params` must be an object"));
    }
    if let Some(tool) = tools::find(&new.tool) {
        return own_tool(&rest_state, tool, new).await;
    }
    rest_state.records()?;
    let refused = |failure: &ErrorResponse| RestError::not_run(failure, &new.tool, None);
    let mut request = {
        // Held only while the arguments are parsed: the call itself takes another guard.
        let _guard = offload_if_large_json(new.params.as_deref()).await;
        CallRequest::from_parts(&new.tool, new.params, None).map_err(|error| refused(&error.into()))?
    };
    request.session = new.session_id.as_deref().map(session).transpose()?;
    request.ref_id = new.request_id.as_deref().map(ref_id).transpose()?;
    match make_call(&rest_state, request).await? {
        Ok(CallOutcome { reply: Err(failure), record, .. }) if !failure.may_have_run() => {
            Err(RestError::not_run(&failure, &new.tool, record.record()))
        }
        Ok(CallOutcome { record, notes, .. }) => {
            let ref_id = record.ref_id.as_ref().ok_or_else(RestError::records_off)?;
            Ok(Json(CallResponse::Recorded(Box::new(CallView::ended(ref_id, &record, notes)))))
        }
        Err(NotRun::Repeat(record)) => {
            Ok(Json(CallResponse::Recorded(Box::new(CallView::from(&record.summary)))))
        }
        Err(NotRun::Failure(failure)) => Err(refused(&failure)),
        Err(NotRun::Rpc(error)) => Err(refused(&ErrorResponse::invalid_request(error.message))),
        Err(NotRun::Page(_)) => Err(refused(&ErrorResponse::agent_only_parameter(false))),
    }
}

/// Makes a call. A call with a name runs to its end even if its client disconnects: the client may ask for it again.
async fn make_call(
    rest_state: &RestRequest,
    request: CallRequest,
) -> Result<Result<CallOutcome, NotRun>, RestError> {
    let gateway = rest_state.gateway.clone();
    let caller = rest_state.program();
    let is_named = request.ref_id.is_some();
    let unanswered = gateway.answering.token();
    let made = async move {
        let _unanswered = unanswered;
        let _guard = offload_if_large_json(request.arguments()).await;
        call::make(&gateway, &caller, request, Turns::default().take()).await
    };
    if !is_named {
        return Ok(made.await);
    }
    tokio::spawn(offloadable(made)).await.map_err(|_| RestError::failed())
}

/// Runs one of greenroom's own tools. It leaves no record, so the client cannot name the call.
async fn own_tool(
    rest_state: &RestRequest,
    tool: &OwnTool,
    new: NewCall,
) -> Result<Json<CallResponse>, RestError> {
    let gateway = &rest_state.gateway;
    let caller = rest_state.program();
    let refused = |failure: ErrorResponse| RestError::not_run(&failure, tool.name, None);
    if new.request_id.is_some() {
        let why =
            "`request_id`: calls of greenroom's own tools are not recorded, so none can be made once only";
        return Err(RestError::bad_body(why));
    }
    if !tools::names(gateway, caller.is_local).any(|name| name == tool.name) {
        return Err(refused(ErrorResponse::invalid_request(format!(
            "tool \"{}\" cannot be used here",
            tool.name
        ))));
    }
    let mut arguments = match &new.params {
        Some(params) => {
            Fields::open(params).map_err(|_| RestError::bad_body("`params` must be an object"))?
        }
        None => Fields::default(),
    };
    if let Some(given) = &new.session_id {
        arguments.set(SESSION_ID, raw::encode(&session(given)?));
    }
    let request = CallRequest::from_parts(tool.name, Some(arguments.to_raw()), None)
        .map_err(|error| refused(error.into()))?;
    let _unanswered = gateway.answering.token();
    match tool.run(gateway, &caller, request).await {
        Ok(output) => {
            let error = output.failed.then(|| format!("{} failed; `result` says how", tool.name));
            Ok(Json(CallResponse::Own(Box::new(OwnCall::new(tool.name, error, output.to_result())))))
        }
        Err(failure) => Err(refused(failure)),
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct CallListQuery {
    /// Only calls of this session, by its UUID or its name. If several sessions have had that name, the newest one.
    #[param(min_length = 1, max_length = 256)]
    session_id: Option<String>,
    /// Only calls of this tool.
    tool: Option<String>,
    /// Only calls with this outcome.
    #[param(inline)]
    status: Option<EndStatusFilter>,
    /// The maximum number of entries; 50 by default.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<usize>,
    /// Only calls before this position: the `next` of the previous list.
    #[param(value_type = Option<u64>)]
    before: Option<CallPosition>,
}

#[derive(Clone, Copy, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
enum EndStatusFilter {
    Success,
    Error,
}

/// Calls, newest first
#[utoipa::path(
    get, operation_id = "list_calls", path = "/calls", tag = "calls", params(CallListQuery),
    responses((status = 200, body = CallList), BadRequest, NotFound, Unavailable)
)]
async fn list(
    RestContext(rest_state): RestContext,
    QueryParams(query): QueryParams<CallListQuery>,
) -> Result<Json<CallList>, RestError> {
    let records = rest_state.records()?;
    let limit = query.limit.unwrap_or(LIST_DEFAULT);
    if !(1..=LIST_MAX).contains(&limit) {
        return Err(RestError::bad_query(&format!("`limit` must be 1 to {LIST_MAX}: `{limit}`")));
    }
    let session = match query.session_id {
        Some(given) => Some(uid(&rest_state, records, &given).await?),
        None => None,
    };
    let status = query.status.map(|ended| match ended {
        EndStatusFilter::Success => Status::Success,
        EndStatusFilter::Error => Status::Error,
    });
    // One more than the limit shows whether there are more.
    let filter = RecordFilter {
        session,
        tool: query.tool,
        status,
        before: query.before.map(|before| before.0),
        limit: limit + 1,
    };
    let listed = records.list(&rest_state.owner, filter).await?;
    let more = listed.len() > limit || listed.is_cut;
    let mut found = listed.summaries;
    found.truncate(limit);
    let next = found.last().filter(|_| more).map(|last| last.position);
    Ok(Json(CallList { calls: found.iter().map(CallView::from).collect(), next }))
}

/// Show one call with its record
#[utoipa::path(
    get, operation_id = "show_call", path = "/calls/{ref_id}", tag = "calls",
    params(("ref_id" = String, Path, format = Uuid)),
    responses((status = 200, body = CallDetail), BadRequest, NotFound, Unavailable)
)]
async fn show(RestContext(rest_state): RestContext, name: PathName) -> Result<Json<CallDetail>, RestError> {
    let id = name.ref_id()?;
    Ok(Json(record(rest_state.records()?, &rest_state, &id).await?.into()))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ContentParameters {
    /// Only lines that contain this text.
    search_for: Option<String>,
    /// How many lines before and after each match to return with it.
    #[serde(default)]
    #[param(value_type = Option<usize>, maximum = 1_000_000_000)]
    before_lines: usize,
    #[serde(default)]
    #[param(value_type = Option<usize>, maximum = 1_000_000_000)]
    after_lines: usize,
    /// Return the whole text again, as if it had never been read.
    #[serde(default)]
    reset_cursor: bool,
    /// The first line to return, counted from 0.
    #[param(maximum = 1_000_000_000)]
    offset: Option<usize>,
    /// The maximum number of lines.
    #[param(minimum = 1, maximum = 1_000_000_000)]
    limit: Option<usize>,
    /// Only what changed since the call with this `ref_id`.
    #[param(format = Uuid)]
    since: Option<String>,
}

/// Read the page snapshot of a call, or the text of its answer
///
/// Without parameters, the first request returns the whole text, and later ones only the lines that are new since the
/// last such request. Requests with `search_for`, `offset`, `limit` or `since` read parts and do not change what
/// counts as new.
#[utoipa::path(
    get, operation_id = "read_content", path = "/calls/{ref_id}/content", tag = "calls",
    params(("ref_id" = String, Path, format = Uuid), ContentParameters),
    responses((status = 200, body = CallContent), BadRequest, NotFound, Conflict, Unavailable)
)]
async fn content(
    RestContext(rest_state): RestContext,
    name: PathName,
    QueryParams(query): QueryParams<ContentParameters>,
) -> Result<Json<CallContent>, RestError> {
    let id = name.ref_id()?;
    for (name, given, least) in [
        ("before_lines", Some(query.before_lines), 0),
        ("after_lines", Some(query.after_lines), 0),
        ("offset", query.offset, 0),
        ("limit", query.limit, 1),
    ] {
        if let Some(given) = given.filter(|given| !(least..=LINES_MAX).contains(given)) {
            return Err(RestError::bad_query(&format!("`{name}` must be {least} to {LINES_MAX}: `{given}`")));
        }
    }
    let ask = ContentQuery {
        search_for: query.search_for,
        before_lines: query.before_lines,
        after_lines: query.after_lines,
        reset_cursor: query.reset_cursor,
        offset: query.offset,
        limit: query.limit,
        since: query.since,
    };
    let content = content::read(rest_state.records()?, &rest_state.owner, id.as_str(), &ask).await?;
    Ok(Json(CallContent::new(&id, content)))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ConsoleQuery {
    /// Only messages of this level; all levels if empty.
    #[serde(default)]
    #[param(inline, required = false)]
    level: ConsoleLevel,
    /// The first message to return, counted from 0: the `next_offset` of the previous part.
    #[serde(default)]
    #[param(value_type = Option<usize>, maximum = 1_000_000_000)]
    offset: usize,
}

/// List the console messages of a call, in parts of about 1 MiB
#[utoipa::path(
    get, operation_id = "read_console", path = "/calls/{ref_id}/console", tag = "calls",
    params(("ref_id" = String, Path, format = Uuid), ConsoleQuery),
    responses((status = 200, body = CallConsole), BadRequest, NotFound, Unavailable)
)]
async fn console(
    RestContext(rest_state): RestContext,
    name: PathName,
    QueryParams(query): QueryParams<ConsoleQuery>,
) -> Result<Json<CallConsole>, RestError> {
    let id = name.ref_id()?;
    if query.offset > LINES_MAX {
        return Err(RestError::bad_query(&format!("`offset` must be 0 to {LINES_MAX}: `{}`", query.offset)));
    }
    let range = ConsoleRange { level: query.level.level(), offset: query.offset };
    let part = rest_state.records()?.console_part(&rest_state.owner, &id, range).await?;
    let part = part.ok_or_else(|| RestError::no_call(&id))?;
    let console = part.lines.into_iter().map(Into::into).collect();
    Ok(Json(CallConsole { ref_id: id.to_string(), console, next_offset: part.next }))
}

async fn record(records: &dyn Records, rest_state: &RestRequest, id: &RefId) -> Result<Record, RestError> {
    records.record(&rest_state.owner, id).await?.ok_or_else(|| RestError::no_call(id))
}

/// The session of this UUID or name.
async fn uid(rest_state: &RestRequest, records: &dyn Records, given: &str) -> Result<SessionUid, RestError> {
    let name = session(given)?;
    let row = records.session(&rest_state.owner, name.as_str()).await?;
    Ok(row.ok_or_else(|| RestError::no_session(given))?.session.uid)
}
