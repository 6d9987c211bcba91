//! The HTTP front: MCP at `/mcp`, for clients with a handshake (2025-03-26 to 2025-11-25) and for stateless requests
//! (2026-07-28); fronts that join at `/front`; and the probes for a supervisor.
//!
//! The MCP routes are the same for a TCP port ([`port_router`]) and for the control socket ([`socket_router`]); [`HttpState`]
//! holds what differs: which clients can be at the other end.

mod auth;
mod body;
mod fronts;
mod get;
mod headers;
mod host_check;
mod join;
mod listen;
mod page;
mod param_headers;
mod post;
mod probes;
mod refusal;
mod security_headers;
mod session;

use std::sync::Arc;

use axum::{
    Extension, Router,
    extract::{DefaultBodyLimit, Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing,
};
use greenroom_core::Owner;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Gateway,
    connection::ClientLocation,
    rest::{self, RestError},
};

pub use auth::{EndedKeys, KeyRing, RequestEnd, Requester};
pub(crate) use headers::is_json;
pub use host_check::HostRules;
pub use join::{FRONT, FrontHello, FrontWelcome, PROTOCOL};
pub use listen::{ConnectionLimits, PeerAddress, maintain_clients, serve};
pub use probes::Probes;
pub use session::HttpClients;

/// The state of one listener, a TCP port or the control socket: the gateway, and which clients can connect to
/// it.
#[derive(Clone)]
pub struct HttpState {
    pub gateway: Arc<Gateway>,
    /// Shared by all `HttpState`s of a process.
    pub clients: Arc<HttpClients>,
    pub probes: Arc<Probes>,
    /// Whether the clients of this listener are this user, on this machine.
    pub location: ClientLocation,
    /// The keys of its clients; `None` where only this user can connect, whose requests are `local`.
    pub keys: Option<Arc<KeyRing>>,
    /// Whether `/ready` and `/metrics` need no key.
    pub public_probes: bool,
    /// By which names a client may call this server; `None` where only this user can connect.
    pub rules: Option<HostRules>,
    /// Cancelled when the server stops: ends streams and joined fronts, which would otherwise never end.
    pub stop: CancellationToken,
    pub tasks: TaskTracker,
}

impl HttpState {
    /// Ends every client and its calls, and returns when they have ended. `stop` must have been cancelled before, and
    /// [`serve`] must have returned: the connections tell the clients first which calls were cut off.
    pub async fn end(&self) {
        self.clients.end_all(self);
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Ends the clients of keys that are no longer valid, and closes the sessions of their owners. Open streams have ended
    /// already.
    pub fn end_keys(&self, ended: &EndedKeys) {
        if ended.are_first {
            self.clients.end_owner(self, &Owner::local());
        }
        for owner in &ended.owners {
            self.clients.end_owner(self, owner);
            for session in self.gateway.fleet.list(owner) {
                let Some(session_key) = session.key() else { continue };
                let fleet = self.gateway.fleet.clone();
                let owner = owner.clone();
                self.tasks.spawn(async move {
                    // It may have ended meanwhile.
                    let _ = fleet.evict(&owner, &session_key).await;
                });
            }
        }
    }
}

/// All routes of the server's port: MCP, REST and the page, and the errors for all other paths.
pub fn port_router(http_state: Arc<HttpState>) -> Router {
    let may_attach = http_state.gateway.attaching.allows(http_state.location.is_local());
    let rest = rest::router(http_state.gateway.clone(), may_attach)
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn(until_ended));
    let page = Router::new().route("/", routing::get(page::show)).with_state(http_state.clone());
    let routes = mcp_routes(http_state.clone())
        .merge(rest)
        .merge(page)
        .fallback(|| async { refusal::not_found() })
        .method_not_allowed_fallback(|| async { refusal::wrong_method() });
    checked(routes, http_state)
}

/// The routes of a server's control socket, which merges its own routes with these.
pub fn socket_router(http_state: Arc<HttpState>) -> Router {
    checked(mcp_routes(http_state.clone()), http_state)
}

/// Adds the checks that each request passes before it reaches its route: its host, then its key. Every answer, refusals
/// too, gets the headers for browsers.
fn checked(routes: Router, http_state: Arc<HttpState>) -> Router {
    routes
        .layer(middleware::from_fn_with_state(http_state.clone(), auth::authenticate))
        .layer(middleware::from_fn_with_state(http_state, host_check::check_host))
        .layer(middleware::from_fn(security_headers::add))
}

/// The MCP routes and the probes.
fn mcp_routes(http_state: Arc<HttpState>) -> Router {
    Router::new()
        .route("/mcp", routing::post(post::handle).get(get::handle).delete(delete))
        .route(FRONT, routing::get(join::handle))
        .route("/health", routing::get(probes::health))
        .route("/ready", routing::get(probes::ready))
        .route("/metrics", routing::get(probes::metrics))
        // Each handler reads its body with its own limit.
        .layer(DefaultBodyLimit::disable())
        .with_state(http_state)
}

/// Answers a REST request that still runs when the server stops, or when its key ends, with an error.
async fn until_ended(Extension(requester): Extension<Requester>, request: Request, next: Next) -> Response {
    tokio::select! {
        biased;
        response = next.run(request) => response,
        () = requester.end.token().cancelled() => match requester.end.is_of_key() {
            true => RestError::key_ended(requester.end.message()).into_response(),
            false => RestError::stopping().into_response(),
        },
    }
}

/// Ends the client's MCP session. The connection's own browser session closes; named sessions stay, as other clients
/// may use them.
async fn delete(
    State(http_state): State<Arc<HttpState>>,
    Extension(requester): Extension<Requester>,
    headers: axum::http::HeaderMap,
) -> Response {
    match http_state.clients.find(&http_state, &requester, &headers) {
        Ok(session) => {
            http_state.clients.end(&http_state, &session);
            refusal::done()
        }
        Err(refusal) => refusal,
    }
}

#[cfg(test)]
mod tests;
