//! The client of a control socket: connects and sends requests over HTTP/1.1. Every wait has a deadline, since the process
//! behind the socket may hang.

use std::{io, path::Path, time::Duration};

use bytes::Bytes;
use greenroom_gateway::{control::ControlProblemBody, rest};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Method, Request, Response,
    body::Incoming,
    client::conn::http1,
    header::{CONTENT_TYPE, HOST},
};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::{net::UnixStream, time::timeout};
use tokio_util::task::AbortOnDropHandle;

use super::socket_path::Address;

/// How long a greenroom may take to accept a connection, and to answer. It answers from memory, in well under a
/// millisecond; one that needs longer than this hangs, and the user should learn that.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// The longest answer that is read. A session takes some 500 bytes, at most 5 KiB, and no process holds thousands.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No process listens: it has ended, or is just ending.
    #[error("no process listens there")]
    NotRunning,
    #[error("it does not answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// It refused the request, with this reason.
    #[error("{}", .0.message)]
    Refused(ControlProblemBody),
    #[error("its answer cannot be read: {0}")]
    Broken(String),
    #[error("cannot connect: {0}")]
    Connect(io::Error),
}

/// Connects to a control socket, which speaks HTTP/1.1.
pub async fn connect(socket: &Path) -> io::Result<UnixStream> {
    let address = Address::of(socket)?;
    UnixStream::connect(address.path()).await
}

/// A connection to a greenroom, for one request after the other.
pub struct Asker {
    requests: http1::SendRequest<Full<Bytes>>,
    /// Moves the bytes; ends when this is dropped.
    _driver: AbortOnDropHandle<()>,
}

impl Asker {
    pub async fn open(socket: &Path) -> Result<Self, AskError> {
        let opened = timeout(ANSWER_WITHIN, async {
            let stream = connect(socket).await.map_err(not_connected)?;
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| AskError::Broken(error.to_string()))
        });
        let (requests, connection) = opened.await.map_err(|_| AskError::Silent(ANSWER_WITHIN))??;
        let driver = AbortOnDropHandle::new(tokio::spawn(async move {
            // The task that waits for an answer gets the error.
            let _ = connection.await;
        }));
        Ok(Self { requests, _driver: driver })
    }

    /// Asks for a JSON answer.
    pub async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, AskError> {
        self.ask(Method::GET, path, ANSWER_WITHIN).await
    }

    /// Sends an order that it carries out at once or promises to.
    pub async fn post<T: DeserializeOwned>(&mut self, path: &str, body: &Value) -> Result<T, AskError> {
        self.tell(Method::POST, path, body, ANSWER_WITHIN).await
    }

    /// Sends an order that takes up to `within`.
    pub async fn tell<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: &Value,
        within: Duration,
    ) -> Result<T, AskError> {
        let body = if body.is_null() { Full::default() } else { Full::from(Bytes::from(body.to_string())) };
        self.exchange(method, path, body, within).await
    }

    /// Sends a request that takes up to `within`.
    pub async fn ask<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        within: Duration,
    ) -> Result<T, AskError> {
        self.exchange(method, path, Full::default(), within).await
    }

    async fn exchange<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: Full<Bytes>,
        within: Duration,
    ) -> Result<T, AskError> {
        let answer = async {
            let response = self.send(method, path, body).await?;
            let bytes = whole(response).await?;
            serde_json::from_slice(&bytes).map_err(|error| AskError::Broken(error.to_string()))
        };
        timeout(within, answer).await.unwrap_or(Err(AskError::Silent(within)))
    }

    /// Asks for an endless answer. Only its beginning has a deadline.
    pub async fn stream(&mut self, path: &str) -> Result<Incoming, AskError> {
        let begun = timeout(ANSWER_WITHIN, self.send(Method::GET, path, Full::default())).await;
        begun.unwrap_or(Err(AskError::Silent(ANSWER_WITHIN))).map(Response::into_body)
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Full<Bytes>,
    ) -> Result<Response<Incoming>, AskError> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "greenroom")
            .header(CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|error| AskError::Broken(error.to_string()))?;
        self.requests.ready().await.map_err(|_| AskError::NotRunning)?;
        let response = self.requests.send_request(request).await.map_err(|error| {
            // The process went away before it began to answer.
            if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
                AskError::NotRunning
            } else {
                AskError::Broken(error.to_string())
            }
        })?;
        if response.status().is_success() { Ok(response) } else { Err(refusal(response).await) }
    }
}

async fn whole(response: Response<Incoming>) -> Result<Bytes, AskError> {
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    body.map(http_body_util::Collected::to_bytes).map_err(|error| AskError::Broken(error.to_string()))
}

async fn refusal(response: Response<Incoming>) -> AskError {
    /// An error below `/control`, or below `/api`.
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Body {
        Control { error: ControlProblemBody },
        Rest(rest::ProblemBody),
    }
    let status = response.status();
    match whole(response).await.map(|bytes| serde_json::from_slice(&bytes)) {
        Ok(Ok(Body::Control { error })) => AskError::Refused(error),
        Ok(Ok(Body::Rest(rest::ProblemBody { error, message, details }))) => {
            // Some messages already contain the hint.
            let hint = details.get("hint").and_then(Value::as_str).filter(|_| !message.contains("hint: "));
            AskError::Refused(ControlProblemBody { code: error, hint: hint.map(ToOwned::to_owned), message })
        }
        Ok(Err(_)) => AskError::Broken(format!("status {status}")),
        Err(error) => error,
    }
}

fn not_connected(error: io::Error) -> AskError {
    match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => AskError::NotRunning,
        // The kernel's queue of connections is full: the process has not accepted any for long.
        io::ErrorKind::WouldBlock => AskError::Silent(ANSWER_WITHIN),
        _ => AskError::Connect(error),
    }
}
