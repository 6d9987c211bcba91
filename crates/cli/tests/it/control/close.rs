//! When the operator closes a session, its agent learns of it.

use greenroom_testkit::text_of;
use serde_json::json;

use super::run_verb::run_verb;
use crate::front::fixture::{FakeEngineSetup, failure};

/// A call during which the operator closes its session gets an error, and the next answer says why its browser is new.
#[tokio::test]
async fn closing_a_session_fails_its_running_call() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let gate = setup.gate("gate");
    let call = client.start_call("wait", json!({"file": gate.path(), "sessionId": "a"})).await;
    gate.arrived(1).await;
    let output = run_verb(&setup, &["sessions", "close", "a"]).await;
    assert_eq!((output.code, output.stdout), (0, format!("closed \"a\" (pid {})\n", client.pid())));
    let (code, text) = failure(&call.response().await);
    assert_eq!(code, "session_closed", "{text}");
    let next = text_of(&client.call("echo", json!({"sessionId": "a", "text": "hello"})).await);
    assert!(next.starts_with("hello\nsession restarted: it was closed by hand"), "{next}");
    let later = text_of(&client.call("echo", json!({"sessionId": "a", "text": "hello"})).await);
    assert_eq!(later, "hello");
}
