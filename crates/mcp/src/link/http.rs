//! MCP over streamable HTTP, as a client: POST for the client's messages, a GET stream for unsolicited messages of
//! the server, DELETE to end the session.
//!
//! An answer comes back on its POST, as JSON or as an event stream in which the server may first send requests and
//! notifications. If a stream breaks off and its events have ids, the client resumes it where it broke, so that a
//! network fault does not lose the answer. A server need not have a GET stream.

use std::{
    io,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use bytes::Bytes;
use greenroom_core::Backoff;
use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request, Response, StatusCode, Uri,
    body::{Frame, Incoming},
    header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue},
    http::uri::Scheme,
};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use tokio::{
    sync::{Mutex, mpsc},
    task::JoinSet,
    time::sleep,
};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

use super::PeerLink;
use crate::{
    MESSAGE_BYTES_MAX,
    peer::{Dispatch, Inbound, Peer, PeerError},
    sse::SseParser,
};

const SESSION: &str = "mcp-session-id";
const REVISION: &str = "mcp-protocol-version";
const LAST_EVENT: &str = "last-event-id";

/// How many bytes of a refusal are read. Servers send a sentence.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;

/// How long to wait for the end of a stream that has brought its answer. The end usually comes in the same
/// packet; a new connection to a server on this machine costs less than waiting longer.
const STREAM_END_TIMEOUT: Duration = Duration::from_millis(20);

/// How long connecting may take. A machine that is up answers within a second, also from far away.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an idle connection is kept. Node closes an idle connection after five seconds; a request sent at that
/// moment is lost, and its session with it, so the client closes the connection well before.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);

/// The pause before resuming a stream that broke off, unless the server names one. It doubles with each failure in a
/// row. The three attempts take less than two seconds: a network that is back answers at once, and a restarted server
/// has lost the session, so waiting longer gains nothing.
const RESUME_AFTER: Duration = Duration::from_millis(250);
const RESUME_AFTER_MAX: Duration = Duration::from_secs(10);
const RESUMES_MAX: u32 = 3;

/// One HTTP client, shared by all sessions with one server, so that they share its connections.
#[derive(Clone)]
pub struct HttpEndpoint {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    uri: Uri,
    /// A header of every request, with a secret.
    header: Option<(HeaderName, HeaderValue)>,
}

impl HttpEndpoint {
    /// A server at this address. For `https://` this reads the certificates that this machine trusts.
    pub fn new(uri: Uri) -> io::Result<Self> {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.enforce_http(false);
        let builder = HttpsConnectorBuilder::new();
        let builder = if uri.scheme() == Some(&Scheme::HTTPS) {
            builder.with_provider_and_native_roots(ring::default_provider())?
        } else {
            builder.with_tls_config(empty_trust_store()?)
        };
        let connector = builder.https_or_http().enable_http1().wrap_connector(connector);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .build(connector);
        Ok(Self { client, uri, header: None })
    }

    /// The same server, with a header in every request. Its value is a secret.
    pub fn with_header(mut self, name: &'static str, value: &str) -> io::Result<Self> {
        let mut value = HeaderValue::try_from(value).map_err(io::Error::other)?;
        value.set_sensitive(true);
        self.header = Some((HeaderName::from_static(name), value));
        Ok(self)
    }

    /// A new session with the server. It exists there once [`Peer::initialize`] succeeded.
    pub fn connect(&self) -> (Peer, mpsc::Receiver<Inbound>) {
        let (dispatch, inbound) = Dispatch::new();
        let http = HttpLink {
            endpoint: self.clone(),
            session: OnceLock::new(),
            revision: OnceLock::new(),
            listener: Mutex::default(),
        };
        (Peer::new(PeerLink::Http(Arc::new(http)), dispatch, JoinSet::new()), inbound)
    }
}

/// An empty trust store, for servers without encryption: their connector never reads it.
fn empty_trust_store() -> io::Result<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

pub(crate) struct HttpLink {
    endpoint: HttpEndpoint,
    session: OnceLock<HeaderValue>,
    revision: OnceLock<String>,
    /// Reads the GET stream; ends with the session.
    listener: Mutex<JoinSet<()>>,
}

/// An event stream: its body, and the parser of its events.
struct SseStream {
    body: Incoming,
    events: SseParser,
}

impl HttpLink {
    pub(crate) fn initialized(&self, revision: String) {
        let _ = self.revision.set(revision);
    }

