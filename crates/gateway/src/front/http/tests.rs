//! Silent clients, on a paused clock and with an engine that accepts every call. A transport that forgets a client must
//! never cost that client a browser.

mod large;

use axum::http::HeaderMap;
use greenroom_core::settings::Scope;
use greenroom_mcp::message;
use serde_json::{Value, json};
use tokio::time::{Duration, advance};

use super::{refusal::Requests, session::HttpSession, *};
use crate::{
    client_sink::ReplyPath,
    testing::{self, BUILT_IN, DAY},
};

/// An `HttpState` to a fleet whose sessions end after this long without a call.
fn http_state(idle_timeout: Duration) -> (HttpState, tempfile::TempDir) {
    let (gateway, folder) = testing::gateway(&[BUILT_IN], Scope::Connection, idle_timeout);
    let http_state = HttpState {
        gateway,
        clients: Arc::default(),
        probes: Arc::new(Probes { server: "s".to_owned() }),
        location: ClientLocation::Network,
        keys: None,
        public_probes: false,
        rules: None,
        stop: CancellationToken::new(),
        tasks: TaskTracker::new(),
    };
    (http_state, folder)
}

/// A requester where no key is needed.
fn requester(http_state: &HttpState) -> Requester {
    Requester::local(RequestEnd::with_server(&http_state.stop))
}

/// Sends a request and returns the answer.
async fn ask(session: &HttpSession, method: &str, params: Value) -> Value {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let own = session.stream();
    let mut reader = own.read();
    let reply_path = ReplyPath::stream(&own, Some(session.background.clone()));
    session.protocol.take(message::parse_one(request.as_bytes()), &reply_path).await;
    drop(reply_path);
    serde_json::from_slice(&reader.next().await.unwrap().message).unwrap()
}

/// A client after its handshake.
async fn client(http_state: &HttpState) -> Arc<HttpSession> {
    let session = HttpSession::new(http_state, &requester(http_state));
    ask(&session, "initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}})).await;
    assert!(http_state.clients.add(http_state, &session));
    session
}

fn is_known(http_state: &HttpState, session: &HttpSession) -> bool {
    let id =
        [("mcp-session-id".parse::<axum::http::HeaderName>().unwrap(), session.id.reveal().parse().unwrap())];
    http_state.clients.find(http_state, &requester(http_state), &HeaderMap::from_iter(id)).is_ok()
}

/// The server forgets a client that was silent for very long, unless the connection has a browser session of its own,
/// which only this client can reach; when that session has expired, the server forgets the client too. A forgotten
/// client makes a new handshake and goes on; named sessions are not affected.
#[tokio::test(start_paused = true)]
async fn silent_clients_with_a_browser_are_not_forgotten() {
    let (http_state, _folder) = http_state(30 * DAY);
    let with = client(&http_state).await;
    let without = client(&http_state).await;
    let named = client(&http_state).await;
    ask(&with, "tools/call", json!({"name": "t", "arguments": {}})).await;
    let arguments = json!({"sessionId": "s"});
    ask(&named, "tools/call", json!({"name": "t", "arguments": arguments})).await;
    advance(7 * DAY).await;
    http_state.clients.forget_silent(&http_state);
    assert_eq!(http_state.clients.count(), 1);
    assert!(!is_known(&http_state, &without) && !is_known(&http_state, &named));
    assert!(is_known(&http_state, &with));
    let fleet = &http_state.gateway.fleet;
    assert_eq!(fleet.list_all().len(), 2, "both browsers are there");
    let answer = ask(&with, "tools/call", json!({"name": "t", "arguments": {}})).await;
    assert_eq!(
        answer["result"]["content"],
        json!([{"type": "text", "text": "yes"}]),
        "no note: the same browser"
    );
    let again = client(&http_state).await;
    let answer = ask(&again, "tools/call", json!({"name": "t", "arguments": arguments})).await;
    assert_eq!(answer["result"]["content"].as_array().unwrap().len(), 1, "found again, without a note");
    tokio::time::sleep(31 * DAY).await;
    assert_eq!(fleet.list_all().len(), 0, "both sessions have expired");
    http_state.clients.forget_silent(&http_state);
    assert_eq!(http_state.clients.count(), 0);
}

/// A client that listens, waits for an answer or sent a message lately is not silent.
#[tokio::test(start_paused = true)]
async fn active_clients_are_not_forgotten() {
    let (http_state, _folder) = http_state(DAY);
    let listens = client(&http_state).await;
    let speaks = client(&http_state).await;
    let silent = client(&http_state).await;
    let (_, reader, _) = listens.listen();
    advance(DAY).await;
    assert!(is_known(&http_state, &speaks));
    http_state.clients.forget_silent(&http_state);
    assert!(
        is_known(&http_state, &listens) && is_known(&http_state, &speaks) && !is_known(&http_state, &silent)
    );
    drop(reader);
    advance(DAY).await;
    http_state.clients.forget_silent(&http_state);
    assert_eq!(http_state.clients.count(), 0);
}

/// An ended stream can be resumed until the second check after its end; open streams, and the background stream, stay.
#[tokio::test(start_paused = true)]
async fn ended_streams_are_forgotten() {
    let (http_state, _folder) = http_state(DAY);
    let session = client(&http_state).await;
    let ended = session.stream();
    let open = session.stream();
    let first = session.keep(&ended, Requests::None);
    let second = session.keep(&open, Requests::None);
    ended.send(b"{}".to_vec());
    ended.finish();
    let resumes = |number: u64| session.resume(&format!("{number}-start")).is_some();
    http_state.clients.forget_ended_streams();
    assert!(resumes(first) && resumes(second), "just ended");
    http_state.clients.forget_ended_streams();
    assert!(!resumes(first) && resumes(second) && resumes(0));
}

/// A call that arrives just as its client is forgotten does not start: no code would close its browser.
#[tokio::test(start_paused = true)]
async fn forgotten_clients_start_no_call() {
    let (http_state, _folder) = http_state(DAY);
    let session = client(&http_state).await;
    http_state.clients.end(&http_state, &session);
    http_state.tasks.close();
    http_state.tasks.wait().await;
    let own = session.stream();
    let mut reader = own.read();
    let reply_path = ReplyPath::stream(&own, None);
    let call = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#;
    session.protocol.take(message::parse_one(call), &reply_path).await;
    drop(reply_path);
    assert_eq!(reader.next().await, None);
    assert_eq!(http_state.gateway.fleet.list_all().len(), 0);
}
