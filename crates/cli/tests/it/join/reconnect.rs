//! A network that breaks between a front and its server: the server lives, and so do the sessions.

use greenroom_testkit::text_of;
use serde_json::json;

use super::relay::TcpRelay;
use crate::front::fixture::{FakeEngineSetup, NEWEST, failure};

/// When only the connection breaks, every session is found again, the front's own too, without a note; the call in flight
/// fails with `server_lost`, and is not made again.
#[tokio::test]
async fn reconnected_front_finds_its_sessions() {
    let setup = FakeEngineSetup::new();
    let elsewhere = FakeEngineSetup::new();
    let server = setup.serve().await;
    let relay = TcpRelay::to(server.address()).await;
    let client = elsewhere.launch(&["mcp", "--server", &relay.url()]).spawn();
    client.initialize(NEWEST, json!({})).await;
    client.call("set", json!({"key": "k", "value": "own"})).await;
    client.call("set", json!({"key": "k", "value": "named", "sessionId": "s"})).await;
    for round in 1..=3 {
        let gate = setup.gate(&format!("gate {round}"));
        let held = client.start_call("wait", json!({"file": gate.path(), "sessionId": "w"})).await;
        gate.arrived(1).await;
        relay.cut();
        let (code, text) = failure(&held.response().await);
        assert_eq!(code, "server_lost", "{text}");
        gate.open();
        assert_eq!(text_of(&client.call("get", json!({"key": "k"})).await), "own");
        assert_eq!(text_of(&client.call("get", json!({"key": "k", "sessionId": "s"})).await), "named");
        assert_eq!(text_of(&client.call("echo", json!({"text": "on", "sessionId": "w"})).await), "on");
    }
    assert_eq!(setup.log().count("tools/call wait"), 3);
    assert_eq!(client.notifications_left("notifications/tools/list_changed"), 0);
}
