//! Pages that keep the whole browser busy, or fill the memory: each loses only its own tab.

use std::sync::Arc;

use greenroom_core::{Call, Crash, raw::encode};
use greenroom_testkit::{TEST_TIMEOUT, eventually, within};
use serde_json::json;

use super::{AgentWithWorkspace, BrowserKind, SharedBrowser, SharedSeat};

/// Changes the page's address without end; Chromium's own limit for that is off.
const ADDRESSES: &str = "() => { let count = 0; setInterval(() => {
    for (let i = 0; i < 2000; i++) history.pushState(null, '', '?' + count++);
}, 0); }";

/// Writes console messages of 150 MB without end. The browser answers no session for about a second for each.
const LONG_MESSAGES: &str =
    "() => { let count = 0; setInterval(() => console.log('c'.repeat(15e7) + count++), 100); }";

/// Keeps blobs of 8 MiB in the browser's own process, no more than 480 MiB in all.
const BLOBS: &str = "() => { window.blobs = []; const more = setInterval(() => {
    blobs.push(new Blob([new Uint8Array(8 << 20).fill(blobs.length)]));
    if (blobs.length === 60) clearInterval(more);
}, 20); }";

/// Keeps streams of a blob, each read once: the browser and the page share memory for each.
const STREAMS: &str = "async () => { window.readers = []; const blob = new Blob([new Uint8Array(4 << 20)]);
    for (let i = 0; i < 2000; i++) {
        readers.push(blob.stream().getReader());
        await readers[i].read();
    }
}";

/// Sends messages of 2 MiB to a service worker that never reads them, no more than 640 MiB in all. They are in memory that
/// belongs to no process.
const UNREAD_MESSAGES: &str = "async () => {
    await navigator.serviceWorker.register('/script?code=' + encodeURIComponent('onmessage = () => { for (;;); };'));
    const { active } = await navigator.serviceWorker.ready;
    active.postMessage(0);
    let count = 0;
    const more = setInterval(() => {
        active.postMessage(new Uint8Array(2 << 20).fill(1));
        if (++count === 320) clearInterval(more);
    }, 10);
}";

/// Keeps textures of 64 MiB in the GPU process, 768 MiB in all. Resolves when the browser has taken them away.
const TEXTURES: &str = "() => new Promise(done => {
    window.canvas = document.createElement('canvas');
    canvas.addEventListener('webglcontextlost', () => done('lost'));
    const gl = canvas.getContext('webgl2');
    window.textures = [];
    const more = setInterval(() => {
        const texture = gl.createTexture();
        gl.bindTexture(gl.TEXTURE_2D, texture);
        gl.texStorage2D(gl.TEXTURE_2D, 1, gl.RGBA8, 4096, 4096);
        gl.bindFramebuffer(gl.FRAMEBUFFER, gl.createFramebuffer());
        gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, texture, 0);
        gl.clearColor(1, 0, 1, 1);
        gl.clear(gl.COLOR_BUFFER_BIT);
        gl.finish();
        if (textures.push(texture) === 12) clearInterval(more);
    }, 10);
})";

/// Takes 400 MiB in the page's own process.
const ARRAY: &str = "() => { window.array = new Uint8Array(400 << 20).fill(1); return array.length; }";

/// A page whose process takes less than an eighth of [`MEMORY_MAX`].
const SMALL_ARRAY: &str = "<script>window.array = new Uint8Array(25 << 20).fill(1);</script>";

/// Stores 8 MiB at a time in databases and caches, no more than 480 MiB in all, which the browser keeps in its memory.
const STORED: &str = "async () => {
    const cache = await caches.open('cache');
    const database = await new Promise(done => {
        const opening = indexedDB.open('database');
        opening.onupgradeneeded = () => opening.result.createObjectStore('store');
        opening.onsuccess = () => done(opening.result);
    });
    for (let i = Math.random(); i < 30; i++) {
        const bytes = new Uint8Array(8 << 20).fill(i);
        await cache.put('/kept' + i, new Response(bytes));
        const transaction = database.transaction('store', 'readwrite');
        transaction.objectStore('store').put(bytes, i);
        await new Promise(done => { transaction.oncomplete = done; });
    }
}";

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
    let mut hostile = browser.seat().await;
    let mut neighbour = browser.seat().await;
    let mut busy = browser.seat().await;
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

/// A page fills the GPU process, which all sessions share: it loses what it has there. No page loses its tab, though a
/// neighbour sends more messages meanwhile.
#[tokio::test]
async fn page_that_fills_the_gpu_process_ends_no_tab() {
    let browser = SharedBrowser::start_with(BrowserKind::HeadlessShell, |options| {
        options.pool.memory_bytes_max = Some(MEMORY_MAX);
    })
    .await;
    let (mut hostile, mut neighbour) = browser.hostile_and_neighbour().await;
    neighbour.evaluate("() => { document.body.innerHTML = '<button>go</button>'; }").await;
    let work = async {
        for _ in 0..10 {
            neighbour.click_and_look().await;
        }
    };
    let (lost, ()) = tokio::join!(hostile.evaluate(TEXTURES), work);
    assert_eq!(lost, json!("lost"));
    assert_eq!(hostile.evaluate("() => document.title").await, json!("hostile"));
    assert_eq!(neighbour.evaluate("() => document.title").await, json!("neighbour"));
    assert_eq!((hostile.seat.take_crashes(), neighbour.seat.take_crashes()), (Vec::new(), Vec::new()));
    assert_eq!(*browser.instance.lost().borrow(), None);
    browser.end_with([hostile, neighbour]).await;
}

