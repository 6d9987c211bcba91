//! MCP over streamable HTTP, as a client: POST for what we send, a GET stream for what the server sends on its
//! own accord, DELETE to end the session.
//!
//! Answers come back on their POST, as JSON or as an event stream in which the server may first ask and tell.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request, Response, StatusCode, Uri,
    body::Incoming,
    header::{ACCEPT, CONTENT_TYPE, HeaderValue},
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::{
    sync::{Mutex, mpsc},
    task::JoinSet,
};

use super::Link;
use crate::{
    MESSAGE_BYTES_MAX,
    peer::{Dispatch, Gone, Inbound, Peer},
    sse::Events,
};

const SESSION: &str = "mcp-session-id";
const REVISION: &str = "mcp-protocol-version";

/// A refusal says a sentence; more of it is not read.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;

/// How long to wait for the end of a stream that has brought its answer. The end usually comes in the same
/// packet; a new connection to a server on this machine costs less than waiting longer.
const STREAM_END: Duration = Duration::from_millis(20);

/// One HTTP client, shared by all sessions with one server, so that they share its connections.
#[derive(Clone)]
pub struct Endpoint {
    client: Client<HttpConnector, Full<Bytes>>,
    uri: Uri,
}

impl Endpoint {
    pub fn new(uri: Uri) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self { client: Client::builder(TokioExecutor::new()).build(connector), uri }
    }

    /// A new session with the server. It exists there once [`Peer::initialize`] succeeded.
    pub fn connect(&self) -> (Peer, mpsc::Receiver<Inbound>) {
        let (dispatch, inbound) = Dispatch::new();
        let http = Http {
            endpoint: self.clone(),
            session: OnceLock::new(),
            revision: OnceLock::new(),
            listener: Mutex::default(),
        };
        (Peer::new(Link::Http(Arc::new(http)), dispatch, JoinSet::new()), inbound)
    }
}

pub(crate) struct Http {
    endpoint: Endpoint,
    session: OnceLock<HeaderValue>,
    revision: OnceLock<&'static str>,
    /// Reads the GET stream; ends with the session.
    listener: Mutex<JoinSet<()>>,
}

impl Http {
    pub(crate) fn initialized(&self, revision: &'static str) {
        let _ = self.revision.set(revision);
    }

    pub(crate) async fn post(
        &self,
        body: Vec<u8>,
        expects: Option<u64>,
        to: &Arc<Dispatch>,
    ) -> Result<(), Gone> {
        let request = self
            .request(Method::POST)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream");
        let response = self.send(request, body.into()).await?;
        if let Some(session) = response.headers().get(SESSION) {
            let _ = self.session.set(session.clone());
        }
        let Some(id) = expects else { return Ok(()) };
        self.read(response, Some(id), to).await?;
        // The stream ended; if the answer was not in it, it will not come.
        to.fail(id, Gone::Closed);
        Ok(())
    }

    /// Opens the stream of what the server sends on its own accord. Returns once it is open, so that nothing
    /// the server sends from now on is missed.
    pub(crate) async fn listen(self: &Arc<Self>, to: &Arc<Dispatch>) -> Result<(), Gone> {
        let response =
            self.send(self.request(Method::GET).header(ACCEPT, "text/event-stream"), Bytes::new()).await?;
        let (http, to) = (Arc::downgrade(self), to.clone());
        self.listener.lock().await.spawn(async move {
            let mut body = response.into_body();
            let mut events = Events::new(MESSAGE_BYTES_MAX);
            while http.strong_count() > 0 {
                let Some(Ok(frame)) = body.frame().await else { break };
                let Some(chunk) = frame.data_ref() else { continue };
                let Ok(complete) = events.feed(chunk) else { break };
                for event in complete {
                    to.text(&event).await;
                }
            }
            to.close();
        });
        Ok(())
    }

    pub(crate) async fn delete(&self) {
        self.listener.lock().await.shutdown().await;
        if self.session.get().is_some()
            && let Err(error) = self.send(self.request(Method::DELETE), Bytes::new()).await
        {
            tracing::debug!(%error, "the engine did not take our goodbye");
        }
    }

    fn request(&self, method: Method) -> hyper::http::request::Builder {
        let mut request = Request::builder().method(method).uri(&self.endpoint.uri);
        if let Some(session) = self.session.get() {
            request = request.header(SESSION, session);
        }
        if let Some(revision) = self.revision.get() {
            request = request.header(REVISION, *revision);
        }
        request
    }

    async fn send(
        &self,
        request: hyper::http::request::Builder,
        body: Bytes,
    ) -> Result<Response<Incoming>, Gone> {
        let request = request.body(Full::new(body)).map_err(|error| Gone::Refused(error.to_string()))?;
        let response = self.endpoint.client.request(request).await.map_err(|error| {
            tracing::debug!(%error, "the engine cannot be reached");
            Gone::Closed
        })?;
        match response.status() {
            status if status.is_success() => Ok(response),
            StatusCode::NOT_FOUND => Err(Gone::Closed),
            status => {
                let body =
                    http_body_util::Limited::new(response.into_body(), REFUSAL_BYTES_MAX).collect().await;
                let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
                let text = String::from_utf8_lossy(body.get(..200).unwrap_or(&body)).into_owned();
                Err(Gone::Refused(format!("{status}: {text}")))
            }
        }
    }

    /// Dispatches everything in a response's body, until the answer to `until` was among it.
    async fn read(
        &self,
        response: Response<Incoming>,
        until: Option<u64>,
        to: &Arc<Dispatch>,
    ) -> Result<(), Gone> {
        let is_stream = response
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        let mut events = Events::new(MESSAGE_BYTES_MAX);
        let mut whole = Vec::new();
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Gone::Closed)?;
            let Some(chunk) = frame.data_ref() else { continue };
            if is_stream {
                for event in events.feed(chunk).map_err(|_| Gone::TooBig { bytes: MESSAGE_BYTES_MAX })? {
                    to.text(&event).await;
                }
                if until.is_some_and(|id| !to.waits(id)) {
                    // What remains is the end of the stream. Read it, so that the connection can be used
                    // again; a server that keeps the stream open loses the connection instead.
                    let end = async { while let Some(Ok(_)) = body.frame().await {} };
                    let _ = tokio::time::timeout(STREAM_END, end).await;
                    return Ok(());
                }
            } else if whole.len() + chunk.len() > MESSAGE_BYTES_MAX {
                return Err(Gone::TooBig { bytes: MESSAGE_BYTES_MAX });
            } else {
                whole.extend_from_slice(chunk);
            }
        }
        if !whole.is_empty() {
            to.text(&whole).await;
        }
        Ok(())
    }
}
