//! No size that a page or an agent asks for makes another session lose its browser.

use std::{fs, sync::Arc, time::Duration};

use greenroom_core::{Call, page_size::PIXELS_MAX};
use greenroom_testkit::{HostileJson, TEST_TIMEOUT, within};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    super::{body, snapshot},
    AgentWithWorkspace, BROWSERS, BrowserKind, SharedBrowser, SharedSeat, text,
};

/// How long a hostile call may run before its seat is given up. It may hang; only other seats count.
const HOSTILE: Duration = Duration::from_secs(5);

/// The most memory of all processes of one browser at any time, on a machine that has 4 GiB.
const MEMORY_MAX: u64 = 3 << 30;

/// A window of 100,000 pixels, which a page can ask for, is cut to what a browser can draw. The browser lives, and the
/// neighbour with it.
pub async fn popups_are_cut(kind: BrowserKind, browser: &SharedBrowser) {
    let (mut hostile, mut neighbour) = browser.hostile_and_neighbour().await;
    let before = browser.site.hits("/title");
    hostile.evaluate("() => { window.open('/title?t=popup', '_blank', 'width=100000,height=100000') }").await;
    browser.site.wait_for_hits("/title", before + 1).await;
    hostile.select_popup().await;
    let size = hostile.evaluate("() => [innerWidth, innerHeight]").await;
    let pixels = size[0].as_i64().unwrap() * size[1].as_i64().unwrap();
    assert!((1..=i64::from(PIXELS_MAX)).contains(&pixels), "{kind:?}: {size}");
    // The engine assumes the size that the page asked for, until it learns another.
    let picture = hostile.reply("browser_take_screenshot", json!({ "type": "jpeg" })).await;
    assert!(text(&picture).contains("is too large"), "{kind:?}: {}", text(&picture));
    hostile.call("browser_resize", json!({ "width": 800, "height": 600 })).await;
    hostile.call("browser_take_screenshot", json!({ "type": "jpeg" })).await;
    assert_eq!(neighbour.evaluate("() => document.title").await, "neighbour", "{kind:?}");
    assert!(browser.memory() < MEMORY_MAX, "{kind:?}: {} MiB", browser.memory() >> 20);
    for seat in [hostile, neighbour] {
        seat.seat.close().await;
    }
}

/// A page that opens windows without end gets a few, each no larger than a screen. A value of a page that is too long, such
/// as its title, fails its own call alone.
#[tokio::test]
async fn tabs_and_titles_are_bounded() {
    let browser = SharedBrowser::start(BrowserKind::HeadlessShell).await;
    let (mut hostile, mut neighbour) = browser.hostile_and_neighbour().await;
    hostile
        .evaluate("() => { for (let i = 0; i < 100; i++) open('about:blank', '_blank', 'width=100000,height=100000'); }")
        .await;
    hostile
        .evaluate(
            "() => { for (let i = 0; i < 100; i++) open('about:blank', '_blank', 'noopener,width=100000'); }",
        )
        .await;
    // Eight in ten seconds; a busy machine takes longer to open all requested tabs.
    let tabs = |listed: &str| listed.lines().filter(|line| line.contains("(about:blank)")).count();
    let some = async { while tabs(&hostile.call("browser_tabs", json!({ "action": "list" })).await) < 8 {} };
    within(TEST_TIMEOUT, some).await;
    hostile.call("browser_tabs", json!({ "action": "select", "index": 1 })).await;
    let size = hostile.evaluate("() => [innerWidth, innerHeight]").await;
    assert!(size[0].as_i64().unwrap() * size[1].as_i64().unwrap() <= 2_048 * 2_048, "{size}");
    let opened = hostile.call("browser_tabs", json!({ "action": "new" })).await;
    assert!((9..50).contains(&tabs(&opened)), "{opened}");
    assert!(browser.memory() < MEMORY_MAX, "{} MiB", browser.memory() >> 20);

    let long = hostile.reply("browser_evaluate", json!({ "function": "() => 'x'.repeat(20e6)" })).await;
    assert!(long.is_failure() && text(&long).contains("value is too long"), "{}", text(&long));
    let many = hostile.reply("browser_evaluate", json!({ "function": "() => Array(3e5).fill(0)" })).await;
    assert!(many.is_failure() && text(&many).contains("too many values"), "{:.300}", text(&many));
    let some = hostile.reply("browser_evaluate", json!({ "function": "() => 'x'.repeat(2e6)" })).await;
    assert!(!some.is_failure(), "{}", text(&some));
    assert_eq!(neighbour.evaluate("() => document.title").await, "neighbour");
    browser.end_with([hostile, neighbour]).await;
}

