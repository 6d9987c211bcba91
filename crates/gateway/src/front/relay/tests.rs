//! A relay against simulated servers: each is one end of a pipe in memory. The clock is paused, so that waiting
//! for a server that never comes back takes no time.

use std::{collections::VecDeque, sync::Arc};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf},
    task::JoinHandle,
};

use super::*;

/// Servers to join, one after the other, and how often the front looked for one.
#[derive(Default, Clone)]
struct ScriptedServers(Arc<Mutex<ServerQueue>>);

#[derive(Default)]
struct ServerQueue {
    servers: VecDeque<DuplexStream>,
    looks: usize,
}

impl ServerConnector for ScriptedServers {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn ServerStream>, String>> {
        let mut place = self.0.lock();
        place.looks += 1;
        let next = place.servers.pop_front();
        Box::pin(async move {
            next.map(|link| Box::new(link) as Box<dyn ServerStream>).ok_or("none runs".to_owned())
        })
    }
}

impl ScriptedServers {
    fn looks(&self) -> usize {
        self.0.lock().looks
    }

    /// Adds a server to join.
    fn add(&self) -> LinePeer {
        let (server, link) = tokio::io::duplex(64 * 1024);
        self.0.lock().servers.push_back(link);
        LinePeer::new(server)
    }
}

/// One end of a connection, line by line.
struct LinePeer {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
}

impl LinePeer {
    fn new(link: DuplexStream) -> Self {
        let (read, write) = tokio::io::split(link);
        Self { lines: BufReader::new(read).lines(), write }
    }

    async fn send(&mut self, message: Value) {
        self.write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        serde_json::from_str(&self.lines.next_line().await.unwrap().expect("another line")).unwrap()
    }

    /// Lets a front join the server of this name, and returns the front's first line.
    async fn welcome(&mut self, server: &str) -> Value {
        let hello = self.receive().await;
        self.send(json!({"server": server, "version": "1"})).await;
        hello
    }
}

/// A front between a client and a first server.
fn front() -> (LinePeer, LinePeer, ScriptedServers, JoinHandle<Result<(), String>>) {
    let (client, ours) = tokio::io::duplex(64 * 1024);
    let (server, link) = tokio::io::duplex(64 * 1024);
    let played = ScriptedServers::default();
    let relay = Relay { servers: played.clone(), secret: Secret::random(), folder: PathBuf::from("/folder") };
    let (read, write) = tokio::io::split(ours);
    let running = tokio::spawn(async move {
        let (stdio, _tasks) = pipe::open(read, write, Vec::new(), MESSAGE_BYTES_MAX);
        relay.run(Box::new(link), stdio, CancellationToken::new()).await
    });
    (LinePeer::new(client), LinePeer::new(server), played, running)
}

fn request(id: u64, method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"name": "t", "arguments": {"sessionId": "s"}}})
}

fn code(answer: &Value) -> &str {
    answer["result"]["_meta"]["greenroom/error"]["code"].as_str().unwrap_or_default()
}

/// When no server comes back in time, waiting and later requests get an error; the front goes on looking, and ends with
/// its client.
#[tokio::test(start_paused = true)]
async fn requests_fail_when_no_server_returns() {
    let (mut client, mut server, played, running) = front();
    server.welcome("one").await;
    client.send(request(1, "tools/call")).await;
    client.send(request(2, "tools/list")).await;
    assert_eq!(
        (server.receive().await["id"].clone(), server.receive().await["id"].clone()),
        (json!(1), json!(2))
    );
    drop(server);
    let began = Instant::now();
    let lost = client.receive().await;
    assert_eq!((lost["id"].as_u64(), code(&lost)), (Some(1), "server_lost"), "{lost}");
    assert!(began.elapsed() < POLL_INTERVAL, "said at once");
    client.send(request(3, "tools/call")).await;
    let list = client.receive().await;
    assert!(list["id"] == 2 && list["error"]["message"].as_str().unwrap().contains("none runs"), "{list}");
    let call = client.receive().await;
    assert_eq!((call["id"].as_u64(), code(&call)), (Some(3), "no_server"), "{call}");
    assert!(began.elapsed() >= RECONNECT_TIMEOUT && began.elapsed() < RECONNECT_TIMEOUT + 2 * POLL_INTERVAL);
    client.send(request(4, "tools/call")).await;
    assert_eq!(code(&client.receive().await), "no_server");
    let looks = played.looks();
    assert!(
        looks <= 2 + usize::try_from(RECONNECT_TIMEOUT.as_millis() / POLL_INTERVAL.as_millis()).unwrap(),
        "{looks}"
    );
    drop(client);
    assert_eq!(running.await.unwrap(), Ok(()));
}

