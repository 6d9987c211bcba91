//! The client against a server that does what a test says, request by request.

use std::sync::Mutex as Plain;

use greenroom_core::raw::encode;
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use super::*;
use crate::peer::{ClientInfo, InitializeParams};

/// A request that the server received.
#[derive(Debug, Clone)]
struct ReceivedRequest {
    method: String,
    /// In lower case.
    head: String,
    body: String,
}

/// The server's answer.
enum ScriptedReply {
    Json(String),
    /// Events, sent as written here; then the stream ends.
    Events(String),
    /// The same, and the stream stays open.
    Stay(String),
    Status(&'static str),
}

type ReplyScript = dyn Fn(&ReceivedRequest) -> ScriptedReply + Send + Sync;

struct ScriptedServer {
    uri: Uri,
    received: Arc<Plain<Vec<ReceivedRequest>>>,
}

impl ScriptedServer {
    async fn start(script: impl Fn(&ReceivedRequest) -> ScriptedReply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}/mcp", listener.local_addr().unwrap()).parse().unwrap();
        let received: Arc<Plain<Vec<ReceivedRequest>>> = Arc::default();
        let script: Arc<ReplyScript> = Arc::new(script);
        let log = received.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, script.clone(), log.clone()));
            }
        });
        Self { uri, received }
    }

    fn received(&self) -> Vec<ReceivedRequest> {
        self.received.lock().unwrap().clone()
    }

    async fn open(&self) -> Peer {
        let (peer, inbound) = HttpEndpoint::new(self.uri.clone()).unwrap().connect();
        // No test reads the server's unsolicited messages.
        tokio::spawn(async move {
            let mut inbound = inbound;
            while inbound.recv().await.is_some() {}
        });
        let hello = InitializeParams {
            protocol_version: "2025-11-25",
            capabilities: encode(&json!({})),
            client_info: ClientInfo { name: "test", version: "0" },
        };
        peer.initialize(&hello).await.unwrap().unwrap();
        peer
    }
}

async fn serve(
    stream: TcpStream,
    script: Arc<ReplyScript>,
    log: Arc<Plain<Vec<ReceivedRequest>>>,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await? == 0 {
                return Ok(());
            }
        }
        let head = head.to_lowercase();
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body).await?;
        let method = head.split(' ').next().unwrap_or_default().to_uppercase();
        let received = ReceivedRequest { method, head, body: String::from_utf8(body).unwrap() };
        let reply = script(&received);
        log.lock().unwrap().push(received);
        const SESSION: &str = "mcp-session-id: s1\r\n";
        let (kind, text, ends) = match reply {
            ScriptedReply::Json(text) => ("application/json", text, None),
            ScriptedReply::Events(text) => ("text/event-stream", text, Some(true)),
            ScriptedReply::Stay(text) => ("text/event-stream", text, Some(false)),
            ScriptedReply::Status(status) => {
                let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes()).await?;
                continue;
            }
        };
        let Some(ends) = ends else {
            let bytes = text.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\n{SESSION}content-type: {kind}\r\ncontent-length: {bytes}\r\n\r\n"
            );
            stream.write_all(format!("{head}{text}").as_bytes()).await?;
            continue;
        };
        let head = format!("HTTP/1.1 200 OK\r\n{SESSION}content-type: {kind}\r\nconnection: close\r\n\r\n");
        stream.write_all(format!("{head}{text}").as_bytes()).await?;
        stream.flush().await?;
        if ends {
            return Ok(());
        }
        // Wait until the client closes the connection.
        let _ = stream.read(&mut [0; 1]).await?;
        return Ok(());
    }
}

fn id(received: &ReceivedRequest) -> String {
    let body: serde_json::Value = serde_json::from_str(&received.body).unwrap();
    body["id"].to_string()
}

/// The answers of every server to `initialize` and to notifications; `None` for anything else.
fn usual(received: &ReceivedRequest) -> Option<ScriptedReply> {
    if received.body.contains("\"initialize\"") {
        let id = id(received);
        let version = "2025-03-26";
        return Some(ScriptedReply::Json(format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"{version}","capabilities":{{}}}}}}"#
        )));
    }
    let is_notification = received.method == "POST" && !received.body.contains("\"id\"");
    is_notification.then_some(ScriptedReply::Status("202 Accepted"))
}

fn answer(received: &ReceivedRequest) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"fine":true}}}}"#, id(received))
}

/// The client works with a server that has no GET stream. It sends what the handshake agreed on with every request, and its
/// DELETE ends the session.
#[tokio::test]
async fn server_without_get_stream() {
    let server = ScriptedServer::start(|received| {
        usual(received).unwrap_or_else(|| match received.method.as_str() {
            "GET" => ScriptedReply::Status("405 Method Not Allowed"),
            "DELETE" => ScriptedReply::Status("200 OK"),
            _ => ScriptedReply::Json(answer(received)),
        })
    })
    .await;
    let peer = server.open().await;
    for _ in 0..2 {
        peer.request("x", None).await.unwrap().unwrap();
    }
    peer.close().await;
    let received = server.received();
    let last = received.last().unwrap();
    assert_eq!(last.method, "DELETE");
    for request in &received[1..] {
        assert!(request.head.contains("mcp-session-id: s1\r\n"), "{request:?}");
    }
    assert!(last.head.contains("mcp-protocol-version: 2025-03-26\r\n"), "{last:?}");
}

