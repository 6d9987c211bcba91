//! Calls of a session run one after the other, sessions run in parallel, and answers reach the caller.

use std::collections::BTreeSet;

use greenroom_testkit::text_of;
use serde_json::{Value, json};

use super::fixture::{FakeEngineSetup, pid, pid_of, until_in_flight, until_sessions};

/// Many first calls at once with one id make one session.
#[tokio::test]
async fn first_calls_make_one_session() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let mut calls = Vec::new();
    for _ in 0..20 {
        calls.push(client.start_call("pid", json!({"sessionId": "a"})).await);
    }
    let mut processes = BTreeSet::new();
    for call in calls {
        processes.insert(pid_of(&call.response().await));
    }
    assert_eq!(processes.len(), 1);
    assert_eq!(setup.log().count("initialize"), 2, "the session, and one look at the tools");
}

/// Calls of a session run in the order in which they were sent, even when the client does not wait between them.
#[tokio::test]
async fn calls_of_a_session_run_in_order() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let mut value = 0;
    // The first round includes the list of tools and the start of the engine.
    for _ in 0..40 {
        let mut gets = Vec::new();
        for _ in 0..25 {
            value += 1;
            let set = json!({"key": "k", "value": value.to_string(), "sessionId": "a"});
            drop(client.start_call("set", set).await);
            gets.push((value, client.start_call("get", json!({"key": "k", "sessionId": "a"})).await));
        }
        for (expected, get) in gets {
            assert_eq!(text_of(&get.response().await), expected.to_string());
        }
    }
}

/// Calls behind one with large arguments do not overtake it, and a client can cancel it.
#[tokio::test]
async fn large_call_is_not_overtaken() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    for size in [1_000_000, 200_000, 3_000_000] {
        let set = json!({"key": "k", "value": "x".repeat(size), "sessionId": "a"});
        drop(client.start_call("set", set).await);
        let get = client.start_call("get", json!({"key": "k", "sessionId": "a", "mode": "raw"})).await;
        assert_eq!(text_of(&get.response().await).len(), size);
    }
    let gate = setup.gate("gate");
    let held = client.start_call("wait", json!({"file": gate.path(), "sessionId": "a"})).await;
    gate.arrived(1).await;
    let set =
        client.start_call("set", json!({"key": "k", "value": "y".repeat(1_000_000), "sessionId": "a"})).await;
    until_in_flight(&client, "a", 2).await;
    client.cancel(set.id()).await;
    client.request("ping", Value::Null).await;
    let get = client.start_call("get", json!({"key": "k", "sessionId": "a", "mode": "raw"})).await;
    gate.open();
    held.response().await;
    let text = text_of(&get.response().await);
    assert!(text.starts_with('x'), "what was cancelled was made: {}", text.get(..80).unwrap_or(&text));
}

/// A call that closes or makes a session takes its turn among the others.
#[tokio::test]
async fn session_tools_run_in_call_order() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let own = json!({"sessionId": "a"});
    for _ in 0..10 {
        let created = client.start_call("create_new_session", own.clone()).await;
        let one = client.start_call("pid", own.clone()).await;
        let created = text_of(&created.response().await);
        assert!(created.starts_with(r#"{"sessionId":"a","#), "{created}");
        let one = pid_of(&one.response().await);
        let closed = client.start_call("session_close", own.clone()).await;
        let other = client.start_call("pid", own.clone()).await;
        assert_eq!(text_of(&closed.response().await), "session closed");
        assert_ne!(pid_of(&other.response().await), one);
        client.call("session_close", own.clone()).await;
    }
}

/// The next call of a session does not begin before the running one has been answered.
#[tokio::test]
async fn a_session_runs_one_call_at_a_time() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let gate = setup.gate("gate");
    let held = client.start_call("wait", json!({"file": gate.path(), "sessionId": "a"})).await;
    gate.arrived(1).await;
    let mut queued = client.start_call("echo", json!({"text": "queued", "sessionId": "a"})).await;
    for _ in 0..5 {
        client.call("pid", json!({"sessionId": "b"})).await;
    }
    assert!(queued.response_now().is_none());
    assert_eq!(setup.log().count("tools/call echo"), 0);
    gate.open();
    assert_eq!(text_of(&held.response().await), "released");
    assert_eq!(text_of(&queued.response().await), "queued");
}

