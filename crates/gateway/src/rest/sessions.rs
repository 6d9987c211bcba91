//! `/api/sessions`: programs open, show and close sessions.
//!
//! A session that has ended is shown as recorded. Another connection's own session is shown, but only that client can
//! use and close it.

use axum::{
    Json,
    body::Body,
    http::{HeaderMap, StatusCode},
};
use greenroom_core::{ConnectionId, SessionId, excerpt::excerpt, network::SessionNetwork, time::timestamp};
use greenroom_fleet::{CallTarget, SessionKey, SessionOptions, SessionStatus};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    RestContext, RestError, RestRequest, RestState, body,
    input::{PathName, session},
    rest_error::{BadRequest, BodyTooLarge, Conflict, Forbidden, NotFound, NotJson, TooMany, Unavailable},
    timeline::SessionView,
};
use crate::{
    error_response::ErrorResponse,
    session_key::named,
    tools::{self, WHOLE_TEXT, first_within, state_name},
};

/// The tools with which agents do the same; operators allow and deny them by these names.
const OPEN: &str = "create_new_session";
const CLOSE: &str = "session_close";

/// The longest list, in bytes of JSON: a thousand sessions with usual titles.
const LIST_BYTES_MAX: usize = 1 << 20;

/// A session.
#[derive(Debug, Serialize, ToSchema)]
pub struct Session {
    #[schema(format = Uuid)]
    session_id: String,
    /// Its name: the `sessionId` that its owner chose, or `#7` for the default session of MCP connection 7.
    name: String,
    pool: String,
    /// The instance that its browser runs in; `null` until it has one, and after its end.
    #[schema(required)]
    instance: Option<String>,
    /// `starting`, `idle` or `busy`; after its end `closed` or `error`.
    state: String,
    #[schema(required)]
    url: Option<String>,
    #[schema(required)]
    title: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    last_activity: String,
    calls_in_flight: usize,
    /// When greenroom closes it if no call comes; `null` while a call runs, and after its end.
    #[schema(required)]
    expires_in_seconds: Option<u64>,
    /// What the session may reach, if that is less than its pool permits; `null` otherwise, and after its end.
    #[schema(required)]
    network: Option<NetworkLimits>,
}

/// What a session may reach: less than its pool permits. A rule is a host, a host with `*` in it, an address or a network,
/// each with an optional port.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NetworkLimits {
    /// `guarded`: public addresses only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^guarded$")]
    preset: Option<String>,
    /// What `guarded` permits besides public addresses, as far as the pool does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 64)]
    allow: Option<Vec<String>>,
    /// The session reaches nothing but these.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 64)]
    only: Option<Vec<String>>,
    /// The session does not reach these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 64)]
    deny: Vec<String>,
}

impl From<NetworkLimits> for SessionNetwork {
    fn from(NetworkLimits { preset, allow, only, deny }: NetworkLimits) -> Self {
        Self { preset, allow, only, deny }
    }
}

impl From<SessionNetwork> for NetworkLimits {
    fn from(SessionNetwork { preset, allow, only, deny }: SessionNetwork) -> Self {
        Self { preset, allow, only, deny }
    }
}

/// Sessions, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub struct Sessions {
    sessions: Vec<Session>,
    /// How many sessions are missing because the list is full.
    left_out: usize,
}

/// A request to open a session.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewSession {
    /// The session's name; a short random one by default.
    #[schema(min_length = 1, max_length = 256)]
    session_id: Option<String>,
    /// The pool to open it in; the default pool if absent.
    pool: Option<String>,
    /// The number or the alias of an instance of that pool.
    instance: Option<String>,
    /// The index or the label of an attached browser, instead of a pool.
    browser: Option<String>,
    /// What the session may reach; what its pool permits if absent.
    network: Option<NetworkLimits>,
}

pub(super) fn routes() -> OpenApiRouter<RestState> {
    OpenApiRouter::new().routes(routes!(list, open)).routes(routes!(show, close))
}

/// List open sessions
#[utoipa::path(
    get, operation_id = "list_sessions", path = "/sessions", tag = "sessions",
    responses((status = 200, body = Sessions))
)]
async fn list(RestContext(rest_state): RestContext) -> Json<Sessions> {
    let all = rest_state.gateway.fleet.list(&rest_state.owner);
    let sessions = first_within(LIST_BYTES_MAX, all.iter().filter_map(Session::from_status));
    let left_out = all.len() - sessions.len();
    Json(Sessions { sessions, left_out })
}

