//! The OpenAPI description of everything below `/api`, generated from the handlers and served at `/api/openapi.json`.
//! The checked-in `docs/openapi.json` is the same document.

use axum::Json;
use utoipa::{OpenApi, openapi};
use utoipa_axum::router::OpenApiRouter;

use super::{ProblemBody, RestState, attached_browsers, blobs, calls, pools, sessions, timeline};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "greenroom",
        description = "Isolated browsers for AI agents: what programs may ask and command.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    components(schemas(ProblemBody)),
    tags(
        (name = "pools", description = "Groups of browsers, and commands to them"),
        (name = "browsers", description = "Attached browsers: those that people already run"),
        (name = "calls", description = "Calls of tools, and what is kept of them"),
        (name = "blobs", description = "Kept bytes: pictures, PDFs, downloads"),
        (name = "sessions", description = "Sessions, and what happened in them"),
    )
)]
struct ApiDoc;

/// The document, with full paths.
pub fn document() -> openapi::OpenApi {
    OpenApiRouter::with_openapi(ApiDoc::openapi()).nest("/api", routes()).into_openapi()
}

/// The routes, each with its description.
pub(super) fn routes() -> OpenApiRouter<RestState> {
    let of_browsers = pools::routes().merge(attached_browsers::routes());
    of_browsers
        .merge(calls::routes())
        .merge(blobs::routes())
        .merge(sessions::routes())
        .merge(timeline::routes())
}

pub(super) async fn show() -> Json<openapi::OpenApi> {
    Json(document())
}
