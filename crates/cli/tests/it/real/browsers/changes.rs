//! Browsers that come and go while greenroom runs.

use greenroom_testkit::{
    DebuggerProxy, Site, UserBrowser,
    http::{HttpMcpClient, Server},
    until_some,
};
use serde_json::{Value, json};

use super::{
    super::{
        fixture::{DataFolder, REVISION},
        inspect,
    },
    AttachedFixture, all_of, configured,
};

/// A browser is added, driven and removed; clients hear that the tools have changed; its index is not used again; and it
/// is left running as it was.
pub async fn browsers_are_added_and_removed(attached: &AttachedFixture) {
    let site = Site::start().await;
    let mut more = all_of(2).await;
    let third = more.pop().unwrap();
    let second = more.pop().unwrap();
    let before = second.tabs().await;
    attached.gateway.navigate("", &site.url("/title?t=one")).await.ok();

    let added =
        attached.gateway.call("", "connect_browser", json!({ "url": second.url(), "label": "second" })).await;
    assert!(added.ok().contains('2'), "{}", added.text());
    attached.gateway.client.next_notification("notifications/tools/list_changed").await;
    attached.call("second", "browser_navigate", json!({ "url": site.url("/title?t=two") })).await.ok();
    second.wait_for_urls(&["about:blank", &site.url("/title?t=two")]).await;
    let twice = attached.gateway.call("", "connect_browser", json!({ "url": second.url() })).await;
    assert!(twice.failed().contains("browser 2"), "{}", twice.text());

    let removed = attached.gateway.call("", "disconnect_browser", json!({ "browserIndex": 2 })).await;
    removed.ok();
    assert_eq!(second.tabs().await, before);
    assert!(second.runs());
    attached.gateway.client.next_notification("notifications/tools/list_changed").await;
    attached.gateway.navigate("", &site.url("/title?t=alone")).await.ok();

    // The same browser again, and one by its host name.
    attached.gateway.call("", "connect_browser", json!({ "url": second.url() })).await.ok();
    let named = format!("http://localhost:{}", third.port());
    attached.gateway.call("", "connect_browser", json!({ "url": named })).await.ok();
    let (text, structured) = attached.list().await;
    let indices: Vec<_> =
        structured["browsers"].as_array().unwrap().iter().map(|one| &one["index"]).collect();
    assert_eq!(indices, [1, 3, 4], "an index is used once: {text}");
    attached.navigate(4, &site.url("/title?t=three")).await.ok();
    third.wait_for_urls(&["about:blank", &site.url("/title?t=three")]).await;
    let gone = attached.call(2, "browser_snapshot", json!({})).await;
    assert!(gone.failed().contains("no such browser"), "{}", gone.text());
}

/// greenroom resolves a host name once. greenroom and the engine connect to the resolved address from then on, whatever
/// the name resolves to later. Agents still see the address that they gave.
pub async fn name_is_resolved_once(attached: &AttachedFixture) {
    let site = Site::start().await;
    let user_browser = UserBrowser::start().await;
    let proxy = DebuggerProxy::open(user_browser.port(), &[]).await;
    let named = format!("http://localhost:{}", proxy.port());
    attached.gateway.call("", "connect_browser", json!({ "url": named, "label": "named" })).await.ok();
    attached.navigate("named", &site.url("/title?t=named")).await.ok();
    let heads = proxy.heads();
    assert!(heads.len() >= 3, "a look, the observer and the engine: {heads:?}");
    for head in heads {
        assert!(head.contains(&format!("\r\nhost: 127.0.0.1:{}\r\n", proxy.port())), "{head}");
    }
    assert!(attached.list().await.0.contains(&named));
}

/// What an agent may not attach to: greenroom's own browsers, other protocols. No start command comes from an agent. Cloud
/// metadata, which a test must not connect to, is checked where the addresses are judged.
#[tokio::test]
async fn agents_cannot_attach_forbidden_addresses() {
    let user_browser = UserBrowser::start().await;
    let data = DataFolder::new();
    let text = format!(
        "[pool]\nisolated = true\n[[browsers]]\nurl = \"{}\"\n[pools.OWN]\ninstances = 1\nis_default = true\nisolated = true\n",
        user_browser.url()
    );
    let gateway = configured(&data, &text, &[]).await;
    // A browser of greenroom's own, with its debugger.
    let own = json!({ "browser_pool": "OWN", "url": "about:blank" });
    gateway.call("", "browser_navigate", own).await.ok();
    let run = inspect::run_of(data.path(), gateway.client.pid());
    let ports = inspect::ports(&run);
    assert!(
        ports.contains(&user_browser.port()),
        "greenroom's browsers cannot reach the attached one's debugger"
    );
    for port in ports.iter().filter(|port| **port != user_browser.port()) {
        for host in ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "2130706433"] {
            let refused =
                gateway.call("", "connect_browser", json!({ "url": format!("http://{host}:{port}") })).await;
            assert!(refused.failed().contains("greenroom"), "{host}:{port}: {}", refused.text());
        }
    }
    // The engine could not keep the agent out of the person's own context.
    let shared = json!({ "url": format!("http://127.0.0.1:{}", user_browser.port()), "engine": "devtools" });
    let refused = gateway.call("", "connect_browser", shared).await;
    assert!(refused.failed().contains("no contexts of its own"), "{}", refused.text());
    for (url, why) in
        [("file:///etc/passwd", "http"), ("nonsense", "http"), ("http://127.0.0.1:1|touch /tmp/x", "command")]
    {
        let refused = gateway.call("", "connect_browser", json!({ "url": url })).await;
        assert!(refused.failed().contains(why), "{url}: {}", refused.text());
    }
    gateway.end().await;
}

