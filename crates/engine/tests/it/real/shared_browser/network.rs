//! How many of its requests a page can make the engine keep. One Node process serves all seats of a browser.

use greenroom_core::settings::Cap;
use greenroom_testkit::eventually;
use serde_json::json;

use super::{BrowserKind, SharedBrowser, SharedSeat};

/// Makes many requests that need no network, a few hundred at a time.
const MANY: &str = "async () => {
    const url = URL.createObjectURL(new Blob(['x']));
    for (let i = 0; i < 10; i++)
        await Promise.all(Array.from({ length: 210 }, (_, j) => fetch(`${url}#${i}-${j}`).catch(() => {})));
}";

impl SharedSeat {
    /// The requests that the engine lists, one per line.
    async fn requests(&mut self) -> Vec<String> {
        let listed = self.call("browser_network_requests", json!({ "static": true })).await;
        listed.lines().filter(|line| line.contains("[GET]")).map(str::to_owned).collect()
    }
}

/// The engine gets only the beginning of an address of 1.2 MB, wherever the page uses it.
pub async fn long_addresses_are_cut(browser: &SharedBrowser) {
    let mut seat = browser.seat().await;
    seat.call("browser_navigate", json!({ "url": browser.site.url("/title?t=page") })).await;
    seat.evaluate("() => fetch('/title?t=' + 'a'.repeat(1.2e6)).then(() => {}, () => {})").await;
    let requests = seat.requests().await;
    let long = requests.iter().find(|line| line.contains("?t=aaa")).unwrap();
    assert!(long.len() < 200_000 && long.contains("a…"), "{} bytes", long.len());

    seat.evaluate("() => { location.hash = 'a'.repeat(1.2e6) }").await;
    let tabs = seat.call("browser_tabs", json!({ "action": "list" })).await;
    assert!(tabs.contains("#aaa") && tabs.len() < 200_000, "{} bytes", tabs.len());
    seat.seat.close().await;
}

/// A page makes requests without end: the engine gets a number of them, and a notice. Nothing waits for the others, and they
/// do not bypass a route that an agent has set. A neighbour's requests all pass, and after the next navigation requests are
/// listed again.
#[tokio::test]
async fn surplus_requests_are_not_listed() {
    let network = |options: &mut greenroom_engine::EngineOptions| options.pool.caps = vec![Cap::Network];
    let browser = SharedBrowser::start_with(BrowserKind::HeadlessShell, network).await;
    let (mut hostile, mut neighbour) = browser.hostile_and_neighbour().await;
    // 4,200 requests: each takes about 2 ms of a processor.
    for _ in 0..2 {
        hostile.evaluate(MANY).await;
    }
    // The limit, and one more per second.
    let listed = hostile.requests().await.len();
    assert!((4_000..4_200).contains(&listed), "{listed}");
    let console = hostile.call("browser_console_messages", json!({ "level": "warning" })).await;
    assert!(console.contains("has made more than 4000 requests"), "{console}");

    let status = "() => fetch('/title?t=more').then((response) => response.status, () => 'blocked')";
    assert_eq!(hostile.evaluate(status).await, json!(200));
    hostile.call("browser_route", json!({ "pattern": "**/*", "status": 418 })).await;
    let judged = hostile.evaluate(status).await;
    assert!([json!("blocked"), json!(418)].contains(&judged), "the engine could not judge it: {judged}");
    hostile.call("browser_unroute", json!({})).await;
    assert_eq!(hostile.evaluate(status).await, json!(200));

    neighbour.evaluate("() => fetch('/title?t=own').then(() => {})").await;
    assert!(neighbour.requests().await.iter().any(|line| line.contains("t=own")));

    hostile.call("browser_navigate", json!({ "url": browser.site.url("/title?t=page") })).await;
    hostile.evaluate("() => fetch('/title?t=again').then(() => {})").await;
    let requests = hostile.requests().await;
    assert!(requests.len() == 2 && requests[1].contains("t=again"), "{requests:?}");
    browser.end_with([hostile, neighbour]).await;
}

/// A page starts endless workers with addresses of 2 MB, each of which keeps the whole browser busy: it loses its process,
/// which is reported, and a neighbour's page goes on.
#[tokio::test]
async fn page_loses_its_process_by_workers_with_long_addresses() {
    const FLOOD: &str = "() => { const address = 'data:text/javascript,/*' + 'x'.repeat(2e6) + '*/close()'; \
                         let started = 0; setInterval(() => { if (started++ < 400) new Worker(address); }, 70); }";
    let browser = SharedBrowser::start(BrowserKind::HeadlessShell).await;
    let (mut hostile, mut neighbour) = browser.hostile_and_neighbour().await;
    hostile.evaluate(FLOOD).await;
    eventually("the page loses its process", || hostile.seat.take_crashes().pop()).await;
    assert_eq!(neighbour.evaluate("() => document.title").await, json!("neighbour"));
    let again = hostile.call("browser_navigate", json!({ "url": browser.site.url("/title?t=again") })).await;
    assert!(again.contains("again"), "{again}");
    browser.end_with([hostile, neighbour]).await;
}

/// A page opens tabs without a link to it, each with a few frames of long addresses, that close themselves: it loses its
/// process, too, and a neighbour's page goes on.
#[tokio::test]
async fn page_loses_its_process_by_popups_with_long_addresses() {
    const FLOOD: &str = "() => {
        const script = `let left = 4;
            for (let i = 0; i < 4; i++) {
                const frame = document.createElement('iframe');
                frame.src = 'data:text/html,' + 'x'.repeat(2e6);
                frame.onload = () => --left || close();
                document.documentElement.append(frame);
            }`;
        const page = new Blob([`<script>${script}</` + 'script>'], { type: 'text/html' });
        const url = URL.createObjectURL(page);
        let opened = 0;
        setInterval(() => { if (opened++ < 4) open(url, '_blank', 'noopener'); }, 700);
    }";
    let browser = SharedBrowser::start(BrowserKind::HeadlessShell).await;
    let (mut hostile, mut neighbour) = browser.hostile_and_neighbour().await;
    hostile.evaluate(FLOOD).await;
    eventually("the page loses its process", || {
        hostile.seat.take_crashes().into_iter().find(|crash| crash.url.contains("t=hostile"))
    })
    .await;
    assert_eq!(neighbour.evaluate("() => document.title").await, json!("neighbour"));
    browser.end_with([hostile, neighbour]).await;
}
