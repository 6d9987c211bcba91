//! `POST /mcp`: one message, or a batch of them.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension,
    body::{Body, to_bytes},
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode},
    response::Response,
};
use bytes::Bytes;
use greenroom_core::Raw;
use greenroom_mcp::{
    CLIENT_MESSAGE_BYTES_MAX, Id, Message, MessageStream, Revision, RpcError,
    error::{INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_CAPABILITY},
    message::{self, Parsed},
    revision::STATELESS,
};
use serde_json::value::RawValue;
use tokio::{sync::oneshot, time::timeout};
use tokio_util::task::AbortOnDropHandle;

use super::{
    HttpState,
    auth::Requester,
    body::{self, AcceptedTypes, EventStream, RequestKind, ResponseStart},
    headers, param_headers,
    refusal::{self, Requests},
    session::HttpSession,
};
use crate::{
    call_order::Turns,
    client_sink::{ClientSink, ReplyPath},
    front::stateless,
    offload::{offload_if_large, offloadable},
};

/// How long a body may take to arrive. The largest one takes a second over a slow network.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) async fn handle(
    State(http_state): State<Arc<HttpState>>,
    Extension(requester): Extension<Requester>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    offloadable(answer(http_state, requester, headers, body)).await
}

async fn answer(
    http_state: Arc<HttpState>,
    requester: Requester,
    headers: HeaderMap,
    body: Body,
) -> Response {
    if !headers::is_json(&headers) {
        let why = "a message is `application/json`: say so in `Content-Type`";
        return refusal::because(StatusCode::UNSUPPORTED_MEDIA_TYPE, why);
    }
    if !headers::accepts(&headers, "application/json") && !headers::accepts(&headers, "text/event-stream") {
        let why = "answers are `application/json` or `text/event-stream`: accept both";
        return refusal::because(StatusCode::NOT_ACCEPTABLE, why);
    }
    let text = match read(&headers, body).await {
        Ok(text) => text,
        Err(refusal) => return refusal,
    };
    let _guard = offload_if_large(text.len()).await;
    let parsed = message::parse_from_client(&text);
    if let Parsed::One(Ok(Message::Request { id, method, params })) = &parsed {
        if is_stateless(&headers, params.as_deref()) {
            return stateless(&http_state, &requester, &headers, id, method, params.as_deref()).await;
        }
        if method == "initialize" && !headers.contains_key(headers::SESSION) {
            return introduce(&http_state, &requester, &headers, parsed).await;
        }
    }
    // A request of which only the parameters are wrong gets its error in its session, as any other request does: some
    // clients take an HTTP error for the end of their connection.
    let in_session = headers.contains_key(headers::SESSION);
    if let Parsed::One(Err(malformed)) = &parsed
        && !(in_session && malformed.error.code == INVALID_PARAMS)
    {
        return refusal::rpc(StatusCode::BAD_REQUEST, malformed.id.as_ref(), &malformed.error);
    }
    with_session(&http_state, &requester, &headers, parsed).await
}

#[allow(clippy::result_large_err, reason = "the refusal is sent as it is")]
async fn read(headers: &HeaderMap, body: Body) -> Result<Bytes, Response> {
    let too_big = || {
        let why = format!("the body is too big: at most {CLIENT_MESSAGE_BYTES_MAX} bytes are taken");
        refusal::because(StatusCode::PAYLOAD_TOO_LARGE, why)
    };
    let announced = headers::text(headers, "content-length").and_then(|length| length.parse::<usize>().ok());
    if announced.is_some_and(|length| length > CLIENT_MESSAGE_BYTES_MAX) {
        return Err(too_big());
    }
    match timeout(BODY_TIMEOUT, to_bytes(body, CLIENT_MESSAGE_BYTES_MAX)).await {
        Ok(Ok(text)) => Ok(text),
        Ok(Err(error))
            if std::error::Error::source(&error)
                .is_some_and(|source| source.is::<http_body_util::LengthLimitError>()) =>
        {
            Err(too_big())
        }
        Ok(Err(error)) => {
            Err(refusal::because(StatusCode::BAD_REQUEST, format!("the body cannot be read: {error}")))
        }
        Err(_) => Err(refusal::because(
            StatusCode::REQUEST_TIMEOUT,
            format!("the body did not arrive within {} s", BODY_TIMEOUT.as_secs()),
        )),
    }
}

