//! A page that changes a while after an action shows its last state in the action's answer, and an idle page causes no wait.

use futures_util::{SinkExt, StreamExt, future::join_all};
use greenroom_testkit::{Launch, Site, TEST_TIMEOUT, case, within};
use serde_json::json;
use tokio::{net::TcpListener, task::JoinSet};

use super::fixture::{DataFolder, GatewayFixture, ToolAnswer, installed};

/// A greenroom with the default settling.
async fn start(data: &DataFolder, flags: &[&str]) -> GatewayFixture {
    let launch = Launch::new(env!("CARGO_BIN_EXE_greenroom")).arg("mcp").arg("--data-dir").arg(data.path());
    GatewayFixture::spawn(launch.args(flags)).await
}

/// Opens the page that changes in one of its ways, and clicks its button.
async fn click(gateway: &GatewayFixture, session: &str, site: &Site, query: &str) -> ToolAnswer {
    gateway.navigate(session, &site.url(&format!("/late?{query}"))).await.ok();
    gateway.call(session, "browser_click", json!({ "target": "#change" })).await
}

/// Whether the answer shows the page's last state and no other.
fn shows(answer: &str, state: &str) -> bool {
    let states = ["paragraph", "heading"].map(|role| (format!("{role} [ref="), format!("{role} \"")));
    let line = |line: &str| {
        states.iter().any(|(text, name)| {
            (line.contains(text.as_str()) && line.ends_with(&format!(": {state}")))
                || line.contains(&format!("{name}{state}\""))
        })
    };
    answer.lines().any(line)
}

/// A page's late changes are in the answer of the click that caused them, whatever else the page does, and nothing makes the
/// answer wait for ever. With a Node for all seats and with one for each.
#[tokio::test]
async fn late_changes_are_in_the_answer() {
    let site = &Site::start().await;
    // At once, since most of it is waiting.
    tokio::join!(with_a_shared_node(site), changes_with_an_own_node(site));
}

async fn with_a_shared_node(site: &Site) {
    let data = DataFolder::new();
    let started = start(&data, &[]).await;
    let gateway = &started;
    case("changes_with_a_shared_node", changes_with_a_shared_node(gateway, site)).await;
    case("answers_over_sockets_are_in_the_answer", answers_over_sockets_are_in_the_answer(gateway, site))
        .await;
    case("tabs_dialogs_and_downloads", tabs_dialogs_and_downloads(gateway, site)).await;
    case("idle_page_is_not_waited_for", idle_page_is_not_waited_for(gateway, site)).await;
    case("page_cannot_delay_answers_for_ever", page_cannot_delay_answers_for_ever(gateway, site)).await;
    started.end().await;
}

/// The ways in which a page's button changes it with a delay.
const DELAYED: [&str; 5] = ["timer", "fetch", "read", "navigation", "departure"];

/// Changes 0 to 300 ms after a click, by timer, by fetch, by a slow or a late navigation, are in the click's answer; so
/// are chains of these, and what loops of timers, frames, messages and transitions end in.
async fn changes_with_a_shared_node(gateway: &GatewayFixture, site: &Site) {
    let shared = gateway;
    let delays = |by: &'static str| async move {
        for ms in [0, 100, 300] {
            let answer = click(shared, by, site, &format!("by={by}&ms={ms}")).await.ok();
            assert!(shows(&answer, "changed"), "{by}, {ms} ms: {answer}");
        }
    };
    join_all(DELAYED.map(delays)).await;
    let ways = [
        ["source", "steps", "interval", "frames"],
        ["transition", "messages", "request", "script"],
        ["frame", "within", "chain", "timer"],
    ];
    let each = |ways: [&'static str; 4]| async move {
        for by in ways {
            // A chain has four such delays, and all of them must end within the engine's 500 ms, also on a busy machine.
            let ms = if by == "chain" { 50 } else { 100 };
            let answer = click(shared, ways[0], site, &format!("by={by}&ms={ms}")).await.ok();
            assert!(shows(&answer, "changed"), "{by}: {answer}");
        }
    };
    join_all(ways.map(each)).await;
    let fetched = "() => { fetch('/slow?ms=100').then(() => setTimeout(changed, 50)); }";
    gateway.navigate("", &site.url("/late")).await.ok();
    gateway.evaluate("", fetched).await.ok();
    let shown = gateway.evaluate("", "() => document.getElementById('state').textContent").await.ok();
    assert!(shown.contains("\"changed\""), "{shown}");
}

