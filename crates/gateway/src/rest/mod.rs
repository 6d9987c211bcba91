//! The programs' way in: REST below `/api`, one file per resource, the same at the TCP door and on the control socket.
//!
//! Answers are JSON, but for blobs. What cannot be done is a [`problem`]: the right status, a stable word, a message,
//! and details. Everything here is described by the document at `/api/openapi.json`, which is made of the handlers
//! themselves ([`openapi`]).

mod attached_browsers;
mod blobs;
mod body;
mod calls;
mod input;
mod openapi;
mod pools;
mod problem;
mod record;
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
pub use pools::{Changed, Scaled};
pub use problem::{Problem, ProblemBody};
pub use record::CallStatus;
pub(crate) use record::whole_record;
pub(crate) use timeline::CALLS_MAX;
pub use timeline::{Happened, SessionView, TimelineEvent, TimelineView, timeline_of};

/// What handlers need: what is behind them, and on whose behalf they act.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) owner: Owner,
    /// Whether whoever comes may change which browsers are attached.
    pub(crate) changes: bool,
}

type Door = State<Desk>;

impl Desk {
    /// Whoever comes here, as a caller.
    fn program(&self) -> Caller {
        Caller::program(&self.owner)
    }

    /// The keeper of records, if there is one.
    fn records(&self) -> Result<&dyn Records, Problem> {
        self.gateway.recall.records.as_deref().ok_or_else(Problem::records_off)
    }
}

/// Everything below `/api`, refusals of the rest of it included. Whoever serves it decides who may come, and whether
/// those may change which browsers are attached.
pub(crate) fn router(gateway: Arc<Gateway>, owner: Owner, changes: bool) -> Router {
    let routes = Router::from(openapi::routes())
        .route("/openapi.json", axum::routing::get(openapi::show))
        .fallback(|uri: Uri| async move { Problem::no_route(&uri) })
        .method_not_allowed_fallback(|| async { Problem::wrong_method() })
        // A call's arguments and what records hold may be large.
        .layer(middleware::from_fn(|request: Request, next: Next| offloadable(next.run(request))))
        .with_state(Desk { gateway, owner, changes });
    Router::new().nest("/api", routes)
}
