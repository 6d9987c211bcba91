//! Settings reach the browser, and nothing starts before it is needed.

use greenroom_testkit::Site;
use serde_json::{Value, json};

use super::{
    fixture::{DataFolder, GatewayFixture},
    inspect,
};

/// The viewport is 1280 by 720 unless set, the user agent is the configured one, and `session_list` knows each session's
/// page without asking the engine.
#[tokio::test]
async fn viewport_and_user_agent_settings_apply() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let size = "() => [innerWidth, innerHeight].join()";
    let gateway = GatewayFixture::start(&data, &["--pool-user-agent", "greenroom test agent"]).await;
    gateway.navigate("a", &site.url("/title?t=the%20first")).await.ok();
    assert!(gateway.evaluate("a", size).await.ok().contains("\"1280,720\""));
    assert!(gateway.evaluate("a", "() => navigator.userAgent").await.ok().contains("greenroom test agent"));
    gateway.navigate("", &site.url("/title?t=no%20name")).await.ok();
    let agents: Vec<_> = site.requests().into_iter().filter_map(|seen| seen.user_agent).collect();
    assert!(!agents.is_empty() && agents.iter().all(|agent| agent == "greenroom test agent"), "{agents:?}");

    let sessions = gateway.sessions().await;
    let shown: Vec<_> =
        sessions.iter().map(|one| (&one["id"], &one["url"], &one["title"], &one["state"])).collect();
    let first = json!(site.url("/title?t=the%20first"));
    let second = json!(site.url("/title?t=no%20name"));
    let idle = &json!("idle");
    assert_eq!(
        shown,
        [(&json!("a"), &first, &json!("the first"), idle), (&Value::Null, &second, &json!("no name"), idle)]
    );
    // A title that a script changes, a popup, and the page behind it.
    gateway.evaluate("a", "() => { document.title = 'renamed'; }").await.ok();
    assert_eq!(gateway.sessions().await[0]["title"], "renamed");
    let pending = gateway.hang("a", &site, "/hang").await;
    let busy = gateway.sessions().await;
    assert_eq!((&busy[0]["state"], &busy[0]["callsInFlight"]), (&json!("busy"), &json!(1)));
    drop(pending);
    gateway.end().await;

    let gateway = GatewayFixture::start(&data, &["--pool-viewport-size", "800x600"]).await;
    assert!(gateway.evaluate("", size).await.ok().contains("\"800,600\""));
    gateway.end().await;
}

/// The handshake and a known tool list start no engine and no browser; the first call does.
#[tokio::test]
async fn nothing_starts_before_the_first_call() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let names = |list: &Value| {
        let tools = list["result"]["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // Only the very first greenroom asks the engine.
    let gateway = GatewayFixture::start(&data, &[]).await;
    let first = names(&gateway.client.request("tools/list", json!({})).await);
    assert!(first.iter().any(|name| name == "browser_navigate"), "{first:?}");
    gateway.end().await;

    let gateway = GatewayFixture::start(&data, &[]).await;
    let run = inspect::run_of(data.path(), gateway.client.pid());
    let list = gateway.client.request("tools/list", json!({})).await;
    assert_eq!(names(&list), first);
    for tool in list["result"]["tools"].as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        let takes = tool["inputSchema"]["properties"]["sessionId"].is_object();
        let needs_none = name == "session_list" || name.starts_with("get_");
        assert!(takes || needs_none, "`{name}` takes no sessionId");
    }
    gateway.sessions().await;
    assert_eq!(inspect::tagged(&run), Vec::<u32>::new(), "something was started");
    assert_eq!(inspect::ports(&run).len(), 1, "only the proxy listens");
    gateway.navigate("", &site.url("/")).await.ok();
    assert_eq!(inspect::tagged(&run).len(), 2, "one browser, one engine");
    gateway.end().await;
}
