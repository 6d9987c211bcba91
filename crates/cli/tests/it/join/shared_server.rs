//! A front passes on the messages of its client and its server, in order and unchanged.

use greenroom_testkit::text_of;
use serde_json::json;

use crate::{
    control::run_verb::run_verb,
    front::fixture::{FakeEngineSetup, NEWEST, sessions, tool_names},
};

/// Fronts join the running server: one process has browsers and all the sessions. All fronts share the named ones; a
/// front's own is its own.
#[tokio::test]
async fn fronts_share_the_running_server() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let first = setup.client_with(json!({})).await;
    let second = setup.client_with(json!({})).await;
    for (client, arguments) in [
        (&first, json!({"key": "k", "value": "mine"})),
        (&first, json!({"key": "k", "value": "ours", "sessionId": "s"})),
    ] {
        assert_eq!(text_of(&client.call("set", arguments).await), "set");
    }
    assert_eq!(text_of(&second.call("get", json!({"key": "k"})).await), "(unset)");
    assert_eq!(text_of(&second.call("get", json!({"key": "k", "sessionId": "s"})).await), "ours");
    assert_eq!(sessions(&second).await.len(), 2, "its own and the named one");
    let all = run_verb(&setup, &["status", "--json"]).await.json();
    assert_eq!((all.as_array().unwrap().len(), &all[0]["pid"]), (1, &json!(server.pid())), "{all}");
    assert_eq!(all[0]["sessions"].as_array().unwrap().len(), 3, "{all}");
    assert_eq!(server.stderr(), "", "joining is nothing to warn of");
}

/// A front's end closes its own session, and keeps named ones.
#[tokio::test]
async fn front_exit_closes_only_its_unnamed_session() {
    let setup = FakeEngineSetup::new().set("pool.warm", "0");
    let _server = setup.serve().await;
    let leaves = setup.client_with(json!({})).await;
    let stays = setup.client_with(json!({})).await;
    leaves.call("set", json!({"key": "k", "value": "own"})).await;
    leaves.call("set", json!({"key": "k", "value": "named", "sessionId": "s"})).await;
    assert_eq!(setup.seats().len(), 2);
    leaves.close_stdin().await;
    assert!(leaves.wait().await.success());
    greenroom_testkit::eventually("the end of its session", || (setup.seats().len() == 1).then_some(()))
        .await;
    assert_eq!(text_of(&stays.call("get", json!({"key": "k", "sessionId": "s"})).await), "named");
}

/// Calls that a client does not wait for keep their order through the front.
#[tokio::test]
async fn call_order_is_kept_through_the_front() {
    let setup = FakeEngineSetup::new();
    let _server = setup.serve().await;
    let client = setup.client_with(json!({})).await;
    let mut calls = Vec::new();
    for n in 0..60 {
        calls.push(
            client.start_call("set", json!({"key": "k", "value": n.to_string(), "sessionId": "s"})).await,
        );
    }
    assert_eq!(text_of(&client.call("get", json!({"key": "k", "sessionId": "s"})).await), "59");
    for call in calls {
        assert_eq!(text_of(&call.response().await), "set");
    }
}

/// Progress, questions and cancellations pass, and so do roots: a front on this machine has its folders.
#[tokio::test]
async fn progress_questions_and_roots_pass_the_front() {
    let setup = FakeEngineSetup::new();
    let _server = setup.serve().await;
    let client = setup.client().await;
    client.on_request("roots/list", |_| json!({"roots": []}));
    client.on_request("elicitation/create", |params| json!({"echo": params["message"]}));
    let params = json!({"name": "progress", "arguments": {"steps": 2}, "_meta": {"progressToken": "p"}});
    client.request("tools/call", params).await;
    assert_eq!(client.notifications_left("notifications/progress"), 3);
    assert!(text_of(&client.call("elicit", json!({"message": "which?"})).await).contains("which?"));
    let gate = setup.gate("gate");
    let mut cancelled = client.start_call("wait", json!({"file": gate.path(), "sessionId": "s"})).await;
    gate.arrived(1).await;
    client.cancel(cancelled.id()).await;
    // The answer to a later message shows that the cancellation has arrived.
    assert_eq!(text_of(&client.call("echo", json!({"text": "behind"})).await), "behind");
    gate.open();
    assert_eq!(text_of(&client.call("echo", json!({"text": "on", "sessionId": "s"})).await), "on");
    assert!(cancelled.response_now().is_none());
    assert!(tool_names(&client).await.contains(&"echo".to_owned()));
    client.call("change_tools", json!({})).await;
    client.next_notification("notifications/tools/list_changed").await;
    client.send_line("{").await;
    assert_eq!(client.next_unmatched().await["error"]["code"], -32700);
    let answer = client.initialize(NEWEST, json!({})).await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("already initialized"), "{answer}");
}