/// A client that leaves while there is no server ends its front.
#[tokio::test(start_paused = true)]
async fn relay_ends_when_its_client_leaves() {
    let (mut client, mut server, _, running) = front();
    server.welcome("one").await;
    drop(server);
    client.send(request(1, "tools/call")).await;
    drop(client);
    assert_eq!(running.await.unwrap(), Ok(()));
}

/// The last lines of a lost server reach the client, even if it reads slowly: a call that was answered is not reported
/// as lost.
#[tokio::test(start_paused = true)]
async fn last_lines_of_a_lost_server_are_relayed() {
    // More than may wait for the client, fewer than would block the server.
    const CALLS: u64 = 1200;
    let (mut client, mut server, _, running) = front();
    server.welcome("one").await;
    let padding = "x".repeat(1000);
    let answered = tokio::spawn(async move {
        for id in 1..=CALLS {
            assert_eq!(server.receive().await["id"], id);
            server.send(json!({"jsonrpc": "2.0", "id": id, "result": {"text": padding}})).await;
        }
    });
    for id in 1..=CALLS {
        client.send(request(id, "tools/call")).await;
    }
    // The server is gone; the client has read nothing yet, and sends more lines, which no server takes.
    answered.await.unwrap();
    for id in 1..=5 {
        client.send(request(CALLS + id, "tools/call")).await;
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    for id in 1..=CALLS {
        let answer = client.receive().await;
        assert!(answer["id"] == id && answer["result"]["text"].is_string(), "{id}: {answer}");
    }
    let lost = client.receive().await;
    assert!(["server_lost", "no_server"].contains(&code(&lost)), "{lost}");
    drop(client);
    assert_eq!(running.await.unwrap(), Ok(()));
}

/// The front pauses before it joins a server again that disconnects at once.
#[tokio::test(start_paused = true)]
async fn relay_pauses_before_rejoining() {
    let (client, mut server, played, running) = front();
    server.welcome("one").await;
    let began = Instant::now();
    for _ in 0..10 {
        // This drops the previous server.
        server = played.add();
        server.welcome("one").await;
    }
    assert!(began.elapsed() >= 9 * POLL_INTERVAL, "{:?}", began.elapsed());
    drop((server, client));
    assert_eq!(running.await.unwrap(), Ok(()));
}

/// The front tells every server which sessions the client used on the previous server, and which losses no
/// answer has reported. The front repeats `initialize` to each server, and the client never sees the
/// answers to these.
#[tokio::test(start_paused = true)]
async fn used_and_lost_sessions_are_reported_on_join() {
    let (mut client, mut server, played, running) = front();
    let first = server.welcome("one").await;
    assert_eq!(first["last_server"], Value::Null);
    client.send(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}})).await;
    server.receive().await;
    server.send(json!({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": "2025-11-25"}})).await;
    client.receive().await;
    client.send(request(1, "tools/call")).await;
    server.receive().await;
    server.send(json!({"jsonrpc": "2.0", "id": 1, "result": {}})).await;
    client.receive().await;
    let none = json!([]);
    let s = json!(["s"]);
    for (name, used, lost) in [("one", &s, &none), ("two", &s, &none), ("three", &none, &s)] {
        // This drops the previous server.
        server = played.add();
        let hello = server.welcome(name).await;
        assert_eq!(
            (&hello["secret"], &hello["used"], &hello["lost"]),
            (&first["secret"], used, lost),
            "{name}: {hello}"
        );
        let again = server.receive().await;
        assert_eq!(again["method"], "initialize");
        server.send(json!({"jsonrpc": "2.0", "id": again["id"], "result": {}})).await;
        assert_eq!(server.receive().await["method"], "notifications/initialized");
        if name != "one" {
            assert_eq!(client.receive().await["method"], "notifications/tools/list_changed");
        }
    }
    client.send(request(2, "tools/list")).await;
    assert_eq!(server.receive().await["id"], 2);
    drop(client);
    assert_eq!(running.await.unwrap(), Ok(()));
    let mut rest = Vec::new();
    server.lines.into_inner().read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"");
}
