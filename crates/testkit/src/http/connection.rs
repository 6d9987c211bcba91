//! HTTP/1.1 by hand: one connection, one request, and its answer as it arrives. Every wait has a deadline.

use std::{fmt::Write as _, net::SocketAddr};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

use crate::deadline::{TEST_TIMEOUT, within};

/// A connection. Dropping it breaks it.
pub struct HttpConnection {
    stream: TcpStream,
    host: String,
}

impl HttpConnection {
    pub async fn connect(address: SocketAddr) -> Self {
        Self::connect_or_end(address).await.expect("the server accepts")
    }

    /// `None` when nothing listens there any more.
    pub async fn connect_or_end(address: SocketAddr) -> Option<Self> {
        let stream = within(TEST_TIMEOUT, TcpStream::connect(address)).await.ok()?;
        Some(Self { stream, host: address.to_string() })
    }

    /// Sends bytes as they are. A server that no longer reads is no error: it may have answered already.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = within(TEST_TIMEOUT, self.stream.write_all(bytes.as_ref())).await;
    }

    /// Sends a request and reads the head of its answer. Adds the right `Host` unless `headers` has one.
    pub async fn request(
        self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Reply {
        self.request_or_end(method, path, headers, body).await.expect("the head of an answer")
    }

    /// The same; `None` when the connection ended before the head of an answer had come.
    pub async fn request_or_end(
        mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Option<Reply> {
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            let _ = write!(head, "host: {}\r\n", self.host);
        }
        for (name, value) in headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if let Some(body) = body {
            let _ = write!(head, "content-length: {}\r\n", body.len());
        }
        self.send(format!("{head}\r\n{}", body.unwrap_or_default())).await;
        self.reply_or_end().await
    }

    /// Reads the head of an answer.
    pub async fn reply(self) -> Reply {
        self.reply_or_end().await.expect("the head of an answer")
    }

    async fn reply_or_end(self) -> Option<Reply> {
        let mut stream = BufReader::new(self.stream);
        let mut status = line(&mut stream).await;
        if status.is_empty() {
            return None;
        }
        let mut headers = Vec::new();
        loop {
            let line = line(&mut stream).await;
            match line.split_once(':') {
                Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_owned())),
                None if line.is_empty() => break,
                None => panic!("no header: `{line}` behind `{status}`"),
            }
        }
        let code = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = code.unwrap_or_else(|| panic!("no status: `{}`", std::mem::take(&mut status)));
        let find = |wanted: &str| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
        let rest = match (find("transfer-encoding").map(String::as_str), find("content-length")) {
            (Some("chunked"), _) => RemainingBody::Chunked,
            (_, Some(length)) => RemainingBody::Bytes(length.parse().expect("a length is a number")),
            _ => RemainingBody::Bytes(0),
        };
        Some(Reply { status, headers, stream, rest, text: Vec::new() })
    }
}

/// One line without its end. The end of the connection is an empty line.
async fn line(stream: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    let _ = within(TEST_TIMEOUT, stream.read_line(&mut line)).await;
    line.trim_end_matches(['\r', '\n']).to_owned()
}

/// An answer, whose body may still be on its way.
pub struct Reply {
    pub status: u16,
    headers: Vec<(String, String)>,
    stream: BufReader<TcpStream>,
    rest: RemainingBody,
    /// The part of the body that was read and not yet taken.
    text: Vec<u8>,
}

enum RemainingBody {
    Bytes(usize),
    Chunked,
    /// Nothing more comes, or the connection broke.
    Ended,
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    pub id: Option<String>,
    /// How long to wait after a break, if the event says so.
    pub retry: Option<String>,
    pub data: String,
}

impl SseEvent {
    /// The message in it.
    #[track_caller]
    pub fn message(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Reply {
    pub fn header(&self, wanted: &str) -> Option<&str> {
        self.headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
    }

    /// Whether the body is a stream of events.
    pub fn is_stream(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }

    /// Reads the next part of the body. `false` at its end.
    async fn more(&mut self) -> bool {
        let count = match self.rest {
            RemainingBody::Ended | RemainingBody::Bytes(0) => 0,
            RemainingBody::Bytes(count) => count,
            RemainingBody::Chunked => usize::from_str_radix(&line(&mut self.stream).await, 16).unwrap_or(0),
        };
        let mut chunk = vec![0; count];
        if count == 0 || within(TEST_TIMEOUT, self.stream.read_exact(&mut chunk)).await.is_err() {
            self.rest = RemainingBody::Ended;
            return false;
        }
        match self.rest {
            RemainingBody::Chunked => drop(line(&mut self.stream).await),
            _ => self.rest = RemainingBody::Ended,
        }
        self.text.extend(chunk);
        true
    }

    /// The whole body, which must end.
    pub async fn body(&mut self) -> String {
        while self.more().await {}
        String::from_utf8(std::mem::take(&mut self.text)).expect("bodies are text")
    }

    /// The whole body as JSON.
    pub async fn json(&mut self) -> Value {
        let body = self.body().await;
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: `{body}`"))
    }

    /// The next event, without comments; `None` at the end of the stream.
    pub async fn event(&mut self) -> Option<SseEvent> {
        assert!(self.is_stream(), "no stream: {} {:?}", self.status, self.headers);
        loop {
            let Some(end) = self.text.windows(2).position(|two| two == b"\n\n") else {
                if !self.more().await {
                    return None;
                }
                continue;
            };
            let event: Vec<u8> = self.text.drain(..end + 2).collect();
            let event = String::from_utf8(event).expect("events are text");
            let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            if let Some(data) = field("data:") {
                let id = field("id:").map(str::to_owned);
                let retry = field("retry:").map(str::to_owned);
                return Some(SseEvent { id, retry, data: data.to_owned() });
            }
        }
    }

    /// The next event that is a message; `None` at the end.
    pub async fn next(&mut self) -> Option<SseEvent> {
        loop {
            match self.event().await {
                Some(event) if event.data.is_empty() => {}
                other => return other,
            }
        }
    }

    /// The next message, which must come.
    pub async fn message(&mut self) -> Value {
        self.next().await.expect("another message").message()
    }

    /// All messages to the end: those of a stream, or the body as one message.
    pub async fn messages(&mut self) -> Vec<Value> {
        if !self.is_stream() {
            return vec![self.json().await];
        }
        let mut messages = Vec::new();
        while let Some(event) = self.next().await {
            messages.push(event.message());
        }
        messages
    }

    /// The last message: the answer.
    pub async fn answer(&mut self) -> Value {
        self.messages().await.pop().expect("an answer")
    }

    /// The answer; `None` when the connection ended before all of it had come.
    pub async fn answer_or_end(&mut self) -> Option<Value> {
        if !self.is_stream() {
            return serde_json::from_str(&self.body().await).ok();
        }
        let mut last = None;
        while let Some(event) = self.next().await {
            last = Some(event.message());
        }
        last.filter(|message| message.get("id").is_some() && message.get("method").is_none())
    }
}
