//! Silent clients, on a paused clock and with an engine that accepts every call. A transport that forgets a client must
//! never cost that client a browser.

mod large;

use axum::http::HeaderMap;
use greenroom_core::settings::Scope;
use greenroom_mcp::message;
use serde_json::{Value, json};
use tokio::time::{Duration, advance};

use super::{session::HttpSession, *};
use crate::{
    client_sink::ReplyPath,
    testing::{self, BUILT_IN, DAY},
};

/// A door to a fleet whose sessions end after this long without a call.
fn door(idle_timeout: Duration) -> (HttpState, tempfile::TempDir) {
    let (gateway, folder) = testing::gateway(&[BUILT_IN], Scope::Connection, idle_timeout);
    let door = HttpState {
        gateway,
        sessions: Arc::default(),
        probes: Arc::new(Probes { server: "s".to_owned() }),
        reach: ClientLocation::Network,
        owner: Owner::local(),
        rules: None,
        stop: CancellationToken::new(),
        tasks: TaskTracker::new(),
    };
    (door, folder)
}

/// Sends a request and returns the answer.
async fn ask(session: &HttpSession, method: &str, params: Value) -> Value {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let own = session.stream();
    let mut reader = own.read();
    let way = ReplyPath::stream(&own, Some(session.background.clone()));
    session.protocol.take(message::parse_one(request.as_bytes()), &way).await;
    drop(way);
    serde_json::from_slice(&reader.next().await.unwrap().message).unwrap()
}

/// A client after its handshake.
async fn client(door: &HttpState) -> Arc<HttpSession> {
    let session = HttpSession::new(door);
    ask(&session, "initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}})).await;
    assert!(door.sessions.add(door, &session));
    session
}

fn is_known(door: &HttpState, session: &HttpSession) -> bool {
    let id =
        [("mcp-session-id".parse::<axum::http::HeaderName>().unwrap(), session.id.reveal().parse().unwrap())];
    door.sessions.of(door, &HeaderMap::from_iter(id)).is_ok()
}

/// The server forgets a client that was silent for very long, unless the connection has a browser session of its own,
/// which only this client can reach; when that session has expired, the server forgets the client too. A forgotten
/// client makes a new handshake and goes on; named sessions are not affected.
#[tokio::test(start_paused = true)]
async fn no_silence_costs_a_browser() {
    let (door, _folder) = door(30 * DAY);
    let (with, without, named) = (client(&door).await, client(&door).await, client(&door).await);
    ask(&with, "tools/call", json!({"name": "t", "arguments": {}})).await;
    let arguments = json!({"sessionId": "s"});
    ask(&named, "tools/call", json!({"name": "t", "arguments": arguments})).await;
    advance(7 * DAY).await;
    door.sessions.forget_silent(&door);
    assert_eq!(door.sessions.count(), 1);
    assert!(!is_known(&door, &without) && !is_known(&door, &named));
    assert!(is_known(&door, &with));
    let fleet = &door.gateway.fleet;
    assert_eq!(fleet.list_all().len(), 2, "both browsers are there");
    let answer = ask(&with, "tools/call", json!({"name": "t", "arguments": {}})).await;
    assert_eq!(
        answer["result"]["content"],
        json!([{"type": "text", "text": "yes"}]),
        "no note: the same browser"
    );
    let again = client(&door).await;
    let answer = ask(&again, "tools/call", json!({"name": "t", "arguments": arguments})).await;
    assert_eq!(answer["result"]["content"].as_array().unwrap().len(), 1, "found again, without a note");
    tokio::time::sleep(31 * DAY).await;
    assert_eq!(fleet.list_all().len(), 0, "both sessions have expired");
    door.sessions.forget_silent(&door);
    assert_eq!(door.sessions.count(), 0);
}

/// A client that listens, waits for an answer or sent a message lately is not silent.
#[tokio::test(start_paused = true)]
async fn who_is_not_silent() {
    let (door, _folder) = door(DAY);
    let (listens, speaks, silent) = (client(&door).await, client(&door).await, client(&door).await);
    let (_, reader) = listens.listen();
    advance(DAY).await;
    assert!(is_known(&door, &speaks));
    door.sessions.forget_silent(&door);
    assert!(is_known(&door, &listens) && is_known(&door, &speaks) && !is_known(&door, &silent));
    drop(reader);
    advance(DAY).await;
    door.sessions.forget_silent(&door);
    assert_eq!(door.sessions.count(), 0);
}

/// An ended stream can be resumed until the second check after its end; open streams, and the one of no request, stay.
#[tokio::test(start_paused = true)]
async fn ended_streams_are_forgotten() {
    let (door, _folder) = door(DAY);
    let session = client(&door).await;
    let (ended, open) = (session.stream(), session.stream());
    let (first, second) = (session.keep(&ended), session.keep(&open));
    ended.send(b"{}".to_vec());
    ended.finish();
    let resumes = |number: u64| session.resume(&format!("{number}-start")).is_some();
    door.sessions.forget_ended_streams();
    assert!(resumes(first) && resumes(second), "just ended");
    door.sessions.forget_ended_streams();
    assert!(!resumes(first) && resumes(second) && resumes(0));
}

/// A call that arrives just as its client is forgotten does not start: no code would close its browser.
#[tokio::test(start_paused = true)]
async fn nothing_begins_after_the_end() {
    let (door, _folder) = door(DAY);
    let session = client(&door).await;
    door.sessions.end(&door, &session);
    door.tasks.close();
    door.tasks.wait().await;
    let own = session.stream();
    let mut reader = own.read();
    let way = ReplyPath::stream(&own, None);
    let call = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#;
    session.protocol.take(message::parse_one(call), &way).await;
    drop(way);
    assert_eq!(reader.next().await, None);
    assert_eq!(door.gateway.fleet.list_all().len(), 0);
}
