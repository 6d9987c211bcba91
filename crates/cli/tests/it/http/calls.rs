//! Calls over REST: made, listed, shown, read in parts; and the errors for wrong requests.

use greenroom_testkit::{http::Server, text_of};
use serde_json::{Value, json};

use super::{
    http_client,
    pools::{JSON, get, post},
};
use crate::front::fixture::FakeEngineSetup;

async fn call(server: &Server, body: Value) -> Value {
    let (status, response) = post(server, "/api/calls", &[JSON], &body.to_string()).await;
    assert_eq!(status, 200, "{response}");
    response
}

fn id_of(call: &Value) -> &str {
    call["ref_id"].as_str().unwrap()
}

/// A call's response has the documented form; the call runs in the named session; its record can be listed and read.
#[tokio::test]
async fn call_is_answered_and_recorded() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let set =
        call(&server, json!({"session_id": "a", "tool": "set", "params": {"key": "k", "value": "v"}})).await;
    let fields: Vec<_> = set.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["ref_id", "session_id", "status", "timestamp", "metadata", "error"]);
    assert_eq!(
        (&set["status"], &set["error"], &set["metadata"]),
        (
            &json!("success"),
            &Value::Null,
            &json!({"tool": "set", "has_snapshot": false, "has_console_logs": false, "console_error_count": 0, "session": "a"})
        )
    );
    // The same browser, by its name over MCP and by its UUID over REST.
    let over_mcp = http_client(&server).await.call("get", json!({"key": "k", "sessionId": "a"})).await;
    assert!(text_of(&over_mcp).starts_with('v'), "{over_mcp}");
    let again =
        call(&server, json!({"session_id": set["session_id"], "tool": "get", "params": {"key": "k"}})).await;
    assert_eq!(again["session_id"], set["session_id"]);
    let path = format!("/api/calls/{}", id_of(&again));
    let (_, detail) = get(&server, &path).await;
    assert_eq!((&detail["params"], &detail["metadata"]["tool"]), (&json!({"key": "k"}), &json!("get")));
    assert_eq!(detail["result"]["content"][0]["text"], "v");
    let (_, first) = get(&server, &format!("{path}/content")).await;
    let (_, second) = get(&server, &format!("{path}/content")).await;
    assert_eq!((&first["content"], &second["content"]), (&json!("v"), &json!("")));
    let (_, reset) = get(&server, &format!("{path}/content?reset_cursor=true")).await;
    assert_eq!((&reset["content"], &reset["total_lines"]), (&json!("v"), &json!(1)));
    let (_, console) = get(&server, &format!("{path}/console")).await;
    assert_eq!(console, json!({"ref_id": again["ref_id"], "console": [], "next_offset": null}));
    let (_, listed) = get(&server, "/api/calls?session_id=a").await;
    let tools: Vec<_> =
        listed["calls"].as_array().unwrap().iter().map(|one| &one["metadata"]["tool"]).collect();
    assert_eq!(tools, ["get", "get", "set"]);
}

/// Content is searched and read by lines, and compared with another call's.
#[tokio::test]
async fn content_is_searched_and_read_by_lines() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let text = |third: &str| {
        let lines = (0..40).map(|n| if n == 2 { third.to_owned() } else { format!("line {n}") });
        let text = lines.collect::<Vec<_>>().join("\n");
        json!({"session_id": "a", "tool": "echo", "params": {"text": text}})
    };
    let first = call(&server, text("three")).await;
    let second = call(&server, text("drei")).await;
    let path = format!("/api/calls/{}/content", id_of(&second));
    let (_, found) = get(&server, &format!("{path}?search_for=drei&before_lines=1")).await;
    assert!(found["content"].as_str().unwrap().contains("line 1"), "{found}");
    assert_eq!((&found["matches"], &found["total_lines"]), (&json!(1), &json!(40)));
    let (_, part) = get(&server, &format!("{path}?offset=1&limit=2")).await;
    assert_eq!((&part["lines"], &part["next_offset"]), (&json!(2), &json!(3)));
    let (_, changed) = get(&server, &format!("{path}?since={}", id_of(&first))).await;
    let changed = changed["content"].as_str().unwrap();
    assert!(changed.contains("drei") && !changed.contains("line 30"), "{changed}");
}

