//! A pool of browsers with the devtools engine.

use greenroom_testkit::{
    Launch, Site,
    process::{Signal, signal},
};
use serde_json::json;

use super::{
    house::{Data, GatewayFixture},
    look,
};

/// Sessions of browsers that the devtools engine drives.
async fn start(data: &Data, flags: &[&str]) -> GatewayFixture {
    let launch =
        Launch::new(env!("CARGO_BIN_EXE_greenroom")).args(["mcp", "--engine", "devtools", "--data-dir"]);
    GatewayFixture::of(launch.arg(data.path()).args(flags)).await
}

/// Opens an address in a session's first page.
async fn navigate(house: &GatewayFixture, session: &str, url: &str) -> String {
    house.call(session, "navigate_page", json!({ "pageId": 1, "url": url })).await.ok()
}

async fn snapshot(house: &GatewayFixture, session: &str) -> String {
    house.call(session, "take_snapshot", json!({ "pageId": 1 })).await.ok()
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
    let data = Data::new();
    let site = Site::start().await;
    let house = start(&data, &["--pool-slots", "2"]).await;
    navigate(&house, "one", &site.url("/canary?name=one")).await;
    let first = look::browsers(house.client.pid());
    navigate(&house, "two", &site.url("/show")).await;
    let seen = snapshot(&house, "two").await;
    assert!(!seen.contains("canary=one"), "{seen}");
    let listed = house.sessions().await;
    let of = |id: &str| listed.iter().find(|session| session["id"] == id).unwrap().clone();
    assert_eq!(
        (&of("one")["url"], &of("two")["url"]),
        (&json!(site.url("/canary?name=one")), &json!(site.url("/show")))
    );
    assert_eq!(look::browsers(house.client.pid()).len(), 2);

    first.iter().for_each(|browser| signal(*browser, Signal::KILL));
    house.until_lost("one").await;
    let again = house.call("one", "navigate_page", json!({ "pageId": 1, "url": site.url("/show") })).await;
    again.restarted("the browser ended");
    let seen = snapshot(&house, "one").await;
    assert!(!seen.contains("canary=one"), "an old cookie: {seen}");
    assert!(snapshot(&house, "two").await.contains("uid="));

    let run = look::run_of(data.path(), house.client.pid());
    house.end().await;
    look::all_gone(&run).await;
}

/// A snapshot can be recalled by its name, in parts and as a difference; it is data that can be read in pages; text typed
/// into a field for secrets is not kept.
#[tokio::test]
async fn devtools_snapshots_are_recalled() {
    let data = Data::new();
    let site = Site::start().await;
    let house = start(&data, &["--inline-tokens", "400"]).await;
    navigate(&house, "", &site.url("/table?rows=200&below=1")).await;
    let seen = snapshot(&house, "").await;
    assert!(seen.contains("snapshot cut: ") && seen.contains("button \"open 1\""), "{seen}");
    let ref_id = seen.lines().find_map(|line| line.strip_prefix("ref_id: ")).unwrap().to_owned();
    let found =
        house.call("", "get_content", json!({ "ref_id": ref_id, "search_for": "open 150\"" })).await.ok();
    assert!(found.contains("button \"open 150\""), "{found}");

    let order = house.call("", "get_content", json!({ "ref_id": ref_id, "search_for": "Order" })).await.ok();
    let order = uid(&order, "button \"Order\"");
    house.call("", "click", json!({ "pageId": 1, "uid": order })).await.ok();
    let changed = house.call("", "take_snapshot", json!({ "pageId": 1, "mode": "diff" })).await.ok();
    assert!(changed.contains("changes since ref_id") && changed.contains("ordered"), "{changed}");
    assert!(!changed.contains("open 150"), "{changed}");
    let query = json!({ "pageId": 1, "flatten": true, "jmespath_query": "[?role == 'button'].name", "limit": 2, "output_format": "json" });
    let page = house.call("", "take_snapshot", query).await.ok();
    assert!(page.contains("open 1") && page.contains("cache_key"), "{page}");

    navigate(&house, "", &site.url("/form")).await;
    let form = snapshot(&house, "").await;
    let field = uid(&form, "textbox \"Password");
    house.call("", "fill", json!({ "pageId": 1, "uid": field, "value": "sesame-5150" })).await.ok();
    house.end().await;
    let kept = std::fs::read(data.path().join("records.db")).unwrap();
    let log = std::fs::read(data.path().join("records.db-wal")).unwrap_or_default();
    let has = |bytes: &[u8]| bytes.windows(11).any(|part| part == b"sesame-5150");
    assert!(!has(&kept) && !has(&log), "a secret was kept");
    assert!(kept.len() + log.len() > 4096, "something was kept");
}

/// No page of such a browser reaches a debugger or the proxy itself, nor anything that greenroom's policy forbids: every
/// browser goes through the egress proxy.
#[tokio::test]
async fn devtools_pages_reach_no_greenroom_port() {
    let data = Data::new();
    let site = Site::start().await;
    let house = start(&data, &["--pool-slots", "1"]).await;
    navigate(&house, "", &site.url("/title?t=open")).await;
    let ports = look::ports(&look::run_of(data.path(), house.client.pid()));
    assert!(ports.len() >= 2, "a debugger and a proxy: {ports:?}");
    for port in ports {
        let page = json!({ "pageId": 1, "url": format!("http://127.0.0.1:{port}/json/version") });
        let told = house.call("", "navigate_page", page).await.ok();
        let seen = snapshot(&house, "").await;
        assert!(!seen.contains("webSocketDebuggerUrl"), "{told}\n{seen}");
        let fetched = json!({
            "pageId": 1,
            "function": format!("() => fetch('http://127.0.0.1:{port}/json/version', {{ mode: 'no-cors' }}).then(r => r.type, e => 'refused')"),
        });
        house.call("", "evaluate_script", fetched).await.ok();
    }
    house.end().await;
}
