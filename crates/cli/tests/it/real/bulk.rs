//! Several commands in one real browser of a declared pool.

use greenroom_testkit::Site;
use serde_json::{Value, json};

use super::fixture::{DataFolder, GatewayFixture, launch};

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}

/// Commands see the effects of those before them, results contain their linked snapshots, and a failure says why.
#[tokio::test]
async fn bulk_commands_share_one_page() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let pool = launch(data.path(), &[])
        .env("PW_MCP_PROXY__MAIN_INSTANCES", "2")
        .env("PW_MCP_PROXY__MAIN_IS_DEFAULT", "true")
        .env("PW_MCP_PROXY__MAIN_ISOLATED", "true")
        .env("PW_MCP_PROXY__MAIN__1_ALIAS", "second");
    let gateway = GatewayFixture::spawn(pool).await;
    let commands = json!([
        {"tool": "browser_navigate", "args": {"url": site.url("/console")}, "return_result": true},
        {"tool": "browser_click", "args": {"target": "text=Log"}},
        {"tool": "browser_evaluate", "args": {"function": "() => document.title"}, "return_result": true},
    ]);
    let answer = gateway
        .call("", "browser_execute_bulk", json!({"commands": commands, "browser_instance": "second"}))
        .await;
    let bulk_result = answer.response["result"]["structuredContent"].clone();
    assert_eq!(
        (&bulk_result["success"], &bulk_result["executed_count"]),
        (&json!(true), &json!(3)),
        "{bulk_result}"
    );
    let page = text(&bulk_result["results"][0]);
    assert!(page.contains("```yaml\n") && page.contains("heading \"console\""), "no snapshot: {page}");
    assert!(!page.contains(".playwright-mcp/"), "a link is left: {page}");
    assert_eq!(bulk_result["results"][1], Value::Null);
    assert!(text(&bulk_result["results"][2]).contains("console"), "{bulk_result}");

    let commands = json!([
        {"tool": "browser_navigate", "args": {"url": site.url("/console")}},
        {"tool": "browser_click", "args": {"target": "#nothing-is-called-so"}},
        {"tool": "browser_snapshot", "return_result": true},
    ]);
    let answer = gateway
        .call("", "browser_execute_bulk", json!({"commands": commands, "browser_instance": "second"}))
        .await;
    let bulk_result = &answer.response["result"]["structuredContent"];
    assert_eq!(answer.response["result"]["isError"], true);
    assert_eq!(
        (&bulk_result["success"], &bulk_result["stopped_at"]),
        (&json!(false), &json!(1)),
        "{bulk_result}"
    );
    assert!(bulk_result["errors"][1].as_str().unwrap().contains("nothing-is-called-so"), "{bulk_result}");

    let status = gateway.call("", "browser_pool_status", json!({})).await;
    let status: Value = serde_json::from_str(&status.ok()).unwrap();
    let second = &status["pools"][0]["instances"][1];
    assert_eq!((&second["status"], &second["alias"]), (&json!("healthy"), &json!("second")), "{status}");
    assert_eq!((&second["browser"], &second["headless"]), (&json!("chromium"), &json!(true)));
    assert!(second["process_id"].is_u64(), "{status}");
    gateway.end().await;
}