    pub(crate) async fn post(
        &self,
        body: Vec<u8>,
        expects: Option<u64>,
        to: &Arc<Dispatch>,
    ) -> Result<(), PeerError> {
        let request = self
            .request(Method::POST)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream");
        let response = self.send(request, body.into()).await?;
        if let Some(session) = response.headers().get(SESSION) {
            let _ = self.session.set(session.clone());
        }
        let Some(id) = expects else { return Ok(()) };
        if is_stream(&response) {
            self.read_stream(response, id, to).await?;
        } else {
            read_whole(response, to).await?;
        }
        // The stream ended; if the answer was not in it, it will not come.
        to.fail(id, PeerError::Closed);
        Ok(())
    }

    /// Sends a request of the revision without a handshake. Its servers send errors as JSON-RPC answers too, with
    /// an HTTP status that fits the error.
    pub(crate) async fn post_stateless(
        &self,
        body: Vec<u8>,
        id: u64,
        headers: Vec<(String, String)>,
        to: &Arc<Dispatch>,
    ) -> Result<(), PeerError> {
        let request = self
            .request(Method::POST)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream");
        let request = headers.into_iter().fold(request, |request, (name, value)| request.header(name, value));
        let response = self.exchange(request, body.into()).await?;
        let status = response.status();
        if is_stream(&response) {
            // A stream of this revision cannot be resumed: its events have no ids.
            self.read_stream(response, id, to).await?;
        } else if status.is_success() || is_json(&response) {
            read_whole(response, to).await?;
        } else {
            return Err(refused(response).await);
        }
        let gone =
            if status.is_success() { PeerError::Closed } else { PeerError::Refused(status.to_string()) };
        to.fail(id, gone);
        Ok(())
    }

    /// Opens the stream of unsolicited messages. Returns once it is open, so that nothing the server sends from now on is
    /// missed.
    pub(crate) async fn listen(self: &Arc<Self>, to: &Arc<Dispatch>) -> Result<(), PeerError> {
        let opened = match self.open_stream(None).await {
            Ok(body) => SseStream { body, events: SseParser::new(MESSAGE_BYTES_MAX) },
            // A server without unsolicited messages may have no such stream.
            Err(StreamUnavailable::NotOffered) => return Ok(()),
            Err(StreamUnavailable::Unreachable | StreamUnavailable::SessionUnknown) => {
                return Err(PeerError::Closed);
            }
        };
        self.listener.lock().await.spawn(follow(Arc::downgrade(self), opened, to.clone()));
        Ok(())
    }

    pub(crate) async fn delete(&self) {
        self.listener.lock().await.shutdown().await;
        if self.session.get().is_some()
            && let Err(error) = self.send(self.request(Method::DELETE), Bytes::new()).await
        {
            tracing::debug!(%error, "the engine did not accept the end of the session");
        }
    }

    fn request(&self, method: Method) -> hyper::http::request::Builder {
        let mut request = Request::builder().method(method).uri(&self.endpoint.uri);
        if let Some((name, value)) = &self.endpoint.header {
            request = request.header(name, value);
        }
        if let Some(session) = self.session.get() {
            request = request.header(SESSION, session);
        }
        if let Some(revision) = self.revision.get() {
            request = request.header(REVISION, revision);
        }
        request
    }

    async fn exchange(
        &self,
        request: hyper::http::request::Builder,
        body: Bytes,
    ) -> Result<Response<Incoming>, PeerError> {
        let request = request.body(Full::new(body)).map_err(|error| PeerError::Refused(error.to_string()))?;
        self.endpoint.client.request(request).await.map_err(|error| {
            tracing::debug!(%error, "the engine cannot be reached");
            PeerError::Closed
        })
    }

    async fn send(
        &self,
        request: hyper::http::request::Builder,
        body: Bytes,
    ) -> Result<Response<Incoming>, PeerError> {
        let response = self.exchange(request, body).await?;
        match response.status() {
            status if status.is_success() => Ok(response),
            // The server has forgotten the session, so the session is over. A 404 before there is a session means that
            // no MCP server is here.
            StatusCode::NOT_FOUND if self.session.get().is_some() => Err(PeerError::Closed),
            _ => Err(refused(response).await),
        }
    }

