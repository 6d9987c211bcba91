//! The fake engine's tool list, and the tools that only answer or keep state.

use greenroom_testkit::{EngineLog, text_of};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{NEWEST, ready, spawned, tool_names};

/// Each revision is answered as asked, an unknown one with the newest, and `--protocol` beats both.
#[tokio::test]
async fn initialize_answers_the_revision_that_was_asked() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let response = spawned(&[]).initialize(revision, json!({})).await;
        assert_eq!(response["result"]["protocolVersion"], revision);
        assert_eq!(
            response["result"]["capabilities"],
            json!({"tools": {"listChanged": true}, "logging": {}})
        );
    }
    assert_eq!(spawned(&[]).initialize("1999-01-01", json!({})).await["result"]["protocolVersion"], NEWEST);
    let forced = spawned(&["--protocol", "2024-11-05", "--no-logging"]).initialize(NEWEST, json!({})).await;
    assert_eq!(forced["result"]["protocolVersion"], "2024-11-05");
    assert_eq!(forced["result"]["capabilities"], json!({"tools": {"listChanged": true}}));
}

/// Every schema is a closed object whose required names exist, and pages of the list add up to the whole.
#[tokio::test]
async fn schemas_are_closed_and_pages_add_up() {
    let client = ready(&[]).await;
    let list = client.request("tools/list", Value::Null).await;
    for tool in list["result"]["tools"].as_array().unwrap() {
        let schema = &tool["inputSchema"];
        assert_eq!(schema["type"], "object", "{tool}");
        assert_eq!(schema["additionalProperties"], false, "{tool}");
        for name in schema["required"].as_array().into_iter().flatten() {
            assert!(schema["properties"].get(name.as_str().unwrap()).is_some(), "{tool}");
        }
    }
    let paged = ready(&["--page-size", "5", "--extra-tool", "one_more"]).await;
    let mut whole = tool_names(&client).await;
    whole.push("one_more".to_owned());
    assert_eq!(tool_names(&paged).await, whole);
    assert_eq!(text_of(&paged.call("one_more", json!({})).await), "one_more");
}

/// Unknown fields and number spellings of a tool and of a rich answer are on the wire as written.
#[tokio::test]
async fn unknown_fields_are_spelt_as_written() {
    let client = ready(&[]).await;
    let list = client.start("tools/list", Value::Null).await.line().await;
    assert!(list.contains(r#""x-vendor":{"n":1.50,"big":12345678901234567890123}"#));
    let plain = client.call_line("echo", json!({"text": "a \"b\"\n"})).await;
    assert!(plain.ends_with(r#""result":{"content":[{"type":"text","text":"a \"b\"\n"}]}}"#), "{plain}");
    let rich = client.call_line("echo", json!({"payload": null, "rich": true})).await;
    for spelling in
        [r#"{"type":"x-hologram","frames":[1,2.50]"#, r#""payload":null}"#, r#""x-unknown":{"kept":[1e2,"#]
    {
        assert!(rich.contains(spelling), "{rich}");
    }
}

/// Arguments are checked as the schemas say, so that a selector that slips through a gateway is noticed.
#[tokio::test]
async fn unknown_arguments_are_refused() {
    let client = ready(&[]).await;
    for (tool, arguments) in
        [("echo", json!({"sessionId": "a"})), ("pid", json!({"x": 1})), ("get", json!({}))]
    {
        let response = client.call(tool, arguments).await;
        assert_eq!(response["result"]["isError"], true, "{response}");
    }
    assert_eq!(client.call("no_such_tool", json!({})).await["error"]["code"], -32_602);
    assert_eq!(client.request("no/such/method", Value::Null).await["error"]["code"], -32_601);
    let meta = json!({"name": "params", "arguments": {"any": 1}, "_meta": {"k": [1]}, "x": null});
    assert_eq!(text_of(&client.request("tools/call", meta.clone()).await), meta.to_string());
}

/// Values belong to one process, which its id identifies.
#[tokio::test]
async fn state_belongs_to_one_process() {
    let one = ready(&[]).await;
    let other = ready(&[]).await;
    one.call("set", json!({"key": "k", "value": "v"})).await;
    assert_eq!(text_of(&one.call("get", json!({"key": "k"})).await), "v");
    assert_eq!(text_of(&other.call("get", json!({"key": "k"})).await), "(unset)");
    assert_eq!(text_of(&one.call("pid", json!({})).await), one.pid().to_string());
    assert_eq!(text_of(&one.call("run_unsafe", json!({})).await), "ran");
    assert_eq!(text_of(&one.call("big", json!({"bytes": 3_000_000})).await).len(), 3_000_000);
}

/// A changed list has one tool more and is announced; a spurious announcement changes nothing.
#[tokio::test]
async fn changes_of_the_list_are_announced() {
    let client = ready(&[]).await;
    let before = tool_names(&client).await;
    client.call("spurious_change", json!({})).await;
    client.next_notification("notifications/tools/list_changed").await;
    assert_eq!(tool_names(&client).await, before);
    let name = text_of(&client.call("change_tools", json!({})).await);
    client.next_notification("notifications/tools/list_changed").await;
    assert_eq!(tool_names(&client).await.last(), Some(&name));
    assert_eq!(client.notifications_left("notifications/tools/list_changed"), 0);
}

/// The log has one line per event, in order, from all engines that share it.
#[tokio::test]
async fn the_log_counts_events() {
    let folder = TempDir::new().unwrap();
    let log = EngineLog::at(folder.path().join("log"));
    let flags = ["--log", log.path().to_str().unwrap()];
    let client = ready(&flags).await;
    client.call("echo", json!({"text": "a"})).await;
    client.cancel(99).await;
    log.reached("notifications/cancelled", 1).await;
    let expected =
        ["start", "initialize", "notifications/initialized", "tools/call echo", "notifications/cancelled"];
    assert_eq!(log.lines(), expected);
    let _second = ready(&flags).await;
    assert_eq!(log.count("initialize"), 2);
}
