//! Pages that keep the whole browser busy, or fill the memory: each loses only its own tab.

use greenroom_core::Crash;
use greenroom_testkit::eventually;
use serde_json::json;

use super::{BROWSERS, BrowserKind, SharedBrowser, SharedSeat};

/// Changes the page's address without end; Chromium's own limit for that is off.
const ADDRESSES: &str = "() => { let count = 0; setInterval(() => {
    for (let i = 0; i < 2000; i++) history.pushState(null, '', '?' + count++);
}, 0); }";

/// Keeps blobs of 8 MiB in the browser's own process, no more than 480 MiB in all.
const BLOBS: &str = "() => { window.blobs = []; const more = setInterval(() => {
    blobs.push(new Blob([new Uint8Array(8 << 20).fill(blobs.length)]));
    if (blobs.length === 60) clearInterval(more);
}, 20); }";

/// Takes 400 MiB in the page's own process.
const ARRAY: &str = "() => { window.array = new Uint8Array(400 << 20).fill(1); return array.length; }";

/// Scripts that never rest, and send nothing to the browser.
const BUSY: &str = "() => { const url = URL.createObjectURL(new Blob(['for (;;) {}'])); new Worker(url); }";

/// Effects of this size, in pixels, that never come to rest.
fn effects(size: u32) -> String {
    format!(
        "() => {{ for (let i = 0; i < 400; i++) {{
            const div = document.createElement('div');
            div.style.cssText = 'position: fixed; width: {size}px; height: {size}px; backdrop-filter: blur(20px)';
            div.style.left = div.style.top = i % 20 * 10 + 'px';
            document.body.append(div);
            div.animate([{{ transform: 'none' }}, {{ transform: 'translateX(50px)' }}],
                {{ duration: 1000, iterations: Infinity, direction: 'alternate' }});
        }} }}"
    )
}

/// Much more than three small pages take in either browser, and much less than [`BLOBS`] and [`ARRAY`] do.
const MEMORY_MAX: u64 = 400 << 20;

impl SharedSeat {
    async fn crash(&mut self) -> Crash {
        eventually("the page is ended", || self.seat.take_crashes().pop()).await
    }

    async fn click_and_look(&mut self) {
        self.call("browser_click", json!({ "target": "button", "element": "the button" })).await;
        self.call("browser_take_screenshot", json!({})).await;
    }

    async fn show(&mut self, browser: &SharedBrowser, title: &str) {
        let url = browser.site.url(&format!("/title?t={title}"));
        self.call("browser_navigate", json!({ "url": url })).await;
    }
}

/// A page floods the browser with messages: it loses its tab, and its agent gets the reason. A neighbour's page goes on, and
/// so does a page whose scripts only compute.
#[tokio::test]
async fn flooding_page_loses_its_tab() {
    let unlimited = |options: &mut greenroom_engine::EngineOptions| {
        options.pool.browser_args = vec!["--disable-ipc-flooding-protection".to_owned()];
    };
    let browser = SharedBrowser::start_with(BrowserKind::HeadlessShell, unlimited).await;
    let (mut hostile, mut neighbour, mut busy) =
        (browser.seat().await, browser.seat().await, browser.seat().await);
    neighbour.show(&browser, "neighbour").await;
    busy.show(&browser, "busy").await;
    busy.evaluate(BUSY).await;
    hostile.show(&browser, "hostile").await;
    // The page may be ended before the engine has answered.
    hostile.reply("browser_evaluate", json!({ "function": ADDRESSES })).await;
    let crash = hostile.crash().await;
    assert!(crash.why.contains("kept the whole browser too busy"), "{crash:?}");
    assert_eq!(neighbour.evaluate("() => document.title").await, json!("neighbour"));
    assert_eq!(busy.evaluate("() => document.title").await, json!("busy"));
    hostile.show(&browser, "again").await;
    assert_eq!((neighbour.seat.take_crashes(), busy.seat.take_crashes()), (Vec::new(), Vec::new()));
    assert_eq!(*browser.instance.lost().borrow(), None);
    for seat in [hostile, neighbour, busy] {
        seat.seat.close().await;
    }
    browser.end().await;
}

/// Pages keep the process busy that draws all pages: two at once with single frames of seconds, then one with many shorter
/// ones. The former lose their tabs, and their agents get the reason; the latter goes on slowly. A neighbour's clicks and
/// screenshots succeed.
#[tokio::test]
async fn effects_without_end() {
    let browser = SharedBrowser::start(BrowserKind::HeadlessShell).await;
    let (mut hostile, mut neighbour) = browser.hostile_and_neighbour().await;
    neighbour.evaluate("() => { document.body.innerHTML = '<button>go</button>'; }").await;
    let mut accomplice = browser.seat().await;
    accomplice.show(&browser, "accomplice").await;
    for seat in [&mut hostile, &mut accomplice] {
        seat.reply("browser_evaluate", json!({ "function": effects(900) })).await;
    }
    for seat in [&mut hostile, &mut accomplice] {
        let crash = seat.crash().await;
        assert!(crash.why.contains("too busy to draw"), "{crash:?}");
    }
    accomplice.seat.close().await;
    neighbour.click_and_look().await;
    hostile.show(&browser, "again").await;
    hostile.reply("browser_evaluate", json!({ "function": effects(150) })).await;
    for _ in 0..3 {
        neighbour.click_and_look().await;
    }
    assert_eq!(hostile.evaluate("() => document.title").await, json!("again"));
    assert_eq!((hostile.seat.take_crashes(), neighbour.seat.take_crashes()), (Vec::new(), Vec::new()));
    assert_eq!(*browser.instance.lost().borrow(), None);
    browser.end_with([hostile, neighbour]).await;
}

/// A page takes too much memory, in the browser's process or in its own: it loses its tab, and its agent gets the reason. A
/// neighbour's page goes on.
#[tokio::test]
async fn page_that_takes_too_much_memory_loses_its_tab() {
    for kind in BROWSERS {
        let browser = SharedBrowser::start_with(kind, |options| {
            options.settings_mut().sessions.memory_bytes_max = Some(MEMORY_MAX);
        })
        .await;
        let (mut hostile, mut neighbour) = (browser.seat().await, browser.seat().await);
        neighbour.show(&browser, "neighbour").await;
        for greed in [BLOBS, ARRAY] {
            hostile.show(&browser, "hostile").await;
            hostile.reply("browser_evaluate", json!({ "function": greed })).await;
            let crash = hostile.crash().await;
            assert!(crash.why.contains("took too much memory"), "{kind:?}: {crash:?}");
            assert_eq!(neighbour.evaluate("() => document.title").await, json!("neighbour"), "{kind:?}");
        }
        assert_eq!(neighbour.seat.take_crashes(), [], "{kind:?}");
        assert_eq!(*browser.instance.lost().borrow(), None, "{kind:?}");
        for seat in [hostile, neighbour] {
            seat.seat.close().await;
        }
        browser.end().await;
    }
}
