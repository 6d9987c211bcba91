//! `greenroom logs --session`: what happened in a session, while it is open, after it was closed, and when no greenroom
//! runs.

use std::process::Stdio;

use greenroom_testkit::{TEST_TIMEOUT, process::Signal, within};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::run_verb::{greenroom, run_verb};
use crate::front::fixture::FakeEngineSetup;

/// People read time, kind and text; programs an object a line; both also after every greenroom has ended.
#[tokio::test]
async fn timeline_is_printed_during_and_after_a_run() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    client.call("echo", json!({"sessionId": "a", "text": "a"})).await;
    client.call("fail", json!({"sessionId": "a", "message": "no luck"})).await;
    client.call("echo", json!({"sessionId": "b", "text": "b"})).await;
    let check = async || {
        let output = run_verb(&setup, &["logs", "--session", "a"]).await;
        let lines: Vec<_> = output.stdout.lines().map(|line| line.split_once("  ").unwrap().1).collect();
        assert_eq!((output.code, lines.len()), (0, 3), "{output:?}");
        assert!(
            lines[0].starts_with("call     echo (") && lines[1].starts_with("call     fail failed ("),
            "{lines:?}"
        );
        assert_eq!(lines[2], "error    no luck");
        let output = run_verb(&setup, &["logs", "--session", "a", "--json"]).await;
        let events: Vec<Value> =
            output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let kinds: Vec<_> = events.iter().map(|event| event["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["call", "call", "error"]);
    };
    check().await;
    client.signal(Signal::KILL);
    client.wait().await;
    check().await;
    let followed = run_verb(&setup, &["logs", "--session", "a", "--follow"]).await;
    assert_eq!((followed.code, followed.stdout.lines().count()), (0, 3), "{followed:?}");
}

/// Following prints calls as they end, and ends with the session.
#[tokio::test]
async fn timeline_follow_ends_with_the_session() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    client.call("echo", json!({"sessionId": "a", "text": "a"})).await;
    let mut child = greenroom(&setup, &["logs", "--session", "a", "-f"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || within(TEST_TIMEOUT, lines.next_line()).await.unwrap();
    assert!(next().await.unwrap().contains("call     echo"));
    let gate = setup.gate("gate");
    let waiting = client.start_call("wait", json!({"sessionId": "a", "file": gate.path()})).await;
    gate.arrived(1).await;
    gate.open();
    waiting.response().await;
    assert!(next().await.unwrap().contains("call     wait ("));
    client.call("session_close", json!({"sessionId": "a"})).await;
    assert_eq!(next().await, None);
    assert!(within(TEST_TIMEOUT, child.wait()).await.unwrap().success());
}

/// An unknown session is an error that says so, as are a data folder without records and a pid without a greenroom.
#[tokio::test]
async fn timeline_of_an_unknown_session_is_an_error() {
    let setup = FakeEngineSetup::new();
    run_verb(&setup, &["logs", "--session", "a"]).await.check("timeline_without_records", &setup);
    let client = setup.client().await;
    client.call("echo", json!({"sessionId": "a", "text": "a"})).await;
    run_verb(&setup, &["logs", "--session", "b"]).await.check("timeline_of_an_unknown_session", &setup);
    run_verb(&setup, &["logs", "--session", "a", "--pid", "1"])
        .await
        .check("timeline_of_a_wrong_pid", &setup);
    let other = run_verb(&setup, &["logs", "--session", "a", "--owner", "other"]).await;
    assert_eq!((other.code, other.stdout.as_str()), (1, ""), "{other:?}");
}
