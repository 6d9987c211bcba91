//! The reference MCP server with every feature, behind greenroom as a custom engine, by command and by address: clients
//! get the same as from the server directly.
//!
//! [`ServerPair`] has two clients: one of the server itself, one of greenroom in front of it.

mod other_features;
mod server_messages;
mod session_lifecycle;
mod stateless;
mod tools;

use std::{path::PathBuf, process::Stdio};

use greenroom_testkit::{Client, Launch, TEST_TIMEOUT, within};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::{
    front::fixture::{FakeEngineSetup, NEWEST},
    sdk::script_run::installed,
};

/// How greenroom reaches the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerAddress {
    Command,
    Url,
}

const ADDRESS_KINDS: [ServerAddress; 2] = [ServerAddress::Command, ServerAddress::Url];

/// The server's path.
pub fn path() -> String {
    let path: PathBuf =
        installed().join("everything/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    assert!(path.is_file(), "the reference server is not installed: run `make test`");
    path.display().to_string()
}

/// A client with all capabilities.
fn capabilities() -> Value {
    json!({ "roots": {}, "sampling": {}, "elicitation": { "form": {}, "url": {} } })
}

/// The server itself, and greenroom in front of it.
struct ServerPair {
    direct: Client,
    through: Client,
    _setup: FakeEngineSetup,
    _server: Option<HttpReferenceServer>,
}

impl ServerPair {
    /// With settings for greenroom.
    async fn with(address: ServerAddress, settings: &[(&str, &str)]) -> Self {
        let direct = Launch::new("node").args([&path()]).spawn();
        direct.initialize(NEWEST, capabilities()).await;
        let (setup, server) = setup_in_front(address).await;
        let setup = settings.iter().fold(setup, |setup, (key, value)| setup.set(key, value));
        let through = setup.client_with(capabilities()).await;
        Self { direct, through, _setup: setup, _server: server }
    }

    async fn raw(address: ServerAddress) -> Self {
        Self::with(address, &[("responses", "raw")]).await
    }
}

/// A setup whose greenroom has the reference server as its engine.
async fn setup_in_front(address: ServerAddress) -> (FakeEngineSetup, Option<HttpReferenceServer>) {
    match address {
        ServerAddress::Command => (FakeEngineSetup::new().command(&["node", &path()]), None),
        ServerAddress::Url => {
            let server = HttpReferenceServer::start(0).await;
            let setup = FakeEngineSetup::new().command(&[]).set("pool.url", &server.url());
            (setup, Some(server))
        }
    }
}

/// The server, over HTTP.
struct HttpReferenceServer {
    child: Child,
    port: u16,
}

impl HttpReferenceServer {
    /// On this port, or a free one.
    async fn start(port: u16) -> Self {
        // The server takes a port as an argument and does not print the port it got; so choose one that is free now.
        let port = match port {
            0 => std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port(),
            port => port,
        };
        let mut child = Command::new("node")
            .args([&path(), "streamableHttp"])
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        within(TEST_TIMEOUT, async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if line.contains("listening on port") {
                    return;
                }
            }
            panic!("the server does not listen");
        })
        .await;
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { child, port }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }
}

/// A response line without its envelope, and without the name of its record.
fn body(line: &str) -> String {
    let mut response: serde_json::Map<String, Value> = serde_json::from_str(line).unwrap();
    response.shift_remove("id");
    response.shift_remove("jsonrpc");
    let is_empty = match response.get_mut("result").and_then(|result| result.get_mut("_meta")) {
        Some(Value::Object(meta)) => {
            meta.shift_remove("greenroom/ref_id");
            meta.is_empty()
        }
        _ => false,
    };
    if let Some(Value::Object(result)) = response.get_mut("result").filter(|_| is_empty) {
        result.shift_remove("_meta");
    }
    Value::Object(response).to_string()
}

async fn ask(client: &Client, method: &str, params: &Value) -> String {
    body(&client.start(method, params.clone()).await.line().await)
}