/// Over HTTP no client adds or removes browsers unless the operator allows it; all list and reconnect them.
#[tokio::test]
async fn http_clients_cannot_change_browsers_by_default() {
    let user_browser = UserBrowser::start().await;
    for (changes, allowed) in [("auto", false), ("on", true), ("off", false)] {
        let data = DataFolder::new();
        let server = greenroom_testkit::Launch::new(env!("CARGO_BIN_EXE_greenroom"))
            .args(["serve", "--listen", "127.0.0.1:0", "--attach-changes", changes, "--data-dir"])
            .arg(data.path())
            .arg("--browserUrl")
            .arg(user_browser.url());
        let server = Server::start(server).await;
        let http_client = HttpMcpClient::open(&server, REVISION, json!({})).await;
        // A server connects its browsers at its start, without any call.
        until_some("a connected browser", async || {
            let listed = http_client.call("list_browsers", json!({})).await;
            let state = &listed["result"]["structuredContent"]["browsers"][0]["state"];
            (state == "connected").then_some(())
        })
        .await;
        let listed = http_client.request("tools/list", json!({})).await;
        let names: Vec<&str> = listed["result"]["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap())
            .collect();
        assert!(names.contains(&"list_browsers") && names.contains(&"reconnect_browser"), "{names:?}");
        assert_eq!(names.contains(&"connect_browser"), allowed, "{changes}: {names:?}");
        let asked: Value = http_client.call("disconnect_browser", json!({})).await;
        assert_eq!(asked["result"]["isError"] != true, allowed, "{changes}: {asked}");
        server.stop().await;
    }
    assert!(user_browser.runs());
}

/// A server adds a browser that is written into its file, removes one that is taken out of it without changing it, and
/// reports what has to wait. Other browsers go on.
#[tokio::test]
async fn changed_config_file_adds_and_removes_browsers() {
    let site = Site::start().await;
    let user_browsers = all_of(3).await;
    let before = user_browsers[1].tabs().await;
    let data = DataFolder::new();
    let file = data.path().join("greenroom.toml");
    let write = |which: &[usize], more: &str| {
        let browsers =
            which.iter().map(|at| format!("[[browsers]]\nurl = \"{}\"\n", user_browsers[*at].url()));
        std::fs::write(&file, format!("log = \"info\"\n{}{more}", browsers.collect::<String>())).unwrap();
    };
    // A label that moves to another browser with the same change.
    write(&[0, 1], "label = \"third\"\n");
    let server = greenroom_testkit::Launch::new(env!("CARGO_BIN_EXE_greenroom"))
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(data.path())
        .arg("--config")
        .arg(&file);
    let server = Server::start(server).await;
    let http_client = HttpMcpClient::open(&server, REVISION, json!({})).await;
    let navigate = async |session: &str, index: Value, title: &str| {
        let url = site.url(&format!("/title?t={title}"));
        let arguments = json!({ "url": url, "sessionId": session, "browserIndex": index });
        let answer = http_client.call("browser_navigate", arguments).await;
        assert_ne!(answer["result"]["isError"], true, "{answer}");
        url
    };
    let one = navigate("stays", json!(1), "one").await;
    navigate("goes", json!(2), "two").await;

    write(&[0, 2], "label = \"third\"\n");
    until_some("the third browser in the place of the second", async || {
        let listed = http_client.call("list_browsers", json!({})).await;
        let listed = listed["result"]["structuredContent"]["browsers"].clone();
        let is_there =
            listed[0]["index"] == 1 && listed[1]["index"] == 3 && listed[1]["state"] == "connected";
        is_there.then_some(())
    })
    .await;
    assert_eq!(user_browsers[1].tabs().await, before, "left as it was");
    let three = navigate("new", json!("third"), "three").await;
    user_browsers[2].wait_for_urls(&["about:blank", &three]).await;
    user_browsers[0].wait_for_urls(&["about:blank", &one]).await;

    write(&[0, 2], "label = \"other\"\n");
    server
        .wait_for_stderr(&format!(
            "browser `{}` has other values; it takes effect only when greenroom is restarted",
            user_browsers[2].url()
        ))
        .await;
    navigate("new", Value::Null, "still").await;
    server.stop().await;
    assert!(user_browsers.iter().all(UserBrowser::runs));
}
