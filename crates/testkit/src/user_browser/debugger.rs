//! The kit's own client of a browser's debugger: one connection, one call after the other.
//!
//! greenroom's own client is under test, so it is not used here. Messages between a call and its answer are skipped; a
//! test that waits for an event does so before it makes another call.

use std::net::SocketAddr;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{WebSocketStream, client_async, tungstenite::Message};

use crate::{TEST_TIMEOUT, within};

pub(super) struct Debugger {
    socket: WebSocketStream<TcpStream>,
    calls: u64,
}

impl Debugger {
    /// `endpoint` is the WebSocket address that the browser names, `address` where it is.
    pub(super) async fn connect(address: SocketAddr, endpoint: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let (socket, _) = within(TEST_TIMEOUT, client_async(endpoint, stream)).await.unwrap();
        Self { socket, calls: 0 }
    }

    /// Calls a method of the browser, or of the page that `session` is attached to, and returns its result. A refusal fails
    /// the test.
    pub(super) async fn call(&mut self, session: Option<&str>, method: &str, params: Value) -> Value {
        let id = self.send(session, method, params).await;
        let mut answer = self.find(|message| message["id"] == id).await;
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].take()
    }

    /// Attaches to a page for as long as this connection lasts.
    pub(super) async fn attach(&mut self, tab: &str) -> String {
        let params = json!({ "targetId": tab, "flatten": true });
        let attached = self.call(None, "Target.attachToTarget", params).await;
        attached["sessionId"].as_str().unwrap().to_owned()
    }

    /// Sends a call without waiting for its answer, and returns the call's number.
    pub(super) async fn send(&mut self, session: Option<&str>, method: &str, params: Value) -> u64 {
        self.calls += 1;
        let mut message = json!({ "id": self.calls, "method": method, "params": params });
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        self.socket.send(Message::text(message.to_string())).await.unwrap();
        self.calls
    }

    /// Waits for an event of a page.
    pub(super) async fn event(&mut self, session: &str, method: &str) {
        self.find(|message| message["method"] == method && message["sessionId"] == session).await;
    }

    async fn find(&mut self, is_match: impl Fn(&Value) -> bool) -> Value {
        within(TEST_TIMEOUT, async {
            loop {
                let message = self.socket.next().await.unwrap().unwrap();
                if let Message::Text(text) = message {
                    let message = serde_json::from_str(&text).unwrap();
                    if is_match(&message) {
                        return message;
                    }
                }
            }
        })
        .await
    }
}
