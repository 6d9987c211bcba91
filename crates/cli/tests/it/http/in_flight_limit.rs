//! The limit of one client's calls in flight.

use greenroom_testkit::{http::HttpMcpClient, text_of, until_some};
use serde_json::{Value, json};

use crate::front::fixture::{FakeEngineSetup, failure, retryable};

/// A client may have 1,024 calls in flight; the next is refused, other clients are not affected, and it goes on when some
/// are answered.
#[tokio::test]
async fn calls_in_flight_are_bounded() {
    // No call gives up waiting before it is cancelled, however long a thousand cancellations take.
    let setup = FakeEngineSetup::new()
        .set("pool.slots", "1")
        .set("pool.instances_max", "1")
        .set("pool.warm", "0")
        .set("pool.lease_timeout", "1h");
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, "2025-03-26", json!({})).await;
    let gate = setup.gate("gate");
    let held =
        client.send(&client.call_message("wait", json!({"file": gate.path(), "sessionId": "a"}))).await;
    gate.arrived(1).await;
    // All of these wait for the one browser.
    let waiting: Vec<Value> = (1..1024)
        .map(|n| client.call_message("echo", json!({"text": "", "sessionId": format!("s{n}")})))
        .collect();
    let batch = client.send(&json!(waiting)).await;
    until_some("all of the batch waits", async || {
        let figures = server.get("/metrics").await.body().await;
        figures.lines().any(|line| line == "greenroom_waiting 1023").then_some(())
    })
    .await;
    let refused = client.call("session_list", json!({})).await;
    assert_eq!((failure(&refused).0.as_str(), retryable(&refused)), ("too_many_calls", true));
    let other = HttpMcpClient::open(&server, "2025-03-26", json!({})).await;
    assert!(!text_of(&other.call("session_list", json!({})).await).is_empty());
    for call in &waiting {
        let params = json!({"requestId": call["id"]});
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        assert_eq!(client.post(&cancel).await.status, 202);
    }
    let mut nothing = batch.reply().await;
    // An answer that takes long begins as a stream of events; this stream has no event.
    match nothing.is_stream() {
        true => assert_eq!(nothing.messages().await, Vec::<Value>::new(), "all of it was cancelled"),
        false => assert_eq!((nothing.status, nothing.body().await.as_str()), (202, "")),
    }
    gate.open();
    assert_eq!(text_of(&held.reply().await.answer().await), "released");
    assert_eq!(text_of(&client.call("echo", json!({"text": "on", "sessionId": "a"})).await), "on");
}
