//! A session that the operator closes: its agent learns of it.

use greenroom_testkit::text_of;
use serde_json::json;

use super::ask::ask;
use crate::front::stage::{Stage, failure};

/// Closing a session during a call: the call gets the error for it, and the next one says why its browser is new.
#[tokio::test]
async fn closing_a_session_fails_its_running_call() {
    let stage = Stage::new();
    let client = stage.client().await;
    let gate = stage.gate("gate");
    let call = client.start_call("wait", json!({"file": gate.path(), "sessionId": "a"})).await;
    gate.arrived(1).await;
    let said = ask(&stage, &["sessions", "close", "a"]).await;
    assert_eq!((said.code, said.stdout), (0, format!("closed \"a\" (pid {})\n", client.pid())));
    let (code, text) = failure(&call.response().await);
    assert_eq!(code, "session_closed", "{text}");
    let next = text_of(&client.call("echo", json!({"sessionId": "a", "text": "hello"})).await);
    assert!(next.starts_with("hello\nsession restarted: it was closed by hand"), "{next}");
    let later = text_of(&client.call("echo", json!({"sessionId": "a", "text": "hello"})).await);
    assert_eq!(later, "hello");
}
