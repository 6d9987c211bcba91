//! With `records.enabled = false` greenroom records nothing and offers no recall tools.

use greenroom_testkit::text_of;
use serde_json::json;

use super::super::fixture::{FakeEngineSetup, failure, tool_names};

/// With `records.enabled = false` there is no recall tool, no answer has a name, none is cut, and nothing is written.
#[tokio::test]
async fn disabled_records_write_nothing() {
    let setup = FakeEngineSetup::new()
        .set("records.enabled", "false")
        .set("responses", "refs")
        .set("inline_tokens", "200");
    let client = setup.client().await;
    let names = tool_names(&client).await;
    for tool in ["get_content", "get_console_content"] {
        assert!(!names.iter().any(|name| name == tool), "{tool} is shown");
        let arguments = json!({"ref_id": "0199f3a2-5b0c-4e1d-8f00-1c2d3e4f5a6b"});
        let (code, text) = failure(&client.call(tool, arguments).await);
        assert!(code != "no_record" && text.contains("records.enabled"), "{code}: {text}");
    }
    for wish in [json!({}), json!({"mode": "refs"}), json!({"mode": "inline"}), json!({"mode": "diff"})] {
        let mut arguments = json!({"count": 5_000});
        arguments.as_object_mut().unwrap().extend(wish.as_object().unwrap().clone());
        let answer = client.call("lines", arguments).await;
        assert_eq!(text_of(&answer).lines().count(), 5_000, "{wish}");
        assert!(answer["result"].get("_meta").is_none(), "{}", answer["result"]["_meta"]);
    }
    let commands = json!([{"tool": "picture", "return_result": true}]);
    let answer = client.call("browser_execute_bulk", json!({"commands": commands})).await;
    let picture = &answer["result"]["structuredContent"]["results"][0]["content"][1];
    assert_eq!(picture["type"], "image", "without a record a picture has no other place: {answer}");
    for file in ["records.db", "records.lock", "blobs"] {
        assert!(!setup.data().join(file).exists(), "{file} was written");
    }
}
