//! Revision 2026-07-28 over HTTP: every request is complete in itself.

use greenroom_testkit::{
    http::{STATELESS, Server, stateless},
    text_of,
};
use serde_json::{Value, json};

use crate::front::fixture::{FakeEngineSetup, error, failure};

/// A request and its headers; then the expected status, code and message.
type StatelessCase<'a> = (&'a Value, &'a [(&'a str, &'a str)], u16, i64, &'a str);

async fn send(server: &Server, method: &str, params: Value) -> Value {
    let mut reply = server.post_stateless(&stateless(1, method, params, json!({}))).await;
    assert_eq!(reply.header("mcp-session-id"), None);
    reply.answer().await
}

fn call(tool: &str, arguments: impl Into<Value>) -> Value {
    json!({"name": tool, "arguments": arguments.into()})
}

/// The server's description and lists come without a handshake, with how long they are valid.
#[tokio::test]
async fn discovery_and_lists_need_no_handshake() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let about = send(&server, "server/discover", json!({})).await["result"].take();
    assert_eq!(about["resultType"], "complete");
    assert_eq!(about["supportedVersions"][0], STATELESS);
    assert_eq!(about["capabilities"]["tools"]["listChanged"], true);
    assert_eq!(about["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "greenroom");
    let list = send(&server, "tools/list", json!({})).await["result"].take();
    assert_eq!(list["resultType"], "complete");
    assert!(list["ttlMs"].is_u64() && list["cacheScope"] == "private", "{list}");
    assert!(list["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "echo"));
}

/// A stateless client has no connection, so it has no session of its own: instructions and schemas demand a `sessionId`
/// from it, though not from other clients. With `sessions.scope = "call"` they do not.
#[tokio::test]
async fn schemas_require_a_session_id_where_calls_do() {
    for (scope, is_demanded) in [("connection", true), ("explicit", true), ("call", false)] {
        let setup = FakeEngineSetup::new().set("sessions.scope", scope);
        let server = setup.serve().await;
        let about = send(&server, "server/discover", json!({})).await["result"].take();
        let instructions = about["instructions"].as_str().unwrap();
        assert_eq!(instructions.contains("sessionId is required."), is_demanded, "{scope}: {instructions}");
        assert!(!instructions.contains("this connection's one browser"), "{scope}: {instructions}");
        let list = send(&server, "tools/list", json!({})).await["result"].take();
        let required = |name: &str| {
            let tool = list["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap();
            tool["inputSchema"]["required"].clone()
        };
        let echo = if is_demanded { json!(["sessionId"]) } else { Value::Null };
        assert_eq!(required("echo"), echo, "{scope}");
        let demands =
            |name: &str| required(name).as_array().is_some_and(|all| all.contains(&json!("sessionId")));
        for own in ["session_close", "browser_execute_bulk"] {
            assert_eq!(demands(own), is_demanded, "{scope}: {own}");
        }
        assert!(!demands("create_new_session") && !demands("session_list"), "{scope}");
    }
}

/// A call names its session, which later calls find again; a call without one is refused, with what to do.
#[tokio::test]
async fn stateless_calls_find_their_named_session() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let set =
        send(&server, "tools/call", call("set", json!({"key": "k", "value": "v", "sessionId": "a"}))).await;
    assert_eq!((set["result"]["resultType"].as_str(), text_of(&set).as_str()), (Some("complete"), "set"));
    let get = send(&server, "tools/call", call("get", json!({"key": "k", "sessionId": "a"}))).await;
    assert_eq!(text_of(&get), "v");
    let without = send(&server, "tools/call", call("get", json!({"key": "k"}))).await;
    assert_eq!(without["result"]["resultType"], "complete");
    let (code, text) = failure(&without);
    assert_eq!(code, "session_required");
    assert!(
        text.contains("give a sessionId of your choice") && text.contains("create_new_session"),
        "{text}"
    );
}

/// Wrong requests: the right status, the right code, and the mistake.
#[tokio::test]
async fn invalid_stateless_requests_are_refused() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let list = stateless(7, "tools/list", json!({}), json!({}));
    let echo = stateless(7, "tools/call", call("echo", json!({"text": "a", "sessionId": "a"})), json!({}));
    let mut other = list.clone();
    other["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    let mut bare = list.clone();
    bare["params"] = json!({});
    let mut no_capabilities = list.clone();
    no_capabilities["params"]["_meta"]
        .as_object_mut()
        .unwrap()
        .remove("io.modelcontextprotocol/clientCapabilities");
    let ping = stateless(7, "ping", json!({}), json!({}));
    let revision = "mcp-protocol-version";
    let method = "mcp-method";
    let name = "mcp-name";
    let right = (revision, STATELESS);
    let cases: &[StatelessCase<'_>] = &[
        (&list, &[right], 400, -32020, "`mcp-method` is missing"),
        (&list, &[(method, "tools/list")], 400, -32020, "`mcp-protocol-version` is missing"),
        (&list, &[right, (method, "tools/call")], 400, -32020, "`tools/call`"),
        (&list, &[(revision, "2025-11-25"), (method, "tools/list")], 400, -32020, "`2025-11-25`"),
        (&echo, &[right, (method, "tools/call")], 400, -32020, "`mcp-name` is missing"),
        (&echo, &[right, (method, "tools/call"), (name, "other")], 400, -32020, "`other`"),
        (&other, &[(revision, "2099-01-01"), (method, "tools/list")], 400, -32022, "2099-01-01"),
        (&other, &[right, (method, "tools/list")], 400, -32020, "`2099-01-01`"),
        (&other, &[(method, "tools/list")], 400, -32020, "`mcp-protocol-version` is missing"),
        (&bare, &[right, (method, "tools/list")], 400, -32602, "protocolVersion"),
        (&no_capabilities, &[right, (method, "tools/list")], 400, -32602, "clientCapabilities"),
        (&ping, &[right, (method, "ping")], 404, -32601, "`ping`"),
    ];
    for (request, more, status, code, says) in cases {
        let mut headers = vec![("content-type", "application/json")];
        headers.extend_from_slice(more);
        let mut reply =
            server.connection().await.request("POST", "/mcp", &headers, Some(&request.to_string())).await;
        let answer = reply.json().await;
        let (got, why) = error(&answer);
        assert_eq!((reply.status, got, &answer["id"]), (*status, *code, &json!(7)), "{more:?}: {answer}");
        assert!(why.contains(says), "{more:?}: {why}");
        if *code == -32022 {
            assert!(answer["error"]["data"]["supported"].as_array().unwrap().contains(&json!(STATELESS)));
        }
    }
    assert_eq!(setup.log().count("tools/call echo"), 0);
    let mut fine = server.post_stateless(&echo).await;
    assert_eq!(text_of(&fine.answer().await), "a");
}

/// A session id of the other revisions means nothing here, and a name with other letters is encoded.
#[tokio::test]
async fn foreign_session_headers_are_ignored() {
    let setup = FakeEngineSetup::new().flags(&["--extra-tool", "größe"]);
    let server = setup.serve().await;
    let request = stateless(1, "tools/call", call("größe", json!({"sessionId": "a"})), json!({}));
    let headers = [
        ("content-type", "application/json"),
        ("mcp-protocol-version", STATELESS),
        ("mcp-method", "tools/call"),
        ("mcp-name", "=?base64?Z3LDtsOfZQ==?="),
        ("mcp-session-id", "nobody"),
    ];
    let mut reply =
        server.connection().await.request("POST", "/mcp", &headers, Some(&request.to_string())).await;
    assert_eq!(text_of(&reply.answer().await), "größe");
}

/// Progress makes the answer a stream, whose events have no ids: it cannot be resumed.
#[tokio::test]
async fn progress_makes_the_answer_a_stream() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let mut params = call("progress", json!({"steps": 2, "sessionId": "a"}));
    params["_meta"] = json!({"progressToken": "p"});
    let mut reply = server.post_stateless(&stateless(1, "tools/call", params, json!({}))).await;
    assert!(reply.is_stream());
    let mut messages = Vec::new();
    while let Some(event) = reply.event().await {
        assert_eq!(event.id, None);
        messages.push(event.message());
    }
    assert_eq!(messages.len(), 4, "{messages:?}");
    assert_eq!(messages[2]["params"]["progress"], 2);
    assert_eq!(messages[3]["result"]["resultType"], "complete");
}

/// Log lines come only to clients that ask for a level.
#[tokio::test]
async fn log_lines_need_a_requested_level() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let mut params = call("log", json!({"level": "error", "data": "x", "sessionId": "a"}));
    let mut silent = server.post_stateless(&stateless(1, "tools/call", params.clone(), json!({}))).await;
    assert_eq!(silent.messages().await.len(), 1);
    params["_meta"] = json!({"io.modelcontextprotocol/logLevel": "info"});
    let messages =
        server.post_stateless(&stateless(1, "tools/call", params, json!({}))).await.messages().await;
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert_eq!(messages[0]["method"], "notifications/message");
}

/// A subscription is acknowledged, reports changed tools if the client asked for that, and ends with the connection.
#[tokio::test]
async fn subscription_reports_changed_tools() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let listen =
        |wanted: Value| stateless(9, "subscriptions/listen", json!({"notifications": wanted}), json!({}));
    let mut wants = server.post_stateless(&listen(json!({"toolsListChanged": true}))).await;
    let mut other = server.post_stateless(&listen(json!({}))).await;
    for (reply, granted) in [(&mut wants, json!({"toolsListChanged": true})), (&mut other, json!({}))] {
        let first = reply.message().await;
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(first["params"]["notifications"], granted);
        assert_eq!(first["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 9);
    }
    send(&server, "tools/call", call("change_tools", json!({"sessionId": "a"}))).await;
    let changed = wants.message().await;
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 9);
    assert!(server.stop().await.success());
    assert_eq!((wants.next().await, other.next().await), (None, None), "no other notification came");
}
