//! `browser_execute_bulk`: several commands, one browser, one answer.

use greenroom_testkit::{Client, text_of};
use serde_json::{Value, json};

use super::fixture::{FakeEngineSetup, failure, pid, pid_of};

const BULK: &str = "browser_execute_bulk";

/// The outcome of a bulk call: its JSON as text, as programs get it too.
#[track_caller]
fn outcome(answer: &Value) -> Value {
    let result = &answer["result"];
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
    let bulk_result: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(bulk_result, result["structuredContent"]);
    let failed = bulk_result["success"] == false;
    assert_eq!(result["isError"] == true, failed, "{answer}");
    let total = bulk_result["total_count"].as_u64().unwrap();
    for list in ["results", "errors"] {
        assert_eq!(bulk_result[list].as_array().unwrap().len() as u64, total, "{bulk_result}");
    }
    bulk_result
}

async fn bulk(client: &Client, arguments: Value) -> Value {
    outcome(&client.call(BULK, arguments).await)
}

fn echo(text: &str) -> Value {
    json!({"tool": "echo", "args": {"text": text}})
}

fn fail(message: &str) -> Value {
    json!({"tool": "fail", "args": {"message": message}})
}

/// Commands run in order in one browser, and only the requested results come back.
#[tokio::test]
async fn commands_run_in_order() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let commands = json!([
        {"tool": "set", "args": {"key": "k", "value": "v"}},
        {"tool": "get", "args": {"key": "k"}, "return_result": true},
        {"tool": "pid"},
    ]);
    let mut bulk_result = bulk(&client, json!({"commands": commands, "sessionId": "a"})).await;
    let kept = bulk_result["results"][1].as_object_mut().unwrap().remove("_meta").unwrap();
    assert!(kept["greenroom/ref_id"].is_string(), "each command has a record of its own");
    assert_eq!(
        bulk_result,
        json!({
            "success": true, "executed_count": 3, "total_count": 3,
            "results": [null, {"content": [{"type": "text", "text": "v"}]}, null],
            "errors": [null, null, null], "stopped_at": null,
        })
    );
    let bulk_result =
        bulk(&client, json!({"commands": commands, "sessionId": "a", "return_all_results": true})).await;
    let process = bulk_result["results"][2]["content"][0]["text"].as_str().unwrap();
    assert_eq!(process, pid(&client, "a").await.to_string());
}

/// Without a session one browser is held for all commands, even when other calls come in between.
#[tokio::test]
async fn bulk_without_a_session_holds_one_browser() {
    let setup = FakeEngineSetup::new().set("sessions.scope", "call");
    let client = setup.client().await;
    let gate = setup.gate("gate");
    let commands = json!([{"tool": "pid"}, {"tool": "wait", "args": {"file": gate.path()}}, {"tool": "pid"}]);
    let held = client.start_call(BULK, json!({"commands": commands, "return_all_results": true})).await;
    gate.arrived(1).await;
    let other = pid_of(&client.call("pid", json!({})).await).to_string();
    gate.open();
    let bulk_result = outcome(&held.response().await);
    let process = |n: usize| bulk_result["results"][n]["content"][0]["text"].as_str().unwrap();
    assert_eq!(process(0), process(2));
    assert_ne!(process(0), other);
}

/// No other call comes between the commands, not even one of the same session.
#[tokio::test]
async fn no_other_call_runs_between_commands() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let gate = setup.gate("gate");
    let commands = json!([
        {"tool": "set", "args": {"key": "k", "value": "bulk"}},
        {"tool": "wait", "args": {"file": gate.path()}},
        {"tool": "get", "args": {"key": "k"}, "return_result": true},
    ]);
    let held = client.start_call(BULK, json!({"commands": commands, "sessionId": "a"})).await;
    let other = client.start_call("set", json!({"key": "k", "value": "other", "sessionId": "a"})).await;
    gate.arrived(1).await;
    gate.open();
    let bulk_result = outcome(&held.response().await);
    assert_eq!(bulk_result["results"][2]["content"][0]["text"], "bulk");
    other.response().await;
    assert_eq!(text_of(&client.call("get", json!({"key": "k", "sessionId": "a"})).await), "other");
}