fn is_stateless(headers: &HeaderMap, params: Option<&RawValue>) -> bool {
    headers::text(headers, headers::REVISION) == Some(STATELESS) || stateless::is_stateless(params)
}

/// Handles a client's `initialize`. The client gets an MCP session, and no browser yet.
async fn introduce(
    http_state: &Arc<HttpState>,
    requester: &Requester,
    headers: &HeaderMap,
    parsed: Parsed,
) -> Response {
    let session = HttpSession::new(http_state, requester);
    let mut response = exchange(requester, &session, parsed, AcceptedTypes::from_headers(headers)).await;
    // A client whose handshake failed gets no session.
    if session.protocol.revision().is_some() {
        if !http_state.clients.add(http_state, &session) {
            return refusal::because(StatusCode::SERVICE_UNAVAILABLE, "too many clients are connected");
        }
        // The key may have ended meanwhile: then the server has not found this client to end it.
        if requester.end.has_ended() {
            http_state.clients.end(http_state, &session);
        }
        if let Ok(id) = HeaderValue::from_str(session.id.reveal()) {
            response.headers_mut().insert(headers::SESSION, id);
        }
    }
    response
}

async fn with_session(
    http_state: &Arc<HttpState>,
    requester: &Requester,
    headers: &HeaderMap,
    parsed: Parsed,
) -> Response {
    let session = match http_state.clients.find(http_state, requester, headers) {
        Ok(session) => session,
        Err(refusal) => return refusal,
    };
    exchange(requester, &session, parsed, AcceptedTypes::from_headers(headers)).await
}

/// Passes a message to its client's session and answers with the result. A broken connection cancels nothing: a client
/// that has begun to receive an event stream may resume it.
async fn exchange(
    requester: &Requester,
    session: &Arc<HttpSession>,
    parsed: Parsed,
    takes: AcceptedTypes,
) -> Response {
    let wants_answer = match &parsed {
        Parsed::One(one) => asks(one),
        Parsed::Batch(parts) => parts.iter().any(asks),
    };
    let unanswered = Requests::from_parsed(&parsed);
    let own = session.stream();
    let mut reader = own.read();
    let reply_path = ReplyPath::stream(&own, Some(session.background.clone()));
    match parsed {
        Parsed::One(one) => session.protocol.take(one, &reply_path).await,
        Parsed::Batch(parts) => session.protocol.take_batch(parts, reply_path.clone()).await,
    }
    drop(reply_path);
    if !wants_answer {
        return refusal::accepted();
    }
    match body::first(&mut reader, RequestKind::Session, takes, &requester.end).await {
        ResponseStart::Only(answer) => body::one(answer),
        ResponseStart::Nothing => refusal::accepted(),
        ResponseStart::CutOff => refusal::cut_off(&unanswered, &requester.end),
        ResponseStart::Stream(begun) => {
            let number = Some(session.keep(&own, unanswered.clone()));
            let sends_id_first = session.protocol.revision() >= Some(Revision::V2025_11_25);
            let end = requester.end.clone();
            body::events(EventStream { reader, number, sends_id_first, end, unanswered, _guard: None }, begun)
        }
    }
}

/// Whether a message gets an answer: a request, or a message that cannot be parsed.
fn asks(message: &Result<Message, greenroom_mcp::Malformed>) -> bool {
    matches!(message, Ok(Message::Request { .. }) | Err(_))
}

