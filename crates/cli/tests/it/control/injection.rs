//! Ids and texts of agents and files cannot forge a line or control a terminal.

use greenroom_testkit::{eventually, http::HttpMcpClient};
use serde_json::json;

use super::run_verb::run_verb;
use crate::front::fixture::{FakeEngineSetup, NEWEST};

/// Begins a forged line of the log, clears the screen, turns the writing direction, and uses a C1 control.
const HOSTILE: &str =
    "x\r\n2026-01-01T00:00:00.000000Z ERROR greenroom: forged\x1b[2J\u{9b}31m\u{202e}\u{2028}\u{7f}";

/// Whether a text has nothing that begins a line or controls a terminal, except the ends of its own lines.
fn is_harmless(text: &str) -> bool {
    !text.contains(|c: char| c != '\n' && c.is_control())
        && !text.contains(['\u{202e}', '\u{2028}'])
        && !text.lines().any(|line| line.starts_with("2026-01-01"))
}

/// A session id with line breaks and escape sequences is one line of the server's log, and controls no terminal there, in
/// `greenroom logs`, in tables or in errors.
#[tokio::test]
async fn session_id_is_escaped_in_logs_and_tables() {
    let setup = FakeEngineSetup::new().set("log", "info");
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    client.call("echo", json!({"text": "a", "sessionId": HOSTILE})).await;
    let listed = run_verb(&setup, &["sessions", "list"]).await;
    let shown = run_verb(&setup, &["status"]).await;
    client.call("session_close", json!({"sessionId": HOSTILE})).await;
    eventually("the session's end in the log", || server.stderr().contains("forged").then_some(())).await;
    let log = server.stderr();
    assert!(is_harmless(&log), "{log:?}");
    assert!(log.contains(r"x\r\n2026"), "it is written out: {log}");
    let logged = run_verb(&setup, &["logs"]).await;
    let as_json = run_verb(&setup, &["logs", "--json"]).await;
    for output in [&listed, &shown, &logged, &as_json] {
        assert!(is_harmless(&output.stdout) && is_harmless(&output.stderr), "{output:?}");
        assert!(output.stdout.contains("forged"), "{output:?}");
    }
    let missing = run_verb(&setup, &["sessions", "show", HOSTILE]).await;
    assert!(missing.code == 1 && is_harmless(&missing.stderr), "{missing:?}");
}

/// A configuration file from elsewhere cannot control the terminal either: errors escape its texts.
#[test]
fn config_errors_escape_control_characters() {
    for (text, shown) in
        [(r#"log = "info\u001b[2J\u009b31m""#, r"\u{9b}31m"), (r#""a\u001b[2J\u202e" = 1"#, r"\u{202e}")]
    {
        let output =
            crate::cli_fixture::CliFixture::new().file("cwd/greenroom.toml", text).run(&["config", "show"]);
        assert!(output.starts_with("exit code: 2") && is_harmless(&output), "{output:?}");
        assert!(output.contains(shown), "{output}");
    }
}
