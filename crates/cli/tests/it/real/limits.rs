//! A browser's limits as an agent and an operator see them.

use greenroom_testkit::{Site, eventually};
use serde_json::json;

use super::fixture::{DataFolder, GatewayFixture};

/// Takes 500 MiB in the page's own process.
const GREEDY: &str = "() => { window.array = new Uint8Array(500 << 20).fill(1); return 'taken'; }";

/// A page that takes more memory than its browser may is ended. The answer names the setting and the page, the log names the
/// setting and the session, and another session in the same browser keeps its page.
#[tokio::test]
async fn page_over_the_memory_limit_is_named() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let gateway = GatewayFixture::start(&data, &["--pool-memory-bytes-max", "400MiB"]).await;
    let url = site.url("/canary?name=greedy");
    gateway.navigate("greedy", &url).await.ok_without_restart();
    gateway.navigate("neighbour", &site.url("/canary?name=neighbour")).await.ok_without_restart();
    // The page may be ended before it has answered.
    let mut texts = gateway.evaluate("greedy", GREEDY).await.text();
    eventually("the log of the ended page", || {
        gateway.client.stderr().contains("ended a page").then_some(())
    })
    .await;
    // The engine may notice it a moment after greenroom: then this call fails.
    texts += &gateway.navigate("greedy", &site.url("/show")).await.text();
    let note = "a tab crashed (greenroom ended it: it took too much memory (pool.memory_bytes_max)): ";
    assert!(texts.contains(&format!("{note}{url}")), "{texts}");
    let log = gateway.client.stderr();
    let line = log.lines().find(|line| line.contains("a tab of the session crashed")).unwrap_or_default();
    assert!(line.contains("greedy") && line.contains("pool.memory_bytes_max"), "{log}");
    let text = gateway.navigate("greedy", &site.url("/show")).await.ok_without_restart();
    assert!(text.contains("canary=greedy"), "its session has lost nothing but the tab: {text}");
    let snapshot = gateway.call("neighbour", "browser_snapshot", json!({})).await.ok_without_restart();
    assert!(snapshot.contains("heading \"canary neighbour\"") && !snapshot.contains("crashed"), "{snapshot}");
    gateway.end().await;
}
