//! The OpenAPI description of everything below `/api`, generated from the handlers and served at `/api/openapi.json`.
//! The checked-in `docs/openapi.json` is the same document.

use axum::Json;
use utoipa::{OpenApi, openapi};
use utoipa_axum::router::OpenApiRouter;

use super::{ProblemBody, RestState, blobs, browsers, calls, pools, sessions, timeline};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "greenroom",
        description = "The REST API of greenroom, which gives AI agents isolated browsers.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    components(schemas(ProblemBody)),
    tags(
        (name = "pools", description = "Pools: groups of browsers, and commands that change them"),
        (name = "browsers", description = "Attached browsers: running browsers that greenroom connects to"),
        (name = "calls", description = "Tool calls and their records"),
        (name = "blobs", description = "Blobs: images, PDFs and downloads that greenroom keeps"),
        (name = "sessions", description = "Sessions and their timelines"),
    )
)]
struct ApiDoc;

/// The document, with full paths.
pub fn document() -> openapi::OpenApi {
    OpenApiRouter::with_openapi(ApiDoc::openapi()).nest("/api", routes()).into_openapi()
}

/// The routes, each with its description.
pub(super) fn routes() -> OpenApiRouter<RestState> {
    let of_browsers = pools::routes().merge(browsers::routes());
    of_browsers
        .merge(calls::routes())
        .merge(blobs::routes())
        .merge(sessions::routes())
        .merge(timeline::routes())
}

pub(super) async fn show() -> Json<openapi::OpenApi> {
    Json(document())
}
