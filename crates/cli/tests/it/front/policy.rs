//! Which tools are shown and may be called.

use greenroom_testkit::text_of;
use serde_json::json;

use super::fixture::{FakeEngineSetup, failure, tool_names};

/// `tools.allow` and `tools.deny` hide tools, greenroom's own too, and refuse their calls with the reason.
#[tokio::test]
async fn tool_rules_hide_tools_and_refuse_calls() {
    let setup = FakeEngineSetup::new()
        .set("tools.allow", "e*,session_*,pid")
        .set("tools.deny", "session_list,elicit");
    let client = setup.client().await;
    assert_eq!(tool_names(&client).await, ["echo", "pid", "session_close"]);
    for (tool, arguments, expected) in [
        ("elicit", json!({"message": "m"}), "tool \"elicit\" is switched off by `tools.deny`"),
        ("session_list", json!({}), "tool \"session_list\" is switched off by `tools.deny`"),
        ("get", json!({"key": "k"}), "tool \"get\" is not among `tools.allow`"),
        ("create_new_session", json!({}), "tool \"create_new_session\" is not among `tools.allow`"),
    ] {
        let (code, text) = failure(&client.call(tool, arguments).await);
        assert_eq!(code, "tool_refused");
        assert_eq!(text, format!("{expected}\n\nhint: the operator decides which tools may be used"));
    }
    assert_eq!(text_of(&client.call("echo", json!({"text": "a"})).await), "a");
    assert_eq!(setup.log().count("tools/call elicit"), 0);
}

/// The rules also apply to a tool that appears at run time.
#[tokio::test]
async fn tool_rules_apply_to_new_tools() {
    let setup = FakeEngineSetup::new().set("tools.deny", "extra_*");
    let client = setup.client().await;
    let before = tool_names(&client).await;
    let name = text_of(&client.call("change_tools", json!({})).await);
    client.next_notification("notifications/tools/list_changed").await;
    assert_eq!(tool_names(&client).await, before);
    assert_eq!(failure(&client.call(&name, json!({})).await).0, "tool_refused");
}
