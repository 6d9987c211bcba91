//! What a page can do to the browser by changing its own address.

use greenroom_testkit::{TEST_TIMEOUT, eventually, within};
use serde_json::json;

use super::{BrowserKind, SharedBrowser};

/// Changes the page's address 10,000 times, 20 times in each task, and then tells the site.
const FLOOD: &str = "() => {
    let count = 0;
    const timer = setInterval(() => {
        for (let i = 0; i < 20; i++) history.replaceState(null, '', `#${count++}`);
        if (count < 10_000) return;
        clearInterval(timer);
        fetch('/flooded');
    }, 1);
}";

/// A page changes its address thousands of times, and the browser reports each to greenroom before it answers: no session
/// loses its browser by that. Chromium has a limit of its own for this, which is switched off here.
#[tokio::test]
async fn page_that_changes_its_address_in_a_loop_ends_no_session() {
    let unlimited = |options: &mut greenroom_engine::EngineOptions| {
        options.pool.browser_args = vec!["--disable-ipc-flooding-protection".to_owned()];
    };
    let browser = SharedBrowser::start_with(BrowserKind::HeadlessShell, unlimited).await;
    let (mut hostile, mut neighbour) = browser.hostile_and_neighbour().await;
    hostile.evaluate(FLOOD).await;
    let mut ended = Vec::new();
    // On a slow machine greenroom may end the page because it keeps the browser busy.
    let flooded = async {
        while browser.site.hits("/flooded") == 0 && ended.is_empty() {
            // The engine itself refuses this, and greenroom then asks the browser whether it is there.
            assert!(neighbour.reply("browser_evaluate", json!({})).await.is_failure());
            ended = hostile.seat.take_crashes();
        }
    };
    // Its 10,000 steps take some seconds on an idle machine.
    within(TEST_TIMEOUT * 2, flooded).await;
    assert_eq!(neighbour.evaluate("() => document.title").await, json!("neighbour"));
    assert_eq!(*browser.instance.lost().borrow(), None);
    if ended.is_empty() {
        let last = |view: &greenroom_core::View| view.url.ends_with("#9999");
        eventually("the last address", || last(&hostile.seat.view().borrow()).then_some(())).await;
    }
    browser.end_with([hostile, neighbour]).await;
}
