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
    extract::{Request, State},
    http::Uri,
    middleware::{self, Next},
};
use greenroom_core::{Owner, Records};

use crate::{Gateway, caller::Caller, offload::offloadable};

pub(crate) use body::whole;
pub use openapi::document;
pub use pools::{CommandedInstances, ScaleResult};
pub use record::CallStatus;
pub(crate) use record::whole_record;
pub use rest_error::{ProblemBody, RestError};
pub(crate) use timeline::CALLS_MAX;
pub use timeline::{SessionView, TimelineEvent, TimelineEventKind, TimelineView, timeline_of};

/// What handlers need: the gateway, and the owner on whose behalf they act.
#[derive(Clone)]
pub(crate) struct RestState {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) owner: Owner,
    /// Whether these clients may attach and detach browsers.
    pub(crate) may_attach: bool,
}

type RestContext = State<RestState>;

impl RestState {
    /// The client as a caller.
    fn program(&self) -> Caller {
        Caller::program(&self.owner)
    }

    /// The store, if records are on.
    fn records(&self) -> Result<&dyn Records, RestError> {
        self.gateway.recall.records.as_deref().ok_or_else(RestError::records_off)
    }
}

/// All routes below `/api`, with errors for the other paths there. The caller decides which clients can reach it, and
/// whether they may attach and detach browsers.
pub(crate) fn router(gateway: Arc<Gateway>, owner: Owner, may_attach: bool) -> Router {
    let routes = Router::from(openapi::routes())
        .route("/openapi.json", axum::routing::get(openapi::show))
        .fallback(|uri: Uri| async move { RestError::no_route(&uri) })
        .method_not_allowed_fallback(|| async { RestError::wrong_method() })
        // Arguments and records may be large.
        .layer(middleware::from_fn(|request: Request, next: Next| offloadable(next.run(request))))
        .with_state(RestState { gateway, owner, may_attach });
    Router::new().nest("/api", routes)
}