/// Pages keep the process busy that draws all pages: two at once with single frames of seconds, then one with many shorter
/// ones. The former lose their tabs, and their agents get the reason; the latter goes on slowly. A neighbour's clicks and
/// screenshots succeed.
#[tokio::test]
async fn page_that_draws_too_much_is_slowed_or_ended() {
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

/// A page that writes messages of hundreds of megabytes again and again loses its tab; a neighbour's page goes on.
#[tokio::test]
async fn page_with_long_messages_loses_its_tab() {
    let browser = SharedBrowser::start(BrowserKind::HeadlessShell).await;
    let (mut hostile, mut neighbour) = browser.hostile_and_neighbour().await;
    hostile.reply("browser_evaluate", json!({ "function": LONG_MESSAGES })).await;
    hostile.crash().await;
    assert_eq!(neighbour.evaluate("() => document.title").await, json!("neighbour"));
    assert_eq!(neighbour.seat.take_crashes(), []);
    assert_eq!(*browser.instance.lost().borrow(), None);
    browser.end_with([hostile, neighbour]).await;
}

/// A page takes too much memory, in the browser's process, in its own, shared between them or in none: it loses its tab, and
/// its agent gets the reason. A neighbour's page goes on.
#[tokio::test]
async fn page_that_takes_too_much_memory_loses_its_tab() {
    // At once, since most of the time is the watcher's.
    tokio::join!(memory_is_bounded(BrowserKind::HeadlessShell), memory_is_bounded(BrowserKind::Chromium));
}

async fn memory_is_bounded(kind: BrowserKind) {
    let browser = SharedBrowser::start_with(kind, |options| {
        options.pool.memory_bytes_max = Some(MEMORY_MAX);
    })
    .await;
    let mut hostile = browser.seat().await;
    let mut neighbour = browser.seat().await;
    neighbour.show(&browser, "neighbour").await;
    for greed in [BLOBS, ARRAY, STREAMS, UNREAD_MESSAGES] {
        hostile.show(&browser, "hostile").await;
        hostile.reply("browser_evaluate", json!({ "function": greed })).await;
        let crash = hostile.crash().await;
        assert!(crash.why.contains("took too much memory"), "{kind:?}: {crash:?}");
        assert_eq!(neighbour.evaluate("() => document.title").await, json!("neighbour"), "{kind:?}");
    }
    // Many tabs that are small each take too much together.
    let url = browser.site.url(&format!("/html?html={SMALL_ARRAY}"));
    for _ in 0..12 {
        hostile.reply("browser_tabs", json!({ "action": "new", "url": url })).await;
    }
    let crash = hostile.crash().await;
    assert!(crash.why.contains("took too much memory"), "{kind:?}: {crash:?}");
    assert_eq!(neighbour.seat.take_crashes(), [], "{kind:?}");
    assert_eq!(*browser.instance.lost().borrow(), None, "{kind:?}");
    browser.end_with([hostile, neighbour]).await;
}

/// What a page has stored stays in the browser's memory after the page was ended: its session is lost, with the reason. A
/// neighbour's page goes on, even if it is large.
#[tokio::test]
async fn stored_memory_goes_with_its_session() {
    tokio::join!(
        stored_memory_is_bounded(BrowserKind::HeadlessShell),
        stored_memory_is_bounded(BrowserKind::Chromium)
    );
}

async fn stored_memory_is_bounded(kind: BrowserKind) {
    let browser = SharedBrowser::start_with(kind, |options| {
        options.pool.memory_bytes_max = Some(MEMORY_MAX);
    })
    .await;
    let (mut hostile, mut neighbour) = browser.hostile_and_neighbour().await;
    neighbour.evaluate("() => { window.array = new Uint8Array(60 << 20).fill(1); }").await;
    hostile.reply("browser_evaluate", json!({ "function": STORED })).await;
    let crash = hostile.crash().await;
    assert!(crash.why.contains("took too much memory"), "{kind:?}: {crash:?}");
    // It goes on, now that the browser keeps much of what it has stored.
    hostile.show(&browser, "again").await;
    let mut lost = hostile.seat.lost();
    let params = encode(&json!({ "name": "browser_evaluate", "arguments": { "function": STORED } }));
    let agent = Arc::new(AgentWithWorkspace(hostile.workspace.path().to_owned()));
    let _ = within(TEST_TIMEOUT, hostile.seat.call(Call::new("browser_evaluate", params), agent)).await;
    let lost = within(TEST_TIMEOUT, lost.wait_for(Option::is_some)).await.unwrap().clone().unwrap();
    assert!(lost.to_string().contains("stored too much"), "{kind:?}: {lost}");
    hostile.seat.close().await;
    let mut next = browser.seat().await;
    next.show(&browser, "next").await;
    assert_eq!(neighbour.evaluate("() => document.title").await, json!("neighbour"), "{kind:?}");
    assert_eq!(neighbour.seat.take_crashes(), [], "{kind:?}");
    assert_eq!(*browser.instance.lost().borrow(), None, "{kind:?}");
    browser.end_with([next, neighbour]).await;
}
