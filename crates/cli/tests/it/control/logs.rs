//! `greenroom logs`: recent lines, and new ones.

use std::process::Stdio;

use greenroom_testkit::{Client, TEST_TIMEOUT, process::Signal, within};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines},
    process::{Child, ChildStdout},
};

use super::run_verb::{greenroom, run_verb};
use crate::front::fixture::FakeEngineSetup;

fn follow(setup: &FakeEngineSetup, arguments: &[&str]) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut child =
        greenroom(setup, arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines)
}

async fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> Option<String> {
    within(TEST_TIMEOUT, lines.next_line()).await.unwrap()
}

async fn open(client: &Client, session: &str) {
    client.call("echo", json!({"sessionId": session, "text": "a"})).await;
}

/// Events are kept at info level, though stderr shows warnings only, and no line holds texts of an agent or a page.
#[tokio::test]
async fn recent_events_are_kept_at_info_level() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    client.call("echo", json!({"sessionId": "a", "text": "a secret"})).await;
    client.call("session_close", json!({"sessionId": "a"})).await;
    let output = run_verb(&setup, &["logs"]).await;
    assert!(output.stdout.contains("Z  session \"a\" opened (instance 0)\n"), "{output:?}");
    assert!(output.stdout.contains("Z  session \"a\" closed\n"), "{output:?}");
    assert!(!output.stdout.contains("greenroom_") && !output.stdout.contains('='), "{output:?}");
    let verbose = run_verb(&setup, &["logs", "--verbose"]).await.stdout;
    assert!(verbose.contains("INFO   greenroom_fleet::fleet: session closed session=local/a"), "{verbose}");
    assert!(!output.stdout.contains("secret"), "{output:?}");
    assert_eq!(client.stderr(), "");
    let lines = run_verb(&setup, &["logs", "--json"]).await.stdout;
    let opened: Value = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .find(|line: &Value| line["message"] == "session opened")
        .unwrap();
    assert_eq!((&opened["pid"], &opened["level"]), (&json!(client.pid()), &json!("INFO")));
    assert_eq!(opened["fields"]["session"], "local/a");
}

/// New lines come as they are written. When the process ends, its last lines and a note come, and that is no failure.
#[tokio::test]
async fn follow_ends_when_the_process_exits() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    open(&client, "early").await;
    let (mut child, mut lines) = follow(&setup, &["logs", "--follow"]);
    while !next(&mut lines).await.unwrap().contains("session \"early\" opened") {}
    open(&client, "late").await;
    while !next(&mut lines).await.unwrap().contains("session \"late\" opened") {}
    client.close_stdin().await;
    assert!(client.wait().await.success());
    while next(&mut lines).await.is_some() {}
    assert_eq!(ended(&mut child).await, (Some(0), format!("pid {} has ended\n", client.pid())));
}

/// `--follow` ends when the process is killed, too.
#[tokio::test]
async fn follow_ends_when_the_process_is_killed() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    open(&client, "a").await;
    let (mut child, mut lines) =
        follow(&setup, &["logs", "-f", "--json", "--pid", &client.pid().to_string()]);
    while !next(&mut lines).await.unwrap().contains("session opened") {}
    client.signal(Signal::KILL);
    client.wait().await;
    while next(&mut lines).await.is_some() {}
    assert_eq!(ended(&mut child).await, (Some(0), format!("pid {} has ended\n", client.pid())));
}

async fn ended(child: &mut Child) -> (Option<i32>, String) {
    let mut stderr = String::new();
    within(TEST_TIMEOUT, child.stderr.take().unwrap().read_to_string(&mut stderr)).await.unwrap();
    (within(TEST_TIMEOUT, child.wait()).await.unwrap().code(), stderr)
}

/// Lines of several greenrooms show their process; a pid without a greenroom is an error.
#[tokio::test]
async fn log_lines_of_several_processes_name_their_pid() {
    let setup = FakeEngineSetup::new();
    let one = setup.client().await;
    let two = setup.client().await;
    open(&one, "a").await;
    open(&two, "b").await;
    let output = run_verb(&setup, &["logs"]).await.stdout;
    let opened: Vec<_> = output.lines().filter(|line| line.contains("\" opened")).collect();
    let [first, second] = opened.as_slice() else { panic!("{output}") };
    assert!(first.starts_with(&format!("pid {}  ", one.pid())) && first.contains("\"a\""), "{output}");
    assert!(second.starts_with(&format!("pid {}  ", two.pid())) && second.contains("\"b\""), "{output}");
    let one_only = run_verb(&setup, &["logs", "--pid", &one.pid().to_string()]).await.stdout;
    assert!(one_only.contains("\"a\"") && !one_only.contains("\"b\""), "{one_only}");
    run_verb(&setup, &["logs", "--pid", "1"]).await.check("logs_of_an_unknown_pid", &setup);
}