async fn changes_with_an_own_node(site: &Site) {
    let data = DataFolder::new();
    let alone = start(&data, &["--pool-slots", "1"]).await;
    for (by, ms) in DELAYED.into_iter().zip([0, 50, 150, 300, 150]) {
        let answer = click(&alone, "", site, &format!("by={by}&ms={ms}")).await.ok();
        assert!(shows(&answer, "changed"), "one slot, {by}, {ms} ms: {answer}");
    }
    alone.end().await;
}

/// The settle wait includes an answer over a WebSocket, if the page has sent a request there.
async fn answers_over_sockets_are_in_the_answer(gateway: &GatewayFixture, site: &Site) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut server = JoinSet::new();
    server.spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        let asked = socket.next().await.unwrap().unwrap();
        let ms = asked.to_text().unwrap().parse().unwrap();
        // The delay is the site's, not the test's.
        tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
        socket.send(asked).await.unwrap();
        socket.next().await
    });
    let query = format!("by=socket&ms=150&socket=ws://127.0.0.1:{port}/");
    let answer = click(gateway, "", site, &query).await.ok();
    assert!(shows(&answer, "changed"), "{answer}");
}

/// New tabs are listed with their loaded pages, by script and by link; an alert that comes late is a modal state of
/// the click's answer; a small download has arrived. Nothing of it hangs, and the session goes on.
async fn tabs_dialogs_and_downloads(gateway: &GatewayFixture, site: &Site) {
    let answer = click(gateway, "", site, "by=dialog&ms=150").await.ok();
    assert!(answer.contains("### Modal state") && answer.contains("\"alert\" dialog"), "{answer}");
    let handled = gateway.call("", "browser_handle_dialog", json!({ "accept": true })).await;
    handled.ok();

    let answer = click(gateway, "", site, "by=tab&ms=150").await.ok();
    assert!(answer.contains("1: [slow]("), "the tab is not loaded: {answer}");
    let answer = gateway.call("", "browser_click", json!({ "target": "#tab" })).await.ok();
    assert!(answer.contains("2: [slow]("), "the tab is not loaded: {answer}");

    gateway.navigate("", &site.url("/")).await.ok();
    let answer = gateway.call("", "browser_click", json!({ "target": "a[href='/download']" })).await.ok();
    assert!(answer.contains("Downloaded file report.txt"), "{answer}");
}

/// The pinned engine waits by the function that greenroom recognizes; the wait of another one would not be cut short.
#[test]
fn engine_waits_by_the_recognized_function() {
    let script = include_str!("../../../../engine/src/playwright/settle/engine.cjs");
    let wait = script.lines().find_map(|line| line.strip_prefix("const ENGINE_WAIT = '")?.strip_suffix("';"));
    let wait = wait.expect("the script knows the wait by its source");
    let engines = std::fs::read_dir(installed().join("engines/playwright")).unwrap().flatten();
    let mut bundles =
        engines.map(|engine| engine.path().join("node_modules/playwright-core/lib/coreBundle.js"));
    let bundle = bundles.find(|bundle| bundle.is_file()).expect("the engine is installed");
    assert!(std::fs::read_to_string(bundle).unwrap().contains(wait), "{wait}");
}

/// The settle wait ignores what a page did before the action (its clocks, its loops, its endless request, its timer of
/// a minute), and what another session's page does.
async fn idle_page_is_not_waited_for(gateway: &GatewayFixture, site: &Site) {
    gateway.navigate("other", &site.url("/late")).await.ok();
    gateway.evaluate("other", "() => { setInterval(() => fetch('/slow?ms=300'), 100); }").await.ok();
    // The page reports a wait as long as the engine's own; on a busy machine that can happen, so try again.
    let at_rest = async {
        while !shows(&click(gateway, "", site, "by=nothing&restless").await.ok(), "answered promptly") {}
    };
    within(TEST_TIMEOUT, at_rest).await;
    // A late change is seen among all this, too.
    let answer = click(gateway, "", site, "by=chain&ms=80&restless").await.ok();
    assert!(shows(&answer, "changed"), "{answer}");
    gateway.call("other", "session_close", json!({})).await.ok();
}

