//! Sessions with a server at an address: how they begin, end, and are lost.

use greenroom_testkit::{TEST_TIMEOUT, text_of, within};
use serde_json::json;

use super::{HttpReferenceServer, ServerAddress, capabilities, setup_in_front};
use crate::front::fixture::FakeEngineSetup;

/// Each session of greenroom's is one session with the server, and both end together.
#[tokio::test]
async fn each_session_is_one_upstream_session() {
    let (setup, _server) = setup_in_front(ServerAddress::Url).await;
    let client = setup.client_with(capabilities()).await;
    // The server reports its sessions by their names here.
    let started = |answer: &serde_json::Value| {
        let text = text_of(answer);
        text.split_whitespace().find(|word| word.len() == 36).unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    let toggle = |session: &'static str| json!({ "sessionId": session });
    let one = started(&client.call("toggle-simulated-logging", toggle("one")).await);
    let other = started(&client.call("toggle-simulated-logging", toggle("other")).await);
    assert_ne!(one, other);
    assert_eq!(started(&client.call("toggle-simulated-logging", toggle("one")).await), one, "it stays");
    client.call("session_close", json!({ "sessionId": "one" })).await;
    assert_ne!(started(&client.call("toggle-simulated-logging", toggle("one")).await), one, "it was ended");
}

/// The loss of a server, between calls and during one, is noticed and reported; when it is back, sessions begin anew.
#[tokio::test]
async fn lost_server_is_reported_and_reconnected() {
    let mut server = HttpReferenceServer::start(0).await;
    let port = server.port;
    let setup = FakeEngineSetup::new().command(&[]).set("pool.url", &server.url());
    let client = setup.client_with(capabilities()).await;
    client.call("echo", json!({ "message": "x", "sessionId": "a" })).await;

    let long = json!({ "duration": 60, "steps": 60, "sessionId": "a" });
    let call = client
        .start(
            "tools/call",
            json!({
                "name": "trigger-long-running-operation", "arguments": long, "_meta": { "progressToken": 1 }
            }),
        )
        .await;
    client.next_notification("notifications/progress").await;
    server.child.kill().await.unwrap();
    let answer = within(TEST_TIMEOUT, call.response()).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert!(text_of(&answer).contains("the connection to the engine is closed"), "{}", text_of(&answer));

    let _again = HttpReferenceServer::start(port).await;
    let answer = client.call("echo", json!({ "message": "back", "sessionId": "a" })).await;
    let text = answer["result"]["content"].to_string();
    assert!(text.contains("Echo: back") && text.contains("session restarted"), "{text}");
}