/// A failed command ends the bulk, unless the call says otherwise; its result says why, in either way a tool can fail.
#[tokio::test]
async fn failed_command_ends_the_bulk() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let commands = json!([echo("a"), fail("no luck"), echo("b")]);
    let bulk_result = bulk(&client, json!({"commands": commands, "return_all_results": true})).await;
    assert_eq!(
        (&bulk_result["executed_count"], &bulk_result["stopped_at"]),
        (&json!(2), &json!(1)),
        "{bulk_result}"
    );
    assert_eq!(bulk_result["errors"], json!([null, "no luck", null]));
    assert_eq!(bulk_result["results"][0]["content"][0]["text"], "a");
    assert_eq!((&bulk_result["results"][1], &bulk_result["results"][2]), (&Value::Null, &Value::Null));

    let rpc = json!({"tool": "rpc_error", "args": {"code": -32_000, "message": "broken"}});
    let commands =
        json!([fail("no luck"), rpc, {"tool": "echo", "args": {"text": "b"}, "return_result": true}]);
    let bulk_result = bulk(&client, json!({"commands": commands, "stop_on_error": false})).await;
    assert_eq!(
        (&bulk_result["executed_count"], &bulk_result["stopped_at"]),
        (&json!(3), &Value::Null),
        "{bulk_result}"
    );
    assert_eq!(bulk_result["errors"], json!(["no luck", "broken", null]));
    assert_eq!(bulk_result["results"][2]["content"][0]["text"], "b");
}

/// A browser that dies during a command ends the bulk, whatever the call says, and the next call carries a note.
#[tokio::test]
async fn lost_browser_ends_the_bulk() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let commands = json!([echo("a"), {"tool": "die"}, echo("b")]);
    let bulk_result =
        bulk(&client, json!({"commands": commands, "stop_on_error": false, "sessionId": "a"})).await;
    assert_eq!(
        (&bulk_result["executed_count"], &bulk_result["stopped_at"]),
        (&json!(2), &json!(1)),
        "{bulk_result}"
    );
    let error = bulk_result["errors"][1].as_str().unwrap();
    assert!(error.starts_with("the session was lost during this call: the engine process ended"), "{error}");
    assert_eq!((&bulk_result["errors"][0], &bulk_result["errors"][2]), (&Value::Null, &Value::Null));
    let answer = client.call(BULK, json!({"commands": [echo("c")], "sessionId": "a"})).await;
    outcome(&answer);
    let note = answer["result"]["content"][1]["text"].as_str().unwrap();
    assert!(note.starts_with("session restarted: "), "{note}");
}

