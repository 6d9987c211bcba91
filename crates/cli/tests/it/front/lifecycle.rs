//! The protocol over stdio: handshakes, revisions, pings, batches, and a stdout that carries nothing else.

use greenroom_testkit::text_of;
use serde_json::{Value, json};

use super::fixture::{FakeEngineSetup, NEWEST, batch_answer, error};

/// Every revision with sessions is granted as asked, any other is answered with the newest; each works.
#[tokio::test]
async fn revisions_are_negotiated() {
    for (requested, granted) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        (NEWEST, NEWEST),
        ("1999-01-01", NEWEST),
    ] {
        let setup = FakeEngineSetup::new();
        let client = setup.spawn();
        let answer = client.initialize(requested, json!({})).await;
        let result = &answer["result"];
        assert_eq!(result["protocolVersion"], granted, "{requested}");
        assert_eq!(result["serverInfo"]["name"], "greenroom");
        assert_eq!(
            result["capabilities"],
            json!({"tools": {"listChanged": true}, "logging": {}, "resources": {}})
        );
        assert_eq!(text_of(&client.call("echo", json!({"text": requested})).await), requested);
    }
}

/// Before the handshake greenroom answers only `initialize` and `ping`; afterwards it refuses a second `initialize`.
#[tokio::test]
async fn initialize_comes_first_and_once() {
    let setup = FakeEngineSetup::new();
    let client = setup.spawn();
    assert_eq!(client.request("ping", Value::Null).await["result"], json!({}));
    for method in ["tools/list", "tools/call", "logging/setLevel", "no/such"] {
        let (code, message) = error(&client.request(method, json!({"name": "echo"})).await);
        assert_eq!(code, -32_600, "{method}");
        assert!(message.contains("before `initialize`"), "{message}");
    }
    let (code, message) = error(&client.request("initialize", json!({})).await);
    assert_eq!((code, message.contains("protocolVersion")), (-32_602, true), "{message}");

    client.initialize("2025-06-18", json!({})).await;
    let (code, message) = error(&client.initialize(NEWEST, json!({})).await);
    assert_eq!((code, message.as_str()), (-32_600, "already initialized with revision 2025-06-18"));
    assert_eq!(client.request("ping", Value::Null).await["result"], json!({}));
    assert_eq!(setup.log().count("start"), 0, "nothing heavy starts before the first call");
}

/// A ping is answered while a call is in flight.
#[tokio::test]
async fn pings_do_not_wait_for_calls() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let gate = setup.gate("gate");
    let held = client.start_call("wait", json!({"file": gate.path()})).await;
    gate.arrived(1).await;
    assert_eq!(client.request("ping", Value::Null).await["result"], json!({}));
    gate.open();
    assert_eq!(text_of(&held.response().await), "released");
}

/// The error for an unknown method names it; ids come back as they were written.
#[tokio::test]
async fn unknown_method_error_keeps_the_request_id() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    for method in ["resources/subscribe", "prompts/list", "completion/complete", "no/such"] {
        let (code, message) = error(&client.request(method, Value::Null).await);
        assert_eq!((code, message), (-32_601, format!("method not found: `{method}`")));
    }
    for id in [r#""a\u0041 \"b\"""#, "-7", "7.0", "1e3", "12345678901234567890123"] {
        client.send_line(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)).await;
        client.next_unmatched().await;
        let line = client.transcript().pop().unwrap();
        assert_eq!(line, format!(r#"<-- {{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    }
}

/// A batch is answered by one array when its last call is done; notifications in it are not answered.
#[tokio::test]
async fn batches_are_answered_together() {
    let setup = FakeEngineSetup::new();
    let client = setup.spawn();
    client.initialize("2025-03-26", json!({})).await;
    let gate = setup.gate("gate");
    let batch = json!([
        {"jsonrpc": "2.0", "id": "a", "method": "ping"},
        {"jsonrpc": "2.0", "id": "b", "method": "tools/call", "params": {"name": "wait", "arguments": {"file": gate.path()}}},
        {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
        {"jsonrpc": "2.0", "id": "c", "method": "no/such"},
        {"jsonrpc": "1.0", "id": "d", "method": "ping"},
        7,
        ["2.0", 8, "ping"],
    ]);
    let lines_before = client.transcript().len();
    client.send_line(batch.to_string()).await;
    gate.arrived(1).await;
    gate.open();
    let answers = batch_answer(&client, lines_before).await;
    let of = |id: Value| answers.iter().find(|answer| answer["id"] == id).unwrap_or_else(|| panic!("{id}"));
    assert_eq!(of(json!("a"))["result"], json!({}));
    assert_eq!(text_of(of(json!("b"))), "released");
    assert_eq!(error(of(json!("c"))).0, -32_601);
    assert_eq!(error(of(json!("d"))).0, -32_600);
    assert_eq!(answers.iter().filter(|answer| answer["id"].is_null()).count(), 2, "{answers:?}");
    assert_eq!(answers.len(), 6, "{answers:?}");
}

/// A batch of notifications is answered with nothing, an empty one with one error.
#[tokio::test]
async fn batch_of_notifications_gets_no_response() {
    let setup = FakeEngineSetup::new();
    let client = setup.spawn();
    client.initialize("2025-03-26", json!({})).await;
    let before = client.transcript().len();
    client.send_line(r#"[{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}]"#).await;
    client.send_line("[]").await;
    let (code, message) = error(&client.next_unmatched().await);
    assert_eq!((code, message.contains("an empty batch")), (-32_600, true), "{message}");
    client.close_stdin().await;
    assert!(client.wait().await.success());
    assert_eq!(client.transcript().len(), before + 3, "two batches, one answer");
}

/// A batch whose last call is cancelled is answered without it; one whose every call is cancelled, not at all.
#[tokio::test]
async fn cancelled_calls_leave_their_batch() {
    let setup = FakeEngineSetup::new();
    let client = setup.spawn();
    client.initialize("2025-03-26", json!({})).await;
    let gate = setup.gate("gate");
    let wait = |id: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "wait", "arguments": {"file": gate.path(), "sessionId": id}}});
    let before = client.transcript().len();
    client.send_line(json!([wait("a"), {"jsonrpc": "2.0", "id": "b", "method": "ping"}]).to_string()).await;
    client.send_line(json!([wait("c")]).to_string()).await;
    gate.arrived(2).await;
    for id in ["c", "a"] {
        client.notify("notifications/cancelled", json!({"requestId": id})).await;
    }
    let answers = batch_answer(&client, before).await;
    assert_eq!(answers, [json!({"jsonrpc": "2.0", "id": "b", "result": {}})]);
    client.close_stdin().await;
    assert!(client.wait().await.success());
    let arrays = client.transcript().iter().filter(|line| line.starts_with("<-- [")).count();
    assert_eq!(arrays, 1);
}

