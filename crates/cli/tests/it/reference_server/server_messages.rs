//! The server's notifications and questions while a call runs.

use greenroom_testkit::{case, text_of};
use serde_json::{Value, json};

use super::{ADDRESS_KINDS, ServerAddress, ServerPair};

/// Everything that the server sends while a call runs, one case after the other with the same processes: log messages, roots,
/// progress and questions.
#[tokio::test]
async fn server_messages_pass_while_a_call_runs() {
    for address in ADDRESS_KINDS {
        let pair = &ServerPair::raw(address).await;
        // First, since the server logs its roots once.
        case("log_messages", log_messages(address, pair)).await;
        case("progress", progress(address, pair)).await;
        case("questions", questions(address, pair)).await;
        // Last, since it answers the server's questions for roots from then on.
        case("roots", roots(address, pair)).await;
    }
}

/// Progress comes with the client's token, in order and whole, before the answer.
async fn progress(address: ServerAddress, pair: &ServerPair) {
    let params = json!({
        "name": "trigger-long-running-operation",
        "arguments": { "duration": 0.2, "steps": 4 },
        "_meta": { "progressToken": "mine" },
    });
    let mut notification = Vec::new();
    for client in [&pair.through, &pair.direct] {
        let answer = client.request("tools/call", params.clone()).await;
        assert_eq!(text_of(&answer), "Long running operation completed. Duration: 0.2 seconds, Steps: 4.");
        let mut steps = Vec::new();
        for _ in 0..4 {
            steps.push(client.next_notification("notifications/progress").await["params"].clone());
        }
        assert_eq!(client.notifications_left("notifications/progress"), 0);
        notification.push(steps);
    }
    assert_eq!(notification[0], notification[1], "{address:?}");
}

/// The server's questions to the model and to the person reach the client as they are, and its answers the server.
async fn questions(address: ServerAddress, pair: &ServerPair) {
    let url = json!({ "url": "https://a.example/", "elicitationId": "e-1" });
    for (tool, arguments, method, answer) in [
        (
            "trigger-sampling-request",
            json!({ "prompt": "say \u{e4}", "maxTokens": 7 }),
            "sampling/createMessage",
            json!({ "role": "assistant", "content": { "type": "text", "text": "\u{e4}" }, "model": "m", "stopReason": "endTurn" }),
        ),
        (
            "trigger-elicitation-request",
            json!({}),
            "elicitation/create",
            json!({ "action": "accept", "content": { "name": "Ann", "check": true, "integer": 5, "untitledMultipleSelectEnum": ["Piano"] } }),
        ),
        ("trigger-elicitation-request", json!({}), "elicitation/create", json!({ "action": "decline" })),
        ("trigger-elicitation-request", json!({}), "elicitation/create", json!({ "action": "cancel" })),
        ("trigger-url-elicitation", url, "elicitation/create", json!({ "action": "accept" })),
    ] {
        let mut seen: Vec<(Value, Value)> = Vec::new();
        for client in [&pair.through, &pair.direct] {
            let asking = client.start_call(tool, arguments.clone()).await;
            let question = loop {
                let question = client.next_request().await;
                if question.method != "roots/list" {
                    break question;
                }
                client.respond(&question.id, json!({ "roots": [] })).await;
            };
            assert_eq!(question.method, method, "{address:?}: {tool}");
            client.respond(&question.id, answer.clone()).await;
            let answer = asking.response().await["result"]["content"].clone();
            seen.push((question.params, answer));
        }
        assert_eq!(seen[0], seen[1], "{address:?}: {tool}");
    }
}

/// Log messages reach the client, and those below its level do not.
async fn log_messages(address: ServerAddress, pair: &ServerPair) {
    let client = &pair.through;
    client.call("echo", json!({ "message": "x" })).await;
    // The server logs its root when it learns it: the session's own folder.
    let notification = client.next_notification("notifications/message").await;
    let expected = json!({
        "level": "info", "logger": "everything-server", "data": "Roots updated: 1 root(s) received from client"
    });
    assert_eq!(notification["params"], expected, "{address:?}");

    let level = client.request("logging/setLevel", json!({ "level": "emergency" })).await;
    assert_eq!(level["result"], json!({}));
    client.call("toggle-simulated-logging", json!({})).await;
    client.call("toggle-simulated-logging", json!({})).await;
    let less = client.notifications_left("notifications/message");
    client.request("logging/setLevel", json!({ "level": "debug" })).await;
    client.call("toggle-simulated-logging", json!({})).await;
    let notification = client.next_notification("notifications/message").await;
    assert!(notification["params"]["data"].as_str().unwrap().contains("message"), "{notification}");
    assert!(less <= 1, "only an emergency is passed on: {less}");
}

/// The server's roots are the session's private folder, whatever the client has; it stays the same for the session.
async fn roots(address: ServerAddress, pair: &ServerPair) {
    let client = &pair.through;
    client.on_request("roots/list", |_| json!({ "roots": [{ "uri": "file:///the/clients/own" }] }));
    let roots = text_of(&client.call("get-roots-list", json!({})).await);
    assert!(roots.contains("/seats/") && !roots.contains("the/clients/own"), "{address:?}: {roots}");
    assert_eq!(text_of(&client.call("get-roots-list", json!({})).await), roots);
    let other = text_of(&client.call("get-roots-list", json!({ "sessionId": "other" })).await);
    assert_ne!(other, roots);
}
