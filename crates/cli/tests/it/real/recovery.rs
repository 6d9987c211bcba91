//! Ordinary errors are not treated as crashes.

use greenroom_testkit::Site;
use serde_json::json;

use super::house::{Data, GatewayFixture};

/// Failed tools, stale references and `browser_close` leave the session as it is.
#[tokio::test]
async fn failed_tools_keep_the_session() {
    let data = Data::new();
    let site = Site::start().await;
    let house = GatewayFixture::start(&data, &["--pool-timeout-action", "1s"]).await;
    let page = house.navigate("a", &site.url("/")).await.ok();
    let stale = page.lines().find_map(|line| line.split_once("link \"show\" [ref=")?.1.split(']').next());
    let stale = stale.unwrap_or_else(|| panic!("no reference: {page}")).to_owned();
    house.navigate("a", &site.url("/canary?name=kept")).await.ok();

    let click = house.call("a", "browser_click", json!({ "target": stale })).await.failed();
    assert!(click.contains(&stale) && click.contains("not found"), "a stale reference is not named: {click}");
    assert_eq!(site.hits("/show"), 0);
    house.call("a", "browser_click", json!({ "target": "#nothing" })).await.failed();
    let thrown = house.evaluate("a", "() => { throw new Error('the page says no'); }").await.failed();
    assert!(thrown.contains("the page says no"), "{thrown}");
    house.navigate("a", "http://nothing.invalid/").await;
    house.navigate("a", &site.url("/show")).await.unbroken();
    house.call("a", "browser_tabs", json!({ "action": "select", "index": 99 })).await.failed();
    let wrong = house.call("a", "browser_click", json!({ "nonsense": 1 })).await;
    assert_eq!(wrong.code(), "invalid_arguments", "{}", wrong.text());
    let shown = house.call("a", "browser_snapshot", json!({})).await.unbroken();
    assert!(shown.contains("canary=kept"), "the session lost its cookie: {shown}");

    // Emptied, the session keeps its name and its slot, and the next call finds it without a note.
    house.call("a", "browser_close", json!({})).await.unbroken();
    let listed = house.sessions().await;
    assert_eq!((listed.len(), &listed[0]["id"], &listed[0]["url"]), (1, &json!("a"), &json!("")));
    house.call("a", "browser_close", json!({})).await.unbroken();
    let emptied = house.navigate("a", &site.url("/show")).await.unbroken();
    assert!(!emptied.contains("canary="), "an old cookie: {emptied}");
    assert_eq!(house.sessions().await[0]["url"], site.url("/show"));

    // Closing the last tab with the tool is no crash either.
    house.call("a", "browser_tabs", json!({ "action": "close" })).await.unbroken();
    house.navigate("a", &site.url("/title?t=again")).await.unbroken();
    house.end().await;
}