/// A failed tool is not an HTTP error. A call that can never run is, and is recorded all the same, with its session.
#[tokio::test]
async fn failed_tool_is_no_http_error() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let failed =
        call(&server, json!({"session_id": "a", "tool": "fail", "params": {"message": "no luck"}})).await;
    assert_eq!((&failed["status"], &failed["error"]), (&json!("error"), &json!("no luck")));
    for (body, word, session) in [
        (json!({"tool": "echo", "params": {"text": "a"}}), "session_required", &Value::Null),
        (
            json!({"session_id": "a", "tool": "echo", "params": {"text": 7}}),
            "invalid_arguments",
            &failed["session_id"],
        ),
    ] {
        let (status, response) = post(&server, "/api/calls", &[JSON], &body.to_string()).await;
        assert_eq!((status, &response["error"]), (400, &json!(word)), "{response}");
        let path = format!("/api/calls/{}", response["details"]["ref_id"].as_str().unwrap());
        let (_, kept) = get(&server, &path).await;
        assert_eq!((&kept["status"], &kept["session_id"]), (&json!("error"), session), "{kept}");
    }
    let (_, listed) = get(&server, "/api/calls?status=error").await;
    assert_eq!(listed["calls"].as_array().unwrap().len(), 3);
}

/// An unknown pool or instance is 404, one that is not available now is 503; both are recorded.
#[tokio::test]
async fn unknown_or_unavailable_instance_is_refused() {
    let setup = FakeEngineSetup::new()
        .pools("MAIN_INSTANCES", "1")
        .pools("MAIN_IS_DEFAULT", "true")
        .pools("MAIN_LEASE_TIMEOUT", "1")
        .pools("SIDE_INSTANCES", "1");
    let server = setup.serve().await;
    call(&server, json!({"session_id": "a", "tool": "pid"})).await;
    for (params, status, word) in [
        (json!({"browser_pool": "NOPE"}), 404, "no_such_pool"),
        (json!({"browser_instance": "7"}), 404, "no_such_instance"),
        (json!({}), 503, "lease_timeout"),
    ] {
        let body = json!({"session_id": "b", "tool": "pid", "params": params}).to_string();
        let (got, response) = post(&server, "/api/calls", &[JSON], &body).await;
        assert_eq!((got, &response["error"]), (status, &json!(word)), "{response}");
        assert!(response["details"]["ref_id"].is_string(), "{response}");
    }
    let body = json!({"session_id": "a", "tool": "pid", "params": {"browser_pool": "SIDE"}}).to_string();
    let (got, response) = post(&server, "/api/calls", &[JSON], &body).await;
    assert_eq!((got, &response["error"]), (409, &json!("session_elsewhere")), "{response}");
}

/// A call with a `request_id` is made once, however often it is sent.
#[tokio::test]
async fn request_id_makes_a_call_once() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let name = "0199F3A2-5B0C-4E1D-8F00-1C2D3E4F5A6B";
    let body = json!({"session_id": "a", "tool": "echo", "params": {"text": "a"}, "request_id": name});
    let first = call(&server, body.clone()).await;
    assert_eq!(first["ref_id"], name.to_lowercase());
    assert_eq!(call(&server, body).await, first);
    // Another call under that name is refused, and the error names the first.
    for (tool, params) in [("echo", json!({"text": "b"})), ("get", json!({"key": "a"})), ("echo", json!({}))]
    {
        let body = json!({"session_id": "a", "tool": tool, "params": params, "request_id": name}).to_string();
        let (status, response) = post(&server, "/api/calls", &[JSON], &body).await;
        assert_eq!((status, &response["error"]), (409, &json!("request_id_reused")), "{response}");
        let first = format!("`{}`: tool \"echo\" at ", name.to_lowercase());
        assert!(response["message"].as_str().unwrap().contains(&first), "{response}");
    }
    assert_eq!((setup.log().count("tools/call echo"), setup.log().count("tools/call get")), (1, 0));
}

