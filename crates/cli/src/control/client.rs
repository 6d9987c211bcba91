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

use super::socket_path::SocketAddress;

/// How long a greenroom may take to accept a connection, and to answer. It answers from memory, in well under a
/// millisecond; a process that needs longer than this hangs, and the user should learn that.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// The longest answer that the client reads. A session takes some 500 bytes, at most 5 KiB, and no process holds
/// thousands of sessions.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No process listens: it has ended, or is just ending.
    #[error("no process listens there")]
    NotRunning,
    #[error("it does not answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// The process refused the request, with this reason.
    #[error("{}", .0.message)]
    Refused(ControlProblemBody),
    #[error("its answer cannot be read: {0}")]
    Broken(String),
    #[error("cannot connect: {0}")]
    Connect(io::Error),
}

/// Connects to a control socket, which speaks HTTP/1.1.
pub async fn connect(socket: &Path) -> io::Result<UnixStream> {
    let address = SocketAddress::new(socket)?;
    UnixStream::connect(address.path()).await
}

/// A connection to a greenroom, for one request after the other.
pub struct ControlClient {
    requests: http1::SendRequest<Full<Bytes>>,
    /// The task that moves the bytes; it ends with this client.
    _driver: AbortOnDropHandle<()>,
}

impl ControlClient {
    pub async fn open(socket: &Path) -> Result<Self, ControlError> {
        let opened = timeout(ANSWER_TIMEOUT, async {
            let stream = connect(socket).await.map_err(connect_error)?;
            http1::handshake(TokioIo::new(stream))
                .await
                .map_err(|error| ControlError::Broken(error.to_string()))
        });
        let (requests, connection) = opened.await.map_err(|_| ControlError::Silent(ANSWER_TIMEOUT))??;
        let driver = AbortOnDropHandle::new(tokio::spawn(async move {
            // The task that waits for an answer gets the error.
            let _ = connection.await;
        }));
        Ok(Self { requests, _driver: driver })
    }

    /// Asks for a JSON answer.
    pub async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, ControlError> {
        self.request(Method::GET, path, ANSWER_TIMEOUT).await
    }

    /// Sends an order that the process carries out at once, or accepts and carries out later.
    pub async fn post<T: DeserializeOwned>(&mut self, path: &str, body: &Value) -> Result<T, ControlError> {
        self.send_json(Method::POST, path, body, ANSWER_TIMEOUT).await
    }

    /// Sends an order that takes up to `within`.
    pub async fn send_json<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: &Value,
        within: Duration,
    ) -> Result<T, ControlError> {
        let body = if body.is_null() { Full::default() } else { Full::from(Bytes::from(body.to_string())) };
        self.exchange(method, path, body, within).await
    }

    /// Sends an order whose JSON is already written, so that numbers in it keep their spelling.
    pub async fn post_text<T: DeserializeOwned>(
        &mut self,
        path: &str,
        json: String,
        within: Duration,
    ) -> Result<T, ControlError> {
        self.exchange(Method::POST, path, Full::from(Bytes::from(json)), within).await
    }

    /// Sends a request that takes up to `within`.
    pub async fn request<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        within: Duration,
    ) -> Result<T, ControlError> {
        self.exchange(method, path, Full::default(), within).await
    }

    async fn exchange<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: Full<Bytes>,
        within: Duration,
    ) -> Result<T, ControlError> {
        let answer = async {
            let response = self.send(method, path, body).await?;
            let bytes = read_body(response).await?;
            serde_json::from_slice(&bytes).map_err(|error| ControlError::Broken(error.to_string()))
        };
        timeout(within, answer).await.unwrap_or(Err(ControlError::Silent(within)))
    }

    /// Asks for an endless answer. Only the response's head has a deadline.
    pub async fn stream(&mut self, path: &str) -> Result<Incoming, ControlError> {
        let begun = timeout(ANSWER_TIMEOUT, self.send(Method::GET, path, Full::default())).await;
        begun.unwrap_or(Err(ControlError::Silent(ANSWER_TIMEOUT))).map(Response::into_body)
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Full<Bytes>,
    ) -> Result<Response<Incoming>, ControlError> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "greenroom")
            .header(CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|error| ControlError::Broken(error.to_string()))?;
        self.requests.ready().await.map_err(|_| ControlError::NotRunning)?;
        let response = self.requests.send_request(request).await.map_err(|error| {
            // The process went away before it began to answer.
            if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
                ControlError::NotRunning
            } else {
                ControlError::Broken(error.to_string())
            }
        })?;
        if response.status().is_success() { Ok(response) } else { Err(read_refusal(response).await) }
    }
}

async fn read_body(response: Response<Incoming>) -> Result<Bytes, ControlError> {
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    body.map(http_body_util::Collected::to_bytes).map_err(|error| ControlError::Broken(error.to_string()))
}

async fn read_refusal(response: Response<Incoming>) -> ControlError {
    /// An error below `/control`, or below `/api`.
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum ErrorBody {
        Control { error: ControlProblemBody },
        Rest(rest::ProblemBody),
    }
    let status = response.status();
    match read_body(response).await.map(|bytes| serde_json::from_slice(&bytes)) {
        Ok(Ok(ErrorBody::Control { error })) => ControlError::Refused(error),
        Ok(Ok(ErrorBody::Rest(rest::ProblemBody { error, message, details }))) => {
            // Some messages already contain the hint.
            let hint = details.get("hint").and_then(Value::as_str).filter(|_| !message.contains("hint: "));
            ControlError::Refused(ControlProblemBody {
                code: error,
                hint: hint.map(ToOwned::to_owned),
                message,
            })
        }
        Ok(Err(_)) => ControlError::Broken(format!("status {status}")),
        Err(error) => error,
    }
}

fn connect_error(error: io::Error) -> ControlError {
    match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => ControlError::NotRunning,
        // The kernel's queue of connections is full: the process has not accepted any for long.
        io::ErrorKind::WouldBlock => ControlError::Silent(ANSWER_TIMEOUT),
        _ => ControlError::Connect(error),
    }
}
