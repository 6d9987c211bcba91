//! A browser or a page that dies is noticed, reported, and replaced; never silently.

use greenroom_testkit::{
    Site,
    process::{Signal, signal},
};
use serde_json::json;

use super::{
    fixture::{DataFolder, GatewayFixture, answer},
    inspect,
};

/// A browser killed during a call fails that call, its other sessions carry a note in their next one, and sessions in
/// another browser notice nothing.
#[tokio::test]
async fn killed_browser_fails_its_call_and_notes_its_sessions() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let gateway = GatewayFixture::start(&data, &["--pool-slots", "2"]).await;
    for session in ["a", "b"] {
        gateway.navigate(session, &site.url(&format!("/canary?name={session}"))).await.ok_without_restart();
    }
    let first = inspect::browsers(gateway.client.pid());
    gateway.navigate("c", &site.url("/canary?name=c")).await.ok_without_restart();
    assert_eq!((first.len(), inspect::browsers(gateway.client.pid()).len()), (1, 2));

    let pending = gateway.hang("a", &site, "/hang-1").await;
    let queued = gateway.start_call("a", "browser_snapshot", json!({})).await;
    signal(first[0], Signal::KILL);
    answer(pending).await.lost("the browser ended (signal: 9 (SIGKILL)");
    let queued = answer(queued).await;
    assert!(queued.failed().contains("the browser ended"), "{}", queued.text());
    assert_eq!(queued.code(), "not_run");
    gateway.until_lost("b").await;
    for session in ["a", "b"] {
        let text = gateway.navigate(session, &site.url("/show")).await.restarted("the browser ended");
        assert!(text.contains("this is a new, empty browser"), "{text}");
        assert!(text.contains("server saw:") && !text.contains("canary="), "an old cookie: {text}");
        gateway.call(session, "browser_snapshot", json!({})).await.ok_without_restart();
    }
    let snapshot = gateway.call("c", "browser_snapshot", json!({})).await.ok_without_restart();
    assert!(snapshot.contains("heading \"canary c\""), "{snapshot}");

    // Between calls.
    for browser in inspect::browsers(gateway.client.pid()) {
        signal(browser, Signal::KILL);
    }
    for session in ["a", "b", "c"] {
        gateway.until_lost(session).await;
        gateway.call(session, "browser_snapshot", json!({})).await.restarted("the browser ended (signal: 9");
        gateway.call(session, "browser_snapshot", json!({})).await.ok_without_restart();
    }
    gateway.end().await;
}

/// A page that crashes costs its tab: the session keeps its cookies and other tabs, and the next answer has the URL that
/// crashed. The browser and its other sessions go on.
#[tokio::test]
async fn crashed_page_costs_only_its_tab() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let gateway = GatewayFixture::start(&data, &["--pool-slots", "1"]).await;
    gateway.navigate("other", &site.url("/canary?name=other")).await.ok();
    let other = inspect::browsers(gateway.client.pid());
    gateway.navigate("a", &site.url("/canary?name=a")).await.ok();
    let kill_pages = || {
        let browsers = inspect::browsers(gateway.client.pid());
        let pages =
            browsers.into_iter().filter(|browser| !other.contains(browser)).flat_map(inspect::renderers);
        pages.for_each(|page| signal(page, Signal::KILL));
    };
    let note = format!("): {}; what it showed is gone", site.url("/canary?name=a"));

    // Killed during a call, which fails and says so.
    let pending = gateway.hang("a", &site, "/hang-1").await;
    kill_pages();
    let text = answer(pending).await.failed();
    assert!(text.contains("a tab crashed (") && text.contains(&note), "{text}");
    let text = gateway.navigate("a", &site.url("/show")).await.ok_without_restart();
    assert!(text.contains("canary=a") && !text.contains("a tab crashed"), "{text}");
    gateway.call("a", "browser_snapshot", json!({})).await.ok_without_restart();

    // Killed between calls. The engine may notice it a moment after greenroom: then the first call fails.
    kill_pages();
    let first = gateway.call("a", "browser_snapshot", json!({})).await;
    let second = gateway.navigate("a", &site.url("/show")).await;
    assert!(second.ok_without_restart().contains("canary=a"), "{}", second.text());
    let texts = [first.text(), second.text()].concat();
    assert_eq!(texts.matches("a tab crashed (").count(), 1, "once, not {texts}");
    assert!(texts.contains(&format!("): {}; what it showed", site.url("/show"))), "{texts}");

    let snapshot = gateway.call("other", "browser_snapshot", json!({})).await.ok_without_restart();
    assert!(snapshot.contains("heading \"canary other\""), "{snapshot}");
    assert!(!snapshot.contains("a tab crashed"), "{snapshot}");
    gateway.end().await;
}

/// A network service that dies takes the cookies of all sessions along: they are restarted, and the next answer of each
/// says why. Sessions in another browser notice nothing.
#[tokio::test]
async fn killed_network_service_restarts_its_sessions() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let gateway = GatewayFixture::start(&data, &["--pool-slots", "2"]).await;
    for session in ["a", "b"] {
        gateway.navigate(session, &site.url(&format!("/canary?name={session}"))).await.ok_without_restart();
    }
    let first = inspect::browsers(gateway.client.pid());
    gateway.navigate("c", &site.url("/canary?name=c")).await.ok_without_restart();
    let networks = inspect::network_services(first[0]);
    assert_eq!((first.len(), networks.len()), (1, 1));
    signal(networks[0], Signal::KILL);
    for session in ["a", "b"] {
        gateway.until_lost(session).await;
        let why = "the browser's network service ended: cookies that its sessions had in memory are gone";
        let text = gateway.navigate(session, &site.url("/show")).await.restarted(why);
        assert!(!text.contains("canary="), "an old cookie: {text}");
    }
    let snapshot = gateway.navigate("c", &site.url("/show")).await.ok_without_restart();
    assert!(snapshot.contains("canary=c"), "{snapshot}");
    gateway.end().await;
}