/// The error for a wrong request names the mistake, with the right status; nothing has run then.
#[tokio::test]
async fn invalid_call_requests_are_refused() {
    let setup = FakeEngineSetup::new().set("tools.deny", "big");
    let server = setup.serve().await;
    let id = "0199f3a2-5b0c-4e1d-8f00-1c2d3e4f5a6b";
    for (headers, body, status, error, says) in [
        (&[JSON][..], "", 400, "bad_request", "which tool"),
        (&[JSON], "{}", 400, "bad_request", "`tool`"),
        (&[], r#"{"tool":"echo"}"#, 415, "unsupported_media_type", "application/json"),
        (&[JSON], r#"{"tool":"echo","params":[]}"#, 400, "bad_request", "`params` must be an object"),
        (&[JSON], r#"{"tool":"echo","arguments":{}}"#, 400, "bad_request", "`arguments`"),
        (&[JSON], r#"{"tool":"echo","session_id":""}"#, 400, "bad_request", "session_id is empty"),
        (&[JSON], r#"{"tool":"echo","request_id":"7"}"#, 400, "bad_request", "UUID"),
        (&[JSON], r#"{"tool":"ecoh","session_id":"a"}"#, 404, "no_such_tool", "did you mean \"echo\""),
        (&[JSON], r#"{"tool":"session_renew"}"#, 404, "no_such_tool", "cannot be used here"),
        (&[JSON], r#"{"tool":"session_close","session_id":"z"}"#, 400, "no_session", "no such session"),
        (&[JSON], r#"{"tool":"get_content","params":{}}"#, 400, "invalid_arguments", "`ref_id`"),
        (
            &[JSON],
            r#"{"tool":"session_list","request_id":"0199f3a2-5b0c-4e1d-8f00-1c2d3e4f5a6b"}"#,
            400,
            "bad_request",
            "not recorded",
        ),
        (&[JSON], r#"{"tool":"big","session_id":"a"}"#, 403, "tool_refused", "big"),
        (
            &[JSON],
            r#"{"tool":"echo","session_id":"a","params":{"sessionId":"b"}}"#,
            400,
            "invalid_arguments",
            "is not the call's `session_id`",
        ),
        (
            &[JSON],
            r#"{"tool":"echo","session_id":"a","params":{"mode":"diff"}}"#,
            400,
            "invalid_arguments",
            "by their `ref_id`",
        ),
    ] {
        let (got, response) = post(&server, "/api/calls", headers, body).await;
        assert_eq!((got, &response["error"]), (status, &json!(error)), "{body}: {response}");
        assert!(response["message"].as_str().unwrap().contains(says), "{body}: {response}");
        assert!(response["details"].is_object(), "{response}");
    }
    for (path, status) in [
        ("/api/calls?whose=a".to_owned(), 400),
        (format!("/api/calls/{id}"), 404),
        (format!("/api/calls/{id}/content"), 404),
        (format!("/api/calls/{id}/content?limit=0"), 400),
        (format!("/api/calls/{id}/content?reset=true"), 400),
        ("/api/calls/7/content".to_owned(), 400),
    ] {
        assert_eq!(get(&server, &path).await.0, status, "{path}");
    }
    assert_eq!(setup.log().count("tools/call"), 0);
}

/// A closed session takes no calls by its UUID; its name is free for a new one.
#[tokio::test]
async fn closed_session_uuid_takes_no_calls() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let first = call(&server, json!({"session_id": "a", "tool": "pid"})).await;
    http_client(&server).await.call("session_close", json!({"sessionId": "a"})).await;
    let body = json!({"session_id": first["session_id"], "tool": "pid"}).to_string();
    let (status, response) = post(&server, "/api/calls", &[JSON], &body).await;
    assert_eq!((status, &response["error"]), (409, &json!("session_over")), "{response}");
    let second = call(&server, json!({"session_id": "a", "tool": "pid"})).await;
    assert_ne!(second["session_id"], first["session_id"]);
}

/// greenroom's own tools work for programs too; they leave no record, so the response holds the answer.
#[tokio::test]
async fn own_tools_work_without_a_record() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let commands = json!([
        {"tool": "set", "args": {"key": "k", "value": "v"}},
        {"tool": "get", "args": {"key": "k"}, "return_result": true},
    ]);
    let body = json!({"session_id": "a", "tool": "browser_execute_bulk", "params": {"commands": commands}});
    let response = call(&server, body).await;
    assert_eq!((&response["ref_id"], &response["status"]), (&Value::Null, &json!("success")), "{response}");
    let outcome = &response["result"]["structuredContent"];
    assert_eq!(outcome["results"][1]["content"][0]["text"], "v", "{response}");
    let commands = json!([{"tool": "fail", "args": {"message": "no luck"}}]);
    let body = json!({"session_id": "a", "tool": "browser_execute_bulk", "params": {"commands": commands}});
    let failed = call(&server, body).await;
    assert_eq!(failed["status"], "error", "{failed}");
    assert_eq!(failed["result"]["structuredContent"]["errors"][0], "no luck");
}

/// Sessions are opened, listed, shown and closed, by name and by UUID; a closed one is shown from its record.
#[tokio::test]
async fn sessions_are_opened_listed_and_closed() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let (status, opened) = post(&server, "/api/sessions", &[JSON], r#"{"session_id":"shop"}"#).await;
    assert_eq!(
        (status, &opened["name"], &opened["state"]),
        (201, &json!("shop"), &json!("idle")),
        "{opened}"
    );
    let uid = opened["session_id"].as_str().unwrap();
    let (status, unnamed) = post(&server, "/api/sessions", &[], "").await;
    assert_eq!((status, unnamed["name"].as_str().unwrap().len()), (201, 8), "{unnamed}");
    let (status, response) = post(&server, "/api/sessions", &[JSON], r#"{"session_id":"shop"}"#).await;
    assert_eq!((status, &response["error"]), (409, &json!("session_exists")), "{response}");
    let (status, response) = post(&server, "/api/sessions", &[JSON], r#"{"pool":"NOPE"}"#).await;
    assert_eq!((status, &response["error"]), (404, &json!("no_such_pool")), "{response}");
    let own = http_client(&server).await;
    own.call("pid", json!({})).await;

    let (_, listed) = get(&server, "/api/sessions").await;
    let names: Vec<_> = listed["sessions"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!((names.len(), names[0], names[1]), (3, &json!("shop"), &unnamed["name"]), "{listed}");
    assert!(names[2].as_str().unwrap().starts_with('#'), "{listed}");
    let delete = async |id: &str| {
        let path = format!("/api/sessions/{id}");
        server.connection().await.request("DELETE", &path, &[], None).await.status
    };
    let of_connection = listed["sessions"][2]["session_id"].as_str().unwrap();
    assert_eq!(get(&server, &format!("/api/sessions/{of_connection}")).await.0, 200);
    assert_eq!(delete(of_connection).await, 409, "only its own connection may close it");
    for id in ["shop", uid] {
        let (status, shown) = get(&server, &format!("/api/sessions/{id}")).await;
        assert_eq!((status, &shown["session_id"]), (200, &json!(uid)), "{shown}");
    }
    assert_eq!((delete(uid).await, delete(uid).await, delete("shop").await), (204, 409, 404));
    let (status, shown) = get(&server, &format!("/api/sessions/{uid}")).await;
    assert_eq!((status, &shown["state"]), (200, &json!("closed")), "{shown}");
    assert_eq!(get(&server, "/api/sessions/nobody").await.0, 404);
    assert_eq!(get(&server, "/api/sessions").await.1["sessions"].as_array().unwrap().len(), 2);
}

/// Where nothing is recorded, nothing can be read, and the error says what to do.
#[tokio::test]
async fn disabled_records_cannot_be_read() {
    let setup = FakeEngineSetup::new().set("records.enabled", "false");
    let server = setup.serve().await;
    let (status, response) = get(&server, "/api/calls").await;
    assert_eq!((status, &response["error"]), (503, &json!("records_off")));
    assert!(response["details"]["hint"].as_str().unwrap().contains("records.enabled"), "{response}");
    let made = post(&server, "/api/calls", &[JSON], r#"{"tool":"pid","session_id":"a"}"#).await;
    assert_eq!((made.0, setup.log().count("tools/call")), (503, 0));
}

/// Web pages cannot use REST.
#[tokio::test]
async fn web_pages_cannot_use_the_calls_api() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let blob = format!("/api/blobs/{}", "0".repeat(64));
    for header in [("origin", "https://evil.example"), ("host", "evil.example")] {
        for (method, path) in [
            ("GET", "/api/calls"),
            ("POST", "/api/calls"),
            ("GET", &*blob),
            ("GET", "/api/sessions/a/timeline"),
            ("GET", "/api/sessions"),
            ("POST", "/api/sessions"),
            ("DELETE", "/api/sessions/a"),
            ("GET", "/api/blobs"),
            ("GET", "/api/openapi.json"),
        ] {
            let reply = server.connection().await.request(method, path, &[header], None).await;
            assert_eq!(reply.status, 403, "{method} {path} {header:?}");
        }
    }
}

/// A program, too, learns that its session's browser is another one now.
#[tokio::test]
async fn answer_notes_a_lost_browser() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let failed = call(&server, json!({"session_id": "a", "tool": "die"})).await;
    assert_eq!((&failed["status"], failed["metadata"].get("notes")), (&json!("error"), None), "{failed}");
    let next = call(&server, json!({"session_id": "a", "tool": "pid"})).await;
    let notes = next["metadata"]["notes"].as_array().unwrap_or_else(|| panic!("{next}"));
    assert!(notes[0].as_str().unwrap().starts_with("session restarted: "), "{next}");
}
