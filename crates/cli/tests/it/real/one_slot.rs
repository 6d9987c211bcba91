//! One slot per instance: a browser and a Node of its own for every session, and only there unsafe tools.

use greenroom_testkit::Site;
use serde_json::json;

use super::{
    fixture::{DataFolder, GatewayFixture},
    inspect,
};

const UNSAFE: &str = "browser_run_code_unsafe";

/// With one slot each session has its own processes, and with `tools.unsafe` may run code in its own Node.
#[tokio::test]
async fn one_slot_sessions_have_their_own_processes() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let gateway = GatewayFixture::start(&data, &["--pool-slots", "1", "--tools-unsafe"]).await;
    assert!(lists_unsafe(&gateway).await);
    for session in ["a", "b"] {
        gateway.navigate(session, &site.url(&format!("/canary?name={session}"))).await.ok();
    }
    let pid = gateway.client.pid();
    assert_eq!((inspect::browsers(pid).len(), inspect::engines(pid).len()), (2, 2));
    for (session, other) in [("a", "b"), ("b", "a")] {
        let shown = gateway.navigate(session, &site.url("/show")).await.ok_without_restart();
        assert!(shown.contains(&format!("canary={session}")) && !shown.contains(&format!("canary={other}")));
        // Code in the engine sees one browser context, this session's.
        let code =
            "async (page) => (await page.context().browser().contexts()).flatMap(c => c.pages()).length";
        let seen = gateway.call(session, UNSAFE, json!({ "code": code })).await.ok();
        assert!(seen.contains("### Result\n1"), "{seen}");
    }
    gateway.call("a", "session_close", json!({})).await.ok();
    assert_eq!(inspect::engines(pid).len(), 1, "a closed session's Node is gone");
    gateway.end().await;
}

/// Without `tools.unsafe` the tool is neither shown nor run, with one slot and with many.
#[tokio::test]
async fn unsafe_tools_are_off_by_default() {
    let data = DataFolder::new();
    for slots in ["1", "16"] {
        let gateway = GatewayFixture::start(&data, &["--pool-slots", slots]).await;
        assert!(!lists_unsafe(&gateway).await);
        let refused = gateway.call("a", UNSAFE, json!({ "code": "async () => process.pid" })).await;
        assert_eq!(refused.code(), "tool_refused", "{}", refused.text());
        assert_eq!(inspect::engines(gateway.client.pid()).len(), 0, "nothing is started for a refused call");
        gateway.end().await;
    }
}

async fn lists_unsafe(gateway: &GatewayFixture) -> bool {
    let list = gateway.client.request("tools/list", json!({})).await;
    list["result"]["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == UNSAFE)
}