/// A large page of honest use is opened and shown whole: a table whose snapshot has more than a megabyte, and 20,000 buttons.
/// A snapshot that is too long for the engine fails with an error that says what to do, and that works.
#[tokio::test]
async fn large_snapshots_are_taken() {
    let browser = SharedBrowser::start(BrowserKind::HeadlessShell).await;
    let (mut large, mut neighbour) = browser.hostile_and_neighbour().await;
    let url = browser.site.url("/table?rows=6300");
    let table = large.reply("browser_navigate", json!({ "url": url })).await;
    assert!(!table.is_failure(), "{:.300}", text(&table));
    assert!(snapshot(&table).contains("open 6299") && snapshot(&table).len() > 1_000_000);

    large.evaluate(&buttons(20_000, "'Button number ' + i")).await;
    let all = large.reply("browser_snapshot", json!({})).await;
    assert!(!all.is_failure(), "{:.300}", text(&all));
    assert!(snapshot(&all).contains("Button number 19999"));

    large.evaluate(&buttons(200, "'x'.repeat(100000) + i")).await;
    let too_long = large.reply("browser_snapshot", json!({})).await;
    assert!(too_long.is_failure() && text(&too_long).contains("too long"), "{:.300}", text(&too_long));
    assert!(text(&too_long).contains("Take a snapshot of a part"), "{:.300}", text(&too_long));
    let part = large.reply("browser_snapshot", json!({ "target": "button >> nth=7" })).await;
    assert!(!part.is_failure() && snapshot(&part).starts_with("- button "), "{:.300}", text(&part));
    assert_eq!(neighbour.evaluate("() => document.title").await, "neighbour");
    browser.end_with([large, neighbour]).await;
}

/// Results and errors of hundreds of megabytes, which Chromium would drop without an answer, fail at once with a hint.
/// The session goes on.
#[tokio::test]
async fn endless_results_fail_at_once() {
    let browser = SharedBrowser::start(BrowserKind::HeadlessShell).await;
    let (mut hostile, mut neighbour) = browser.hostile_and_neighbour().await;
    for function in [
        "() => { throw new Error('c'.repeat(2e8)) }",
        "async () => { throw new Error('c'.repeat(2e8)) }",
        "() => { throw 'c'.repeat(3e8) }",
        "() => 'c'.repeat(3e8)",
        "() => ({ a: [{ b: 'c'.repeat(3e8) }] })",
    ] {
        let failed = hostile.reply("browser_evaluate", json!({ "function": function })).await;
        let is_refused = failed.is_failure() && text(&failed).contains("is too long: more than");
        assert!(is_refused, "{function}: {:.300}", text(&failed));
    }
    // 200 names of 2 MB each, of a page of 2 MB.
    let names = "() => {
        const ids = Array.from({ length: 2000 }, (_, i) => 'p' + i);
        document.body.innerHTML = ids.map(id => `<p id=${id}>${'y'.repeat(1000)}</p>`).join('')
            + `<button aria-labelledby=\"${ids.join(' ')}\">b</button>`.repeat(200);
    }";
    hostile.call("browser_navigate", json!({ "url": browser.site.url("/title?t=hostile") })).await;
    hostile.evaluate(names).await;
    let failed = hostile.reply("browser_snapshot", json!({})).await;
    assert!(
        failed.is_failure() && text(&failed).contains("Take a snapshot of a part"),
        "{:.300}",
        text(&failed)
    );
    assert_eq!(hostile.evaluate("() => document.title").await, "hostile");
    assert_eq!(neighbour.evaluate("() => document.title").await, "neighbour");
    browser.end_with([hostile, neighbour]).await;
}

/// Fills the page with buttons, whose labels `label` gives for each number `i`.
fn buttons(count: u32, label: &str) -> String {
    format!(
        "() => {{
            const button = (_, i) => `<button aria-label=\"${{{label}}}\">b</button>`;
            document.body.innerHTML = Array.from({{ length: {count} }}, button).join('');
        }}"
    )
}

