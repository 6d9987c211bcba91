//! Tools: how they are listed, and their answers.

use greenroom_testkit::case;
use serde_json::{Value, json};

use super::{ADDRESS_KINDS, ServerAddress, ServerPair, ask, capabilities};
use crate::front::fixture::{FakeEngineSetup, NEWEST};

/// The server's tools and their answers, one case after the other with the same processes.
#[tokio::test]
async fn tools_and_answers_pass_unchanged() {
    for address in ADDRESS_KINDS {
        let pair = &ServerPair::raw(address).await;
        // First, since it compares the lists before the first call.
        case("tools_are_listed_as_they_are", tools_are_listed_as_they_are(address, pair)).await;
        case("answers_arrive_as_they_are", answers_arrive_as_they_are(address, pair)).await;
    }
}

/// Every tool is listed as the server describes it, including those that it has only for clients that can be asked;
/// greenroom adds `sessionId` before their own parameters, and its own tools after them. Before the first call, and after.
async fn tools_are_listed_as_they_are(address: ServerAddress, pair: &ServerPair) {
    let original: Value = serde_json::from_str(&ask(&pair.direct, "tools/list", &json!({})).await).unwrap();
    let original = original["result"]["tools"].as_array().unwrap();
    let names: Vec<_> = original.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"trigger-sampling-request") && names.contains(&"trigger-url-elicitation"));
    for _ in 0..2 {
        let proxied: Value =
            serde_json::from_str(&ask(&pair.through, "tools/list", &json!({})).await).unwrap();
        let proxied = proxied["result"]["tools"].as_array().unwrap();
        for (proxied, original) in proxied.iter().zip(original) {
            let mut proxied = proxied.clone();
            let added =
                proxied["inputSchema"]["properties"].as_object_mut().unwrap().shift_remove("sessionId");
            assert!(added.is_some(), "{address:?}: {proxied}");
            let mut original = original.clone();
            // A tool without parameters says so in one of two ways.
            if original["inputSchema"].get("properties").is_none() {
                original["inputSchema"]["properties"] = json!({});
            }
            assert_eq!(proxied.to_string(), original.to_string(), "{address:?}");
        }
        assert_eq!(proxied[original.len()]["name"], "session_list", "{address:?}");
        pair.through.call("echo", json!({ "message": "x" })).await;
    }
}

