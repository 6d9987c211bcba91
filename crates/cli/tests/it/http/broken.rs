//! Connections that break while a call waits. With a handshake the call goes on, as its client may come back; without
//! one nobody can come back, and the call is cancelled.

use greenroom_testkit::{
    PATIENCE, eventually,
    http::{Remote, stateless},
    process::open_fds,
    text_of, within,
};
use serde_json::{Value, json};

use crate::front::stage::{NEWEST, Stage};

/// Asks again and again until a session has so many calls in flight.
async fn until_in_flight(client: &Remote, id: &str, calls: usize) {
    let look = async {
        loop {
            let list: Value =
                serde_json::from_str(&text_of(&client.call("session_list", json!({})).await)).unwrap();
            let there = |session: &Value| session["id"] == id && session["callsInFlight"] == calls;
            if list["sessions"].as_array().unwrap().iter().any(there) {
                return;
            }
        }
    };
    within(PATIENCE, look).await;
}

/// A broken connection does not cancel a call of a client with a handshake.
#[tokio::test]
async fn a_call_goes_on() {
    let stage = Stage::new().set("pool.warm", "0");
    let server = stage.serve().await;
    let client = Remote::open(&server, NEWEST, json!({})).await;
    let gate = stage.gate("gate");
    let held = client.send(&client.call_of("wait", json!({"file": gate.path(), "sessionId": "a"}))).await;
    gate.arrived(1).await;
    let before = open_fds(server.pid());
    let queued =
        client.send(&client.call_of("set", json!({"key": "k", "value": "v", "sessionId": "a"}))).await;
    until_in_flight(&client, "a", 2).await;
    drop(queued);
    eventually("the server to notice", || (open_fds(server.pid()) <= before).then_some(())).await;
    gate.open();
    assert_eq!(text_of(&held.reply().await.json().await), "released");
    assert_eq!(text_of(&client.call("get", json!({"key": "k", "sessionId": "a"})).await), "v");
}

/// A client of the stateless revision that leaves cancels its call: what has not begun never does, and the session goes
/// on.
#[tokio::test]
async fn a_stateless_call_is_cancelled() {
    let stage = Stage::new().set("pool.warm", "0");
    let server = stage.serve().await;
    let client = Remote::open(&server, NEWEST, json!({})).await;
    let gate = stage.gate("gate");
    let held = client.send(&client.call_of("wait", json!({"file": gate.path(), "sessionId": "a"}))).await;
    gate.arrived(1).await;
    let before = open_fds(server.pid());
    let arguments = json!({"key": "k", "value": "v", "sessionId": "a"});
    let request = stateless(1, "tools/call", json!({"name": "set", "arguments": arguments}), json!({}));
    let body = request.to_string();
    let mut leaving = server.wire().await;
    let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: set\r\n";
    leaving.send(format!("{head}content-length: {}\r\n\r\n{body}", body.len())).await;
    until_in_flight(&client, "a", 2).await;
    drop(leaving);
    eventually("the server to notice", || (open_fds(server.pid()) <= before).then_some(())).await;
    gate.open();
    assert_eq!(text_of(&held.reply().await.json().await), "released");
    assert_eq!(text_of(&client.call("get", json!({"key": "k", "sessionId": "a"})).await), "(unset)");
    assert_eq!(stage.log().count("tools/call set"), 0);
}