/// A picture of noise is long however small it is: the call fails by name before the engine has to read it, and the error
/// says how to get it. A long page of text is no such picture, and a page that is too long for any picture is refused at
/// once.
#[tokio::test]
async fn long_pictures_are_refused() {
    let patient =
        |options: &mut greenroom_engine::EngineOptions| options.pool.timeout_action = Some(TEST_TIMEOUT);
    let browser = SharedBrowser::start_with(BrowserKind::HeadlessShell, patient).await;
    let (mut hostile, mut neighbour) = browser.hostile_and_neighbour().await;
    hostile.evaluate(NOISE).await;
    let picture = |format: &str| json!({ "type": format, "fullPage": true });
    let noise = hostile.reply("browser_take_screenshot", picture("png")).await;
    assert!(noise.is_failure() && text(&noise).contains("Take a picture as JPEG"), "{}", text(&noise));
    hostile.call("browser_take_screenshot", picture("jpeg")).await;

    let lines = |count: u32| {
        format!(
            "() => {{ document.body.innerHTML = '<p style=\"margin:0;height:20px\">A line of text</p>'.repeat({count}); }}"
        )
    };
    hostile.evaluate(&lines(750)).await;
    hostile.call("browser_take_screenshot", picture("png")).await;
    hostile.evaluate(&lines(1_500)).await;
    let long = hostile.reply("browser_take_screenshot", picture("jpeg")).await;
    assert!(long.is_failure() && text(&long).contains("is too large"), "{}", text(&long));
    assert_eq!(neighbour.evaluate("() => document.title").await, "neighbour");
    browser.end_with([hostile, neighbour]).await;
}

/// A page whose functions never return gets its picture without marks, and a note; the session goes on.
#[tokio::test]
async fn silent_page_gets_a_picture_without_marks() {
    let browser = SharedBrowser::start(BrowserKind::HeadlessShell).await;
    let (mut silent, neighbour) = browser.hostile_and_neighbour().await;
    silent.evaluate("() => { Object.defineProperty(window, 'scrollX', { get() { for (;;); } }); }").await;
    let params = greenroom_core::raw::encode(&json!({ "name": "browser_take_screenshot", "arguments": {} }));
    let mut call = Call::new("browser_take_screenshot", params);
    call.annotate = true;
    let worker = Arc::new(AgentWithWorkspace(silent.workspace.path().to_owned()));
    let picture = within(TEST_TIMEOUT, silent.seat.call(call, worker)).await.unwrap();
    assert!(!picture.is_failure(), "{}", text(&picture));
    assert!(body(&picture).contains("not annotated: the size of the page is unknown"), "{}", text(&picture));
    let opened = silent.call("browser_tabs", json!({ "action": "new" })).await;
    assert!(opened.contains("about:blank"), "{opened}");
    browser.end_with([silent, neighbour]).await;
}

/// Random sizes from a seed, of everything whose size a page or an agent decides: the browser survives them, and the
/// neighbour's calls are answered. Emulated metrics and screencasts reach the proxy as the engine's own calls do.
#[tokio::test]
async fn browser_survives_random_sizes() {
    assert_survives_random_sizes(BrowserKind::HeadlessShell, 1, 8).await;
}

/// Random attacks of all kinds, in turns. The seed and the number of an attack reproduce it.
async fn assert_survives_random_sizes(kind: BrowserKind, seed: u64, attacks: u32) {
    let browser = SharedBrowser::start(kind).await;
    let mut neighbour = browser.seat().await;
    neighbour.call("browser_navigate", json!({ "url": browser.site.url("/title?t=neighbour") })).await;
    let mut sizes = RandomSizes(HostileJson::new(seed));
    for number in 0..attacks {
        let (tool, arguments) = sizes.attack(number);
        let mut hostile = browser.seat().await;
        hostile.call("browser_navigate", json!({ "url": browser.site.url("/title?t=hostile") })).await;
        let attacked = timeout(HOSTILE, async {
            let attacked = !hostile.reply(tool, arguments.clone()).await.is_failure();
            let picture = json!({ "type": "jpeg", "fullPage": number % 2 == 0 });
            (attacked, !hostile.reply("browser_take_screenshot", picture).await.is_failure())
        });
        let attacked = attacked.await;
        let title = neighbour.evaluate("() => document.title").await;
        assert_eq!(title, "neighbour", "{kind:?}, seed {seed}, attack {number}: {arguments} ({attacked:?})");
        let memory = browser.memory();
        assert!(
            memory < MEMORY_MAX,
            "{kind:?}, seed {seed}, attack {number}: {} MiB, {arguments}",
            memory >> 20
        );
        within(TEST_TIMEOUT, hostile.seat.close()).await;
    }
    neighbour.seat.close().await;
    browser.end().await;
}

/// Makes sizes, always the same from the same seed.
struct RandomSizes(HostileJson);

impl RandomSizes {
    /// Where programs change their ways: signs, limits of their number types, limits of greenroom and of Chromium.
    const SIZES: [&str; 18] = [
        "-1",
        "0",
        "1",
        "0.001",
        "300",
        "1280",
        "4096",
        "8192",
        "16384",
        "16385",
        "32767",
        "32768",
        "65536",
        "100000",
        "10000000",
        "2147483647",
        "4294967296",
        "1e15",
    ];

