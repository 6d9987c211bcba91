//! Sessions end when they are idle, or when their time is over, and a note says so; a call in flight keeps its session.

use greenroom_testkit::{TEST_TIMEOUT, process::wait_gone, text_of, within};
use serde_json::{Value, json};

use super::fixture::{FakeEngineSetup, pid, pid_of, sessions, until_sessions};

/// The note of an answer: its last text, if it has more than one.
fn note(answer: &Value) -> Option<&str> {
    let parts = answer["result"]["content"].as_array().unwrap();
    if parts.len() > 1 { parts[parts.len() - 1]["text"].as_str() } else { None }
}

/// An idle session is closed, with its process and folder, and its successor carries one note.
#[tokio::test]
async fn idle_session_is_closed_with_a_note() {
    let setup = FakeEngineSetup::new().set("sessions.idle_timeout", "300ms");
    let client = setup.client().await;
    let process = pid(&client, "a").await;
    wait_gone(process).await;
    until_sessions(&client, &[]).await;
    let answer = client.call("pid", json!({"sessionId": "a"})).await;
    assert_ne!(pid_of(&answer), process);
    let expected = "session restarted: it was closed after 300 ms without a call; this is a new, empty browser, earlier pages, cookies and refs are gone";
    assert_eq!(note(&answer), Some(expected));
    let mut first = pid_of(&answer);
    // The next answer has no note, unless this machine slept over the timeout meanwhile.
    loop {
        let answer = client.call("pid", json!({"sessionId": "a"})).await;
        if pid_of(&answer) == first {
            assert_eq!(note(&answer), None);
            break;
        }
        first = pid_of(&answer);
    }
}

/// A call longer than the idle timeout keeps its session: a neighbour that began later ends meanwhile.
#[tokio::test]
async fn running_call_keeps_its_session() {
    let setup = FakeEngineSetup::new().set("sessions.idle_timeout", "500ms");
    let client = setup.client().await;
    let gate = setup.gate("gate");
    // Sent without a pause, so that the session is never idle between them.
    let before = client.start_call("pid", json!({"sessionId": "a"})).await;
    let held = client.start_call("wait", json!({"file": gate.path(), "sessionId": "a"})).await;
    let after = client.start_call("pid", json!({"sessionId": "a"})).await;
    gate.arrived(1).await;
    let neighbour = pid(&client, "b").await;
    wait_gone(neighbour).await;
    let held_session = sessions(&client).await.into_iter().find(|session| session["id"] == "a").unwrap();
    assert_eq!((&held_session["state"], &held_session["expiresInSeconds"]), (&json!("busy"), &Value::Null));
    gate.open();
    let before = before.response().await;
    let held = held.response().await;
    let after = after.response().await;
    assert_eq!(text_of(&held), "released");
    assert_eq!(pid_of(&after), pid_of(&before));
    assert_eq!(note(&after), None);
}

/// A session at the end of its lifetime ends, used or not, and its successor carries a note.
#[tokio::test]
async fn session_ends_at_its_lifetime() {
    let setup = FakeEngineSetup::new().set("sessions.max_lifetime", "400ms");
    let client = setup.client().await;
    let process = pid(&client, "a").await;
    wait_gone(process).await;
    until_sessions(&client, &[]).await;
    let answer = client.call("pid", json!({"sessionId": "a"})).await;
    // On a slow machine the new session is already near its own end, and the answer warns of that too.
    let text = text_of(&answer);
    assert!(text.contains("\nsession restarted: it reached its maximum lifetime of 400 ms;"), "{text}");
}

/// Answers warn near the end of a lifetime; `session_renew` restarts it, and then they do not warn.
#[tokio::test]
async fn session_renew_restarts_the_lifetime() {
    let setup = FakeEngineSetup::new().set("sessions.max_lifetime", "6s");
    let client = setup.client().await;
    let first = client.call("pid", json!({"sessionId": "a"})).await;
    assert_eq!(note(&first), None);
    let warned = within(TEST_TIMEOUT, async {
        loop {
            let answer = client.call("pid", json!({"sessionId": "a"})).await;
            if note(&answer).is_some() {
                break answer;
            }
        }
    });
    let warned = warned.await;
    let warning = note(&warned).unwrap();
    assert!(warning.starts_with("session ends in ") && warning.contains("call session_renew"), "{warning}");
    assert_eq!(pid_of(&warned), pid_of(&first));
    let renewed = text_of(&client.call("session_renew", json!({"sessionId": "a"})).await);
    assert_eq!(renewed, "session renewed: it ends in 6 s, or after 5 min without a call");
    let after = client.call("pid", json!({"sessionId": "a"})).await;
    assert_eq!((pid_of(&after), note(&after)), (pid_of(&first), None));
}
