//! Engines that do not start. Each error says why, and greenroom remembers no failure: the next call tries again.

use std::{fs, time::Duration};

use greenroom_testkit::{Client, fake_engine_path, text_of};
use serde_json::{Value, json};

use super::fixture::{FakeEngineSetup, error, failure, pid};

/// An engine command that runs `bad` unless the file `well` exists.
fn broken_engine(bad: &str) -> FakeEngineSetup {
    FakeEngineSetup::new().script(&format!(r#"if [ -e "$0/well" ]; then exec "$@"; fi; {bad}"#))
}

fn repair_engine(setup: &FakeEngineSetup) {
    fs::write(setup.path("well"), "").unwrap();
}

/// Listing tools and opening a session both fail with `expected`, and both work once the engine is well.
async fn fails_and_recovers(setup: &FakeEngineSetup, expected: &str) {
    let client = setup.client().await;
    fails(&client, expected).await;
    repair_engine(setup);
    works(&client).await;
    // The tools are known now: this is the start of a session's own engine.
    fs::remove_file(setup.path("well")).unwrap();
    for tool in ["pid", "create_new_session"] {
        let (code, text) = failure(&client.call(tool, json!({"sessionId": "b"})).await);
        assert_eq!(code, "start_failed");
        assert!(text.contains(expected), "{text}");
    }
    repair_engine(setup);
    pid(&client, "b").await;
    assert_eq!(setup.seats().len(), 2, "a start that failed leaves no folder");
}

async fn fails(client: &Client, expected: &str) {
    for _ in 0..2 {
        let (code, message) = error(&client.request("tools/list", Value::Null).await);
        assert_eq!(code, -32_000);
        assert!(message.starts_with("cannot list the engine's tools: "), "{message}");
        assert!(message.contains(expected), "{message}");
        let (code, text) = failure(&client.call("echo", json!({"text": "a"})).await);
        assert_eq!(code, "start_failed");
        assert!(text.starts_with("cannot start a browser: ") && text.contains(expected), "{text}");
        assert!(text.contains("\n\nhint: "), "{text}");
    }
}

async fn works(client: &Client) {
    let answer = client.call("echo", json!({"text": "well"})).await;
    assert_eq!(text_of(&answer), "well", "and nothing is said of sessions that never began");
}

/// The error for a missing command names it and the setting.
#[tokio::test]
async fn missing_command_error_names_command_and_setting() {
    let setup = FakeEngineSetup::new();
    let program = setup.path("no-such-engine");
    let setup = setup.command(&[program.to_str().unwrap()]);
    let client = setup.client().await;
    fails(&client, &format!("cannot start `{}`: No such file or directory", program.display())).await;
    fails(&client, "hint: check `pool.command`; the program must exist and be executable").await;
    fs::copy(fake_engine_path(), &program).unwrap();
    works(&client).await;
}

/// The error for a command that is not executable names it.
#[tokio::test]
async fn non_executable_command_is_named() {
    let setup = FakeEngineSetup::new();
    let program = setup.file("engine", "#!/bin/sh\nexec \"$@\"\n", 0o600);
    let engine = fake_engine_path();
    let setup = setup.command(&[program.to_str().unwrap(), engine.to_str().unwrap()]);
    let client = setup.client().await;
    fails(&client, &format!("cannot start `{}`: Permission denied", program.display())).await;
    setup.file("engine", "#!/bin/sh\nexec \"$@\"\n", 0o700);
    works(&client).await;
}

/// The error for an engine that dies at its start quotes its output.
#[tokio::test]
async fn engine_exit_at_start_error_quotes_its_output() {
    let setup = broken_engine(r#"exec "$@" --die-at-start --stderr 'no licence found'"#);
    fails_and_recovers(
        &setup,
        "the engine process ended (exit status: 1); its last output: no licence found",
    )
    .await;
}

/// greenroom does not wait for an engine that closes its stdout and stays.
#[tokio::test]
async fn engine_that_closes_stdout_is_not_waited_for() {
    let setup = broken_engine("echo nonsense; exec >&-; exec sleep 1000");
    fails_and_recovers(&setup, "the connection to the engine is closed").await;
}

/// An engine with an unknown revision is refused with that revision.
#[tokio::test]
async fn unknown_engine_revision_is_refused() {
    let setup = broken_engine(r#"exec "$@" --protocol 1999-01-01"#);
    fails_and_recovers(&setup, "the engine speaks protocol revision `1999-01-01`, which greenroom does not")
        .await;
}

/// Garbage before the first message does no harm, nor does a slow start.
#[tokio::test]
async fn garbage_before_the_first_message_is_skipped() {
    let setup = FakeEngineSetup::new().flags(&["--garbage-at-start", "--slow-start", "50"]);
    works(&setup.client().await).await;
}

/// An engine that never answers is given up after 20 s, for all callers that wait, and its process ends. Pings are answered
/// meanwhile.
#[tokio::test]
async fn hanging_engine_start_is_ended() {
    let setup = broken_engine(r#"exec "$@" --hang-at-start"#);
    let client = setup.client().await;
    let begin = std::time::Instant::now();
    let call = client.start_call("echo", json!({"text": "a"})).await;
    setup.log().reached("initialize", 1).await;
    assert_eq!(client.request("ping", Value::Null).await["result"], json!({}));
    let (code, text) = failure(&call.response().await);
    assert_eq!(code, "start_failed");
    assert!(text.contains("the engine did not answer `initialize` within 20 s"), "{text}");
    assert!(begin.elapsed() >= Duration::from_secs(20));
    repair_engine(&setup);
    works(&client).await;
}
