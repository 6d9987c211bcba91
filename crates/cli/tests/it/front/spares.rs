//! Spares of a custom engine: processes that run before the first call.

use greenroom_testkit::{Client, process::children, text_of};
use serde_json::{Value, json};

use super::fixture::{FakeEngineSetup, pid};

/// greenroom with a spare, and its processes before the first call.
async fn start_with_spare(capabilities: Value) -> (FakeEngineSetup, Client, Vec<u32>) {
    let setup = FakeEngineSetup::new().set("pool.warm", "1").set("log", "info");
    let client = setup.client_with(capabilities).await;
    client.wait_for_stderr("spare ready").await;
    let before = children(client.pid());
    (setup, client, before)
}

/// An agent without capabilities gets the process that was there before its call.
#[tokio::test]
async fn session_gets_the_spare() {
    let (_setup, client, before) = start_with_spare(json!({})).await;
    let first = pid(&client, "a").await;
    assert!(before.contains(&first), "{first} is none of {before:?}");
    assert_ne!(pid(&client, "b").await, first);
}

/// An agent with the capability to answer questions gets a process of its own, which knows of it and asks.
#[tokio::test]
async fn agent_that_can_answer_questions_gets_its_own_process() {
    let (_setup, client, before) = start_with_spare(json!({ "elicitation": {} })).await;
    let first = pid(&client, "a").await;
    assert!(!before.contains(&first), "{first} is one of {before:?}");
    client.on_request("elicitation/create", |_| json!({ "action": "decline" }));
    let answer = client.call("elicit", json!({ "sessionId": "a", "message": "who?" })).await;
    assert!(text_of(&answer).contains("decline"), "{answer}");
}
