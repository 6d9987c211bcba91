//! `/api/browsers`: attached browsers, and commands to them: reconnect, attach, detach. The last two are only for
//! clients that may change which browsers are attached.

use axum::{Json, body::Body, http::HeaderMap};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    RestContext, RestError, RestState, body,
    input::PathName,
    rest_error::{BadRequest, BodyTooLarge, Conflict, Forbidden, NotFound, NotJson, Unavailable},
};
use crate::{
    attach::{AttachRequest, NotAttached},
    browser_json::{Browser, Browsers},
};

pub(super) fn routes() -> OpenApiRouter<RestState> {
    OpenApiRouter::new()
        .routes(routes!(list, attach))
        .routes(routes!(show, detach))
        .routes(routes!(reconnect))
}

/// List all attached browsers
#[utoipa::path(get, operation_id = "list_browsers", path = "/browsers", tag = "browsers", responses((status = 200, body = Browsers)))]
async fn list(RestContext(rest_state): RestContext) -> Json<Browsers> {
    Json(Browsers::list(&rest_state.gateway.fleet))
}

/// Show one attached browser
///
/// The path names it by its index or its label.
#[utoipa::path(
    get, operation_id = "show_browser", path = "/browsers/{index}", tag = "browsers", params(("index" = String, Path)),
    responses((status = 200, body = Browser), BadRequest, NotFound)
)]
async fn show(
    RestContext(rest_state): RestContext,
    PathName(name): PathName,
) -> Result<Json<Browser>, RestError> {
    let fleet = &rest_state.gateway.fleet;
    Ok(Json(Browser::from_status(fleet, fleet.browser(&name)?)))
}

/// Reconnect a browser now
///
/// greenroom tries at once, without waiting for its next planned attempt. If the browser does not answer, greenroom
/// runs its start command, if it has one. A connected browser that answers stays as it is.
#[utoipa::path(
    post, operation_id = "reconnect_browser", path = "/browsers/{index}/reconnect", tag = "browsers", params(("index" = String, Path)),
    responses((status = 200, body = Browser), BadRequest, NotFound, Unavailable)
)]
async fn reconnect(
    RestContext(rest_state): RestContext,
    PathName(name): PathName,
) -> Result<Json<Browser>, RestError> {
    let fleet = &rest_state.gateway.fleet;
    Ok(Json(Browser::from_status(fleet, fleet.reconnect_browser(&name).await?)))
}

/// Attach a running browser
///
/// If greenroom cannot connect to the browser, the request fails and the browser is not in the list.
#[utoipa::path(
    post, operation_id = "connect_browser", path = "/browsers", tag = "browsers", request_body = AttachRequest,
    responses((status = 200, body = Browser), BadRequest, Forbidden, Conflict, BodyTooLarge, NotJson, Unavailable)
)]
async fn attach(
    RestContext(rest_state): RestContext,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Browser>, RestError> {
    if !rest_state.may_attach {
        return Err(NotAttached::NotAllowed.into());
    }
    let request = body::read::<AttachRequest>(&headers, body, body::COMMAND).await?;
    let Some(request) = request else {
        return Err(RestError::bad_body("the body must say which: `{\"url\": \"http://127.0.0.1:9222\"}`"));
    };
    let status = rest_state.gateway.connect_browser(&request).await?;
    Ok(Json(Browser::from_status(&rest_state.gateway.fleet, status)))
}

/// Detach a browser
///
/// Its sessions end. The browser itself keeps running.
#[utoipa::path(
    delete, operation_id = "disconnect_browser", path = "/browsers/{index}", tag = "browsers", params(("index" = String, Path)),
    responses((status = 200, body = Browser), BadRequest, Forbidden, NotFound, Unavailable)
)]
async fn detach(
    RestContext(rest_state): RestContext,
    PathName(name): PathName,
) -> Result<Json<Browser>, RestError> {
    if !rest_state.may_attach {
        return Err(NotAttached::NotAllowed.into());
    }
    let fleet = &rest_state.gateway.fleet;
    let index = fleet.browser(&name)?.index;
    let left = rest_state.gateway.detach(index).await?;
    Ok(Json(Browser::from_status(fleet, left)))
}