/// Answers a stateless request. A client that disconnects before the answer cancels the request.
async fn stateless(
    http_state: &Arc<HttpState>,
    requester: &Requester,
    headers: &HeaderMap,
    id: &Id,
    method: &str,
    params: Option<&RawValue>,
) -> Response {
    let request = match checked(http_state, headers, id, method, params).await {
        Ok(request) => request,
        Err(error) => return refusal::rpc(status_of(&error), Some(id), &error),
    };
    let stateless_client = stateless::StatelessClient {
        owner: requester.owner.clone(),
        scopes: requester.scopes,
        connection: None,
        roots: http_state.location.folder(),
        is_local: http_state.location.is_local(),
        turn: Turns::default().take(),
    };
    let own = Arc::<MessageStream>::default();
    let mut reader = own.read();
    let reply_path = ReplyPath::stream(&own, None);
    let gateway = http_state.gateway.clone();
    let id = id.clone();
    let (status, answered) = oneshot::channel();
    let sink = ClientSink::Streams { own, background: None };
    // Only work gets an error if the server stops. Other requests change nothing, or are subscriptions, which end
    // with the stream.
    let requests = if request.is_work() { Requests::One(id.clone()) } else { Requests::None };
    let unanswered = request.is_work().then(|| gateway.answering.token());
    let task = tokio::spawn(offloadable(async move {
        let body = stateless::answer(gateway, stateless_client, request, sink).await;
        let (Ok(text) | Err(text)) = &body;
        let _guard = offload_if_large(text.get().len()).await;
        // Once the event stream has begun, the receiver is gone: the HTTP status has been sent.
        let _ = status.send(status_of_answer(&body));
        reply_path.reply.send(message::response(Some(&id), &body)).await;
        drop(unanswered);
    }));
    let guard = Arc::new(AbortOnDropHandle::new(task));
    match body::first(
        &mut reader,
        RequestKind::Stateless,
        AcceptedTypes::from_headers(headers),
        &requester.end,
    )
    .await
    {
        ResponseStart::Only(answer) => refusal::json(answered.await.unwrap_or(StatusCode::OK), answer),
        ResponseStart::CutOff => refusal::cut_off(&requests, &requester.end),
        ResponseStart::Nothing => {
            let why = "the request was given up; whether it took effect is unknown";
            refusal::because(StatusCode::SERVICE_UNAVAILABLE, why)
        }
        ResponseStart::Stream(begun) => {
            let end = requester.end.clone();
            let number = None;
            let sends_id_first = false;
            let unanswered = requests;
            body::events(
                EventStream { reader, number, sends_id_first, end, unanswered, _guard: Some(guard) },
                begun,
            )
        }
    }
}

/// Reads a stateless request, compares its headers with its body, and checks that its method is known here.
async fn checked(
    http_state: &HttpState,
    headers: &HeaderMap,
    id: &Id,
    method: &str,
    params: Option<&RawValue>,
) -> Result<stateless::StatelessRequest, RpcError> {
    headers::match_revision(headers, params)?;
    let request = stateless::StatelessRequest::parse(id.clone(), method, params)?;
    headers::match_body(headers, method, params)?;
    if method == "tools/call" {
        param_headers::check(&http_state.gateway, headers, params).await?;
    }
    match request.unserved(&http_state.gateway).await {
        Some(error) => Err(error),
        None => Ok(request),
    }
}

/// The HTTP status of an answer. An engine may refuse a call because the client lacks a capability: that error has a
/// status of its own.
fn status_of_answer(body: &Result<Raw, Raw>) -> StatusCode {
    match body.as_ref().map_err(|error| serde_json::from_str::<RpcError>(error.get())) {
        Err(Ok(error)) if error.code == MISSING_CAPABILITY => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

fn status_of(error: &RpcError) -> StatusCode {
    if error.code == METHOD_NOT_FOUND { StatusCode::NOT_FOUND } else { StatusCode::BAD_REQUEST }
}