/// Every kind of answer is the server's own: text, images, annotations, resource links, embedded resources, structured
/// content, failures and errors.
async fn answers_arrive_as_they_are(address: ServerAddress, pair: &ServerPair) {
    for (tool, arguments) in [
        ("echo", json!({ "message": "plain \u{e4} \"quoted\"\n" })),
        ("get-sum", json!({ "a": 0.1, "b": 0.2 })),
        ("get-tiny-image", json!({})),
        ("get-annotated-message", json!({ "messageType": "error", "includeImage": true })),
        ("get-annotated-message", json!({ "messageType": "success" })),
        ("get-annotated-message", json!({ "messageType": "debug" })),
        ("get-resource-links", json!({ "count": 10 })),
        ("get-structured-content", json!({ "location": "New York" })),
        (
            "gzip-file-as-resource",
            json!({ "name": "a.gz", "data": "data:text/plain,hello", "outputType": "resource" }),
        ),
        (
            "gzip-file-as-resource",
            json!({ "name": "b.gz", "data": "data:text/plain,hello", "outputType": "resourceLink" }),
        ),
        ("get-resource-reference", json!({ "resourceType": "Text", "resourceId": 0.5 })),
        ("simulate-research-query", json!({ "topic": "x" })),
    ] {
        let params = json!({ "name": tool, "arguments": arguments });
        let through = ask(&pair.through, "tools/call", &params).await;
        let direct = ask(&pair.direct, "tools/call", &params).await;
        assert_eq!(through, direct, "{address:?}: {tool} {arguments}");
    }
    // Its answers contain the time of day.
    for kind in ["Text", "Blob"] {
        let params = json!({ "name": "get-resource-reference", "arguments": { "resourceType": kind, "resourceId": 3 } });
        let through = without_times(&ask(&pair.through, "tools/call", &params).await);
        assert_eq!(
            through,
            without_times(&ask(&pair.direct, "tools/call", &params).await),
            "{address:?}: {kind}"
        );
        assert_eq!(through["result"]["content"][1]["type"], "resource");
    }
    let retry = json!({ "name": "trigger-url-elicitation", "arguments": { "url": "https://a.example/", "errorPath": true } });
    let through = ask(&pair.through, "tools/call", &retry).await;
    let direct = ask(&pair.direct, "tools/call", &retry).await;
    assert!(through.contains(r#""code":-32042"#), "{through}");
    assert_eq!(without_ids(&through), without_ids(&direct), "{address:?}: an error with its data");
}

/// With greenroom's default additions, everything that the server sent is still there, in its place.
#[tokio::test]
async fn additions_come_after_the_servers_content() {
    let pair = ServerPair::with(ServerAddress::Command, &[]).await;
    for (tool, arguments) in [
        ("get-tiny-image", json!({})),
        ("get-annotated-message", json!({ "messageType": "error", "includeImage": true })),
        ("get-structured-content", json!({ "location": "Chicago" })),
        ("get-resource-links", json!({ "count": 2 })),
    ] {
        let params = json!({ "name": tool, "arguments": arguments });
        let parse = |text: String| -> Value { serde_json::from_str(&text).unwrap() };
        let through = parse(ask(&pair.through, "tools/call", &params).await)["result"].clone();
        let direct = parse(ask(&pair.direct, "tools/call", &params).await)["result"].clone();
        let parts = direct["content"].as_array().unwrap();
        assert_eq!(&through["content"].as_array().unwrap()[..parts.len()], parts, "{tool}");
        assert_eq!(through["structuredContent"], direct["structuredContent"], "{tool}");
    }
}

/// A client that cannot be asked is not asked; tools for all clients work.
#[tokio::test]
async fn client_without_capabilities_is_not_asked() {
    for address in ADDRESS_KINDS {
        let (setup, _server) = super::setup_in_front(address).await;
        let client = setup.client_with(json!({})).await;
        let sum = client.call("get-sum", json!({ "a": 1, "b": 2 })).await;
        assert_eq!(sum["result"]["content"][0]["text"], "The sum of 1 and 2 is 3.");
        let refused = client.call("trigger-sampling-request", json!({ "prompt": "x" })).await;
        assert!(refused.to_string().contains("trigger-sampling-request"), "{refused}");
        assert!(refused.get("error").is_some() || refused["result"]["isError"] == true, "{refused}");
    }
}

/// The error for an unreachable server names it, without the secret parts of its address.
#[tokio::test]
async fn unreachable_server_error_hides_secrets() {
    let setup = FakeEngineSetup::new().command(&[]).set("pool.url", "http://127.0.0.1:9/mcp?key=sesame-99");
    let client = setup.spawn();
    client.initialize(NEWEST, capabilities()).await;
    let listed = client.request("tools/list", json!({})).await;
    let text = listed["error"]["message"].as_str().unwrap();
    assert!(text.contains("the MCP server at http://127.0.0.1:9/mcp?*** cannot be used"), "{text}");
    assert!(!text.contains("sesame-99"), "{text}");
}

fn without_times(body: &str) -> Value {
    let mut body: Value = serde_json::from_str(body).unwrap();
    let resource = &mut body["result"]["content"][1]["resource"];
    for key in ["text", "blob"] {
        if let Some(value) = resource.get_mut(key) {
            assert!(value.as_str().unwrap().len() > 20);
            *value = json!("made");
        }
    }
    body
}

/// The body without the ids that the server generates.
fn without_ids(body: &str) -> Value {
    let mut body: Value = serde_json::from_str(body).unwrap();
    for asked in body["error"]["data"]["elicitations"].as_array_mut().unwrap() {
        assert!(asked["elicitationId"].take().is_string());
    }
    body
}
