//! REST for programs: below `/api`, one file per resource, the same on the TCP port and on the control socket.
//!
//! Answers are JSON, except for blobs. An error is a [`RestError`]: the right status, a stable word, a message, and
//! details. The document at `/api/openapi.json` describes all of it; it is generated from the handlers themselves
//! ([`openapi`]).

mod blobs;
pub(crate) mod body;
mod browsers;
mod calls;
mod input;
mod openapi;
mod pools;
mod record;
mod rest_error;
mod sessions;
#[cfg(test)]
mod tests;
mod timeline;

use std::sync::Arc;

use axum::{
    Router,
    extract::{FromRequestParts, Request},
    http::{Uri, request::Parts},
    middleware::{self, Next},
};
use greenroom_core::{ApiScopes, Owner, Records};

use crate::{Gateway, caller::Caller, front::http::Requester, offload::offloadable};

pub(crate) use body::whole;
pub use openapi::document;
pub use pools::{CommandedInstances, ScaleResult};
pub use record::CallStatus;
pub(crate) use record::whole_record;
pub use rest_error::{ProblemBody, RestError};
pub(crate) use timeline::CALLS_MAX;
pub use timeline::{SessionView, TimelineEvent, TimelineEventKind, TimelineView, timeline_of};

/// What all requests of a listener share.
#[derive(Clone)]
pub(crate) struct RestState {
    gateway: Arc<Gateway>,
    /// Whether its clients may attach and detach browsers, if their scopes allow it.
    may_attach: bool,
}

/// What handlers need: the gateway, and the owner on whose behalf they act.
pub(crate) struct RestRequest {
    gateway: Arc<Gateway>,
    owner: Owner,
    scopes: ApiScopes,
    /// Whether the client may attach and detach browsers.
    may_attach: bool,
}

/// A [`RestRequest`], as handlers take it. The [`Requester`] comes from the layer that authenticates requests.
struct RestContext(RestRequest);

impl FromRequestParts<RestState> for RestContext {
    type Rejection = RestError;

    async fn from_request_parts(parts: &mut Parts, state: &RestState) -> Result<Self, RestError> {
        // Without that layer there is no owner, and no request may pass.
        let requester = parts.extensions.get::<Requester>().ok_or_else(RestError::failed)?;
        Ok(Self(RestRequest {
            gateway: state.gateway.clone(),
            owner: requester.owner.clone(),
            scopes: requester.scopes,
            may_attach: state.may_attach && requester.is_admin(),
        }))
    }
}

impl RestRequest {
    /// The client as a caller.
    fn program(&self) -> Caller {
        Caller::program(&self.owner, self.scopes)
    }

    /// The store, if records are on.
    fn records(&self) -> Result<&dyn Records, RestError> {
        self.gateway.recall.records.as_deref().ok_or_else(RestError::records_off)
    }
}

/// All routes below `/api`, with errors for the other paths there. The caller adds the layer that says who sends a request,
/// and decides whether its clients may attach and detach browsers.
pub(crate) fn router(gateway: Arc<Gateway>, may_attach: bool) -> Router {
    let routes = Router::from(openapi::routes())
        .route("/openapi.json", axum::routing::get(openapi::show))
        .fallback(|uri: Uri| async move { RestError::no_route(&uri) })
        .method_not_allowed_fallback(|| async { RestError::wrong_method() })
        // Arguments and records may be large.
        .layer(middleware::from_fn(|request: Request, next: Next| offloadable(next.run(request))))
        .with_state(RestState { gateway, may_attach });
    Router::new().nest("/api", routes)
}