    fn size(&mut self) -> &'static str {
        self.0.pick(&Self::SIZES)
    }

    /// A tool and its arguments.
    fn attack(&mut self, number: u32) -> (&'static str, Value) {
        let (width, height, scale) = (self.size(), self.size(), self.size());
        let script = match number % 8 {
            0 => format!(
                "open('/title?t=p', '_blank', 'width={width},height={height},left={scale},top={scale}')"
            ),
            1 => format!(
                "const c = document.createElement('canvas'); c.width = {width}; c.height = {height};
                c.getContext('2d')?.fillRect(0, 0, {scale}, 9); document.body.append(c)"
            ),
            2 => format!(
                "const w = open('/title?t=p', '_blank', 'width=300,height=300'); w.resizeTo({width}, {height}); w.moveTo({scale}, 0)"
            ),
            3 => format!(
                "document.body.style.cssText = 'width:{width}px;height:{height}px;zoom:{scale};background:red'"
            ),
            4 => {
                let number = |text: &str| text.parse::<f64>().unwrap();
                return ("browser_resize", json!({ "width": number(width), "height": number(height) }));
            }
            5 => {
                return (
                    "browser_run_code_unsafe",
                    code(&format!("{}{}", metrics(width, height, scale), PAUSE)),
                );
            }
            6 => {
                let cast = format!(
                    "await session.send('Page.startScreencast', {{ format: 'jpeg', maxWidth: {width}, maxHeight: {height} }});"
                );
                return (
                    "browser_run_code_unsafe",
                    code(&format!("{cast}{}{PAUSE}", metrics(width, height, scale))),
                );
            }
            _ => {
                let clip = format!(
                    "await session.send('Page.captureScreenshot', {{ format: 'jpeg', captureBeyondViewport: true,
                    clip: {{ x: 0, y: 0, width: {width}, height: {height}, scale: {scale} }} }});"
                );
                return ("browser_run_code_unsafe", code(&clip));
            }
        };
        ("browser_evaluate", json!({ "function": format!("() => {{ {script} }}") }))
    }
}

/// Has the page draw a few frames.
const PAUSE: &str = "await page.evaluate(async () => { for (let i = 0; i < 5; i++) await new Promise(requestAnimationFrame); });";

fn metrics(width: &str, height: &str, scale: &str) -> String {
    format!(
        "await session.send('Emulation.setDeviceMetricsOverride', {{ width: {width}, height: {height},
        deviceScaleFactor: {scale}, mobile: false, screenWidth: {height}, screenHeight: {width} }}).catch(() => {{}});"
    )
}

/// Code in the engine that calls the browser's debugger, as the engine itself does.
fn code(calls: &str) -> Value {
    json!({ "code": format!("async page => {{ const session = await page.context().newCDPSession(page); {calls} }}") })
}

/// Pages of absurd sizes, and pictures of them, one after the other: the browser survives, the neighbour's calls are
/// answered, and the machine keeps its memory.
#[tokio::test]
async fn browser_survives_absurd_sizes() {
    // Each browser runs half of them, concurrently, since they mostly wait.
    let (some, others) = QUICK.split_at(QUICK.len() / 2);
    tokio::join!(assert_survives(BROWSERS[0], some), assert_survives(BROWSERS[1], others));
}

mod soak {
    use super::*;

    /// The same with all of them in both browsers. Runs with GREENROOM_SOAK=1 only.
    #[tokio::test]
    async fn both_browsers_survive_all_absurd_sizes() {
        greenroom_testkit::require_long_tests();
        for kind in BROWSERS {
            assert_survives(kind, &QUICK).await;
            assert_survives(kind, &SLOW).await;
        }
    }

    /// Random sizes from several seeds in both browsers. Runs with GREENROOM_SOAK=1 only.
    #[tokio::test]
    async fn both_browsers_survive_random_sizes() {
        greenroom_testkit::require_long_tests();
        for seed in 1..=5 {
            for kind in BROWSERS {
                assert_survives_random_sizes(kind, seed, 40).await;
            }
        }
    }
}

