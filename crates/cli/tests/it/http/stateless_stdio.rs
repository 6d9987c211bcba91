//! Revision 2026-07-28 over stdio, where the process is the connection.

use greenroom_testkit::{Client, http::stateless, text_of};
use serde_json::{Value, json};

use crate::front::fixture::{FakeEngineSetup, error};

fn with_meta(params: Value, capabilities: Value) -> Value {
    stateless(0, "", params, capabilities)["params"].take()
}

fn call(tool: &str, arguments: impl Into<Value>) -> Value {
    with_meta(json!({"name": tool, "arguments": arguments.into()}), json!({"elicitation": {}}))
}

async fn text(client: &Client, tool: &str, arguments: Value) -> String {
    let answer = client.request("tools/call", call(tool, arguments)).await;
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    text_of(&answer)
}

/// The server's description without a handshake; calls without `sessionId` share the process's own session.
#[tokio::test]
async fn calls_share_the_process_session() {
    let setup = FakeEngineSetup::new();
    let client = setup.spawn();
    let about = client.request("server/discover", with_meta(json!({}), json!({}))).await;
    assert_eq!(about["result"]["supportedVersions"][0], "2026-07-28", "{about}");
    let list = client.request("tools/list", with_meta(json!({}), json!({}))).await;
    assert!(list["result"]["ttlMs"].is_u64(), "{list}");
    let echo =
        list["result"]["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "echo").unwrap();
    assert_eq!(echo["inputSchema"].get("required"), None, "no session is demanded");
    assert_eq!(text(&client, "set", json!({"key": "k", "value": "v"})).await, "set");
    assert_eq!(text(&client, "get", json!({"key": "k"})).await, "v");
    assert_eq!(text(&client, "get", json!({"key": "k", "sessionId": "other"})).await, "(unset)");
    let unknown = client.request("ping", with_meta(json!({}), json!({}))).await;
    assert_eq!(error(&unknown).0, -32601);
    let bare = client.request("tools/list", Value::Null).await;
    assert!(error(&bare).1.contains("before `initialize`"), "{bare}");
}

/// A subscription goes on while calls are made, and ends when it is cancelled.
#[tokio::test]
async fn subscription_delays_no_call() {
    let setup = FakeEngineSetup::new();
    let client = setup.spawn();
    let params = with_meta(json!({"notifications": {"toolsListChanged": true}}), json!({}));
    let listening = client.start("subscriptions/listen", params).await;
    client.next_notification("notifications/subscriptions/acknowledged").await;
    assert_eq!(text(&client, "change_tools", json!({})).await, "extra_1");
    client.next_notification("notifications/tools/list_changed").await;
    client.cancel(listening.id()).await;
    assert_eq!(text(&client, "echo", json!({"text": "on"})).await, "on");
}

/// A call that resumes with its answers delays no call after it.
#[tokio::test]
async fn retried_call_delays_no_other() {
    let setup = FakeEngineSetup::new();
    let client = setup.spawn();
    let gate = setup.gate("gate");
    let mut params = call("withdraw", json!({"file": gate.path(), "sessionId": "a"}));
    let question = client.request("tools/call", params.clone()).await;
    assert_eq!(question["result"]["resultType"], "input_required", "{question}");
    params["requestState"] = question["result"]["requestState"].clone();
    params["inputResponses"] = json!({"q1": {"said": "blue"}});
    let mut resumed = client.start("tools/call", params).await;
    assert_eq!(text(&client, "echo", json!({"text": "on", "sessionId": "b"})).await, "on");
    assert!(resumed.response_now().is_none());
    gate.open();
    assert_eq!(text_of(&resumed.response().await), "withdrawn");
}

/// Progress comes before the answer, and log lines only on request.
#[tokio::test]
async fn progress_and_requested_log_lines_precede_the_answer() {
    let setup = FakeEngineSetup::new();
    let client = setup.spawn();
    let mut params = call("progress", json!({"steps": 1}));
    params["_meta"]["progressToken"] = json!("p");
    client.request("tools/call", params).await;
    assert_eq!(client.notifications_left("notifications/progress"), 2);
    text(&client, "log", json!({"level": "error", "data": 1})).await;
    assert_eq!(client.notifications_left("notifications/message"), 0);
    let mut params = call("log", json!({"level": "error", "data": 1}));
    params["_meta"]["io.modelcontextprotocol/logLevel"] = json!("debug");
    client.request("tools/call", params).await;
    assert_eq!(client.notifications_left("notifications/message"), 1);
}
