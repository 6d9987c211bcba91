//! Every revision with a handshake, from `initialize` to the end of the session.

use greenroom_testkit::{http::HttpMcpClient, text_of};
use serde_json::{Value, json};

use crate::front::fixture::{FakeEngineSetup, error};

const REVISIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

/// A client of any revision gets a session, its answers as plain JSON when there are no other messages, and 202 for
/// messages that need no answer.
#[tokio::test]
async fn every_revision_gets_a_session() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    for revision in REVISIONS {
        let client = HttpMcpClient::open(&server, revision, json!({})).await;
        assert!(client.session.bytes().all(|byte| byte.is_ascii_graphic()), "{}", client.session);
        let mut ping = client.post(&client.message("ping", Value::Null)).await;
        assert_eq!((ping.status, ping.header("content-type")), (200, Some("application/json")));
        assert_eq!(ping.json().await["result"], json!({}));
        let list = client.request("tools/list", Value::Null).await;
        assert!(list["result"]["tools"].as_array().unwrap().len() > 10, "{list}");
        let mut call = client.post(&client.call_message("echo", json!({"text": revision}))).await;
        assert_eq!(text_of(&call.answer().await), revision);
        let mut noted = client.post(&json!({"jsonrpc": "2.0", "method": "notifications/unknown"})).await;
        assert_eq!((noted.status, noted.body().await.as_str()), (202, ""));
        assert_eq!(client.delete().await.status, 204);
        assert_eq!(client.post(&client.message("ping", Value::Null)).await.status, 404);
    }
}

/// Ids come back as they were written, whatever they look like.
#[tokio::test]
async fn request_ids_come_back_as_written() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, "2025-11-25", json!({})).await;
    for id in ["\"a \\\"b\\\"\"", "-1", "12345678901234567890123", "1.50", "\"\""] {
        let headers = [("content-type", "application/json"), ("mcp-session-id", client.session.as_str())];
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"a"}}}}}}"#
        );
        let mut reply = server.connection().await.request("POST", "/mcp", &headers, Some(&body)).await;
        let answer = reply.body().await;
        assert!(answer.contains(&format!(r#""id":{id},"#)), "{answer}");
    }
}

/// A second `initialize` on one session is refused, and changes nothing; without the header it is another client.
#[tokio::test]
async fn second_initialize_is_refused() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, "2025-06-18", json!({})).await;
    let again =
        client.request("initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}})).await;
    assert!(error(&again).1.contains("already initialized with revision 2025-06-18"), "{again}");
    assert_eq!(text_of(&client.call("echo", json!({"text": "on"})).await), "on");
    let other = HttpMcpClient::open(&server, "2025-11-25", json!({})).await;
    assert_ne!(client.session, other.session);
}

/// An `initialize` that fails gives no session.
#[tokio::test]
async fn failed_initialize_creates_no_session() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let headers = [("content-type", "application/json")];
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}).to_string();
    let mut reply = server.connection().await.request("POST", "/mcp", &headers, Some(&body)).await;
    assert_eq!(reply.header("mcp-session-id"), None);
    assert!(error(&reply.json().await).1.contains("protocolVersion"));
}

/// The answers of a batch come together; notifications get none; a batch without requests is accepted silently.
#[tokio::test]
async fn batch_answers_come_together() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, "2025-03-26", json!({})).await;
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/unknown"});
    let calls = ["a", "b"].map(|text| client.call_message("echo", json!({"text": text, "sessionId": text})));
    let batch = json!([calls[0], notification, calls[1], {"jsonrpc": "2.0", "id": "x"}]);
    let mut answer = client.post(&batch).await.answer().await;
    let answers = answer.as_array_mut().unwrap();
    answers.sort_by_key(|answer| answer["id"].to_string());
    assert_eq!(answers.len(), 3, "{answers:?}");
    assert_eq!(error(&answers[0]).0, -32600);
    assert_eq!((text_of(&answers[1]), text_of(&answers[2])), ("a".to_owned(), "b".to_owned()));
    let mut silent = client.post(&json!([notification, notification])).await;
    assert_eq!((silent.status, silent.body().await.as_str()), (202, ""));
}
