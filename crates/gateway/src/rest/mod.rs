//! The programs' way in: REST below `/api`, one file per resource, the same at the TCP door and on the control socket.
//!
//! Answers are JSON. What cannot be done is a [`problem`]: the right status, a stable word, a message, and details.

mod body;
mod pools;
mod problem;

use std::sync::Arc;

use axum::{Router, http::Uri};

use crate::Gateway;

pub use pools::{Changed, Scaled};
pub use problem::{Problem, ProblemBody};

/// Everything below `/api`, refusals of the rest of it included. Whoever serves it decides who may come.
pub(crate) fn router(gateway: Arc<Gateway>) -> Router {
    let routes = pools::routes()
        .fallback(|uri: Uri| async move { Problem::no_route(&uri) })
        .method_not_allowed_fallback(|| async { Problem::wrong_method() })
        .with_state(gateway);
    Router::new().nest("/api", routes)
}
