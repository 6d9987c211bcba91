//! When browsers are connected: with greenroom's start, or with their first calls.

use greenroom_testkit::{
    DebuggerProxy, Launch, Site, UserBrowser, eventually,
    http::{HttpMcpClient, Server},
};
use serde_json::{Value, json};

use super::{
    super::fixture::{DataFolder, REVISION, all},
    AttachedFixture, all_of, with,
};

/// A proxy in front of each browser's debugger, which counts connections.
async fn debugger_proxies(user_browsers: &[UserBrowser]) -> Vec<DebuggerProxy> {
    all(user_browsers.iter().map(|one| DebuggerProxy::open(one.port(), &[]))).await
}

/// `on`: an agent's own greenroom connects all its browsers at its start, without any call, and opens no tab in them.
#[tokio::test]
async fn eager_connect_on_connects_at_the_start() {
    let user_browsers = all_of(2).await;
    let proxies = debugger_proxies(&user_browsers).await;
    let urls: Vec<_> = proxies.iter().map(DebuggerProxy::url).collect();
    let attached = AttachedFixture::to(user_browsers, &urls, &["--attach-eager", "on"]).await;
    for proxy in &proxies {
        eventually("a visitor", || proxy.heads().pop()).await;
    }
    for index in [1, 2] {
        attached.until(index, "connected").await;
        assert_eq!(attached.user_browsers[index - 1].urls().await, ["about:blank"]);
    }
    attached.gateway.end().await;
}

/// `off`: a server connects each browser with its first call. When one is connected, the other has no connection.
#[tokio::test]
async fn eager_connect_off_waits_for_the_first_call() {
    let site = Site::start().await;
    let data = DataFolder::new();
    let user_browsers = all_of(2).await;
    let proxies = debugger_proxies(&user_browsers).await;
    let urls: Vec<_> = proxies.iter().map(DebuggerProxy::url).collect();
    let launch = Launch::new(env!("CARGO_BIN_EXE_greenroom"))
        .args(["serve", "--listen", "127.0.0.1:0", "--attach-eager", "off", "--data-dir"])
        .arg(data.path());
    let server = Server::start(with(launch, &urls)).await;
    let http_client = HttpMcpClient::open(&server, REVISION, json!({})).await;
    let states = async || {
        let listed = http_client.call("list_browsers", json!({})).await;
        let browsers = listed["result"]["structuredContent"]["browsers"].as_array().unwrap().clone();
        browsers.into_iter().map(|mut browser| browser["state"].take()).collect::<Vec<Value>>()
    };
    assert_eq!(states().await, ["pending", "pending"]);
    let call = json!({ "url": site.url("/title?t=first"), "browserIndex": 2 });
    let answer = http_client.call("browser_navigate", call).await;
    assert_ne!(answer["result"]["isError"], true, "{answer}");
    // A connection that began with the server would be made by now, like the one that began with the call.
    assert_eq!(states().await, ["pending", "connected"]);
    assert!(proxies[0].heads().is_empty() && !proxies[1].heads().is_empty());
    server.stop().await;
}
