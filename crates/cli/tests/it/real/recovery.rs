//! Ordinary errors are not treated as crashes.

use greenroom_testkit::Site;
use serde_json::json;

use super::fixture::{DataFolder, GatewayFixture};

/// Failed tools, stale references and `browser_close` leave the session as it is.
#[tokio::test]
async fn failed_tools_keep_the_session() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let gateway = GatewayFixture::start(&data, &["--pool-timeout-action", "1s"]).await;
    let page = gateway.navigate("a", &site.url("/")).await.ok();
    let stale = page.lines().find_map(|line| line.split_once("link \"show\" [ref=")?.1.split(']').next());
    let stale = stale.unwrap_or_else(|| panic!("no reference: {page}")).to_owned();
    gateway.navigate("a", &site.url("/canary?name=kept")).await.ok();

    let click = gateway.call("a", "browser_click", json!({ "target": stale })).await.failed();
    assert!(click.contains(&stale) && click.contains("not found"), "a stale reference is not named: {click}");
    assert_eq!(site.hits("/show"), 0);
    gateway.call("a", "browser_click", json!({ "target": "#nothing" })).await.failed();
    let thrown = gateway.evaluate("a", "() => { throw new Error('the page says no'); }").await.failed();
    assert!(thrown.contains("the page says no"), "{thrown}");
    gateway.navigate("a", "http://nothing.invalid/").await;
    gateway.navigate("a", &site.url("/show")).await.ok_without_restart();
    gateway.call("a", "browser_tabs", json!({ "action": "select", "index": 99 })).await.failed();
    let wrong = gateway.call("a", "browser_click", json!({ "nonsense": 1 })).await;
    assert_eq!(wrong.code(), "invalid_arguments", "{}", wrong.text());
    let shown = gateway.call("a", "browser_snapshot", json!({})).await.ok_without_restart();
    assert!(shown.contains("canary=kept"), "the session lost its cookie: {shown}");

    // Emptied, the session keeps its name and its slot, and the next call finds it without a note.
    gateway.call("a", "browser_close", json!({})).await.ok_without_restart();
    let listed = gateway.sessions().await;
    assert_eq!((listed.len(), &listed[0]["id"], &listed[0]["url"]), (1, &json!("a"), &json!("")));
    gateway.call("a", "browser_close", json!({})).await.ok_without_restart();
    let emptied = gateway.navigate("a", &site.url("/show")).await.ok_without_restart();
    assert!(!emptied.contains("canary="), "an old cookie: {emptied}");
    assert_eq!(gateway.sessions().await[0]["url"], site.url("/show"));

    // Closing the last tab with the tool is no crash either.
    gateway.call("a", "browser_tabs", json!({ "action": "close" })).await.ok_without_restart();
    gateway.navigate("a", &site.url("/title?t=again")).await.ok_without_restart();
    gateway.end().await;
}