    /// Opens an event stream, or resumes one after the event with the id `behind`.
    async fn open_stream(&self, behind: Option<&str>) -> Result<Incoming, StreamUnavailable> {
        let mut request = self.request(Method::GET).header(ACCEPT, "text/event-stream");
        if let Some(id) = behind {
            request = request.header(LAST_EVENT, id);
        }
        let response =
            self.exchange(request, Bytes::new()).await.map_err(|_| StreamUnavailable::Unreachable)?;
        match response.status() {
            status if status.is_success() && is_stream(&response) => Ok(response.into_body()),
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamUnavailable::NotOffered),
            status if status.is_success() => Err(StreamUnavailable::NotOffered),
            StatusCode::TOO_MANY_REQUESTS => Err(StreamUnavailable::Unreachable),
            status if status.is_server_error() => Err(StreamUnavailable::Unreachable),
            _ => Err(StreamUnavailable::SessionUnknown),
        }
    }

    /// Dispatches the messages of a stream, up to the answer to `id`.
    async fn read_stream(
        &self,
        response: Response<Incoming>,
        id: u64,
        to: &Arc<Dispatch>,
    ) -> Result<(), PeerError> {
        let mut stream = SseStream { body: response.into_body(), events: SseParser::new(MESSAGE_BYTES_MAX) };
        loop {
            while let Some(Ok(frame)) = stream.body.frame().await {
                stream.dispatch(&frame, to).await?;
                if !to.waits(id) {
                    // Only the end of the stream remains. Read it, so that the connection can be reused; if the server
                    // keeps the stream open, the connection is dropped.
                    let end = async { while let Some(Ok(_)) = stream.body.frame().await {} };
                    let _ = tokio::time::timeout(STREAM_END_TIMEOUT, end).await;
                    return Ok(());
                }
            }
            // A stream without event ids cannot be resumed.
            if stream.events.last_id().is_none() {
                return Ok(());
            }
            self.resume(&mut stream).await?;
        }
    }

    /// Resumes a stream that broke off, after the pause that its server wants.
    async fn resume(&self, stream: &mut SseStream) -> Result<(), PeerError> {
        stream.events.broke_off();
        let first = stream.events.retry().unwrap_or(RESUME_AFTER);
        let backoff = Backoff { first, max: RESUME_AFTER_MAX };
        for failed in 0..RESUMES_MAX {
            sleep(backoff.pause(failed)).await;
            match self.open_stream(stream.events.last_id()).await {
                Ok(body) => {
                    stream.body = body;
                    return Ok(());
                }
                Err(StreamUnavailable::Unreachable) => {}
                Err(StreamUnavailable::NotOffered | StreamUnavailable::SessionUnknown) => {
                    return Err(PeerError::Closed);
                }
            }
        }
        Err(PeerError::Closed)
    }
}

/// Why the client has no event stream.
enum StreamUnavailable {
    /// The server offers no such stream.
    NotOffered,
    /// The server cannot be reached now; a later attempt may succeed.
    Unreachable,
    /// The server has no such session.
    SessionUnknown,
}

impl SseStream {
    async fn dispatch(&mut self, frame: &Frame<Bytes>, to: &Arc<Dispatch>) -> Result<(), PeerError> {
        let Some(chunk) = frame.data_ref() else { return Ok(()) };
        for event in self.events.feed(chunk).map_err(|_| PeerError::TooBig { bytes: MESSAGE_BYTES_MAX })? {
            to.text(&event).await;
        }
        Ok(())
    }
}

/// Reads the server's unsolicited messages, for as long as the session lives.
async fn follow(http: Weak<HttpLink>, mut stream: SseStream, to: Arc<Dispatch>) {
    loop {
        while let Some(Ok(frame)) = stream.body.frame().await {
            if http.strong_count() == 0 || stream.dispatch(&frame, &to).await.is_err() {
                return to.close();
            }
        }
        let Some(http) = http.upgrade() else { return to.close() };
        if let Err(error) = http.resume(&mut stream).await {
            tracing::debug!(%error, "the engine's stream ended");
            return to.close();
        }
    }
}

/// The error for a bad status, with the server's text.
async fn refused(response: Response<Incoming>) -> PeerError {
    let status = response.status();
    let body = http_body_util::Limited::new(response.into_body(), REFUSAL_BYTES_MAX).collect().await;
    let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let text = String::from_utf8_lossy(body.get(..200).unwrap_or(&body)).into_owned();
    PeerError::Refused(format!("{status}: {text}"))
}

fn is_json(response: &Response<Incoming>) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"))
}

fn is_stream(response: &Response<Incoming>) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// Dispatches an answer that is a single body, not a stream.
async fn read_whole(response: Response<Incoming>, to: &Arc<Dispatch>) -> Result<(), PeerError> {
    let mut whole = Vec::new();
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| PeerError::Closed)?;
        let Some(chunk) = frame.data_ref() else { continue };
        if whole.len() + chunk.len() > MESSAGE_BYTES_MAX {
            return Err(PeerError::TooBig { bytes: MESSAGE_BYTES_MAX });
        }
        whole.extend_from_slice(chunk);
    }
    if !whole.is_empty() {
        to.text(&whole).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
