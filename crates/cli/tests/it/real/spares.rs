//! Spares: browsers that are open before the first call.

use std::path::{Path, PathBuf};

use greenroom_testkit::{
    Site, eventually,
    process::{Signal, signal},
};
use serde_json::json;

use super::{
    house::{Data, GatewayFixture},
    look,
};

/// A new session gets the seat that was opened before, the next one another, and neither sees anything of the other; when
/// the browser dies, the spares come back in a new one.
#[tokio::test]
async fn session_gets_an_isolated_spare() {
    let data = Data::new();
    let site = Site::start().await;
    let house = GatewayFixture::start(&data, &["--pool-warm", "1", "--log", "info"]).await;
    let pid = house.client.pid();
    spares_ready(&house, 1).await;
    let run = look::run_of(data.path(), pid);
    let first = seats(&run);
    assert_eq!((first.len(), look::browsers(pid).len()), (1, 1), "open before any call");

    house.navigate("a", &site.url("/canary?name=a")).await.unbroken();
    house.client.stderr_says("spare handed out").await;
    spares_ready(&house, 2).await;
    let second: Vec<_> = seats(&run).into_iter().filter(|seat| !first.contains(seat)).collect();
    assert_eq!(second.len(), 1, "another is there instead");
    let listed = house.sessions().await;
    assert!(listed[0]["url"].as_str().unwrap().ends_with("/canary?name=a"), "{listed:?}");

    house.navigate("b", &site.url("/canary?name=b")).await.unbroken();
    spares_ready(&house, 3).await;
    house.call("a", "session_close", json!({})).await.ok();
    let left = seats(&run);
    assert!(!left.contains(&first[0]), "the first session sat in the first spare");
    assert!(left.contains(&second[0]), "the second one in the second");

    for (session, own, foreign) in [("b", "canary=b", "canary=a"), ("c", "", "canary=")] {
        let shown = house.navigate(session, &site.url("/show")).await.unbroken();
        assert!(shown.contains(own) && !shown.contains(foreign), "{session}: {shown}");
    }

    spares_ready(&house, 4).await;
    signal(look::browsers(pid)[0], Signal::KILL);
    house.until_lost("b").await;
    spares_ready(&house, 5).await;
    house.navigate("d", &site.url("/show")).await.unbroken();
    house.navigate("b", &site.url("/show")).await.restarted("the browser ended");
    house.end().await;
    assert_eq!(look::runs(data.path()), [] as [PathBuf; 0]);
}

/// Where sessions have a Node each, a spare has one too, and the session that gets the spare keeps it.
#[tokio::test]
async fn spare_keeps_its_own_node() {
    let data = Data::new();
    let site = Site::start().await;
    let flags = ["--pool-warm", "1", "--pool-slots", "1", "--tools-unsafe", "--log", "info"];
    let house = GatewayFixture::start(&data, &flags).await;
    let pid = house.client.pid();
    spares_ready(&house, 1).await;
    let (browsers, engines) = (look::browsers(pid), look::engines(pid));
    assert_eq!((browsers.len(), engines.len()), (1, 1));
    house.navigate("a", &site.url("/")).await.unbroken();
    spares_ready(&house, 2).await;
    house.call("a", "session_close", json!({})).await.ok();
    assert!(!look::engines(pid).contains(&engines[0]), "the session had the spare's Node");
    house.end().await;
}

/// Returns when this many spares have been opened since the start.
async fn spares_ready(house: &GatewayFixture, count: usize) {
    let opened = || (house.client.stderr().matches("spare ready").count() >= count).then_some(());
    eventually(&format!("spare {count}"), opened).await;
}

/// The private folders of the seats that are open.
fn seats(run: &Path) -> Vec<PathBuf> {
    let Ok(entries) = run.join("seats").read_dir() else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).collect()
}
