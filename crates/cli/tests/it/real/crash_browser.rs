//! A browser or a page that dies is noticed, reported, and replaced; never silently.

use greenroom_testkit::{
    Site,
    process::{Signal, signal},
};
use serde_json::json;

use super::{
    house::{Data, GatewayFixture, answer},
    look,
};

/// A browser killed during a call fails that call, its other sessions carry a note in their next one, and sessions in
/// another browser notice nothing.
#[tokio::test]
async fn killed_browser_fails_its_call_and_notes_its_sessions() {
    let data = Data::new();
    let site = Site::start().await;
    let house = GatewayFixture::start(&data, &["--pool-slots", "2"]).await;
    for session in ["a", "b"] {
        house.navigate(session, &site.url(&format!("/canary?name={session}"))).await.unbroken();
    }
    let first = look::browsers(house.client.pid());
    house.navigate("c", &site.url("/canary?name=c")).await.unbroken();
    assert_eq!((first.len(), look::browsers(house.client.pid()).len()), (1, 2));

    let pending = house.hang("a", &site, "/hang-1").await;
    let queued = house.start_call("a", "browser_snapshot", json!({})).await;
    signal(first[0], Signal::KILL);
    answer(pending).await.lost("the browser ended (signal: 9 (SIGKILL)");
    let queued = answer(queued).await;
    assert!(queued.failed().contains("the browser ended"), "{}", queued.text());
    assert_eq!(queued.code(), "not_run");
    house.until_lost("b").await;
    for session in ["a", "b"] {
        let text = house.navigate(session, &site.url("/show")).await.restarted("the browser ended");
        assert!(text.contains("this is a new, empty browser"), "{text}");
        assert!(text.contains("server saw:") && !text.contains("canary="), "an old cookie: {text}");
        house.call(session, "browser_snapshot", json!({})).await.unbroken();
    }
    let kept = house.call("c", "browser_snapshot", json!({})).await.unbroken();
    assert!(kept.contains("heading \"canary c\""), "{kept}");

    // Between calls.
    for browser in look::browsers(house.client.pid()) {
        signal(browser, Signal::KILL);
    }
    for session in ["a", "b", "c"] {
        house.until_lost(session).await;
        house.call(session, "browser_snapshot", json!({})).await.restarted("the browser ended (signal: 9");
        house.call(session, "browser_snapshot", json!({})).await.unbroken();
    }
    house.end().await;
}

/// A page that crashes costs its tab: the session keeps its cookies and other tabs, and the next answer has the URL that
/// crashed. The browser and its other sessions go on.
#[tokio::test]
async fn crashed_page_costs_only_its_tab() {
    let data = Data::new();
    let site = Site::start().await;
    let house = GatewayFixture::start(&data, &["--pool-slots", "1"]).await;
    house.navigate("other", &site.url("/canary?name=other")).await.ok();
    let other = look::browsers(house.client.pid());
    house.navigate("a", &site.url("/canary?name=a")).await.ok();
    let kill_pages = || {
        let browsers = look::browsers(house.client.pid());
        let pages = browsers.into_iter().filter(|browser| !other.contains(browser)).flat_map(look::renderers);
        pages.for_each(|page| signal(page, Signal::KILL));
    };
    let note = format!("): {}; what it showed is gone", site.url("/canary?name=a"));

    // Killed during a call, which fails and says so.
    let pending = house.hang("a", &site, "/hang-1").await;
    kill_pages();
    let text = answer(pending).await.failed();
    assert!(text.contains("a tab crashed (") && text.contains(&note), "{text}");
    let text = house.navigate("a", &site.url("/show")).await.unbroken();
    assert!(text.contains("canary=a") && !text.contains("a tab crashed"), "{text}");
    house.call("a", "browser_snapshot", json!({})).await.unbroken();

    // Killed between calls. The engine may notice it a moment after greenroom: then the first call fails.
    kill_pages();
    let first = house.call("a", "browser_snapshot", json!({})).await;
    let second = house.navigate("a", &site.url("/show")).await;
    assert!(second.unbroken().contains("canary=a"), "{}", second.text());
    let said = [first.text(), second.text()].concat();
    assert_eq!(said.matches("a tab crashed (").count(), 1, "once, not {said}");
    assert!(said.contains(&format!("): {}; what it showed", site.url("/show"))), "{said}");

    let kept = house.call("other", "browser_snapshot", json!({})).await.unbroken();
    assert!(kept.contains("heading \"canary other\""), "{kept}");
    assert!(!kept.contains("a tab crashed"), "{kept}");
    house.end().await;
}

/// A network service that dies takes the cookies of all sessions along: they are restarted, and the next answer of each
/// says why. Sessions in another browser notice nothing.
#[tokio::test]
async fn killed_network_service_restarts_its_sessions() {
    let data = Data::new();
    let site = Site::start().await;
    let house = GatewayFixture::start(&data, &["--pool-slots", "2"]).await;
    for session in ["a", "b"] {
        house.navigate(session, &site.url(&format!("/canary?name={session}"))).await.unbroken();
    }
    let first = look::browsers(house.client.pid());
    house.navigate("c", &site.url("/canary?name=c")).await.unbroken();
    let networks = look::network_services(first[0]);
    assert_eq!((first.len(), networks.len()), (1, 1));
    signal(networks[0], Signal::KILL);
    for session in ["a", "b"] {
        house.until_lost(session).await;
        let why = "the browser's network service ended: cookies that its sessions had in memory are gone";
        let text = house.navigate(session, &site.url("/show")).await.restarted(why);
        assert!(!text.contains("canary="), "an old cookie: {text}");
    }
    let kept = house.navigate("c", &site.url("/show")).await.unbroken();
    assert!(kept.contains("canary=c"), "{kept}");
    house.end().await;
}