/// A page that replaces the functions by which greenroom observes it still gets its answer, and so does another session.
/// To the page these functions look like the browser's own.
async fn page_cannot_delay_answers_for_ever(gateway: &GatewayFixture, site: &Site) {
    let look = "() => [setTimeout.name, setTimeout.length, /native code/.test(setTimeout), \
                Object.keys(window).filter((name) => /settle|greenroom/i.test(name)).length].join()";
    gateway.navigate("", &site.url("/late?by=nothing")).await.ok();
    let seen = gateway.evaluate("", look).await.ok();
    assert!(seen.contains("\"setTimeout,1,true,0\""), "{seen}");
    let spoilers = [
        "window.setTimeout = () => 0",
        "window.setTimeout = () => { throw new Error('spoiled'); }",
        "window.setTimeout = (answer) => answer({ waited: true, opened: 1e15, going: 1e15, read: 7 })",
        "window.setTimeout = (answer) => answer(7)",
        "const wait = setTimeout; window.setTimeout = (answer, ms) => typeof ms === 'number' ? wait(answer, ms) : \
            answer({ timers: new Map(), frames: new Map(), setTimeout: wait, clearTimeout, now: () => 9e15, opened: {}, \
            going: {}, reads: { filter: () => ({ map: () => Array(1e5).fill('y') }) } })",
        "window.requestAnimationFrame = Date.now = document.getAnimations = () => { throw new Error(); }",
    ];
    for spoiler in spoilers {
        gateway.navigate("", &site.url("/late?by=nothing")).await.ok();
        gateway.evaluate("", &format!("() => {{ {spoiler}; }}")).await.ok();
        let answer = gateway.call("", "browser_click", json!({ "target": "#change" })).await.ok();
        assert!(shows(&answer, "unchanged"), "{spoiler}: {answer}");
        let answer = click(gateway, "second", site, "by=timer&ms=50").await.ok();
        assert!(shows(&answer, "changed"), "{answer}");
    }
}

/// Code that an agent runs in the engine itself is not affected; only the engine's own wait is cut short. And a page's
/// errors have the page's own stacks.
#[tokio::test]
async fn agent_evaluations_are_not_cut_short() {
    let data = DataFolder::new();
    let gateway = start(&data, &["--pool-slots", "1", "--tools-unsafe"]).await;
    let code = "async (page) => page.evaluate((ms) => ms + 1, 500)";
    let answer = gateway.call("", "browser_run_code_unsafe", json!({ "code": code })).await.ok();
    assert!(answer.contains("501"), "{answer}");

    // The functions by which a page's callbacks are followed are in no stack that an agent sees.
    let site = Site::start().await;
    gateway.navigate("", &site.url("/title?t=stacks")).await.ok();
    let late = "() => new Promise(done => { setTimeout(function late() { setTimeout(done, 0); throw new Error('late'); }, 0); })";
    gateway.call("", "browser_evaluate", json!({ "function": late })).await.ok();
    let console = gateway.call("", "browser_console_messages", json!({})).await.ok();
    assert!(console.contains("Error: late\n    at late (") && !console.contains("settle.js"), "{console}");
    assert!(!console.contains("at run (") && !console.contains("<computed>"), "{console}");
    gateway.end().await;
}

/// The engine waits for the configured time: if it is zero, a late change is not in the answer.
pub async fn configured_settle_time_is_the_engines(gateway: &GatewayFixture, site: &Site) {
    let answer = click(gateway, "", site, "by=timer&ms=20000").await.ok();
    assert!(shows(&answer, "unchanged"), "{answer}");
    let native = gateway.evaluate("", "() => String(setTimeout)").await.ok();
    assert!(native.contains("function setTimeout()"), "the page is observed: {native}");
}
