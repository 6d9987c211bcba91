//! greenroom leaves what is not its own: other tabs, logins, and the browser itself.

use greenroom_testkit::{Site, Theirs, process::Signal};
use serde_json::json;

use super::{
    super::house::{Data, GatewayFixture, launch},
    Attached, all_of, configured, with,
};

/// The agent works in a tab of its own, with the person's cookies; when greenroom ends, by its client's end or by a signal,
/// it closes its tab and nothing else.
#[tokio::test]
async fn attached_browser_is_left_as_it_was() {
    let site = Site::start().await;
    let theirs = all_of(1).await;
    let person = site.url("/canary?name=person");
    theirs[0].open(&person).await;
    theirs[0].wait_for_urls(&["about:blank", &person]).await;
    let before = theirs[0].tabs().await;
    let pid = theirs[0].pid();
    let urls = vec![theirs[0].url()];

    let attached = Attached::to(theirs, &urls, &[]).await;
    let shown = attached.house.navigate("", &site.url("/show")).await.ok();
    assert!(shown.contains("person"), "the person's cookies are there: {shown}");
    attached.theirs[0].wait_for_urls(&["about:blank", &person, &site.url("/show")]).await;
    let Attached { house, mut theirs, .. } = attached;
    house.end().await;
    assert_eq!(theirs[0].tabs().await, before);

    let data = Data::new();
    let house = GatewayFixture::of(with(launch(data.path(), &[]), &urls)).await;
    house.navigate("", &site.url("/popup")).await.ok();
    let opened =
        house.call("", "browser_click", json!({ "target": "button", "element": "Open a tab" })).await;
    opened.ok();
    let popup = site.url("/title?t=popup%20by%20button");
    theirs[0].wait_for_urls(&["about:blank", &person, &site.url("/popup"), &popup]).await;
    house.client.signal(Signal::TERM);
    house.client.wait().await;
    assert_eq!(theirs[0].tabs().await, before, "what its tabs opened is closed with them");
    assert_eq!(theirs[0].pid(), pid);
    theirs[0].kill().await;
}

/// `browser_close` and the end of a session close tabs of the session's own, never the browser; the next call has a new
/// tab.
pub async fn closing_closes_own_tabs(attached: &Attached) {
    let site = Site::start().await;
    let theirs = &attached.theirs[0];
    attached.house.call("", "browser_close", json!({})).await.ok();
    theirs.wait_for_urls(&["about:blank"]).await;
    let before = theirs.tabs().await;
    attached.house.navigate("", &site.url("/title?t=first")).await.ok();
    attached.house.call("", "browser_close", json!({})).await.ok();
    theirs.wait_for_urls(&["about:blank"]).await;
    assert_eq!(theirs.tabs().await, before);

    attached.house.navigate("a", &site.url("/title?t=second")).await.ok();
    theirs.wait_for_urls(&["about:blank", &site.url("/title?t=second")]).await;
    attached.house.call("a", "session_close", json!({})).await.ok();
    assert_eq!(theirs.tabs().await, before);
    assert!(theirs.runs());
}

/// A page that closes itself does not put the agent onto the person's tab.
pub async fn the_neighbour_is_not_taken(attached: &Attached) {
    let site = Site::start().await;
    let theirs = &attached.theirs[0];
    let person = site.url("/title?t=person");
    theirs.open(&person).await;
    theirs.wait_for_urls(&["about:blank", &person]).await;
    let before = theirs.tabs().await;
    attached.house.navigate("", &site.url("/popup")).await.ok();
    attached.house.call("", "browser_tabs", json!({ "action": "close" })).await.ok();
    attached.house.navigate("", &site.url("/title?t=agent")).await.ok();
    attached.theirs[0].wait_for_urls(&["about:blank", &person, &site.url("/title?t=agent")]).await;
    for tab in before {
        assert!(attached.theirs[0].tabs().await.contains(&tab), "{tab:?} was touched");
    }
    // An agent may select another tab by its number.
    let listed = attached.house.call("", "browser_tabs", json!({ "action": "list" })).await.ok();
    assert!(listed.contains("t=person"), "{listed}");
}

/// A killed greenroom leaves its tab behind; the next one that attaches closes that tab, and no other.
#[tokio::test]
async fn tab_of_a_killed_greenroom_is_closed() {
    let site = Site::start().await;
    let theirs = Theirs::start().await;
    let before = theirs.tabs().await;
    let urls = vec![theirs.url()];
    let data = Data::new();
    let house = GatewayFixture::of(with(launch(data.path(), &[]), &urls)).await;
    house.navigate("", &site.url("/title?t=left")).await.ok();
    house.client.kill();
    house.client.wait().await;
    let person = site.url("/title?t=person");
    theirs.open(&person).await;
    theirs.wait_for_urls(&["about:blank", &site.url("/title?t=left"), &person]).await;

    let house = GatewayFixture::of(with(launch(data.path(), &[]), &urls)).await;
    house.navigate("", &site.url("/title?t=next")).await.ok();
    theirs.wait_for_urls(&["about:blank", &person, &site.url("/title?t=next")]).await;
    house.end().await;
    theirs.wait_for_urls(&["about:blank", &person]).await;
    assert!(theirs.tabs().await.contains(&before[0]), "the person's first tab is the same one");
}

/// With `isolated`, a browser holds several sessions in contexts of their own, without the person's cookies, and the
/// contexts end with greenroom.
#[tokio::test]
async fn isolated_sessions_have_their_own_contexts() {
    let site = Site::start().await;
    let theirs = Theirs::start().await;
    let person = site.url("/canary?name=person");
    theirs.open(&person).await;
    theirs.wait_for_urls(&["about:blank", &person]).await;
    let before = theirs.tabs().await;
    let data = Data::new();
    let toml =
        format!("[[browsers]]\nurl = \"{}\"\nlabel = \"work\"\nisolated = true\nslots = 2\n", theirs.url());
    let house = configured(&data, &toml, &[]).await;
    for name in ["a", "b"] {
        house.navigate(name, &site.url(&format!("/canary?name={name}"))).await.ok();
    }
    for (name, other) in [("a", "canary=b"), ("b", "canary=a")] {
        let shown = house.navigate(name, &site.url("/show")).await.ok();
        assert!(shown.contains(&format!("canary={name}")), "{shown}");
        assert!(!shown.contains("person") && !shown.contains(other), "{shown}");
    }
    assert_eq!(theirs.contexts().await.len(), 2);
    house.end().await;
    assert_eq!((theirs.tabs().await, theirs.contexts().await.len()), (before, 0));
}
