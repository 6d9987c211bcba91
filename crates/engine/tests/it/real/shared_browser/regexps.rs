//! Regular expressions that backtrack without end, in the engine's process that serves all seats.

use greenroom_core::settings::Cap;
use serde_json::json;

use super::{BrowserKind, SharedBrowser, text};

/// An expression that would take years fails its call by name, in every tool that runs one in the engine. Ordinary ones
/// still find their matches, and another seat gets its answers meanwhile.
#[tokio::test]
async fn endless_regular_expression_fails_its_call_only() {
    let browser = SharedBrowser::start_with(BrowserKind::HeadlessShell, |options| {
        options.pool.caps = vec![Cap::Network];
    })
    .await;
    let mut hostile = browser.seat().await;
    let mut neighbour = browser.seat().await;
    let many = "a".repeat(60);
    let url = browser.site.url(&format!("/title?t={many}"));
    hostile.call("browser_navigate", json!({ "url": url })).await;
    hostile.evaluate(&format!("() => {{ document.body.innerHTML = '<p>Error {many}</p>'; }}")).await;

    for regex in ["/(A+)+!/i", "(?=(a*)*!)", "a*a*a*a*a*a*a*a*a*a*!"] {
        let (find, other) = tokio::join!(
            hostile.reply("browser_find", json!({ "regex": regex })),
            neighbour.evaluate("() => 1 + 1")
        );
        let said = text(&find);
        assert!(
            find.is_failure() && said.contains("the regular expression takes too long"),
            "{regex}: {said}"
        );
        assert_eq!(other, json!(2));
    }
    let filter =
        hostile.reply("browser_network_requests", json!({ "filter": "(a+)+!", "static": true })).await;
    assert!(filter.is_failure() && text(&filter).contains("takes too long"), "{}", text(&filter));

    let found = hostile.call("browser_find", json!({ "regex": "/error a+/i" })).await;
    assert!(found.contains("Found 1 match"), "{found}");
    let found = hostile.call("browser_find", json!({ "regex": "(Er+or|Warning) (a|b)*$" })).await;
    assert!(found.contains("Found 1 match"), "{found}");
    let listed =
        hostile.call("browser_network_requests", json!({ "filter": "title.*a{60}", "static": true })).await;
    assert!(listed.contains(&many), "{listed}");

    // The engine does not catch errors while it compares a route's pattern with addresses, so there the limit makes the
    // pattern match nothing.
    let pattern = format!("{}!", "**a".repeat(30));
    hostile.call("browser_route", json!({ "pattern": pattern, "status": 418 })).await;
    let status = hostile.evaluate("() => fetch(location.href).then((response) => response.status)").await;
    assert_eq!(status, json!(200));
    assert_eq!(neighbour.evaluate("() => 1 + 1").await, json!(2));
    browser.end().await;
}
