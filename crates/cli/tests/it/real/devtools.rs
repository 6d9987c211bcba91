//! A pool of browsers with the devtools engine.

use greenroom_testkit::{
    Launch, Site,
    process::{Signal, signal},
};
use serde_json::json;

use super::{
    fixture::{DataFolder, GatewayFixture},
    inspect,
};

/// Sessions of browsers that the devtools engine drives.
async fn start(data: &DataFolder, flags: &[&str]) -> GatewayFixture {
    let launch =
        Launch::new(env!("CARGO_BIN_EXE_greenroom")).args(["mcp", "--engine", "devtools", "--data-dir"]);
    GatewayFixture::spawn(launch.arg(data.path()).args(flags)).await
}

/// Opens an address in a session's first page.
async fn navigate(gateway: &GatewayFixture, session: &str, url: &str) -> String {
    gateway.call(session, "navigate_page", json!({ "pageId": 1, "url": url })).await.ok()
}

async fn snapshot(gateway: &GatewayFixture, session: &str) -> String {
    gateway.call(session, "take_snapshot", json!({ "pageId": 1 })).await.ok()
}

/// The reference of an element.
fn uid(snapshot: &str, element: &str) -> String {
    let line = snapshot.lines().find(|line| line.contains(element));
    let line = line.unwrap_or_else(|| panic!("no {element}: {snapshot}"));
    line.trim_start().strip_prefix("uid=").unwrap().split(' ').next().unwrap().to_owned()
}

/// Two sessions share nothing but their pool; a killed browser is reported, costs its session alone, and the next call with
/// that name gets another browser and a note. At the end no process is left.
#[tokio::test]
async fn killed_devtools_browser_costs_one_session() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let gateway = start(&data, &["--pool-slots", "2"]).await;
    navigate(&gateway, "one", &site.url("/canary?name=one")).await;
    let first = inspect::browsers(gateway.client.pid());
    navigate(&gateway, "two", &site.url("/show")).await;
    let seen = snapshot(&gateway, "two").await;
    assert!(!seen.contains("canary=one"), "{seen}");
    let listed = gateway.sessions().await;
    let of = |id: &str| listed.iter().find(|session| session["id"] == id).unwrap().clone();
    assert_eq!(
        (&of("one")["url"], &of("two")["url"]),
        (&json!(site.url("/canary?name=one")), &json!(site.url("/show")))
    );
    assert_eq!(inspect::browsers(gateway.client.pid()).len(), 2);

    first.iter().for_each(|browser| signal(*browser, Signal::KILL));
    gateway.until_lost("one").await;
    let again = gateway.call("one", "navigate_page", json!({ "pageId": 1, "url": site.url("/show") })).await;
    again.restarted("the browser ended");
    let seen = snapshot(&gateway, "one").await;
    assert!(!seen.contains("canary=one"), "an old cookie: {seen}");
    assert!(snapshot(&gateway, "two").await.contains("uid="));

    let run = inspect::run_of(data.path(), gateway.client.pid());
    gateway.end().await;
    inspect::all_gone(&run).await;
}

/// A snapshot can be recalled by its name, in parts and as a difference; it is data that can be read in pages; text typed
/// into a field for secrets is not recorded.
#[tokio::test]
async fn devtools_snapshots_are_recalled() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let gateway = start(&data, &["--inline-tokens", "400"]).await;
    navigate(&gateway, "", &site.url("/table?rows=200&below=1")).await;
    let seen = snapshot(&gateway, "").await;
    assert!(seen.contains("snapshot cut: ") && seen.contains("button \"open 1\""), "{seen}");
    let ref_id = seen.lines().find_map(|line| line.strip_prefix("ref_id: ")).unwrap().to_owned();
    let found =
        gateway.call("", "get_content", json!({ "ref_id": ref_id, "search_for": "open 150\"" })).await.ok();
    assert!(found.contains("button \"open 150\""), "{found}");

    let order =
        gateway.call("", "get_content", json!({ "ref_id": ref_id, "search_for": "Order" })).await.ok();
    let order = uid(&order, "button \"Order\"");
    gateway.call("", "click", json!({ "pageId": 1, "uid": order })).await.ok();
    let changed = gateway.call("", "take_snapshot", json!({ "pageId": 1, "mode": "diff" })).await.ok();
    assert!(changed.contains("changes since ref_id") && changed.contains("ordered"), "{changed}");
    assert!(!changed.contains("open 150"), "{changed}");
    let query = json!({ "pageId": 1, "flatten": true, "jmespath_query": "[?role == 'button'].name", "limit": 2, "output_format": "json" });
    let page = gateway.call("", "take_snapshot", query).await.ok();
    assert!(page.contains("open 1") && page.contains("cache_key"), "{page}");

    let annotate = json!({ "pageId": 1, "annotate": true });
    let refused = gateway.call("", "take_screenshot", annotate).await;
    assert!(
        refused.failed().contains("the snapshots of the devtools engine do not have"),
        "{}",
        refused.text()
    );
    assert_eq!(refused.code(), "annotate_refused");

    navigate(&gateway, "", &site.url("/form")).await;
    let form = snapshot(&gateway, "").await;
    let field = uid(&form, "textbox \"Password");
    gateway.call("", "fill", json!({ "pageId": 1, "uid": field, "value": "sesame-5150" })).await.ok();
    gateway.end().await;
    let database = std::fs::read(data.path().join("records.db")).unwrap();
    let log = std::fs::read(data.path().join("records.db-wal")).unwrap_or_default();
    let has = |bytes: &[u8]| bytes.windows(11).any(|part| part == b"sesame-5150");
    assert!(!has(&database) && !has(&log), "a secret was kept");
    assert!(database.len() + log.len() > 4096, "something was kept");
}

/// No page of such a browser reaches a debugger or the proxy itself, nor anything that greenroom's policy forbids: every
/// browser goes through the egress proxy.
#[tokio::test]
async fn devtools_pages_reach_no_greenroom_port() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let gateway = start(&data, &["--pool-slots", "1"]).await;
    navigate(&gateway, "", &site.url("/title?t=open")).await;
    let ports = inspect::ports(&inspect::run_of(data.path(), gateway.client.pid()));
    assert!(ports.len() >= 2, "the CDP proxy and the egress proxy: {ports:?}");
    for port in ports {
        let page = json!({ "pageId": 1, "url": format!("http://127.0.0.1:{port}/json/version") });
        let page_text = gateway.call("", "navigate_page", page).await.ok();
        let seen = snapshot(&gateway, "").await;
        assert!(!seen.contains("webSocketDebuggerUrl"), "{page_text}\n{seen}");
        let fetched = json!({
            "pageId": 1,
            "function": format!("() => fetch('http://127.0.0.1:{port}/json/version', {{ mode: 'no-cors' }}).then(r => r.type, e => 'refused')"),
        });
        gateway.call("", "evaluate_script", fetched).await.ok();
    }
    gateway.end().await;
}
