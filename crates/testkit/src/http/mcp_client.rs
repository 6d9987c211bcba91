//! An MCP client over streamable HTTP, as thin as the one over stdio. Each request has a connection of its own.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::{
    Server,
    connection::{HttpConnection, Reply},
};

const ACCEPT_BOTH: &str = "application/json, text/event-stream";

/// The stateless revision: every request names its client.
pub const STATELESS: &str = "2026-07-28";

/// A client that has done its handshake.
pub struct HttpMcpClient {
    address: std::net::SocketAddr,
    pub session: String,
    revision: String,
    /// The value of its `Authorization` header.
    authorization: Option<String>,
    next_id: AtomicU64,
}

impl HttpMcpClient {
    /// The handshake: `initialize`, then `notifications/initialized`.
    pub async fn open(server: &Server, revision: &str, capabilities: Value) -> Self {
        Self::open_with(server, revision, capabilities, None).await
    }

    /// The handshake with an API key, which every later request has too.
    pub async fn open_with_key(server: &Server, revision: &str, key: &str) -> Self {
        Self::open_with(server, revision, json!({}), Some(format!("Bearer {key}"))).await
    }

    async fn open_with(
        server: &Server,
        revision: &str,
        capabilities: Value,
        authorization: Option<String>,
    ) -> Self {
        let info = json!({"name": "greenroom-testkit", "version": "1.0.0"});
        let params = json!({"protocolVersion": revision, "capabilities": capabilities, "clientInfo": info});
        let first = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let mut headers = vec![("content-type", "application/json"), ("accept", ACCEPT_BOTH)];
        headers.extend(authorization.as_deref().map(|value| ("authorization", value)));
        let connection = server.connection().await;
        let mut reply = connection.request("POST", "/mcp", &headers, Some(&first.to_string())).await;
        let session = reply.header("mcp-session-id").expect("a session id").to_owned();
        let answer = reply.json().await;
        assert_eq!(answer["result"]["protocolVersion"], revision, "{answer}");
        let revision = revision.to_owned();
        let next_id = AtomicU64::new(1);
        let client = Self { address: server.address(), session, revision, authorization, next_id };
        let noted = client.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        assert_eq!(noted.status, 202);
        client
    }

    /// The same client at another server, which does not know its session.
    pub fn at(&self, server: &Server) -> Self {
        let session = self.session.clone();
        let revision = self.revision.clone();
        let authorization = self.authorization.clone();
        let next_id = AtomicU64::new(1);
        Self { address: server.address(), session, revision, authorization, next_id }
    }

    /// The same MCP session with another API key.
    pub fn with_key(&self, key: &str) -> Self {
        let authorization = Some(format!("Bearer {key}"));
        let session = self.session.clone();
        let revision = self.revision.clone();
        Self { address: self.address, session, revision, authorization, next_id: AtomicU64::new(1) }
    }

    fn headers(&self) -> Vec<(&str, &str)> {
        let mut headers = vec![
            ("content-type", "application/json"),
            ("accept", ACCEPT_BOTH),
            ("mcp-session-id", &*self.session),
            ("mcp-protocol-version", &*self.revision),
        ];
        headers.extend(self.authorization.as_deref().map(|value| ("authorization", value)));
        headers
    }

    /// Sends a message, or a batch, on a connection of its own.
    pub async fn post(&self, message: &Value) -> Reply {
        let connection = HttpConnection::connect(self.address).await;
        connection.request("POST", "/mcp", &self.headers(), Some(&message.to_string())).await
    }

    /// A request on the wire whose answer is not read yet. Dropping it breaks the connection.
    pub async fn send(&self, message: &Value) -> HttpConnection {
        let mut connection = HttpConnection::connect(self.address).await;
        let body = message.to_string();
        let headers: String =
            self.headers().iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        let head = format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {length}");
        connection.send(format!("{head}\r\n\r\n{body}")).await;
        connection
    }

    /// The stream of messages that belong to no request, or of those that follow an event.
    pub async fn listen(&self, last_event_id: Option<&str>) -> Reply {
        let mut headers = self.headers();
        headers.extend(last_event_id.map(|event| ("last-event-id", event)));
        HttpConnection::connect(self.address).await.request("GET", "/mcp", &headers, None).await
    }

    /// Ends the MCP session.
    pub async fn delete(&self) -> Reply {
        HttpConnection::connect(self.address).await.request("DELETE", "/mcp", &self.headers(), None).await
    }

    /// A request with an id of its own.
    pub fn message(&self, method: &str, params: Value) -> Value {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mut message = json!({"jsonrpc": "2.0", "id": id, "method": method});
        if !params.is_null() {
            message["params"] = params;
        }
        message
    }

    /// The message of a call. Sends nothing.
    pub fn call_message(&self, tool: &str, arguments: impl Into<Value>) -> Value {
        self.message("tools/call", json!({"name": tool, "arguments": arguments.into()}))
    }

    /// The message of a call that asks for its progress. Sends nothing.
    pub fn call_with_progress(&self, tool: &str, arguments: impl Into<Value>) -> Value {
        let params = json!({"name": tool, "arguments": arguments.into(), "_meta": {"progressToken": "p"}});
        self.message("tools/call", params)
    }

    pub async fn request(&self, method: &str, params: Value) -> Value {
        self.post(&self.message(method, params)).await.answer().await
    }

    /// Calls a tool and returns the whole response.
    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.post(&self.call_message(tool, arguments)).await.answer().await
    }

    /// Calls a tool of a server that may end meanwhile: then there is no answer.
    pub async fn call_or_end(&self, tool: &str, arguments: Value) -> Option<Value> {
        let body = self.call_message(tool, arguments).to_string();
        let connection = HttpConnection::connect_or_end(self.address).await?;
        let mut reply = connection.request_or_end("POST", "/mcp", &self.headers(), Some(&body)).await?;
        reply.answer_or_end().await
    }

    /// Answers a question of the server.
    pub async fn respond(&self, id: &Value, result: Value) -> Reply {
        self.post(&json!({"jsonrpc": "2.0", "id": id, "result": result})).await
    }
}

/// A stateless request: its body, and its headers as they should be.
pub fn stateless(id: u64, method: &str, mut params: Value, capabilities: Value) -> Value {
    let meta = &mut params["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = json!(STATELESS);
    meta["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "greenroom-testkit", "version": "1.0.0"});
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

impl Server {
    /// Sends a stateless request, on a connection of its own.
    pub async fn post_stateless(&self, request: &Value) -> Reply {
        let method = request["method"].as_str().unwrap_or_default();
        let params = &request["params"];
        let name = params["name"].as_str().or(params["uri"].as_str()).unwrap_or_default();
        let mut headers = vec![
            ("content-type", "application/json"),
            ("accept", ACCEPT_BOTH),
            ("mcp-protocol-version", STATELESS),
            ("mcp-method", method),
        ];
        if !name.is_empty() {
            headers.push(("mcp-name", name));
        }
        self.connection().await.request("POST", "/mcp", &headers, Some(&request.to_string())).await
    }
}
