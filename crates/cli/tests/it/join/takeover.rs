//! Who may use a connection's own session: the number in lists and records gives no access; only the front's secret
//! does, which greenroom never shows.

use std::{fs, path::Path};

use greenroom_testkit::{
    TEST_TIMEOUT,
    http::{HttpMcpClient, Server},
    within,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

use crate::front::fixture::{FakeEngineSetup, NEWEST};

/// A front played by the test, over plain TCP.
struct RawFront(BufReader<TcpStream>);

impl RawFront {
    /// Joins with this first message and introduces a client. `None` when the server refuses it.
    async fn join(server: &Server, hello: Value) -> Option<Self> {
        let mut front = Self(BufReader::new(TcpStream::connect(server.address()).await.unwrap()));
        let upgrade = "GET /front HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: greenroom-front\r\n\r\n";
        front.send(upgrade.to_owned()).await;
        while !front.receive().await?.trim().is_empty() {}
        front.send(format!("{hello}\n")).await;
        let welcome = front.receive().await?;
        assert!(welcome.contains("server"), "{welcome}");
        let client = json!({"protocolVersion": NEWEST, "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}});
        front.request("initialize", client).await;
        front.send("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n".to_owned()).await;
        Some(front)
    }

    async fn send(&mut self, text: String) {
        within(TEST_TIMEOUT, self.0.get_mut().write_all(text.as_bytes())).await.unwrap();
    }

    async fn receive(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = within(TEST_TIMEOUT, self.0.read_line(&mut line)).await.unwrap();
        (read > 0).then_some(line)
    }

    async fn request(&mut self, method: &str, params: Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.send(format!("{request}\n")).await;
        loop {
            let message: Value = serde_json::from_str(&self.receive().await.unwrap()).unwrap();
            if message["id"] == 1 {
                return message;
            }
        }
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> String {
        let answer = self.request("tools/call", json!({"name": tool, "arguments": arguments})).await;
        answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }
}

fn handshake(connection: u64, secret: Option<&str>) -> Value {
    json!({"connection": connection, "folder": "/", "secret": secret})
}

/// The numbers of connections' own sessions in the list of calls: their names are `#N`.
async fn shown(server: &Server) -> Vec<u64> {
    let calls = server.get("/api/calls").await.json().await;
    let sessions =
        calls["calls"].as_array().unwrap().iter().filter_map(|call| call["metadata"]["session"].as_str());
    sessions.filter_map(|name| name.strip_prefix('#')?.parse().ok()).collect()
}

/// Whether any file below a folder contains this text.
fn is_written(folder: &Path, text: &str) -> bool {
    let below = |path: &Path| match fs::read(path) {
        Ok(bytes) => bytes.windows(text.len()).any(|part| part == text.as_bytes()),
        Err(_) => is_written(path, text),
    };
    fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| below(&entry.path()))
}

/// The list of calls shows the numbers of a front's and of an HTTP client's own session. A front that sends one of them at
/// `/front`, alone or with its own secret, gets a session of its own and never theirs.
#[tokio::test]
async fn shown_session_number_grants_no_access() {
    let setup = FakeEngineSetup::new();
    let elsewhere = FakeEngineSetup::new();
    let server = setup.serve().await;
    let front = elsewhere.launch(&["mcp", "--server", &server.url()]).spawn();
    front.initialize(NEWEST, json!({})).await;
    front.call("set", json!({"key": "k", "value": "a front's"})).await;
    let http = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    http.call("set", json!({"key": "k", "value": "an HTTP client's"})).await;

    let numbers = shown(&server).await;
    assert_eq!(numbers.len(), 2);
    let own_secret = "s".repeat(64);
    for number in numbers {
        for secret in [None, Some(own_secret.as_str())] {
            let mut thief = RawFront::join(&server, handshake(number, secret)).await.unwrap();
            assert_eq!(thief.call("get", json!({"key": "k"})).await, "(unset)", "{number} {secret:?}");
            thief.call("session_close", json!({})).await;
        }
    }
    let of_front = front.call("get", json!({"key": "k"})).await;
    assert_eq!(greenroom_testkit::text_of(&of_front), "a front's");
    let of_http = http.call("get", json!({"key": "k"})).await;
    assert_eq!(greenroom_testkit::text_of(&of_http), "an HTTP client's");
}

/// The secret gives access to the session again, under the same number, and is in no log, list, record or file of the
/// server.
#[tokio::test]
async fn front_secret_regains_its_session_and_stays_hidden() {
    let setup = FakeEngineSetup::new().set("log", "trace");
    let server = setup.serve().await;
    let secret = "0123456789abcdef".repeat(4);
    let mut first = RawFront::join(&server, handshake(1, Some(&secret))).await.unwrap();
    first.call("set", json!({"key": "k", "value": "mine"})).await;
    drop(first);
    let mut again = RawFront::join(&server, handshake(2, Some(&secret))).await.unwrap();
    assert_eq!(again.call("get", json!({"key": "k"})).await, "mine");
    let numbers = shown(&server).await;
    assert!(numbers.len() == 2 && numbers[0] == numbers[1], "{numbers:?}");

    let listed = server.get("/api/calls").await.body().await + &again.call("session_list", json!({})).await;
    assert!(!listed.contains(&secret));
    drop(again);
    assert!(server.stop().await.success());
    assert!(!server.stderr().contains(&secret));
    assert!(!is_written(&setup.data(), &secret));
}

/// A secret that is short enough to guess is refused.
#[tokio::test]
async fn short_front_secret_is_refused() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    assert!(RawFront::join(&server, handshake(1, Some("1234"))).await.is_none());
    server.wait_for_stderr("its secret is too short").await;
}
