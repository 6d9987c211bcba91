//! The fake engine's faults: each happens as its flag or tool says, and only then.

use greenroom_testkit::{
    EngineLog, Gate,
    process::{Signal, signal},
    text_of,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{NEWEST, ready, spawned};

/// Calls that wait or hang delay no other call, and a gate tells when calls arrive and lets them go on.
#[tokio::test]
async fn waiting_calls_delay_no_other_call() {
    let folder = TempDir::new().unwrap();
    let gate = Gate::new(folder.path(), "gate");
    let client = ready(&[]).await;
    let mut hanging = client.start_call("hang", json!({})).await;
    let first = client.start_call("wait", json!({"file": gate.path()})).await;
    let mut second = client.start_call("wait", json!({"file": gate.path()})).await;
    gate.arrived(2).await;
    assert_eq!(text_of(&client.call("echo", json!({"text": "meanwhile"})).await), "meanwhile");
    assert!(second.response_now().is_none());
    gate.open();
    assert_eq!(text_of(&first.response().await), "released");
    assert_eq!(text_of(&second.response().await), "released");
    assert_eq!(text_of(&client.call("sleep", json!({"ms": 1})).await), "slept");
    assert!(hanging.response_now().is_none());
}

/// `die` ends the process without an answer, with its exit code and its text on stderr.
#[tokio::test]
async fn die_ends_the_process_during_the_call() {
    let client = ready(&[]).await;
    let call = client.start_call("die", json!({"code": 7, "stderr": "out of memory"})).await;
    assert_eq!(call.response_or_end().await, None);
    assert_eq!(client.wait().await.code(), Some(7));
    assert_eq!(client.stderr(), "out of memory\n");
}

/// `die_after` answers first.
#[tokio::test]
async fn die_after_ends_the_process_after_the_answer() {
    let client = ready(&[]).await;
    assert_eq!(text_of(&client.call("die_after", json!({})).await), "dying");
    assert_eq!(client.wait().await.code(), Some(1));
}

/// Garbage and foreign responses come before the right answer.
#[tokio::test]
async fn broken_protocol_comes_before_the_answer() {
    let client = ready(&["--garbage-at-start"]).await;
    assert_eq!(client.transcript().iter().filter(|line| *line == "<-- this is not JSON").count(), 1);
    assert_eq!(text_of(&client.call("garbage", json!({})).await), "after garbage");
    assert_eq!(client.transcript().iter().filter(|line| *line == "<-- this is not JSON").count(), 2);
    assert_eq!(text_of(&client.call("unknown_id", json!({})).await), "right");
    assert_eq!(client.next_unmatched().await["id"], "nobody-asked");
}

/// A failed tool is a result, a protocol error is an error, and both have the requested text.
#[tokio::test]
async fn failures_come_in_both_kinds() {
    let client = ready(&[]).await;
    let failed = client.call("fail", json!({"message": "no such element"})).await;
    assert_eq!(failed["result"]["isError"], true);
    assert_eq!(text_of(&failed), "no such element");
    let error = json!({"code": -32_050, "message": "odd", "data": {"n": [1]}});
    assert_eq!(client.call("rpc_error", error.clone()).await["error"], error);
}

/// Engines that cannot start fail each in their own way.
#[tokio::test]
async fn engine_start_fails_as_its_flags_say() {
    let dead = spawned(&["--die-at-start", "--stderr", "no browser found"]);
    assert_eq!(dead.wait().await.code(), Some(1));
    assert_eq!(dead.stderr(), "no browser found\n");

    let hanging = spawned(&["--hang-at-start"]);
    let mut initialize = hanging.start("initialize", json!({"protocolVersion": NEWEST})).await;
    // Requests are answered in order, so an answered ping proves that `initialize` was ignored.
    assert_eq!(hanging.request("ping", Value::Null).await["result"], json!({}));
    assert!(initialize.response_now().is_none());

    assert_eq!(spawned(&["--no-such-flag"]).wait().await.code(), Some(2));
    assert!(ready(&["--slow-start", "1"]).await.stderr().is_empty());
}

/// The engine ends with its stdin, even while a call hangs.
#[tokio::test]
async fn closed_stdin_ends_the_engine() {
    let folder = TempDir::new().unwrap();
    let gate = Gate::new(folder.path(), "gate");
    let client = ready(&[]).await;
    let waiting = client.start_call("wait", json!({"file": gate.path()})).await;
    gate.arrived(1).await;
    client.close_stdin().await;
    assert!(client.wait().await.success());
    assert_eq!(waiting.response_or_end().await, None);
}

/// With either flag the engine logs SIGTERM; with `--ignore-sigterm` it goes on.
#[tokio::test]
async fn sigterm_is_logged_where_a_flag_asks() {
    for (flag, lives) in [("--log-sigterm", false), ("--ignore-sigterm", true)] {
        let folder = TempDir::new().unwrap();
        let log = EngineLog::at(folder.path().join("log"));
        let client = ready(&["--log", log.path().to_str().unwrap(), flag]).await;
        signal(client.pid(), Signal::TERM);
        log.reached("SIGTERM", 1).await;
        if lives {
            assert_eq!(text_of(&client.call("echo", json!({"text": "still here"})).await), "still here");
        } else {
            assert_eq!(client.wait().await.code(), Some(0));
        }
    }
}
