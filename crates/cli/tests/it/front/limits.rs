//! Every queue has a limit, every wait a deadline, and each error says what to do next.

use greenroom_testkit::text_of;
use serde_json::{Value, json};

use super::fixture::{FakeEngineSetup, error, failure, pid, retryable};

/// Only one browser at a time.
fn one_slot_setup() -> FakeEngineSetup {
    FakeEngineSetup::new().set("pool.slots", "1").set("pool.instances_max", "1")
}

/// If no slot comes free, greenroom refuses a call after `pool.lease_timeout`, and the error says who holds the slots
/// and how many calls wait. A call gets a slot that comes back in time.
#[tokio::test]
async fn lease_timeout_error_names_the_slot_holders() {
    let setup = one_slot_setup().set("pool.lease_timeout", "200ms");
    let client = setup.client().await;
    pid(&client, "a").await;
    let answer = client.call("pid", json!({"sessionId": "b"})).await;
    let (code, text) = failure(&answer);
    assert_eq!((code.as_str(), retryable(&answer)), ("lease_timeout", true));
    let expected = "no browser free within 200 ms: pool \"DEFAULT\"\n\nhint: 1 of 1 slot is leased by session \"a\"; close a session with session_close, or raise `pool.slots` or `pool.instances_max`";
    assert_eq!(text, expected);
    client.call("session_close", json!({"sessionId": "a"})).await;
    pid(&client, "b").await;
}

/// Waiting calls are served in their order as slots come back.
#[tokio::test]
async fn waiting_calls_are_served_in_order() {
    let setup = one_slot_setup();
    let client = setup.client().await;
    pid(&client, "s0").await;
    let mut waiting = Vec::new();
    for n in 1..4 {
        waiting.push(client.start_call("pid", json!({"sessionId": format!("s{n}")})).await);
    }
    for (n, mut call) in waiting.into_iter().enumerate() {
        assert!(call.response_now().is_none());
        client.call("session_close", json!({"sessionId": format!("s{n}")})).await;
        assert!(call.response().await["result"]["isError"].is_null());
    }
}

/// The queue of a session holds 64 calls; the next is refused and has no effect, and the others are all served.
#[tokio::test]
async fn session_queue_is_bounded() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let gate = setup.gate("gate");
    let held = client.start_call("wait", json!({"file": gate.path(), "sessionId": "a"})).await;
    gate.arrived(1).await;
    let mut queued = Vec::new();
    for n in 0..64 {
        queued.push(client.start_call("echo", json!({"text": n.to_string(), "sessionId": "a"})).await);
    }
    let answer = client.call("echo", json!({"text": "too much", "sessionId": "a"})).await;
    let (code, text) = failure(&answer);
    assert_eq!((code.as_str(), retryable(&answer)), ("queue_full", true));
    assert_eq!(
        text,
        "too many calls wait for this session: 64 are queued already\n\nhint: wait for earlier calls, or use another sessionId"
    );
    pid(&client, "b").await;
    gate.open();
    held.response().await;
    for (n, call) in queued.into_iter().enumerate() {
        assert_eq!(text_of(&call.response().await), n.to_string());
    }
    assert_eq!(setup.log().count("tools/call echo"), 64);
}

/// A connection has at most 1,024 calls in flight; the next is refused, pings and cancellations still work.
#[tokio::test]
async fn calls_in_flight_per_connection_are_bounded() {
    // None of them gives up waiting for the one browser before all have been sent.
    let setup = one_slot_setup().set("pool.lease_timeout", "1h");
    let client = setup.client().await;
    let gate = setup.gate("gate");
    let mut calls = Vec::new();
    for n in 0..1_024 {
        let arguments = json!({"file": gate.path(), "sessionId": format!("s{}", n / 64)});
        calls.push(client.start_call("wait", arguments).await);
    }
    let answer = client.call("pid", json!({})).await;
    let (code, text) = failure(&answer);
    assert_eq!((code.as_str(), retryable(&answer)), ("too_many_calls", true));
    assert!(text.starts_with("too many calls at once on this connection: 1024 are in flight"), "{text}");
    assert_eq!(client.request("ping", Value::Null).await["result"], json!({}));
    let last = calls.pop().unwrap();
    client.cancel(last.id()).await;
    let answer = client.call("session_close", json!({"sessionId": "nobody"})).await;
    assert_eq!(failure(&answer).0, "no_session", "a cancelled call makes room");
}

/// An answer of 50 MB passes whole.
#[tokio::test]
async fn large_answer_passes_whole() {
    const BYTES: usize = 50_000_000;
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let line = client.call_line("big", json!({"bytes": BYTES, "mode": "raw"})).await;
    let head = r#""result":{"content":[{"type":"text","text":""#;
    let text = line.split_once(head).unwrap().1.split_once('"').unwrap().0;
    assert_eq!(text.len(), BYTES);
    assert!(text.bytes().all(|byte| byte == b'x'));
}

/// An answer over 64 MiB is refused with its size and the limit; the session lives on.
#[tokio::test]
async fn answer_over_the_limit_is_refused() {
    const LIMIT: usize = 64 * 1024 * 1024;
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let process = pid(&client, "a").await;
    let (code, message) = error(&client.call("big", json!({"bytes": LIMIT, "sessionId": "a"})).await);
    assert_eq!(code, -32_000);
    assert!(message.starts_with("the engine's answer has 67108"), "{message}");
    assert!(message.ends_with(&format!("bytes or more, at most {LIMIT} are passed on")), "{message}");
    assert_eq!(pid(&client, "a").await, process);
}
