//! Clients that stop halfway: they lose their request, and disturb no other client.

use greenroom_testkit::{eventually, http::HttpMcpClient, text_of};
use serde_json::json;

use crate::front::fixture::{FakeEngineSetup, NEWEST};

/// Half a request, silence, and garbage delay no other client; their resources are given back when they leave.
#[tokio::test]
async fn incomplete_requests_delay_no_other_client() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    let mut held = Vec::new();
    for part in [
        "",
        "POST /mc",
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\n",
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"json",
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"",
        "GET /front HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: greenroom-front\r\n\r\n",
        "GET /front HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: greenroom-front\r\n\r\n{\"connection\":",
    ] {
        for _ in 0..10 {
            let mut connection = server.connection().await;
            connection.send(part).await;
            held.push(connection);
        }
    }
    assert_eq!(text_of(&client.call("echo", json!({"text": "on"})).await), "on");
    eventually("all connections", || (server.connections() == held.len()).then_some(())).await;
    drop(held);
    eventually("all connections gone", || (server.connections() == 0).then_some(())).await;
    for rubbish in ["\r\n\r\n\r\n", "\0\0\0\0\r\n\r\n", "GET\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut connection = server.connection().await;
        connection.send(rubbish).await;
    }
    assert!(server.stop().await.success());
}

/// A client that stops reading does not disturb others, and finds its answer when it reads on.
#[tokio::test]
async fn slow_reader_disturbs_no_other_client() {
    const STEPS: u64 = 60_000;
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    let slow = client
        .send(&client.call_with_progress("progress", json!({"steps": STEPS, "sessionId": "slow"})))
        .await;
    setup.log().reached("tools/call progress", 1).await;
    for _ in 0..20 {
        assert_eq!(text_of(&client.call("echo", json!({"text": "on", "sessionId": "b"})).await), "on");
    }
    // It comes after the call in order, so the call has ended though its stream was not read.
    assert_eq!(text_of(&client.call("echo", json!({"text": "on", "sessionId": "slow"})).await), "on");
    let mut messages = slow.reply().await.messages().await;
    assert_eq!(text_of(&messages.pop().unwrap()), format!("{STEPS} steps"));
    let steps: Vec<f64> =
        messages.iter().map(|message| message["params"]["progress"].as_f64().unwrap()).collect();
    assert!(steps.is_sorted(), "out of order");
    assert_eq!(steps.first(), Some(&0.5));
}