/// If the stream of an answer breaks off, the client resumes it after the last event that came, following the pause
/// that the server wants, and the answer comes once; without event ids the answer is lost.
#[tokio::test]
async fn broken_answer_stream_is_resumed() {
    let waiting: Arc<Plain<Option<String>>> = Arc::default();
    let held = waiting.clone();
    let server = ScriptedServer::start(move |received| {
        usual(received).unwrap_or_else(|| match received.method.as_str() {
            "GET" if received.head.contains("last-event-id: e7\r\n") => {
                ScriptedReply::Events(format!("id: e8\ndata: {}\n\n", held.lock().unwrap().take().unwrap()))
            }
            "GET" => ScriptedReply::Status("405 Method Not Allowed"),
            _ if received.body.contains("\"numbered\"") => {
                *held.lock().unwrap() = Some(answer(received));
                ScriptedReply::Events("id: e7\nretry: 10\ndata: \n\nid: half".to_owned())
            }
            _ => ScriptedReply::Events(
                "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n".to_owned(),
            ),
        })
    })
    .await;
    let peer = server.open().await;
    let answer = timeout(Duration::from_secs(20), peer.request("numbered", None)).await.unwrap();
    assert_eq!(answer.unwrap().unwrap().get(), r#"{"fine":true}"#);
    assert_eq!(peer.request("plain", None).await.unwrap_err(), PeerError::Closed);
}

/// The client opens the stream of unsolicited messages again when it ends; a server that no longer knows the session has
/// ended it.
#[tokio::test]
async fn get_stream_is_reopened() {
    let times = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let server = ScriptedServer::start(move |received| {
        usual(received).unwrap_or_else(|| match received.method.as_str() {
            "GET" => match times.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
                0 => ScriptedReply::Events("id: a\nretry: 5\ndata: \n\n".to_owned()),
                1 => ScriptedReply::Status("503 Service Unavailable"),
                2 if received.head.contains("last-event-id: a\r\n") => {
                    ScriptedReply::Events("retry: 5\n\n".to_owned())
                }
                _ => ScriptedReply::Status("404 Not Found"),
            },
            _ => ScriptedReply::Json(answer(received)),
        })
    })
    .await;
    let peer = server.open().await;
    timeout(Duration::from_secs(20), peer.closed()).await.unwrap();
    assert_eq!(server.received().iter().filter(|received| received.method == "GET").count(), 4);
    assert_eq!(peer.request("x", None).await.unwrap_err(), PeerError::Closed);
}

/// The error of a refused request has the server's text, and the session goes on; an unknown session is over; a 404 before
/// there is a session means that no server is there.
#[tokio::test]
async fn refusal_keeps_the_server_text() {
    let server = ScriptedServer::start(|received| {
        usual(received).unwrap_or_else(|| match received.method.as_str() {
            "GET" => ScriptedReply::Stay(String::new()),
            _ if received.body.contains("\"too much\"") => ScriptedReply::Status("429 Too Many Requests"),
            _ if received.body.contains("\"gone\"") => ScriptedReply::Status("404 Not Found"),
            _ => ScriptedReply::Json(answer(received)),
        })
    })
    .await;
    let peer = server.open().await;
    let refused = peer.request("too much", None).await.unwrap_err();
    assert_eq!(refused, PeerError::Refused("429 Too Many Requests: ".to_owned()));
    peer.request("x", None).await.unwrap().unwrap();
    assert_eq!(peer.request("gone", None).await.unwrap_err(), PeerError::Closed);

    let unknown_server = ScriptedServer::start(|_| ScriptedReply::Status("404 Not Found")).await;
    let (peer, _inbound) = HttpEndpoint::new(unknown_server.uri.clone()).unwrap().connect();
    assert_eq!(peer.request("x", None).await.unwrap_err(), PeerError::Refused("404 Not Found: ".to_owned()));
}

/// The client closes an idle connection before a server can close it under a request.
#[tokio::test]
async fn unused_connections_are_closed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}/mcp", listener.local_addr().unwrap()).parse().unwrap();
    let (peer, _inbound) = HttpEndpoint::new(uri).unwrap().connect();
    let log: Arc<Plain<Vec<ReceivedRequest>>> = Arc::default();
    let script: Arc<ReplyScript> =
        Arc::new(|received: &ReceivedRequest| ScriptedReply::Json(answer(received)));
    let served = async {
        let (stream, _) = listener.accept().await.unwrap();
        // Returns when the client has closed the connection.
        serve(stream, script, log.clone()).await.unwrap();
    };
    let used = async { peer.request("x", None).await.unwrap().unwrap() };
    // The HTTP library's default would keep it for 90 seconds.
    timeout(Duration::from_secs(30), async { tokio::join!(served, used) }).await.unwrap();
    assert_eq!(log.lock().unwrap().len(), 1);
}

/// The client sends nothing unencrypted to an `https://` address: a server without TLS is not reached.
#[tokio::test]
async fn https_is_never_downgraded() {
    let server = ScriptedServer::start(|received| ScriptedReply::Json(answer(received))).await;
    let uri = server.uri.to_string().replace("http://", "https://").parse().unwrap();
    let (peer, _inbound) = HttpEndpoint::new(uri).unwrap().connect();
    let refused = timeout(Duration::from_secs(20), peer.request("x", None)).await.unwrap();
    assert_eq!(refused.unwrap_err(), PeerError::Closed);
    assert!(server.received().is_empty());
}