/// Sessions run in parallel: all of them are in a call at the same time.
#[tokio::test]
async fn sessions_run_in_parallel() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let gate = setup.gate("gate");
    let mut held = Vec::new();
    for n in 0..6 {
        held.push(
            client.start_call("wait", json!({"file": gate.path(), "sessionId": format!("s{n}")})).await,
        );
    }
    gate.arrived(6).await;
    gate.open();
    for call in held {
        assert_eq!(text_of(&call.response().await), "released");
    }
}

/// A cancelled call is not answered, its seat stays busy until the engine has answered, and the next call runs in the same
/// browser; the late answer is dropped.
#[tokio::test]
async fn a_cancelled_call_keeps_its_seat_busy() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let process = pid(&client, "a").await;
    let gate = setup.gate("gate");
    let cancelled = client.start_call("wait", json!({"file": gate.path(), "sessionId": "a"})).await;
    gate.arrived(1).await;
    client.cancel(cancelled.id()).await;
    let mut next = client.start_call("pid", json!({"sessionId": "a"})).await;
    client.call("pid", json!({"sessionId": "b"})).await;
    assert!(next.response_now().is_none(), "the engine still works on the cancelled call");
    assert_eq!(setup.log().count("notifications/cancelled"), 0, "the engine is not told: it would not stop");
    gate.open();
    let next = text_of(&next.response().await);
    let (pid, note) = next.split_once('\n').unwrap_or((&next, ""));
    assert_eq!(pid, process.to_string(), "the same browser");
    assert!(
        note.is_empty() || note.starts_with("this call waited"),
        "on a slow machine it waited long: {note}"
    );
    assert_eq!(text_of(&client.call("echo", json!({"text": "x", "sessionId": "a"})).await), "x");
    client.close_stdin().await;
    client.wait().await;
    assert!(cancelled.response_or_end().await.is_none());
}

/// A call that is cancelled while it waits is never run.
#[tokio::test]
async fn a_cancelled_call_in_the_queue_is_not_run() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let gate = setup.gate("gate");
    let held = client.start_call("wait", json!({"file": gate.path(), "sessionId": "a"})).await;
    gate.arrived(1).await;
    let set = client.start_call("set", json!({"key": "k", "value": "v", "sessionId": "a"})).await;
    until_in_flight(&client, "a", 2).await;
    client.cancel(set.id()).await;
    client.request("ping", Value::Null).await;
    gate.open();
    held.response().await;
    assert_eq!(text_of(&client.call("get", json!({"key": "k", "sessionId": "a"})).await), "(unset)");
    assert_eq!(setup.log().count("tools/call set"), 0);
    client.close_stdin().await;
    client.wait().await;
    assert!(set.response_or_end().await.is_none());
}

/// A session whose only caller left before its browser was requested is not made.
#[tokio::test]
async fn a_cancelled_first_call_starts_no_browser() {
    let setup = FakeEngineSetup::new().set("pool.slots", "1").set("pool.instances_max", "1");
    let client = setup.client().await;
    let process = pid(&client, "a").await;
    let waiting = client.start_call("pid", json!({"sessionId": "b"})).await;
    client.cancel(waiting.id()).await;
    until_sessions(&client, &["a"]).await;
    let initialized = setup.log().count("initialize");
    client.call("session_close", json!({"sessionId": "a"})).await;
    assert_ne!(pid(&client, "c").await, process);
    assert_eq!(setup.log().count("initialize"), initialized + 1);
}

/// Answers are matched by id: an answer without a request, or to a cancelled call, shifts no other.
#[tokio::test]
async fn answers_are_matched_by_id() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    for n in 0..20 {
        assert_eq!(text_of(&client.call("unknown_id", json!({})).await), "right");
        assert_eq!(text_of(&client.call("echo", json!({"text": n.to_string()})).await), n.to_string());
        let late = client.start_call("sleep", json!({"ms": 1})).await;
        client.cancel(late.id()).await;
        let after = client.call("echo", json!({"text": format!("after {n}")})).await;
        assert_eq!(after["result"]["content"][0]["text"], format!("after {n}"));
    }
    assert_eq!(client.request("ping", Value::Null).await["result"], json!({}));
    assert_eq!(client.unmatched_left(), 0);
}
