//! The session of a call without `sessionId`: `sessions.scope`.

use greenroom_testkit::{process::alive, text_of};
use serde_json::{Value, json};

use super::fixture::{FakeEngineSetup, failure, pid, pid_of, tools};

const HINT: &str = "hint: calls without sessionId overlapped on this connection";

/// `connection`: calls without `sessionId` share one session of the connection's own, apart from all named ones.
#[tokio::test]
async fn connection_scope_shares_one_session() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    client.call("set", json!({"key": "k", "value": "own"})).await;
    assert_eq!(text_of(&client.call("get", json!({"key": "k"})).await), "own");
    assert_eq!(text_of(&client.call("get", json!({"key": "k", "sessionId": "a"})).await), "(unset)");
    let own = pid_of(&client.call("pid", json!({})).await);
    assert_eq!(pid_of(&client.call("pid", json!({})).await), own);
    assert_ne!(pid(&client, "a").await, own);
    let neighbour = setup.client().await;
    assert_ne!(
        pid_of(&neighbour.call("pid", json!({})).await),
        own,
        "another connection has another session"
    );
}

/// The hint to use an own `sessionId` comes with overlapping calls that have none, and with no others.
#[tokio::test]
async fn overlapping_calls_get_a_session_hint() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let gate = setup.gate("gate");
    let held = client.start_call("wait", json!({"file": gate.path()})).await;
    gate.arrived(1).await;
    let named = client.call("echo", json!({"text": "named", "sessionId": "a"})).await;
    let second = client.start_call("echo", json!({"text": "second"})).await;
    // greenroom reads messages in order: the answer to this call shows that it has read the one before.
    client.call("echo", json!({"text": "named", "sessionId": "a"})).await;
    gate.open();
    let held = held.response().await;
    let second = second.response().await;
    let after = client.call("echo", json!({"text": "after"})).await;
    assert_eq!(second["result"]["content"][0]["text"], "second");
    for overlapped in [&held, &second] {
        assert!(text_of(overlapped).contains(HINT), "{overlapped}");
    }
    for quiet in [named, after] {
        assert!(!text_of(&quiet).contains("hint"), "{quiet}");
    }
}

/// `call`: one call after the other finds the same browser as it was left, calls at once get different ones.
#[tokio::test]
async fn call_scope_leases_a_browser_per_call() {
    let setup = FakeEngineSetup::new().set("sessions.scope", "call");
    let client = setup.client().await;
    client.call("set", json!({"key": "k", "value": "left"})).await;
    assert_eq!(text_of(&client.call("get", json!({"key": "k"})).await), "left");
    let first = pid_of(&client.call("pid", json!({})).await);
    let gate = setup.gate("gate");
    let held = client.start_call("wait", json!({"file": gate.path()})).await;
    gate.arrived(1).await;
    let second = client.call("pid", json!({})).await;
    assert_ne!(pid_of(&second), first);
    assert!(!text_of(&second).contains("hint"), "overlapping is what this scope is for: {second}");
    gate.open();
    held.response().await;
    let sessions: Value =
        serde_json::from_str(&text_of(&client.call("session_list", json!({})).await)).unwrap();
    assert_eq!(sessions, json!({"sessions": []}), "a borrowed browser is no session");
    for tool in ["session_close"] {
        assert_eq!(failure(&client.call(tool, json!({})).await).0, "session_required");
    }
}

/// `call`: a session that needs the only slot gets a fresh browser, not the one a call left behind.
#[tokio::test]
async fn session_gets_a_fresh_browser_after_a_call() {
    let setup = FakeEngineSetup::new()
        .set("sessions.scope", "call")
        .set("pool.slots", "1")
        .set("pool.instances_max", "1");
    let client = setup.client().await;
    client.call("set", json!({"key": "k", "value": "left"})).await;
    let loose = pid_of(&client.call("pid", json!({})).await);
    assert_eq!(text_of(&client.call("get", json!({"key": "k", "sessionId": "a"})).await), "(unset)");
    assert!(!alive(loose), "its browser is gone before the next one opens");
    let named = pid(&client, "a").await;
    client.call("session_close", json!({"sessionId": "a"})).await;
    let next = pid_of(&client.call("pid", json!({})).await);
    assert!(next != named && next != loose);
}

/// `explicit`: `sessionId` is required, in the schema and in fact, and the refusal says what to do.
#[tokio::test]
async fn explicit_scope_requires_a_session_id() {
    let setup = FakeEngineSetup::new().set("sessions.scope", "explicit");
    let client = setup.client().await;
    let (code, text) = failure(&client.call("echo", json!({"text": "a"})).await);
    assert_eq!(code, "session_required");
    let expected = "missing argument: `sessionId`\n\nhint: choose an id for your own browser, any text will do, and give it with every call";
    assert_eq!(text, expected);
    let own =
        ["session_list", "create_new_session", "get_content", "get_console_content", "browser_execute_bulk"];
    for tool in tools(&client).await.iter().filter(|tool| !own.contains(&tool["name"].as_str().unwrap())) {
        assert_eq!(tool["inputSchema"]["required"][0], "sessionId", "{tool}");
    }
    assert_eq!(text_of(&client.call("echo", json!({"text": "a", "sessionId": "s"})).await), "a");
    assert_eq!(setup.log().count("tools/call echo"), 1);
}
