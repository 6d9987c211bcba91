//! Texts of agents and files on terminals: ids and texts that would forge a line or control a terminal.

use greenroom_testkit::{eventually, http::Remote};
use serde_json::json;

use super::ask::ask;
use crate::front::stage::{NEWEST, Stage};

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
    let stage = Stage::new().set("log", "info");
    let server = stage.serve().await;
    let client = Remote::open(&server, NEWEST, json!({})).await;
    client.call("echo", json!({"text": "a", "sessionId": HOSTILE})).await;
    let listed = ask(&stage, &["sessions", "list"]).await;
    let shown = ask(&stage, &["status"]).await;
    client.call("session_close", json!({"sessionId": HOSTILE})).await;
    eventually("the session's end in the log", || server.stderr().contains("forged").then_some(())).await;
    let log = server.stderr();
    assert!(is_harmless(&log), "{log:?}");
    assert!(log.contains(r"x\r\n2026"), "it is written out: {log}");
    let kept = ask(&stage, &["logs"]).await;
    let as_json = ask(&stage, &["logs", "--json"]).await;
    for said in [&listed, &shown, &kept, &as_json] {
        assert!(is_harmless(&said.stdout) && is_harmless(&said.stderr), "{said:?}");
        assert!(said.stdout.contains("forged"), "{said:?}");
    }
    let missing = ask(&stage, &["sessions", "show", HOSTILE]).await;
    assert!(missing.code == 1 && is_harmless(&missing.stderr), "{missing:?}");
}

/// A configuration from elsewhere controls no terminal either: errors escape its texts.
#[test]
fn config_errors_escape_control_characters() {
    for (text, shown) in
        [(r#"log = "info\u001b[2J\u009b31m""#, r"\u{9b}31m"), (r#""a\u001b[2J\u202e" = 1"#, r"\u{202e}")]
    {
        let said = crate::run::Place::new().file("cwd/greenroom.toml", text).run(&["config", "show"]);
        assert!(said.starts_with("exit code: 2") && is_harmless(&said), "{said:?}");
        assert!(said.contains(shown), "{said}");
    }
}
