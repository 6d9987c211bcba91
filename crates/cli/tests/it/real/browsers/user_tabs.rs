//! greenroom does not touch what is not its own: other tabs, logins, and the browser itself.

use greenroom_testkit::{Site, UserBrowser, process::Signal};
use serde_json::json;

use super::{
    super::fixture::{DataFolder, GatewayFixture, launch},
    AttachedFixture, all_of, configured, with,
};

/// The agent works in a tab of its own, with the person's cookies; when greenroom ends, by its client's end or by a signal,
/// it closes its tab and nothing else.
#[tokio::test]
async fn attached_browser_is_left_as_it_was() {
    let site = Site::start().await;
    let user_browsers = all_of(1).await;
    let person = site.url("/canary?name=person");
    user_browsers[0].open(&person).await;
    user_browsers[0].wait_for_urls(&["about:blank", &person]).await;
    let before = user_browsers[0].tabs().await;
    let pid = user_browsers[0].pid();
    let urls = vec![user_browsers[0].url()];

    let attached = AttachedFixture::to(user_browsers, &urls, &[]).await;
    let shown = attached.gateway.navigate("", &site.url("/show")).await.ok();
    assert!(shown.contains("person"), "the person's cookies are there: {shown}");
    attached.user_browsers[0].wait_for_urls(&["about:blank", &person, &site.url("/show")]).await;
    let AttachedFixture { gateway, mut user_browsers, .. } = attached;
    gateway.end().await;
    assert_eq!(user_browsers[0].tabs().await, before);

    let data = DataFolder::new();
    let gateway = GatewayFixture::spawn(with(launch(data.path(), &[]), &urls)).await;
    gateway.navigate("", &site.url("/popup")).await.ok();
    let opened =
        gateway.call("", "browser_click", json!({ "target": "button", "element": "Open a tab" })).await;
    opened.ok();
    let popup = site.url("/title?t=popup%20by%20button");
    user_browsers[0].wait_for_urls(&["about:blank", &person, &site.url("/popup"), &popup]).await;
    gateway.client.signal(Signal::TERM);
    gateway.client.wait().await;
    assert_eq!(user_browsers[0].tabs().await, before, "what its tabs opened is closed with them");
    assert_eq!(user_browsers[0].pid(), pid);
    user_browsers[0].kill().await;
}

/// `browser_close` and the end of a session close tabs of the session's own, never the browser; the next call has a new
/// tab.
pub async fn closing_closes_own_tabs(attached: &AttachedFixture) {
    let site = Site::start().await;
    let user_browser = &attached.user_browsers[0];
    attached.gateway.call("", "browser_close", json!({})).await.ok();
    user_browser.wait_for_urls(&["about:blank"]).await;
    let before = user_browser.tabs().await;
    attached.gateway.navigate("", &site.url("/title?t=first")).await.ok();
    attached.gateway.call("", "browser_close", json!({})).await.ok();
    user_browser.wait_for_urls(&["about:blank"]).await;
    assert_eq!(user_browser.tabs().await, before);

    attached.gateway.navigate("a", &site.url("/title?t=second")).await.ok();
    user_browser.wait_for_urls(&["about:blank", &site.url("/title?t=second")]).await;
    attached.gateway.call("a", "session_close", json!({})).await.ok();
    assert_eq!(user_browser.tabs().await, before);
    assert!(user_browser.runs());
}

/// A page that closes itself does not put the agent onto the person's tab.
pub async fn user_tabs_are_not_taken(attached: &AttachedFixture) {
    let site = Site::start().await;
    let user_browser = &attached.user_browsers[0];
    let person = site.url("/title?t=person");
    user_browser.open(&person).await;
    user_browser.wait_for_urls(&["about:blank", &person]).await;
    let before = user_browser.tabs().await;
    attached.gateway.navigate("", &site.url("/popup")).await.ok();
    attached.gateway.call("", "browser_tabs", json!({ "action": "close" })).await.ok();
    attached.gateway.navigate("", &site.url("/title?t=agent")).await.ok();
    attached.user_browsers[0].wait_for_urls(&["about:blank", &person, &site.url("/title?t=agent")]).await;
    for tab in before {
        assert!(attached.user_browsers[0].tabs().await.contains(&tab), "{tab:?} was touched");
    }
    // An agent may select another tab by its number.
    let listed = attached.gateway.call("", "browser_tabs", json!({ "action": "list" })).await.ok();
    assert!(listed.contains("t=person"), "{listed}");
}

/// A killed greenroom leaves its tab behind; the next one that attaches closes that tab, and no other.
#[tokio::test]
async fn tab_of_a_killed_greenroom_is_closed() {
    let site = Site::start().await;
    let user_browser = UserBrowser::start().await;
    let before = user_browser.tabs().await;
    let urls = vec![user_browser.url()];
    let data = DataFolder::new();
    let gateway = GatewayFixture::spawn(with(launch(data.path(), &[]), &urls)).await;
    gateway.navigate("", &site.url("/title?t=left")).await.ok();
    gateway.client.kill();
    gateway.client.wait().await;
    let person = site.url("/title?t=person");
    user_browser.open(&person).await;
    user_browser.wait_for_urls(&["about:blank", &site.url("/title?t=left"), &person]).await;

    let gateway = GatewayFixture::spawn(with(launch(data.path(), &[]), &urls)).await;
    gateway.navigate("", &site.url("/title?t=next")).await.ok();
    user_browser.wait_for_urls(&["about:blank", &person, &site.url("/title?t=next")]).await;
    gateway.end().await;
    user_browser.wait_for_urls(&["about:blank", &person]).await;
    assert!(user_browser.tabs().await.contains(&before[0]), "the person's first tab is the same one");
}

/// With `isolated`, a browser holds several sessions in contexts of their own, without the person's cookies, and the
/// contexts end with greenroom.
#[tokio::test]
async fn isolated_sessions_have_their_own_contexts() {
    let site = Site::start().await;
    let user_browser = UserBrowser::start().await;
    let person = site.url("/canary?name=person");
    user_browser.open(&person).await;
    user_browser.wait_for_urls(&["about:blank", &person]).await;
    let before = user_browser.tabs().await;
    let data = DataFolder::new();
    let toml = format!(
        "[[browsers]]\nurl = \"{}\"\nlabel = \"work\"\nisolated = true\nslots = 2\n",
        user_browser.url()
    );
    let gateway = configured(&data, &toml, &[]).await;
    for name in ["a", "b"] {
        gateway.navigate(name, &site.url(&format!("/canary?name={name}"))).await.ok();
    }
    for (name, other) in [("a", "canary=b"), ("b", "canary=a")] {
        let shown = gateway.navigate(name, &site.url("/show")).await.ok();
        assert!(shown.contains(&format!("canary={name}")), "{shown}");
        assert!(!shown.contains("person") && !shown.contains(other), "{shown}");
    }
    assert_eq!(user_browser.contexts().await.len(), 2);
    gateway.end().await;
    assert_eq!((user_browser.tabs().await, user_browser.contexts().await.len()), (before, 0));
}
