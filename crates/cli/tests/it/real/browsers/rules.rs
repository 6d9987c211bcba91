//! Which browser a call means: with one browser it names none, with several it names one.

use greenroom_testkit::Site;
use serde_json::{Value, json};

use super::AttachedFixture;

/// Whether a tool's list entry has a parameter.
async fn shows(attached: &AttachedFixture, tool: &str, parameter: &str) -> bool {
    let listed = attached.gateway.client.request("tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().unwrap().clone();
    let tool = tools.iter().find(|entry| entry["name"] == tool).unwrap_or_else(|| panic!("no {tool}"));
    !tool["inputSchema"]["properties"][parameter].is_null()
}

/// "Single browser + browserIndex specified → ERROR; single browser + no browserIndex → SUCCESS."
pub async fn single_browser_needs_no_index(attached: &AttachedFixture) {
    let site = Site::start().await;
    let url = attached.user_browsers[0].url();
    let (text, _) = attached.list().await;
    let pending = format!(
        "Total browsers: 1\n\n[1] {url} - pending\n\nSingle browser mode: browserIndex parameter must NOT be specified."
    );
    assert_eq!(text, pending, "nothing is connected before the first call");
    assert!(!shows(attached, "browser_navigate", "browserIndex").await);

    let refused = attached.navigate(1, &site.url("/title?t=wrong")).await;
    assert!(refused.failed().contains("browserIndex must NOT be specified"), "{}", refused.text());
    assert_eq!(site.hits("/title"), 0);

    let fine = attached.gateway.navigate("", &site.url("/title?t=right")).await;
    assert!(fine.ok().contains("right"));
    assert_eq!(attached.list().await.0, pending.replace("pending", "connected"));
}

/// "Multiple browsers + no browserIndex → ERROR; multiple browsers + browserIndex specified → SUCCESS." By number, by
/// number in quotes, and each browser is the one that is meant.
pub async fn several_browsers_need_an_index(attached: &AttachedFixture) {
    let site = Site::start().await;
    let refused = attached.gateway.navigate("", &site.url("/title?t=wrong")).await;
    let text = refused.failed();
    assert!(
        text.contains("browserIndex parameter is required when multiple browsers are connected"),
        "{text}"
    );
    assert_eq!(site.hits("/title"), 0);
    assert!(shows(attached, "browser_navigate", "browserIndex").await);

    attached.navigate(1, &site.url("/title?t=one")).await.ok();
    attached.navigate("2", &site.url("/title?t=two")).await.ok();
    attached.user_browsers[0].wait_for_urls(&["about:blank", &site.url("/title?t=one")]).await;
    attached.user_browsers[1].wait_for_urls(&["about:blank", &site.url("/title?t=two")]).await;
    // Pages stay from call to call.
    assert!(attached.call(1, "browser_snapshot", json!({})).await.ok().contains("t=one"));
    assert!(attached.call(2, "browser_snapshot", json!({})).await.ok().contains("t=two"));

    let one = attached.user_browsers[0].url();
    let two = attached.user_browsers[1].url();
    let (text, structured) = attached.list().await;
    assert_eq!(
        text,
        format!(
            "Total browsers: 2\n\n[1] {one} - connected\n[2] {two} - connected\n\nMultiple browsers detected. You MUST specify browserIndex parameter in all tool calls to target a specific browser."
        )
    );
    assert_eq!(structured["browsers"][1]["index"], 2);
    for (odd, why) in
        [(json!(3), "no such browser"), (json!(0), "no such browser"), (json!("nobody"), "no such browser")]
    {
        let refused = attached.navigate(odd.clone(), &site.url("/")).await;
        assert!(refused.failed().contains(why), "{odd}: {}", refused.text());
    }
    for odd in [json!(1.5), json!(true), json!([1]), json!({}), json!(-1)] {
        let refused = attached.navigate(odd.clone(), &site.url("/")).await;
        assert!(refused.failed().contains("browserIndex"), "{odd}: {}", refused.text());
    }
}

/// A session stays in the browser where it began: later calls need not say which, and must not say another.
pub async fn session_stays_in_its_browser(attached: &AttachedFixture) {
    let site = Site::start().await;
    let first = json!({ "url": site.url("/title?t=mine"), "sessionId": "a" });
    let refused = attached.gateway.client.call("browser_navigate", first.clone()).await;
    assert_eq!(refused["result"]["isError"], true, "where a session begins has to be said: {refused}");
    attached.call(2, "browser_navigate", first).await.ok();
    let seen = attached.gateway.call("a", "browser_snapshot", json!({})).await;
    assert!(seen.ok().contains("t=mine"));
    let elsewhere = attached.call(1, "browser_snapshot", json!({ "sessionId": "a" })).await;
    assert!(elsewhere.failed().contains("browser 2"), "{}", elsewhere.text());
    let sessions: Vec<Value> = attached.gateway.sessions().await;
    assert_eq!(sessions[0]["id"], "a");
    attached.gateway.call("a", "session_close", json!({})).await.ok();
}
