//! `GET /mcp`: the stream of messages that belong to no request, or the rest of a broken stream.

use std::sync::Arc;

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use greenroom_core::excerpt::echoed;
use greenroom_mcp::Revision;

use super::{HttpState, auth::Requester, body, body::EventStream, headers, refusal};

pub(super) async fn handle(
    State(http_state): State<Arc<HttpState>>,
    Extension(requester): Extension<Requester>,
    headers: HeaderMap,
) -> Response {
    if !headers::accepts(&headers, "text/event-stream") {
        return refusal::because(StatusCode::NOT_ACCEPTABLE, "a stream is `text/event-stream`: accept it");
    }
    let session = match http_state.clients.find(&http_state, &requester, &headers) {
        Ok(session) => session,
        Err(refusal) => return refusal,
    };
    let (number, reader, unanswered) = match headers::text(&headers, headers::LAST_EVENT) {
        None => session.listen(),
        Some(event) => match session.resume(event) {
            Some(resumed) => resumed,
            None => {
                let why = format!(
                    "nothing can be resumed after the event `{}`: it is unknown or no longer kept",
                    echoed(event)
                );
                return refusal::because(StatusCode::BAD_REQUEST, why);
            }
        },
    };
    let sends_id_first = session.protocol.revision() >= Some(Revision::V2025_11_25);
    let number = Some(number);
    let end = requester.end;
    body::events(EventStream { reader, number, sends_id_first, end, unanswered, _guard: None }, None)
}
