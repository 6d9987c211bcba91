//! Tabs of the user's that do not answer, such as those that their browser has put to sleep.

use greenroom_testkit::{Site, Theirs, until_some};
use serde_json::json;

use super::{Adapter, Guest};

/// Makes a tab wait for an answer to a request, and do nothing else until another tab makes the same request.
async fn stop(theirs: &Theirs, tab: &str, site: &Site) {
    let before = site.hits("/meet");
    let ask = format!(
        "setTimeout(() => {{ const asked = new XMLHttpRequest(); asked.open('GET', '/meet?count={}', false); asked.send(); }})",
        before + 2
    );
    theirs.evaluate(tab, &ask).await;
    site.wait_for_hits("/meet", before + 1).await;
}

/// Resumes it.
async fn wake(theirs: &Theirs, other: &str) {
    theirs.evaluate(other, "void fetch('/meet')").await;
}

async fn list(guest: &mut Guest) -> String {
    match guest.adapter {
        Adapter::Playwright => guest.call("browser_tabs", json!({ "action": "list" })).await,
        Adapter::Devtools => guest.call("list_pages", json!({})).await,
    }
}

/// Waits until the engine lists a tab, or lists it no longer.
async fn until_listed(guest: &mut Guest, url: &str, is_listed: bool) {
    until_some(url, async || (list(guest).await.contains(url) == is_listed).then_some(())).await;
}

/// A tab that does not answer does not keep an engine from the browser: it is hidden until it answers. A tab that stops
/// answering later delays no call for long; from playwright, which asks all tabs with every call, it is hidden until it
/// answers. Nothing in it changes.
#[tokio::test]
async fn a_tab_that_does_not_answer() {
    // At once, since most of it is waiting.
    tokio::join!(meet_stuck_tab(Adapter::Playwright), meet_stuck_tab(Adapter::Devtools));
}

async fn meet_stuck_tab(adapter: Adapter) {
    let (site, theirs) = (Site::start().await, Theirs::start().await);
    // By another name, so that no other tab has to do with its process.
    let url = format!("http://localhost:{}/title?t=stuck", site.port());
    let stuck = theirs.open(&url).await;
    let other = theirs.open(&site.url("/title?t=other")).await;
    stop(&theirs, &stuck, &site).await;

    let mut guest = Guest::sitting(adapter, &theirs).await;
    guest.navigate(&site.url("/title?t=own")).await;
    let listed = list(&mut guest).await;
    assert!(listed.contains("t=other") && !listed.contains("t=stuck"), "{adapter:?}: {listed}");
    wake(&theirs, &other).await;
    until_listed(&mut guest, "t=stuck", true).await;

    stop(&theirs, &stuck, &site).await;
    guest.navigate(&site.url("/title?t=again")).await;
    assert!(guest.evaluate("() => location.search").await.contains("t=again"), "{adapter:?}");
    if adapter == Adapter::Playwright {
        until_listed(&mut guest, "t=stuck", false).await;
    }
    guest.navigate(&site.url("/title?t=on")).await;
    wake(&theirs, &other).await;
    until_listed(&mut guest, "t=stuck", true).await;

    guest.leave().await;
    let tabs = theirs.until(|tabs| tabs.iter().any(|tab| tab.id == stuck)).await;
    assert!(tabs.iter().any(|tab| tab.url == url), "{adapter:?}: {tabs:?}");
}

/// A page of the agent's own may take its time: it is not hidden.
#[tokio::test]
async fn an_own_page_that_is_busy() {
    // At once: each takes six seconds by the clock, however many processors there are.
    tokio::join!(keep_busy_page(Adapter::Playwright), keep_busy_page(Adapter::Devtools));
}

async fn keep_busy_page(adapter: Adapter) {
    let (site, theirs) = (Site::start().await, Theirs::start().await);
    let mut guest = Guest::sitting(adapter, &theirs).await;
    guest.navigate(&site.url("/title?t=own")).await;
    let busy = "() => { const end = Date.now() + 6000; while (Date.now() < end); return 'done'; }";
    assert!(guest.evaluate(busy).await.contains("done"), "{adapter:?}");
    assert!(guest.evaluate("() => location.search").await.contains("t=own"), "{adapter:?}");
    guest.leave().await;
}
