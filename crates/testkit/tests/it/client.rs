//! What the client guarantees: matching, recording, a clean environment, and failures with a reason.

use std::process::Stdio;

use greenroom_testkit::{Client, Launch, fake_engine_path, process, text_of};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{NEWEST, ready};

/// A program that runs a shell script instead of speaking MCP.
fn script(text: &str) -> Client {
    Launch::new("/bin/sh").args(["-c", text]).spawn()
}

/// Answers are matched by id, whatever order they come in, and raw lines get their answers too.
#[tokio::test]
async fn answers_are_matched_by_id() {
    let client = script(
        r#"read a; read b; echo '{"jsonrpc":"2.0","id":2,"result":"second"}'; echo '{"jsonrpc":"2.0","id":1,"result":"first"}'"#,
    );
    let first = client.start("a", Value::Null).await;
    let second = client.start("b", Value::Null).await;
    assert_eq!((first.id(), second.id()), (1, 2));
    assert_eq!(first.response().await["result"], "first");
    assert_eq!(second.response().await["result"], "second");

    let engine = ready(&[]).await;
    engine.send_line(r#"{"jsonrpc":"2.0","id":"mine","method":"ping"}"#).await;
    assert_eq!(engine.next_unmatched().await, json!({"jsonrpc": "2.0", "id": "mine", "result": {}}));
    assert_eq!(engine.unmatched_left(), 0);
}

/// A server's `ping` is answered without a handler.
#[tokio::test]
async fn pings_are_answered() {
    let client =
        script(r#"echo '{"jsonrpc":"2.0","id":"p","method":"ping"}'; read answer; echo "$answer" >&2"#);
    client.wait_for_stderr(r#"{"jsonrpc":"2.0","id":"p","result":{}}"#).await;
}

/// The program sees `PATH`, its own home and what the test gave, and nothing else of this environment.
#[tokio::test]
async fn program_sees_a_clean_environment() {
    let folder = TempDir::new().unwrap();
    let launch = Launch::new("/usr/bin/env").env("GIVEN", "1").cwd(folder.path());
    let client = launch.spawn();
    client.wait().await;
    let mut names: Vec<String> = client
        .transcript()
        .iter()
        .filter_map(|line| Some(line.strip_prefix("<-- ")?.split_once('=')?.0.to_owned()))
        .collect();
    names.sort();
    assert_eq!(names, ["GIVEN", "HOME", "PATH"]);
    assert!(client.home().is_dir());
}

/// A wait that cannot end any more fails at once, with the transcript and the program's stderr.
#[tokio::test]
async fn closed_stdout_fails_the_wait_at_once() {
    let client = script("echo started; echo final output >&2; read line");
    let call = client.start("initialize", json!({"protocolVersion": NEWEST})).await;
    client.wait().await;
    let failure = tokio::spawn(call.response()).await.unwrap_err().into_panic();
    let message = failure.downcast_ref::<String>().unwrap();
    for part in [
        "the answer to `initialize` (id 1)",
        "<-- started",
        "--> {\"jsonrpc\"",
        "final output",
        "exit status: 0",
    ] {
        assert!(message.contains(part), "`{part}` is missing in: {message}");
    }
}

/// Killing and dropping both end the program.
#[tokio::test]
async fn no_program_outlives_its_client() {
    let killed = ready(&[]).await;
    killed.kill();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&killed.wait().await), Some(9));

    let dropped = ready(&[]).await;
    let pid = dropped.pid();
    drop(dropped);
    process::wait_gone(pid).await;
}

/// A big answer and many concurrent calls come through whole.
#[tokio::test]
async fn concurrent_calls_return_whole_answers() {
    let client = ready(&[]).await;
    let mut calls = Vec::new();
    for number in 0..200 {
        calls.push((number, client.start_call("echo", json!({"text": number.to_string()})).await));
    }
    let big = client.start_call("big", json!({"bytes": 5_000_000})).await;
    for (number, call) in calls {
        assert_eq!(text_of(&call.response().await), number.to_string());
    }
    assert_eq!(text_of(&big.response().await).len(), 5_000_000);
}

/// A fake engine without a client writes nothing and exits successfully.
#[tokio::test]
async fn fake_engine_without_a_client_writes_nothing() {
    let output = std::process::Command::new(fake_engine_path()).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty());
}
