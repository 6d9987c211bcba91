//! What the site records of each request, before it answers.

use axum::{
    extract::{Request, State},
    http::header,
    middleware::Next,
    response::Response,
};
use tokio::sync::watch;

/// One request that reached the site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedRequest {
    pub method: String,
    /// Without the query.
    pub path: String,
    pub query: Option<String>,
    pub host: Option<String>,
    pub cookie: Option<String>,
    pub user_agent: Option<String>,
}

impl RecordedRequest {
    fn new(request: &Request) -> Self {
        let header = |name| Some(request.headers().get(name)?.to_str().ok()?.to_owned());
        Self {
            method: request.method().to_string(),
            path: request.uri().path().to_owned(),
            query: request.uri().query().map(str::to_owned),
            host: header(header::HOST),
            cookie: header(header::COOKIE),
            user_agent: header(header::USER_AGENT),
        }
    }
}

/// Records the request, then lets it through.
pub(super) async fn record(
    State(seen): State<watch::Sender<Vec<RecordedRequest>>>,
    request: Request,
    next: Next,
) -> Response {
    let recorded = RecordedRequest::new(&request);
    seen.send_modify(|all| all.push(recorded));
    next.run(request).await
}