async fn assert_survives(kind: BrowserKind, attacks: &[&str]) {
    let browser = SharedBrowser::start(kind).await;
    let mut neighbour = browser.seat().await;
    neighbour.call("browser_navigate", json!({ "url": browser.site.url("/title?t=neighbour") })).await;
    for attack in attacks {
        let mut hostile = browser.seat().await;
        hostile.call("browser_navigate", json!({ "url": browser.site.url("/title?t=hostile") })).await;
        let attacked = timeout(HOSTILE, hostile.attack(attack)).await;
        let title = neighbour.evaluate("() => document.title").await;
        assert_eq!(title, "neighbour", "{kind:?} {attack} ({attacked:?})");
        let memory = browser.memory();
        assert!(memory < MEMORY_MAX, "{kind:?} {attack}: {} MiB", memory >> 20);
        within(TEST_TIMEOUT, hostile.seat.close()).await;
    }
    neighbour.seat.close().await;
    browser.end().await;
}

/// Makes a page of noise, 1280x11000: 42 MB, which cannot be compressed.
const NOISE: &str = "() => {
    document.body.style.margin = 0;
    document.body.innerHTML = '';
    for (let part = 1; part <= 11; part++) {
        const canvas = Object.assign(document.createElement('canvas'), { width: 1280, height: 1000 });
        canvas.style.display = 'block';
        document.body.append(canvas);
        const context = canvas.getContext('2d'), data = context.createImageData(1280, 1000);
        const pixels = new Uint32Array(data.data.buffer);
        let state = part;
        for (let i = 0; i < pixels.length; i++) {
            state ^= state << 13; state ^= state >>> 17; state ^= state << 5;
            pixels[i] = state | 0xff000000;
        }
        context.putImageData(data, 0, 0);
    }
}";

/// Scripts of a page, each followed by pictures of the result.
const QUICK: [&str; 6] = [
    "open('/title?t=p', '_blank', 'width=2147483647,height=2147483647')",
    "document.body.style.cssText = 'width: 10000000px; height: 10000000px; background: red'",
    "document.body.style.zoom = 1e6",
    "const w = open('/title?t=p', '_blank', 'width=300,height=300'); w.resizeTo(1e9, 1e9); w.moveTo(-1e9, 1e9)",
    "document.body.style.transform = 'scale(1000000)'",
    "const c = document.createElement('canvas'); c.width = c.height = 65535; c.getContext('2d')?.fillRect(0, 0, 9, 9);
        document.body.append(c)",
];

/// More such scripts, for which the browser takes some seconds.
const SLOW: [&str; 8] = [
    "open('/title?t=p', '_blank', 'width=-1,height=1e9,left=-1e9,top=1e9')",
    "for (let i = 0; i < 4; i++) open('/title?t=p', '_blank', 'width=32768,height=32768')",
    "document.body.style.cssText = 'height: 60000px; background: linear-gradient(red, blue)'",
    "document.body.style.cssText = 'width: 5000px; height: 5000px; filter: blur(100000px); background: red'",
    "document.head.innerHTML += '<meta name=viewport content=\"width=1000000000,initial-scale=100\">'",
    "const c = new OffscreenCanvas(16384, 16384); c.getContext('2d')?.fillRect(0, 0, 9, 9); window.kept = c",
    "document.body.innerHTML = '<iframe src=\"/title?t=f\" style=\"width:1000000px;height:1000000px\"></iframe>'",
    "document.body.innerHTML = '<svg width=1e9 height=1e9><filter id=f><feGaussianBlur stdDeviation=1e6 /></filter>\
        <rect width=1e9 height=1e9 filter=url(#f) /></svg>'",
];

impl SharedSeat {
    /// Runs a script in the page, then takes pictures of it. Returns whether each of these succeeded.
    async fn attack(&mut self, script: &str) -> Vec<bool> {
        let mut succeeded = Vec::new();
        for (tool, arguments) in [
            ("browser_evaluate", json!({ "function": format!("() => {{ {script} }}") })),
            ("browser_take_screenshot", json!({ "type": "jpeg" })),
            ("browser_take_screenshot", json!({ "type": "jpeg", "fullPage": true })),
            ("browser_take_screenshot", json!({ "type": "jpeg", "target": "body", "element": "body" })),
            ("browser_resize", json!({ "width": 8192, "height": 4096 })),
            ("browser_take_screenshot", json!({ "type": "jpeg" })),
        ] {
            succeeded.push(!self.reply(tool, arguments).await.is_failure());
        }
        succeeded
    }
}

impl SharedBrowser {
    /// The memory of the browser's processes, in bytes.
    fn memory(&self) -> u64 {
        let roots = self.instance.process_ids();
        let is_of_browser =
            |pid: u32| std::iter::successors(Some(pid), |pid| parent(*pid)).any(|pid| roots.contains(&pid));
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid| is_of_browser(*pid)).map(proportional_bytes).sum()
    }
}

/// A process that ends meanwhile has no parent and no memory.
fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn proportional_bytes(pid: u32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default() << 10
}
