//! Spares: browsers that are open before the first call.

use std::path::{Path, PathBuf};

use greenroom_testkit::{
    Site, eventually,
    process::{Signal, signal},
};
use serde_json::json;

use super::{
    fixture::{DataFolder, GatewayFixture},
    inspect,
};

/// A new session gets the seat that was opened before, the next one another, and neither sees anything of the other; when
/// the browser dies, the spares come back in a new one.
#[tokio::test]
async fn session_gets_an_isolated_spare() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let gateway = GatewayFixture::start(&data, &["--pool-warm", "1", "--log", "info"]).await;
    let pid = gateway.client.pid();
    spares_ready(&gateway, 1).await;
    let run = inspect::run_of(data.path(), pid);
    let first = seats(&run);
    assert_eq!((first.len(), inspect::browsers(pid).len()), (1, 1), "open before any call");

    gateway.navigate("a", &site.url("/canary?name=a")).await.ok_without_restart();
    gateway.client.wait_for_stderr("spare handed out").await;
    spares_ready(&gateway, 2).await;
    let second: Vec<_> = seats(&run).into_iter().filter(|seat| !first.contains(seat)).collect();
    assert_eq!(second.len(), 1, "another is there instead");
    let listed = gateway.sessions().await;
    assert!(listed[0]["url"].as_str().unwrap().ends_with("/canary?name=a"), "{listed:?}");

    gateway.navigate("b", &site.url("/canary?name=b")).await.ok_without_restart();
    spares_ready(&gateway, 3).await;
    gateway.call("a", "session_close", json!({})).await.ok();
    let left = seats(&run);
    assert!(!left.contains(&first[0]), "the first session sat in the first spare");
    assert!(left.contains(&second[0]), "the second one in the second");

    for (session, own, foreign) in [("b", "canary=b", "canary=a"), ("c", "", "canary=")] {
        let shown = gateway.navigate(session, &site.url("/show")).await.ok_without_restart();
        assert!(shown.contains(own) && !shown.contains(foreign), "{session}: {shown}");
    }

    spares_ready(&gateway, 4).await;
    signal(inspect::browsers(pid)[0], Signal::KILL);
    gateway.until_lost("b").await;
    spares_ready(&gateway, 5).await;
    gateway.navigate("d", &site.url("/show")).await.ok_without_restart();
    gateway.navigate("b", &site.url("/show")).await.restarted("the browser ended");
    gateway.end().await;
    assert_eq!(inspect::runs(data.path()), [] as [PathBuf; 0]);
}

/// Where sessions have a Node each, a spare has one too, and the session that gets the spare keeps it.
#[tokio::test]
async fn spare_keeps_its_own_node() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let flags = ["--pool-warm", "1", "--pool-slots", "1", "--tools-unsafe", "--log", "info"];
    let gateway = GatewayFixture::start(&data, &flags).await;
    let pid = gateway.client.pid();
    spares_ready(&gateway, 1).await;
    let browsers = inspect::browsers(pid);
    let engines = inspect::engines(pid);
    assert_eq!((browsers.len(), engines.len()), (1, 1));
    gateway.navigate("a", &site.url("/")).await.ok_without_restart();
    spares_ready(&gateway, 2).await;
    gateway.call("a", "session_close", json!({})).await.ok();
    assert!(!inspect::engines(pid).contains(&engines[0]), "the session had the spare's Node");
    gateway.end().await;
}

/// Returns when this many spares have been opened since the start.
async fn spares_ready(gateway: &GatewayFixture, count: usize) {
    let opened = || (gateway.client.stderr().matches("spare ready").count() >= count).then_some(());
    eventually(&format!("spare {count}"), opened).await;
}

/// The private folders of the seats that are open.
fn seats(run: &Path) -> Vec<PathBuf> {
    let Ok(entries) = run.join("seats").read_dir() else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).collect()
}
