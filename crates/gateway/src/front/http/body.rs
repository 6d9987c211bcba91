//! Turns a stream of messages into an HTTP answer: one JSON object if the first message is the last, else an event
//! stream.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{
        HeaderMap, HeaderValue, StatusCode,
        header::{CACHE_CONTROL, CONTENT_TYPE},
    },
    response::Response,
};
use futures_util::stream;
use greenroom_mcp::{
    sse,
    stream::{NumberedMessage, StreamReader},
};
use tokio::time::timeout;

use super::{
    auth::RequestEnd,
    headers,
    refusal::{self, Requests},
};

/// How long an answer may take before the event stream begins without it. Most answers arrive before that and are sent
/// as one JSON object; a client that waits longer learns from the stream's headers that its request has arrived, and
/// from which stream it can resume.
const STREAM_AFTER: Duration = Duration::from_millis(250);

/// The same for a request without a session. Its client cannot resume the stream, and the HTTP status distinguishes
/// errors, so greenroom waits longer for the answer. Clients and proxies give up on a silent server after 10 s or more.
const STREAM_AFTER_STATELESS: Duration = Duration::from_secs(5);

/// How long a client should wait before it comes back to a stream that broke: as long as a restart of a proxy takes.
const RETRY: Duration = Duration::from_secs(1);

/// How often a silent event stream sends a keep-alive. Proxies cut streams that are silent for 30 s or more.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Which kind of request the answer is for: it decides how long greenroom waits before the event stream begins.
#[derive(Debug, Clone, Copy)]
pub(super) enum RequestKind {
    Session,
    Stateless,
}

/// An event stream that is about to be sent.
pub(super) struct EventStream {
    pub(super) reader: StreamReader,
    /// The stream's number, from which its events get their ids. `None` if the stream cannot be resumed.
    pub(super) number: Option<u64>,
    /// Whether to send the stream's id before the first message, so that the client can resume from the beginning.
    pub(super) sends_id_first: bool,
    pub(super) end: RequestEnd,
    /// The requests that get an error if the server stops, or their key ends, before the stream's last message.
    pub(super) unanswered: Requests,
    /// Dropped with the stream, when the client has disconnected: dropping it cancels the request.
    pub(super) _guard: Option<Arc<dyn Send + Sync>>,
}

/// Which content types a client accepts. It should accept both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AcceptedTypes {
    Both,
    Json,
    Events,
}

impl AcceptedTypes {
    pub(super) fn from_headers(headers: &HeaderMap) -> Self {
        let takes = |kind| headers::accepts(headers, kind);
        match (takes("application/json"), takes("text/event-stream")) {
            (true, false) => Self::Json,
            (false, true) => Self::Events,
            _ => Self::Both,
        }
    }
}

/// What to send, decided by the first message.
pub(super) enum ResponseStart {
    /// The whole answer.
    Only(Bytes),
    /// More messages follow, or none has come yet.
    Stream(Option<NumberedMessage>),
    /// There is no answer: the request was cancelled.
    Nothing,
    /// There will be no answer: the server stops, or the key of the request has ended.
    CutOff,
}

pub(super) async fn first(
    reader: &mut StreamReader,
    kind: RequestKind,
    takes: AcceptedTypes,
    end: &RequestEnd,
) -> ResponseStart {
    let begin = match kind {
        RequestKind::Session => STREAM_AFTER,
        RequestKind::Stateless => STREAM_AFTER_STATELESS,
    };
    let decided = async {
        match takes {
            AcceptedTypes::Both => match timeout(begin, reader.next()).await {
                Ok(Some(message)) if message.last => ResponseStart::Only(message.message),
                Ok(Some(message)) => ResponseStart::Stream(Some(message)),
                Ok(None) => ResponseStart::Nothing,
                Err(_) => ResponseStart::Stream(None),
            },
            AcceptedTypes::Events => ResponseStart::Stream(None),
            AcceptedTypes::Json => last(reader).await.map_or(ResponseStart::Nothing, ResponseStart::Only),
        }
    };
    tokio::select! {
        biased;
        first = decided => match first {
            // The server stops, or the key has ended: the server ended the client, which cancelled the request.
            ResponseStart::Nothing if end.has_ended() => ResponseStart::CutOff,
            first => first,
        },
        () = end.token().cancelled() => ResponseStart::CutOff,
    }
}

