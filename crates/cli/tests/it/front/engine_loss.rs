//! An engine that dies, hangs or writes garbage costs one session at most, and every caller learns what happened.

use greenroom_testkit::{
    eventually,
    process::{alive, wait_gone},
    text_of,
};
use serde_json::json;

use super::fixture::{
    FakeEngineSetup, error, failure, pid, pid_of, retryable, until_in_flight, until_sessions,
};

/// An engine dies during a call: the call's error says how, with the engine's last output; the next answer says that this
/// is another browser, the one after it does not; other sessions notice nothing.
#[tokio::test]
async fn engine_death_fails_the_running_call() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let process = pid(&client, "a").await;
    let neighbour = pid(&client, "b").await;
    let answer = client.call("die", json!({"sessionId": "a", "code": 7, "stderr": "out of luck"})).await;
    let (code, text) = failure(&answer);
    assert_eq!((code.as_str(), retryable(&answer)), ("session_lost", false));
    let expected = "the session was lost during this call: the engine process ended (exit status: 7); its last output: out of luck\n\nhint: whether the call had its effect is not known; the next call begins with a new, empty page";
    assert_eq!(text, expected);
    let next = client.call("pid", json!({"sessionId": "a"})).await;
    assert_ne!(pid_of(&next), process);
    let note = next["result"]["content"][1]["text"].as_str().unwrap();
    let expected = "session restarted: the engine process ended (exit status: 7); its last output: out of luck; this is a new, empty browser";
    assert!(note.starts_with(expected), "{note}");
    assert_eq!(text_of(&client.call("echo", json!({"text": "x", "sessionId": "a"})).await), "x");
    assert_eq!(pid(&client, "b").await, neighbour);
}

/// An engine that dies between calls is noticed at once, without a call; the next answer carries a note.
#[tokio::test]
async fn engine_death_between_calls_is_noticed() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    assert_eq!(text_of(&client.call("die_after", json!({"sessionId": "a"})).await), "dying");
    until_sessions(&client, &[]).await;
    let next = client.call("get", json!({"key": "k", "sessionId": "a"})).await;
    assert_eq!(next["result"]["content"][0]["text"], "(unset)");
    assert!(
        text_of(&next).contains("session restarted: the engine process ended (exit status: 1)"),
        "{next}"
    );
    // greenroom removes the folder while the next engine starts.
    eventually("the end of the dead one's folder", || (setup.seats().len() == 1).then_some(())).await;
}

/// The connection's own session is restarted like any other.
#[tokio::test]
async fn lost_unnamed_session_is_restarted() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    assert_eq!(failure(&client.call("die", json!({})).await).0, "session_lost");
    assert!(text_of(&client.call("pid", json!({})).await).contains("session restarted"));
    assert!(!text_of(&client.call("pid", json!({})).await).contains("session restarted"));
}

/// Calls that waited behind the one that killed the engine are not run, and their errors say so.
#[tokio::test]
async fn queued_calls_of_a_lost_engine_are_not_run() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let gate = setup.gate("gate");
    let held = client.start_call("wait", json!({"file": gate.path(), "sessionId": "a"})).await;
    gate.arrived(1).await;
    let die = client.start_call("die", json!({"sessionId": "a"})).await;
    let set = client.start_call("set", json!({"key": "k", "value": "v", "sessionId": "a"})).await;
    until_in_flight(&client, "a", 3).await;
    gate.open();
    held.response().await;
    assert_eq!(failure(&die.response().await).0, "session_lost");
    let answer = set.response().await;
    let (code, text) = failure(&answer);
    assert_eq!((code.as_str(), retryable(&answer)), ("not_run", true));
    assert!(
        text.starts_with("the session was lost before this call ran: the engine process ended"),
        "{text}"
    );
    assert_eq!(setup.log().count("tools/call set"), 0);
}

/// An engine that does not answer is given up after `pool.timeout`; its process ends, and the next answer carries a note.
#[tokio::test]
async fn hanging_engine_is_ended_after_the_timeout() {
    let setup = FakeEngineSetup::new().set("pool.timeout", "1s");
    let client = setup.client().await;
    let process = pid(&client, "a").await;
    let (code, text) = failure(&client.call("hang", json!({"sessionId": "a"})).await);
    assert_eq!(code, "session_lost");
    assert!(
        text.starts_with("the session was lost during this call: the engine did not answer within 1 s"),
        "{text}"
    );
    wait_gone(process).await;
    let next = text_of(&client.call("pid", json!({"sessionId": "a"})).await);
    assert!(next.contains("session restarted: the engine did not answer within 1 s"), "{next}");
}

/// A cancelled call that never ends is given up after its deadline too, and its session's next answer carries a note.
#[tokio::test]
async fn hanging_cancelled_call_is_ended() {
    let setup = FakeEngineSetup::new().set("pool.timeout", "1s");
    let client = setup.client().await;
    let process = pid(&client, "a").await;
    let hanging = client.start_call("hang", json!({"sessionId": "a"})).await;
    setup.log().reached("tools/call hang", 1).await;
    client.cancel(hanging.id()).await;
    wait_gone(process).await;
    until_sessions(&client, &[]).await;
    let next = text_of(&client.call("pid", json!({"sessionId": "a"})).await);
    assert!(next.contains("session restarted: the engine did not answer within 1 s"), "{next}");
}

/// Garbage on the engine's stdout, and a tool that fails, destroy nothing.
#[tokio::test]
async fn engine_garbage_and_failed_tools_keep_the_session() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let process = pid(&client, "a").await;
    assert_eq!(text_of(&client.call("garbage", json!({"sessionId": "a"})).await), "after garbage");
    let failed = client.call("fail", json!({"message": "no", "sessionId": "a"})).await;
    assert_eq!((&failed["result"]["isError"], text_of(&failed).as_str()), (&json!(true), "no"));
    let refused = client.call("rpc_error", json!({"code": -5, "message": "no", "sessionId": "a"})).await;
    assert_eq!(error(&refused), (-5, "no".to_owned()));
    assert_eq!(pid(&client, "a").await, process);
    assert!(alive(process));
}

/// Notes for the agent come with a JSON-RPC error as well, in its message.
#[tokio::test]
async fn notes_are_added_to_json_rpc_errors() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    client.call("die", json!({"sessionId": "a"})).await;
    let arguments = json!({"code": -5, "message": "bad luck", "data": [1], "sessionId": "a"});
    let answer = client.call("rpc_error", arguments.clone()).await;
    let (code, message) = error(&answer);
    assert_eq!((code, &answer["error"]["data"]), (-5, &json!([1])));
    assert!(message.starts_with("bad luck\nsession restarted: "), "{message}");
    assert_eq!(error(&client.call("rpc_error", arguments).await), (-5, "bad luck".to_owned()), "said once");
}
