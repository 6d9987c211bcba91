//! Connections that break while a call waits. With a handshake the call goes on, as its client may come back; without
//! one no client can come back, and the call is cancelled.

use greenroom_testkit::{
    eventually,
    http::{HttpMcpClient, Server, stateless},
    text_of,
};
use serde_json::json;

use super::until_in_flight;
use crate::front::fixture::{FakeEngineSetup, NEWEST};

/// Returns when the server has noticed that all clients have left except the one whose call is held.
async fn until_one_is_left(server: &Server) {
    eventually("the server to notice", || (server.connections() == 1).then_some(())).await;
}

/// A broken connection does not cancel a call of a client with a handshake.
#[tokio::test]
async fn broken_connection_does_not_cancel_a_call() {
    let setup = FakeEngineSetup::new().set("pool.warm", "0");
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    let gate = setup.gate("gate");
    let held =
        client.send(&client.call_message("wait", json!({"file": gate.path(), "sessionId": "a"}))).await;
    gate.arrived(1).await;
    let queued =
        client.send(&client.call_message("set", json!({"key": "k", "value": "v", "sessionId": "a"}))).await;
    until_in_flight(&client, "a", 2).await;
    drop(queued);
    until_one_is_left(&server).await;
    gate.open();
    assert_eq!(text_of(&held.reply().await.answer().await), "released");
    assert_eq!(text_of(&client.call("get", json!({"key": "k", "sessionId": "a"})).await), "v");
}

/// A client of the stateless revision that leaves cancels its call: a call that has not begun never does, and the session
/// goes on.
#[tokio::test]
async fn broken_connection_cancels_a_stateless_call() {
    let setup = FakeEngineSetup::new().set("pool.warm", "0");
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    let gate = setup.gate("gate");
    let held =
        client.send(&client.call_message("wait", json!({"file": gate.path(), "sessionId": "a"}))).await;
    gate.arrived(1).await;
    let arguments = json!({"key": "k", "value": "v", "sessionId": "a"});
    let request = stateless(1, "tools/call", json!({"name": "set", "arguments": arguments}), json!({}));
    let body = request.to_string();
    let mut leaving = server.connection().await;
    let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: set\r\n";
    leaving.send(format!("{head}content-length: {}\r\n\r\n{body}", body.len())).await;
    until_in_flight(&client, "a", 2).await;
    drop(leaving);
    until_one_is_left(&server).await;
    gate.open();
    assert_eq!(text_of(&held.reply().await.answer().await), "released");
    assert_eq!(text_of(&client.call("get", json!({"key": "k", "sessionId": "a"})).await), "(unset)");
    assert_eq!(setup.log().count("tools/call set"), 0);
}