/// All commands are checked before any runs, and the error names the command.
#[tokio::test]
async fn all_commands_are_checked_before_any_runs() {
    let setup = FakeEngineSetup::new().set("tools.deny", "sleep");
    let client = setup.client().await;
    for (command, code, expected) in [
        (
            json!({"tool": "ecoh"}),
            "unknown_tool",
            "commands[1]: unknown tool: \"ecoh\"; did you mean \"echo\"?",
        ),
        (
            json!({"tool": "echo", "args": {"txet": "a"}}),
            "invalid_arguments",
            "commands[1]: unknown argument: `txet` (tool \"echo\")",
        ),
        (
            json!({"tool": "fail"}),
            "invalid_arguments",
            "commands[1]: missing argument: `message` (tool \"fail\")",
        ),
        (
            json!({"tool": "sleep", "args": {"ms": 1}}),
            "tool_refused",
            "commands[1]: tool \"sleep\" is switched off",
        ),
        (
            json!({"tool": BULK, "args": {"commands": []}}),
            "invalid_arguments",
            "commands[1]: \"browser_execute_bulk\" cannot be one of several commands",
        ),
        (
            json!({"tool": "session_list"}),
            "invalid_arguments",
            "commands[1]: \"session_list\" cannot be one of several",
        ),
        (
            json!({"tool": "echo", "args": {"text": "a", "sessionId": "b"}}),
            "invalid_arguments",
            "commands[1]: give `sessionId` next to `commands`",
        ),
        (
            json!({"tool": "echo", "args": {"text": "a", "browser_instance": 0}}),
            "invalid_arguments",
            "commands[1]: give `browser_instance` next to `commands`",
        ),
        (json!({"args": {}}), "invalid_arguments", "wrong argument: `commands.1`"),
        (json!({"tool": "echo", "args": []}), "invalid_arguments", "wrong argument: `commands.1.args`"),
        (json!({"tool": "echo", "arguments": {}}), "invalid_arguments", "wrong argument: `commands.1`"),
        (json!(7), "invalid_arguments", "wrong argument: `commands.1`"),
    ] {
        let answer = client.call(BULK, json!({"commands": [echo("a"), command]})).await;
        let (got, text) = failure(&answer);
        assert_eq!(got, code, "{text}");
        assert!(text.starts_with(expected), "{text}");
    }
    for commands in [json!([]), json!(vec![echo("a"); 101]), json!("echo"), Value::Null] {
        let (code, text) = failure(&client.call(BULK, json!({"commands": commands})).await);
        assert_eq!(code, "invalid_arguments");
        assert!(text.starts_with("wrong argument: `commands`"), "{text}");
    }
    let (_, text) = failure(&client.call(BULK, json!({})).await);
    assert!(text.starts_with("missing argument: `commands`"), "{text}");
    assert_eq!(setup.log().count("tools/call echo"), 0);
}

/// A client that asks for progress learns how many commands are done; progress inside a command is not mixed in.
#[tokio::test]
async fn progress_counts_finished_commands() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let commands = json!([echo("a"), {"tool": "progress", "args": {"steps": 3}}]);
    let params = json!({
        "name": BULK, "arguments": {"commands": commands},
        "_meta": {"progressToken": 12_345_678_901_234_567_u64, "k": 1},
    });
    outcome(&client.request("tools/call", params).await);
    for done in [1, 2] {
        let notification = client.next_notification("notifications/progress").await;
        let expected = json!({"progressToken": 12_345_678_901_234_567_u64, "progress": done, "total": 2});
        assert_eq!(notification["params"], expected);
    }
    assert_eq!(client.notifications_left("notifications/progress"), 0);
}

/// Arguments reach the engine as they were written, and so do the other parameters of the call.
#[tokio::test]
async fn arguments_of_commands_pass_unchanged() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let sent = r#"{"name":"browser_execute_bulk","arguments":{"commands":[{"tool":"params","args":{"any":{"a":1e300, "b":[1.0]}},"return_result":true}]},"_meta":{"k":[1,  2],"progressToken":"p"}}"#;
    let line = client.start_raw("tools/call", Some(sent)).await.line().await;
    let answer = r#"{"content":[{"type":"text","text":"{\"name\":\"params\",\"arguments\":{\"any\":{\"a\":1e300, \"b\":[1.0]}},\"_meta\":{\"k\":[1,  2]}}"}]"#;
    assert!(line.contains(&format!(r#""results":[{answer}"#)), "{line}");
}

/// A cancelled bulk call stops after the command that runs.
#[tokio::test]
async fn cancelled_bulk_stops_after_the_running_command() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let gate = setup.gate("gate");
    let commands = json!([{"tool": "wait", "args": {"file": gate.path()}}, echo("never")]);
    let held = client.start_call(BULK, json!({"commands": commands, "sessionId": "a"})).await;
    gate.arrived(1).await;
    client.cancel(held.id()).await;
    // Messages are handled in order: the answer to this one shows that the other was handled.
    client.request("ping", Value::Null).await;
    gate.open();
    pid(&client, "a").await;
    assert_eq!(setup.log().count("tools/call echo"), 0);
}