/// A batch that is followed by the end of stdin is answered before greenroom ends.
#[tokio::test]
async fn batch_before_end_of_stdin_is_answered() {
    let setup = FakeEngineSetup::new();
    for _ in 0..5 {
        let client = setup.spawn();
        client.initialize("2025-03-26", json!({})).await;
        let before = client.transcript().len();
        client.send_line(r#"[{"jsonrpc":"2.0","id":"a","method":"ping"}]"#).await;
        client.close_stdin().await;
        assert!(client.wait().await.success());
        assert_eq!(batch_answer(&client, before).await.len(), 1);
    }
}

/// Every line of stdout is a message, however much is logged; what is logged goes to stderr.
#[tokio::test]
async fn stdout_carries_messages_only() {
    let setup = FakeEngineSetup::new().set("log", "debug").set("pool.timeout", "300ms");
    let client = setup.client().await;
    client.call("echo", json!({"text": "a\nb", "rich": true})).await;
    client.call("garbage", json!({})).await;
    client.call("die", json!({"sessionId": "s", "stderr": "final output"})).await;
    client.call("hang", json!({"sessionId": "t"})).await;
    client.send_line("nonsense").await;
    client.next_unmatched().await;
    client.close_stdin().await;
    assert!(client.wait().await.success());
    for line in client.transcript() {
        let Some(received) = line.strip_prefix("<-- ") else { continue };
        let message: Value = serde_json::from_str(received).unwrap();
        assert_eq!(message["jsonrpc"], "2.0", "{received}");
    }
    assert!(client.stderr().contains("DEBUG"), "it was logged at debug level");
}

/// `instructions` describe what is configured.
#[tokio::test]
async fn instructions_follow_the_settings() {
    let read = async |setup: FakeEngineSetup| {
        let answer = setup.spawn().initialize(NEWEST, json!({})).await;
        answer["result"]["instructions"].as_str().unwrap().to_owned()
    };
    let usual = read(FakeEngineSetup::new()).await;
    assert!(usual.contains("share this connection's one browser"), "{usual}");
    assert!(usual.contains("Up to 128 sessions; one idle for 5 min is closed"), "{usual}");
    assert!(!usual.contains("session_renew"), "{usual}");
    let other = FakeEngineSetup::new()
        .set("sessions.scope", "explicit")
        .set("sessions.idle_timeout", "90s")
        .set("sessions.max_lifetime", "1h")
        .set("pool.slots", "3")
        .set("pool.instances_max", "2");
    let other = read(other).await;
    for part in
        ["sessionId is required", "Up to 6 sessions", "90 s", "each ends after 60 min", "session_renew"]
    {
        assert!(other.contains(part), "{part}: {other}");
    }
    let call = read(FakeEngineSetup::new().set("sessions.scope", "call")).await;
    assert!(call.contains("borrows any free browser, which may be another one next time"), "{call}");
}
