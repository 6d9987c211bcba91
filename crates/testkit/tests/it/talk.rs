//! What the fake engine sends to its client during a call: progress, log messages, questions.

use greenroom_testkit::text_of;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::ready;

/// Progress carries the call's own token, integers stay integers, and without a token there is none.
#[tokio::test]
async fn progress_comes_before_the_answer() {
    let client = ready(&[]).await;
    client.call("progress", json!({"steps": 2})).await;
    assert_eq!(client.notifications_left("notifications/progress"), 0);
    let params = json!({"name": "progress", "arguments": {"steps": 2}, "_meta": {"progressToken": "t-1"}});
    client.request("tools/call", params).await;
    let mut steps = Vec::new();
    for _ in 0..3 {
        let notification = client.next_notification("notifications/progress").await;
        assert_eq!(notification["params"]["progressToken"], "t-1");
        steps.push(notification["params"]["progress"].to_string());
    }
    assert_eq!(steps, ["0.5", "1", "2"]);
}

/// Log messages carry any data, and the level that the client set suppresses lesser ones.
#[tokio::test]
async fn log_messages_follow_the_level() {
    let client = ready(&[]).await;
    client.call("log", json!({"level": "debug", "data": {"a": null}})).await;
    let notification = client.next_notification("notifications/message").await;
    assert_eq!(notification["params"]["data"], json!({"a": null}));
    client.request("logging/setLevel", json!({"level": "error"})).await;
    client.call("log", json!({"level": "warning", "data": "less"})).await;
    client.call("log", json!({"level": "alert", "data": "more"})).await;
    assert_eq!(client.next_notification("notifications/message").await["params"]["data"], "more");
    let silent = ready(&["--no-logging"]).await;
    assert_eq!(silent.request("logging/setLevel", json!({"level": "info"})).await["error"]["code"], -32_601);
}

/// Questions reach the client, by handler or one by one, and the tool answers with the client's raw answer.
#[tokio::test]
async fn questions_are_answered_by_the_client() {
    let client = ready(&[]).await;
    client.on_request("roots/list", |_| json!({"roots": [], "x-unknown": 1}));
    assert_eq!(text_of(&client.call("roots", json!({})).await), r#"{"roots":[],"x-unknown":1}"#);

    let elicit = client.start_call("elicit", json!({"message": "who?"})).await;
    let sample = client.start_call("sample", json!({})).await;
    let mut questions = [client.next_request().await, client.next_request().await];
    questions.sort_by(|one, other| one.method.cmp(&other.method));
    let [asked, sampled] = &questions;
    assert_eq!((asked.method.as_str(), &asked.params["message"]), ("elicitation/create", &json!("who?")));
    assert_eq!(sampled.method, "sampling/createMessage");
    client.respond_error(&sampled.id, -1, "no model").await;
    client.respond(&asked.id, json!({"action": "decline"})).await;
    assert_eq!(text_of(&elicit.response().await), r#"{"action":"decline"}"#);
    let refused = sample.response().await;
    assert_eq!(refused["result"]["isError"], true);
    assert_eq!(text_of(&refused), r#"{"code":-1,"message":"no model"}"#);
}

/// `touch` writes into the client's first root, whatever characters its name has.
#[tokio::test]
async fn touch_writes_into_the_root() {
    let client = ready(&[]).await;
    let folder = TempDir::with_prefix("root with space ").unwrap();
    let uri = format!("file://{}", folder.path().to_str().unwrap().replace(' ', "%20"));
    client.on_request("roots/list", move |_| json!({"roots": [{"uri": uri}]}));
    client.call("touch", json!({"name": "a.txt", "text": "hello"})).await;
    assert_eq!(std::fs::read_to_string(folder.path().join("a.txt")).unwrap(), "hello");
    client.on_request("roots/list", |_| json!({"roots": []}));
    assert_eq!(client.call("touch", json!({"name": "b"})).await["result"]["isError"], Value::Bool(true));
}