/// Open a session and wait for its browser
#[utoipa::path(
    post, operation_id = "open_session", path = "/sessions", tag = "sessions", request_body = Option<NewSession>,
    responses(
        (status = 201, description = "The session is open", body = Session),
        BadRequest, Forbidden, NotFound, Conflict, BodyTooLarge, NotJson, TooMany, Unavailable
    )
)]
async fn open(
    RestContext(rest_state): RestContext,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<Session>), RestError> {
    let new = body::read::<Option<NewSession>>(&headers, body, body::COMMAND).await?.flatten();
    let new = new.unwrap_or_default();
    let id = new.session_id.as_deref().map(session).transpose()?;
    let target = CallTarget { pool: new.pool, instance: new.instance, browser: new.browser };
    let refused = |failure: &ErrorResponse| RestError::not_run(failure, OPEN, None);
    let caller = rest_state.program();
    let options = SessionOptions { network: new.network.map(Into::into) };
    let id = tools::open_session(&rest_state.gateway, &caller, id, target, options)
        .await
        .map_err(|failure| refused(&failure))?
        .id;
    let opened = rest_state
        .session(&SessionKey::Named(id.clone()))
        .ok_or_else(|| RestError::no_session(id.as_str()))?;
    Ok((StatusCode::CREATED, Json(opened)))
}

/// Show one session
///
/// The path names it by its UUID or its name. A session that has ended is shown from its record.
#[utoipa::path(
    get, operation_id = "show_session", path = "/sessions/{id}", tag = "sessions",
    params(("id" = String, Path, description = "The session's UUID or its name")),
    responses((status = 200, body = Session), BadRequest, NotFound, Unavailable)
)]
async fn show(
    RestContext(rest_state): RestContext,
    PathName(name): PathName,
) -> Result<Json<Session>, RestError> {
    let id = session(&name)?;
    let by_uid =
        || rest_state.gateway.fleet.by_uid(&rest_state.owner, &greenroom_core::SessionUid::parse(&name)?);
    let live = rest_state.session(&SessionKey::Named(id)).or_else(|| rest_state.session(&by_uid()?));
    if let Some(live) = live {
        return Ok(Json(live));
    }
    let Some(records) = &rest_state.gateway.recall.records else { return Err(RestError::no_session(&name)) };
    let row = records.session(&rest_state.owner, &name).await?.ok_or_else(|| RestError::no_session(&name))?;
    Ok(Json(SessionView::from(row).into()))
}

/// Close a session and free its browser
#[utoipa::path(
    delete, operation_id = "close_session", path = "/sessions/{id}", tag = "sessions",
    params(("id" = String, Path, description = "The session's UUID or its name")),
    responses((status = 204, description = "The session is closed"), BadRequest, Forbidden, NotFound, Conflict)
)]
async fn close(
    RestContext(rest_state): RestContext,
    PathName(name): PathName,
) -> Result<StatusCode, RestError> {
    let id: SessionId = session(&name)?;
    let gateway = &rest_state.gateway;
    let refused = |failure: ErrorResponse| RestError::not_run(&failure, CLOSE, None);
    gateway.policy.permit(&rest_state.owner, CLOSE).map_err(|error| refused(error.into()))?;
    let session_key = named(gateway, &rest_state.program(), id).await.map_err(refused)?;
    match gateway.fleet.close(&rest_state.owner, &session_key).await {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(_) => Err(RestError::no_session(&name)),
    }
}

impl RestRequest {
    /// A session that exists.
    fn session(&self, session_key: &SessionKey) -> Option<Session> {
        let is_it = |status: &SessionStatus| match session_key {
            SessionKey::Named(id) => status.id.as_ref() == Some(id),
            SessionKey::Connection(id) => status.connection == Some(*id),
            SessionKey::Ephemeral => false,
        };
        self.gateway
            .fleet
            .list(&self.owner)
            .iter()
            .find(|status| is_it(status))
            .and_then(Session::from_status)
    }
}

impl Session {
    fn from_status(status: &SessionStatus) -> Option<Self> {
        let text = |text: &str| Some(excerpt(text, WHOLE_TEXT).into_owned()).filter(|text| !text.is_empty());
        let of_connection = || status.connection.map(ConnectionId::session_name);
        Some(Self {
            session_id: status.uid.as_ref()?.to_string(),
            name: status.id.as_ref().map(ToString::to_string).or_else(of_connection)?,
            pool: status.pool.clone(),
            instance: status.instance.map(|id| id.to_string()),
            state: state_name(status.state).to_owned(),
            url: text(&status.view.url),
            title: text(&status.view.title),
            created_at: timestamp(status.created),
            last_activity: timestamp(status.last_used),
            calls_in_flight: status.calls_in_flight,
            expires_in_seconds: status.expires_in.map(|left| left.as_secs()),
            network: status.network.clone().map(Into::into),
        })
    }
}

impl From<SessionView> for Session {
    /// A recorded session that is not open in this process.
    fn from(view: SessionView) -> Self {
        let SessionView { session_id, name, pool, state, created_at, last_activity } = view;
        Self {
            session_id,
            name,
            pool,
            instance: None,
            state,
            url: None,
            title: None,
            created_at,
            last_activity,
            calls_in_flight: 0,
            expires_in_seconds: None,
            network: None,
        }
    }
}
