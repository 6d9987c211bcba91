//! Revision 2026-07-28: a question is a result, and the next request brings the answer.

use std::fs;

use greenroom_testkit::{
    http::{Server, stateless},
    text_of,
};
use serde_json::{Value, json};

use super::{http_client, until_in_flight};
use crate::front::fixture::{FakeEngineSetup, error, failure};

async fn send(server: &Server, params: Value) -> Value {
    let request = stateless(1, "tools/call", params, json!({"elicitation": {}, "sampling": {}}));
    server.post_stateless(&request).await.answer().await
}

fn elicit(message: &str) -> Value {
    json!({"name": "elicit", "arguments": {"message": message, "sessionId": "a"}})
}

/// The same call, with the responses it waits for.
fn retry(mut params: Value, state: &Value, responses: Value) -> Value {
    params["requestState"] = state.clone();
    params["inputResponses"] = responses;
    params
}

#[track_caller]
fn question_and_state(answer: &Value) -> (&Value, &Value) {
    let result = &answer["result"];
    assert_eq!(result["resultType"], "input_required", "{answer}");
    assert_eq!(result["inputRequests"]["q1"]["method"], "elicitation/create", "{answer}");
    (&result["requestState"], &result["inputRequests"]["q1"]["params"])
}

/// A question comes as a result; the retry brings the answer, and the call completes without running twice.
#[tokio::test]
async fn retry_with_the_input_completes_the_call() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let answer = send(&server, elicit("which?")).await;
    let (state, question) = question_and_state(&answer);
    assert_eq!(question["message"], "which?");
    let responses = json!({"q1": {"action": "accept", "content": {"answer": "blue"}}, "q9": {}});
    let done = send(&server, retry(elicit("which?"), state, responses)).await;
    assert_eq!(done["result"]["resultType"], "complete");
    assert!(text_of(&done).contains("blue"), "{done}");
    assert_eq!(setup.log().count("tools/call elicit"), 1);
}

/// A question without an answer is asked again, under another state.
#[tokio::test]
async fn retry_without_the_input_asks_again() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let first = send(&server, elicit("which?")).await;
    let second =
        send(&server, retry(elicit("which?"), question_and_state(&first).0, json!({"other": {}}))).await;
    assert_ne!(question_and_state(&first).0, question_and_state(&second).0);
    let mut params = elicit("which?");
    params["requestState"] = question_and_state(&second).0.clone();
    let third = send(&server, params).await;
    let done =
        send(&server, retry(elicit("which?"), question_and_state(&third).0, json!({"q1": {"said": "blue"}})))
            .await;
    assert!(text_of(&done).contains("blue"), "{done}");
    assert_eq!(setup.log().count("tools/call elicit"), 1);
}

/// A state is valid once and for its own call; any other use is refused, and does not affect the call.
#[tokio::test]
async fn request_state_is_valid_once_for_its_call() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let answer = send(&server, elicit("which?")).await;
    let state = question_and_state(&answer).0;
    let responses = json!({"q1": {"said": "blue"}});
    for (params, says) in [
        (retry(elicit("which?"), &json!("guessed"), responses.clone()), "is unknown"),
        (retry(elicit("another?"), state, responses.clone()), "belongs to another call"),
        (
            retry(json!({"name": "sample", "arguments": {"sessionId": "a"}}), state, responses.clone()),
            "another call",
        ),
        (retry(elicit("which?"), &json!(7), responses.clone()), "`requestState` must be text"),
        (retry(elicit("which?"), state, json!(7)), "`inputResponses` must be an object"),
    ] {
        let (code, why) = error(&send(&server, params).await);
        assert_eq!(code, -32602, "{why}");
        assert!(why.contains(says), "{why}");
    }
    let done = send(&server, retry(elicit("which?"), state, responses.clone())).await;
    assert!(text_of(&done).contains("blue"), "{done}");
    let used = send(&server, retry(elicit("which?"), state, responses)).await;
    assert!(error(&used).1.contains("used already"), "{used}");
}

/// A client that never comes back: the call ends by its own deadline, the engine learns that no client answers, the
/// session is free, and a client that comes back late gets the outcome.
#[tokio::test]
async fn call_without_a_retry_ends_at_its_deadline() {
    let setup = FakeEngineSetup::new()
        .set("pool.timeout", "1s")
        .set("pool.warm", "0")
        .script(r#"while [ -e "$0/closed" ]; do sleep 0.01; done; exec "$@""#);
    let server = setup.serve().await;
    let client = http_client(&server).await;
    client.request("tools/list", json!({})).await;
    // Take the server's first browser, and let the next one start only when a call waits behind the one that asks: the
    // deadline of that call begins then, so the waiting call cannot come too late.
    client.call("create_new_session", json!({"sessionId": "other"})).await;
    fs::write(setup.path("closed"), "").unwrap();
    let echo = || send(&server, json!({"name": "echo", "arguments": {"text": "on", "sessionId": "a"}}));
    let waits_behind = async {
        until_in_flight(&client, "a", 1).await;
        echo().await
    };
    let starts = async {
        until_in_flight(&client, "a", 2).await;
        fs::remove_file(setup.path("closed")).unwrap();
    };
    let (answer, behind, ()) = tokio::join!(send(&server, elicit("which?")), waits_behind, starts);
    let state = question_and_state(&answer).0.clone();
    assert_eq!(failure(&behind).0, "not_run", "{behind}");
    let text = text_of(&echo().await);
    assert!(text.starts_with("on\nsession restarted: "), "{text}");
    let late = send(&server, retry(elicit("which?"), &state, json!({"q1": {}}))).await;
    assert_eq!(failure(&late).0, "session_lost", "{late}");
}

/// A client without the capability is not asked.
#[tokio::test]
async fn client_without_elicitation_is_not_asked() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let request = stateless(1, "tools/call", elicit("which?"), json!({}));
    let answer = server.post_stateless(&request).await.answer().await;
    assert_eq!(answer["result"]["resultType"], "complete");
    assert!(text_of(&answer).contains("elicitation"), "{answer}");
}
