//! Files that the engine only links to are in the answer itself.

use std::collections::BTreeSet;

use greenroom_testkit::Site;
use serde_json::json;

use super::fixture::{DataFolder, GatewayFixture};

/// Snapshots and console lines are in the answers of navigate and click, big pages whole, screenshots as images.
#[tokio::test]
async fn linked_files_are_in_the_answer() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let gateway = GatewayFixture::start(&data, &["--inline-tokens", "1000000"]).await;

    let page = gateway.navigate("", &site.url("/console")).await.ok();
    assert!(page.contains("```yaml\n") && page.contains("heading \"console\""), "no snapshot: {page}");
    for line in ["[LOG] a log line", "[WARNING] a warning line", "[ERROR] an error line"] {
        assert!(page.contains(line), "no `{line}`: {page}");
    }
    let clicked = gateway.call("", "browser_click", json!({ "target": "text=Log" })).await.ok();
    assert!(clicked.contains("[LOG] a logged click") && clicked.contains("button \"Log\""), "{clicked}");
    assert!(!clicked.contains("a log line"), "lines of an earlier answer: {clicked}");
    let thrown = gateway.call("", "browser_click", json!({ "target": "text=Throw" })).await.ok();
    assert!(thrown.contains("a thrown error"), "{thrown}");
    let messages = gateway.call("", "browser_console_messages", json!({})).await.ok();
    for line in ["a log line", "a warning line", "an error line", "a logged click"] {
        assert!(messages.contains(line), "no `{line}` at the default level: {messages}");
    }
    let errors = gateway.call("", "browser_console_messages", json!({ "level": "error" })).await.ok();
    assert!(errors.contains("an error line") && !errors.contains("a log line"), "{errors}");

    let table = gateway.navigate("", &site.url("/table?rows=2000")).await.ok();
    // One walk over the text: 2,000 searches of it take longer than all the browser does here.
    let rows = table.split("button \"open ").skip(1).filter_map(|rest| rest.split('"').next()?.parse().ok());
    let rows: BTreeSet<i32> = rows.collect();
    let missing: Vec<_> = (1..=2000).filter(|row| !rows.contains(row)).collect();
    assert_eq!(missing, Vec::<i32>::new(), "rows are missing");
    let snapshot = gateway.call("", "browser_snapshot", json!({})).await.ok();
    assert!(snapshot.contains("button \"open 2000\""));

    let shot = gateway.call("", "browser_take_screenshot", json!({ "type": "png" })).await;
    shot.ok();
    let parts = shot.response["result"]["content"].as_array().unwrap();
    let image = parts.iter().find(|part| part["type"] == "image").expect("a screenshot has its image");
    assert_eq!(image["mimeType"], "image/png");
    assert!(image["data"].as_str().unwrap().starts_with("iVBORw0KGgo"), "no PNG");
    for text in [page, clicked, thrown, messages, table, snapshot] {
        assert!(!text.contains(".playwright-mcp/"), "a link is left: {text}");
    }
    gateway.end().await;
}