/// The last message, for a client that accepts no event stream. That client loses the messages before it.
async fn last(reader: &mut StreamReader) -> Option<Bytes> {
    while let Some(message) = reader.next().await {
        if message.last {
            return Some(message.message);
        }
    }
    None
}

pub(super) fn one(message: Bytes) -> Response {
    refusal::json(StatusCode::OK, message)
}

/// An event stream that begins with this message, if there is one.
pub(super) fn events(events: EventStream, begun: Option<NumberedMessage>) -> Response {
    let mut pending = Vec::new();
    let mut retry = events.number.map(|_| RETRY);
    if events.sends_id_first
        && let Some(number) = events.number
    {
        pending.extend(sse::encode(Some(&format!("{number}-start")), retry.take(), b""));
    }
    if let Some(message) = begun {
        pending.extend(encode(events.number, retry.take(), &message));
    }
    let body = stream::unfold((events, pending, retry), |(mut events, mut pending, mut retry)| async move {
        if !pending.is_empty() {
            let chunk = Bytes::from(std::mem::take(&mut pending));
            return Some((Ok::<_, Infallible>(chunk), (events, pending, retry)));
        }
        let next = tokio::select! {
            biased;
            next = timeout(KEEP_ALIVE, events.reader.next()) => next,
            () = events.end.token().cancelled() => Ok(None),
        };
        let chunk = match next {
            // The message counts as held until hyper has written it: messages for a client that does not read
            // wait here.
            Ok(Some(message)) => {
                if message.last {
                    events.unanswered = Requests::None;
                }
                events.reader.held().hold(encode(events.number, retry.take(), &message))
            }
            Ok(None) if events.end.has_ended() => {
                let errors = std::mem::take(&mut events.unanswered).cut_off(&events.end)?;
                Bytes::from(sse::encode(None, None, &errors))
            }
            Ok(None) => return None,
            Err(_) => Bytes::from_static(sse::KEEP_ALIVE),
        };
        Some((Ok(chunk), (events, pending, retry)))
    });
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Asks proxies in front not to buffer events.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn encode(number: Option<u64>, retry: Option<Duration>, message: &NumberedMessage) -> Vec<u8> {
    let id = number.map(|number| format!("{number}-{}", message.number));
    sse::encode(id.as_deref(), retry, &message.message)
}

#[cfg(test)]
mod tests {
    use greenroom_mcp::MessageStream;
    use tokio::time::{Instant, sleep};
    use tokio_util::sync::CancellationToken;

    use super::*;

    /// How the response starts if the answer comes after this long.
    async fn answered_after(wait: Duration, kind: RequestKind) -> ResponseStart {
        let stream = Arc::<MessageStream>::default();
        let mut reader = stream.read();
        tokio::spawn(async move {
            sleep(wait).await;
            stream.send(b"{}".to_vec());
            stream.finish();
        });
        first(&mut reader, kind, AcceptedTypes::Both, &RequestEnd::with_server(&CancellationToken::new()))
            .await
    }

    /// An early answer is one JSON object; a later one is sent in an event stream that has begun, soon enough that no
    /// client wonders whether its request has arrived.
    #[tokio::test(start_paused = true)]
    async fn late_answers_use_an_event_stream() {
        for (kind, at_the_latest) in [(RequestKind::Session, 1), (RequestKind::Stateless, 5)] {
            assert!(matches!(answered_after(Duration::ZERO, kind).await, ResponseStart::Only(_)));
            assert!(matches!(answered_after(STREAM_AFTER / 2, kind).await, ResponseStart::Only(_)));
            let began = Instant::now();
            let late = answered_after(Duration::from_secs(3600), kind).await;
            assert!(matches!(late, ResponseStart::Stream(None)));
            assert!(began.elapsed() <= Duration::from_secs(at_the_latest), "{:?}", began.elapsed());
        }
    }
}
