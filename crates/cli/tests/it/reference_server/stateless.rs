//! The server behind greenroom for clients of revision 2026-07-28, which have no handshake: its features other than tools,
//! over stdio and over HTTP.

use greenroom_testkit::http::{Server, stateless};
use serde_json::{Value, json};

use super::{ServerAddress, ServerPair, path, setup_in_front};
use crate::front::fixture::{FakeEngineSetup, NEWEST, error};

/// A request's parameters in this revision's form.
fn with_meta(params: Value) -> Value {
    stateless(0, "", params, super::capabilities())["params"].take()
}

/// A result in the form of older revisions. The additions of this one are checked: how long a cacheable result is valid.
#[track_caller]
fn without_stateless_fields(method: &str, mut answer: Value) -> Value {
    let Some(result) = answer.get_mut("result").and_then(Value::as_object_mut) else {
        return json!({ "error": answer["error"] });
    };
    assert_eq!(result.shift_remove("resultType"), Some(json!("complete")), "{method}");
    let is_kept = method.ends_with("/list") || method == "resources/read";
    let fresh = (result.shift_remove("ttlMs"), result.shift_remove("cacheScope"));
    assert_eq!(fresh.0.is_some_and(|fresh| fresh.is_u64()), is_kept, "{method}");
    assert_eq!(fresh.1 == Some(json!("private")), is_kept, "{method}");
    json!({ "result": result })
}

/// The requests to the server.
fn questions() -> Vec<(&'static str, Value)> {
    let reference = json!({ "type": "ref/prompt", "name": "completable-prompt" });
    vec![
        ("prompts/list", json!({})),
        ("prompts/get", json!({ "name": "args-prompt", "arguments": { "city": "Ulm", "state": "BW" } })),
        ("prompts/get", json!({ "name": "no-such-prompt" })),
        (
            "completion/complete",
            json!({ "ref": reference, "argument": { "name": "department", "value": "E" } }),
        ),
        ("resources/read", json!({ "uri": "demo://resource/static/document/features.md" })),
        ("resources/read", json!({ "uri": "nonsense://x" })),
        ("resources/list", json!({ "cursor": "engine:" })),
        ("resources/templates/list", json!({ "cursor": "engine:" })),
    ]
}

/// Prompts, completions and resources arrive as they do with a handshake, and so do the server's errors.
#[tokio::test]
async fn stateless_features_pass_over_stdio() {
    let pair = ServerPair::raw(ServerAddress::Command).await;
    let (setup, _server) = setup_in_front(ServerAddress::Command).await;
    let setup = setup.set("responses", "raw");
    let client = setup.spawn();
    for (method, params) in questions() {
        let through =
            without_stateless_fields(method, client.request(method, with_meta(params.clone())).await);
        let with_handshake = pair.through.request(method, params.clone()).await;
        for part in ["result", "error"] {
            assert_eq!(through.get(part), with_handshake.get(part), "{method} {params}: {through}");
        }
    }
    for former in ["resources/subscribe", "tasks/list"] {
        assert_eq!(error(&client.request(former, with_meta(json!({}))).await).0, -32601, "{former}");
    }
}

/// The same over HTTP, where a prompt's name is in a header too, and listing needs no session.
#[tokio::test]
async fn stateless_features_pass_over_http() {
    let pair = ServerPair::raw(ServerAddress::Command).await;
    let (setup, _served) = setup_in_front(ServerAddress::Url).await;
    let setup = setup.set("responses", "raw");
    let server = setup.serve().await;
    for (method, params) in questions() {
        let through = without_stateless_fields(method, send(&server, method, params.clone()).await);
        let with_handshake = pair.through.request(method, params.clone()).await;
        for part in ["result", "error"] {
            assert_eq!(through.get(part), with_handshake.get(part), "{method} {params}: {through}");
        }
    }
    let about = send(&server, "server/discover", json!({})).await["result"].take();
    for name in ["prompts", "resources", "completions"] {
        assert_eq!(about["capabilities"][name], json!({}), "{name}");
    }
    assert_eq!(about["capabilities"].get("tasks"), None, "there they are an extension of another shape");
    assert!(about["instructions"].as_str().unwrap().contains("# Everything Server"), "{about}");
    // The kit puts the name from the body into the header.
    let unnamed = send(&server, "prompts/get", json!({ "uri": "simple-prompt" })).await;
    let (code, why) = error(&unnamed);
    assert!(code == -32020 && why.contains("`mcp-name` says `simple-prompt`"), "{unnamed}");
}

async fn send(server: &Server, method: &str, params: Value) -> Value {
    server.post_stateless(&stateless(1, method, params, super::capabilities())).await.answer().await
}

/// greenroom finds the server's features also in a fleet with pools of browsers. A feature that keeps state needs a
/// named session, since a connection's own session is for browsing.
#[tokio::test]
async fn server_is_found_in_a_fleet_with_browser_pools() {
    let setup = FakeEngineSetup::new()
        .pools("MAIN_INSTANCES", "1")
        .pools("MAIN_IS_DEFAULT", "true")
        .pools("REFERENCE_INSTANCES", "1")
        .pools("REFERENCE_ISOLATED", "true")
        .pools("REFERENCE_SLOTS", "2")
        .pools("REFERENCE_COMMAND", &json!(["node", path()]).to_string())
        .set("sessions.scope", "connection");
    let client = setup.client_with(super::capabilities()).await;
    client.call("echo", json!({ "text": "at home in MAIN" })).await;
    let listed = client.request("prompts/list", json!({})).await;
    assert_eq!(listed["result"]["prompts"][0]["name"], "simple-prompt", "{listed}");
    let uri = json!({ "uri": "demo://resource/dynamic/text/1" });
    let refused = client.request("resources/subscribe", uri.clone()).await;
    let (_, why) = error(&refused);
    assert!(why.contains("needs a session that stays") && why.contains("greenroom/sessionId"), "{why}");
    let mut named = uri;
    named["_meta"] = json!({ "greenroom/sessionId": "s" });
    assert_eq!(client.request("resources/subscribe", named).await["result"], json!({}));
    client.call("toggle-subscriber-updates", json!({ "sessionId": "s" })).await;
    let update = client.next_notification("notifications/resources/updated").await;
    assert_eq!(update["params"]["uri"], "demo://resource/dynamic/text/1");

    let again = setup.spawn();
    let welcome = again.initialize(NEWEST, super::capabilities()).await;
    assert_eq!(welcome["result"]["capabilities"]["prompts"], json!({ "listChanged": true }), "{welcome}");
    let instructions = welcome["result"]["instructions"].as_str().unwrap();
    assert!(instructions.contains("The server behind pool REFERENCE says:\n\n#"), "{instructions}");
}

/// A server that cannot be started hides nothing of another that has what is requested.
#[tokio::test]
async fn failing_server_hides_no_other() {
    let setup = FakeEngineSetup::new()
        .pools("MAIN_INSTANCES", "1")
        .pools("MAIN_IS_DEFAULT", "true")
        .pools("MAIN_COMMAND", &json!(["false"]).to_string())
        .pools("REFERENCE_INSTANCES", "1")
        .pools("REFERENCE_COMMAND", &json!(["node", path()]).to_string());
    let client = setup.client_with(super::capabilities()).await;
    let listed = client.request("prompts/list", json!({})).await;
    assert_eq!(listed["result"]["prompts"][0]["name"], "simple-prompt", "{listed}");
}
