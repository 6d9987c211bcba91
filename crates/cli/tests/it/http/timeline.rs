//! A session's timeline, over REST.

use serde_json::{Value, json};

use super::{http_client, pools::get};
use crate::front::fixture::FakeEngineSetup;

fn kinds(part: &Value) -> Vec<&str> {
    part["events"].as_array().unwrap().iter().map(|event| event["kind"].as_str().unwrap()).collect()
}

/// Calls and errors come in their order, part by part; a closed session has its timeline too, also after a restart.
#[tokio::test]
async fn timeline_lists_calls_and_errors_in_order() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = http_client(&server).await;
    client.call("echo", json!({"text": "a", "sessionId": "a"})).await;
    client.call("echo", json!({"text": "b", "sessionId": "b"})).await;
    client.call("fail", json!({"message": "no luck", "sessionId": "a"})).await;
    let (_, part) = get(&server, "/api/sessions/a/timeline?limit=1").await;
    assert_eq!((kinds(&part), &part["events"][0]["tool"]), (vec!["call"], &json!("echo")));
    assert_eq!(part["session"]["state"], "active");
    let (_, rest) = get(&server, &format!("/api/sessions/a/timeline?from={}", part["next"])).await;
    assert_eq!(kinds(&rest), ["call", "error"]);
    assert_eq!(
        (&rest["events"][0]["status"], &rest["events"][1]["message"]),
        (&json!("error"), &json!("no luck"))
    );
    client.call("session_close", json!({"sessionId": "a"})).await;
    // Kill this server before the next one starts, so that it counts as dead.
    server.kill().await;
    let server = setup.serve().await;
    let (_, whole) = get(&server, "/api/sessions/a/timeline").await;
    assert_eq!((kinds(&whole).len(), &whole["session"]["state"]), (3, &json!("closed")));
    assert_eq!(get(&server, "/api/sessions/c/timeline").await.0, 404);
    assert_eq!(get(&server, "/api/sessions/a/timeline?limit=0").await.0, 400);
}
