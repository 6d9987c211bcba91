//! The probes for a supervisor: `/health` (this process answers), `/ready` (a browser is available), `/metrics`.

use std::sync::Arc;

use axum::{
    Extension,
    extract::State,
    http::{HeaderValue, StatusCode, header::CONTENT_TYPE},
    response::Response,
};
use greenroom_fleet::BrowserState;
use serde_json::json;

use super::{HttpState, auth::Requester, refusal};

/// What this process reports of itself.
#[derive(Debug)]
pub struct Probes {
    /// A name that no other process has.
    pub server: String,
}

pub(super) async fn health() -> Response {
    answer(StatusCode::OK, &json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION") }))
}

/// Whether a browser is available. Only an operator learns why not, and how records and browsers are.
pub(super) async fn ready(
    State(http_state): State<Arc<HttpState>>,
    requester: Option<Extension<Requester>>,
) -> Response {
    let readiness = http_state.gateway.readiness();
    let sees_details = http_state.public_probes || requester.is_some_and(|requester| requester.is_admin());
    if !sees_details {
        let (status, word) = match readiness {
            Ok(()) => (StatusCode::OK, "ready"),
            Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "not ready"),
        };
        return answer(status, &json!({ "status": word }));
    }
    let (status, mut body) = match readiness {
        Ok(()) => (StatusCode::OK, json!({ "status": "ready" })),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, json!({ "status": "not ready", "message": why })),
    };
    body["records"] = json!(records(&http_state));
    if let Some(why) = audit_trouble(&http_state) {
        body["audit"] = json!(format!("not written: {why}"));
    }
    if let Some(browsers) = browsers(&http_state) {
        body["browsers"] = json!(browsers);
    }
    answer(status, &body)
}

/// How many attached browsers are connected, if there are any. A browser that is not connected does not make the server
/// unready.
fn browsers(http_state: &HttpState) -> Option<String> {
    let all = http_state.gateway.fleet.browsers();
    let connected = all.iter().filter(|browser| browser.state == BrowserState::Connected).count();
    (!all.is_empty()).then(|| format!("{connected} of {} connected", all.len()))
}

/// Whether calls are recorded. Calls run even if they are not recorded, so a full disk does not make the server
/// unready; but `/ready` reports it.
fn records(http_state: &HttpState) -> String {
    match &http_state.gateway.recall.records {
        None => "off".to_owned(),
        Some(records) => match records.health() {
            Ok(()) => "kept".to_owned(),
            Err(why) => format!("not kept: {why}"),
        },
    }
}

/// Why the audit log is not written, if that is so. Calls run all the same.
fn audit_trouble(http_state: &HttpState) -> Option<Arc<str>> {
    http_state.gateway.audit.as_ref()?.health().err()
}

pub(super) async fn metrics(State(http_state): State<Arc<HttpState>>) -> Response {
    let gateway = &http_state.gateway;
    let audit_lost = gateway.audit.as_ref().map_or(0, |audit| audit.lost());
    let text = gateway.metrics.text(&gateway.fleet, http_state.clients.count(), audit_lost);
    let mut response = Response::new(text.into());
    let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn answer(status: StatusCode, body: &serde_json::Value) -> Response {
    refusal::json(status, body.to_string())
}
