//! Streams that broke, and clients that resume them.

use greenroom_testkit::{http::HttpMcpClient, text_of};
use serde_json::json;

use crate::front::fixture::{FakeEngineSetup, NEWEST};

async fn asked(client: &HttpMcpClient) -> (String, serde_json::Value) {
    let mut reply = client.post(&client.call_message("elicit", json!({"message": "which?"}))).await;
    let event = reply.next().await.unwrap();
    // The connection breaks here.
    (event.id.clone().unwrap(), event.message()["id"].clone())
}

/// A client that resumes after the last event it has seen gets the rest, once; one that resumes again gets it again.
#[tokio::test]
async fn resumed_stream_continues_after_the_last_event() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, NEWEST, json!({"elicitation": {}})).await;
    let (seen, question) = asked(&client).await;
    assert_eq!(client.respond(&question, json!({"said": "blue"})).await.status, 202);
    for _ in 0..2 {
        let rest = client.listen(Some(&seen)).await.messages().await;
        assert_eq!(rest.len(), 1, "{rest:?}");
        assert!(text_of(&rest[0]).contains("blue"), "{rest:?}");
    }
    assert_eq!(setup.log().count("tools/call elicit"), 1);
}

/// A stream that broke before its first message is resumed from its start.
#[tokio::test]
async fn stream_without_events_resumes_from_its_start() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, NEWEST, json!({"elicitation": {}})).await;
    let (seen, question) = asked(&client).await;
    let start = format!("{}-start", seen.split_once('-').unwrap().0);
    let mut resumed = client.listen(Some(&start)).await;
    assert_eq!(resumed.message().await["id"], question);
    client.respond(&question, json!({"said": "blue"})).await;
    let rest = resumed.messages().await;
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert!(text_of(&rest[0]).contains("blue"), "{rest:?}");
}

/// Two clients resume one stream: the newest is served, the other ends, and nothing is lost or comes twice.
#[tokio::test]
async fn newest_resumer_of_a_stream_is_served() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, NEWEST, json!({"elicitation": {}})).await;
    let (seen, question) = asked(&client).await;
    let mut first = client.listen(Some(&seen)).await;
    let mut second = client.listen(Some(&seen)).await;
    assert_eq!(first.next().await, None, "the first ends");
    client.respond(&question, json!({"said": "blue"})).await;
    let rest = second.messages().await;
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert!(text_of(&rest[0]).contains("blue"), "{rest:?}");
}

/// An unknown event, or one of another client, is refused; so is one that is no longer kept.
#[tokio::test]
async fn unknown_or_foreign_events_cannot_be_resumed() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, NEWEST, json!({"elicitation": {}})).await;
    let (seen, question) = asked(&client).await;
    for event in [
        "9-0",
        "1-9",
        "x",
        "",
        "-",
        "1-",
        "-1",
        "0-18446744073709551615",
        "18446744073709551616-0",
        "1-0-0",
        "1-é",
    ] {
        let mut refused = client.listen(Some(event)).await;
        assert_eq!(refused.status, 400, "{event}");
        let why = refused.json().await["error"]["message"].as_str().unwrap().to_owned();
        assert!(why.contains("nothing can be resumed"), "{event}: {why}");
    }
    let other = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    assert_eq!(other.listen(Some(&seen)).await.status, 400);
    client.respond(&question, json!({})).await;
    assert_eq!(client.listen(Some(&seen)).await.messages().await.len(), 1);
    // Enough calls that the first stream is forgotten.
    for _ in 0..20 {
        let call = client.call_with_progress("progress", json!({"steps": 1}));
        client.post(&call).await.messages().await;
    }
    assert_eq!(client.listen(Some(&seen)).await.status, 400);
}

/// A client that is further behind than what is kept cannot resume there, but still gets its answer.
#[tokio::test]
async fn client_too_far_behind_still_gets_its_answer() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    let mut reply = client.post(&client.call_with_progress("progress", json!({"steps": 5_000}))).await;
    let mut ids = Vec::new();
    while let Some(event) = reply.next().await {
        ids.push(event.id.unwrap());
    }
    assert!(ids.len() > 2_000, "{}", ids.len());
    assert_eq!(client.listen(Some(&ids[0])).await.status, 400);
    let rest = client.listen(Some(&ids[ids.len() - 2])).await.messages().await;
    assert_eq!((rest.len(), text_of(&rest[0])), (1, "5000 steps".to_owned()));
}
