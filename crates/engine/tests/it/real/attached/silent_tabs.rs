//! Tabs of the user that do not answer, such as tabs that the browser has put to sleep.

use greenroom_testkit::{Site, UserBrowser, until_some};
use serde_json::json;

use super::{Adapter, AttachedFixture};

/// Makes a tab wait for an answer to a request, and do nothing else until another tab makes the same request.
async fn stop(user_browser: &UserBrowser, tab: &str, site: &Site) {
    let before = site.hits("/meet");
    let ask = format!(
        "setTimeout(() => {{ const asked = new XMLHttpRequest(); asked.open('GET', '/meet?count={}', false); asked.send(); }})",
        before + 2
    );
    user_browser.evaluate(tab, &ask).await;
    site.wait_for_hits("/meet", before + 1).await;
}

/// Resumes a tab that `stop` stopped.
async fn wake(user_browser: &UserBrowser, other: &str) {
    user_browser.evaluate(other, "void fetch('/meet')").await;
}

async fn list(fixture: &mut AttachedFixture) -> String {
    match fixture.adapter {
        Adapter::Playwright => fixture.call("browser_tabs", json!({ "action": "list" })).await,
        Adapter::Devtools => fixture.call("list_pages", json!({})).await,
    }
}

/// Waits until the engine lists a tab, or lists it no longer.
async fn until_listed(fixture: &mut AttachedFixture, url: &str, is_listed: bool) {
    until_some(url, async || (list(fixture).await.contains(url) == is_listed).then_some(())).await;
}

/// A tab that does not answer does not keep an engine from the browser: it is hidden until it answers. A tab that stops
/// answering later delays no call for long; from playwright, which asks all tabs with every call, it is hidden until it
/// answers. Nothing in it changes.
#[tokio::test]
async fn silent_tab_is_hidden() {
    // These run concurrently, since they mostly wait.
    tokio::join!(check_silent_tab(Adapter::Playwright), check_silent_tab(Adapter::Devtools));
}

async fn check_silent_tab(adapter: Adapter) {
    let site = Site::start().await;
    let user_browser = UserBrowser::start().await;
    // Another host name, so that no other tab shares its process.
    let url = format!("http://localhost:{}/title?t=stuck", site.port());
    let stuck = user_browser.open(&url).await;
    let other = user_browser.open(&site.url("/title?t=other")).await;
    stop(&user_browser, &stuck, &site).await;

    let mut fixture = AttachedFixture::with_seat(adapter, &user_browser).await;
    fixture.navigate(&site.url("/title?t=own")).await;
    let listed = list(&mut fixture).await;
    assert!(listed.contains("t=other") && !listed.contains("t=stuck"), "{adapter:?}: {listed}");
    wake(&user_browser, &other).await;
    until_listed(&mut fixture, "t=stuck", true).await;

    stop(&user_browser, &stuck, &site).await;
    fixture.navigate(&site.url("/title?t=again")).await;
    assert!(fixture.evaluate("() => location.search").await.contains("t=again"), "{adapter:?}");
    if adapter == Adapter::Playwright {
        until_listed(&mut fixture, "t=stuck", false).await;
    }
    fixture.navigate(&site.url("/title?t=on")).await;
    wake(&user_browser, &other).await;
    until_listed(&mut fixture, "t=stuck", true).await;

    fixture.stop().await;
    let tabs = user_browser.until(|tabs| tabs.iter().any(|tab| tab.id == stuck)).await;
    assert!(tabs.iter().any(|tab| tab.url == url), "{adapter:?}: {tabs:?}");
}

/// A page of the agent's own may take its time: it is not hidden.
#[tokio::test]
async fn busy_own_page_is_not_hidden() {
    // These run concurrently: each takes six seconds, however many processors there are.
    tokio::join!(check_busy_own_page(Adapter::Playwright), check_busy_own_page(Adapter::Devtools));
}

async fn check_busy_own_page(adapter: Adapter) {
    let site = Site::start().await;
    let user_browser = UserBrowser::start().await;
    let mut fixture = AttachedFixture::with_seat(adapter, &user_browser).await;
    fixture.navigate(&site.url("/title?t=own")).await;
    let busy = "() => { const end = Date.now() + 6000; while (Date.now() < end); return 'done'; }";
    assert!(fixture.evaluate(busy).await.contains("done"), "{adapter:?}");
    assert!(fixture.evaluate("() => location.search").await.contains("t=own"), "{adapter:?}");
    fixture.stop().await;
}
