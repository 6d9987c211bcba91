//! However greenroom ends, nothing of it is left: no process, no port, no folder.
//!
//! It ends while sessions are open, one of them has a call in flight, and another is still starting.

use std::path::PathBuf;

use greenroom_testkit::{
    Launch, Pending, Site, eventually,
    process::{Signal, children, wait_gone},
};
use serde_json::json;

use super::{
    house::{Data, GatewayFixture, launch},
    look,
};

/// A greenroom in the middle of its work.
struct Scene {
    data: Data,
    site: Site,
    house: GatewayFixture,
    /// greenroom's own process, which the test may have started indirectly.
    pid: u32,
    run: PathBuf,
    /// Every process below greenroom, with a browser's helpers, which carry no tag.
    processes: Vec<u32>,
    ports: Vec<u16>,
    _in_flight: [Pending; 2],
}

impl Scene {
    async fn set() -> Self {
        let data = Data::new();
        let flags = ["--pool-slots", "2"];
        let launch = launch(data.path(), &flags);
        Self::set_with(data, launch, |client| client).await
    }

    /// `find` finds greenroom's process from the one that was started.
    async fn set_with(data: Data, launch: Launch, find: impl Fn(u32) -> u32) -> Self {
        let site = Site::start().await;
        let house = GatewayFixture::of(launch).await;
        let pid = find(house.client.pid());
        for session in ["a", "b"] {
            house.navigate(session, &site.url("/canary?name=x")).await.ok();
        }
        let pending = house.hang("a", &site, "/hang").await;
        let run = look::run_of(data.path(), pid);
        let ports = look::ports(&run);
        assert_eq!(ports.len(), 4, "egress proxy, CDP proxy, debugger and engine");
        assert!(ports.iter().all(|port| look::listens(*port)));
        let starting = house.start_call("c", "browser_navigate", json!({ "url": site.url("/") })).await;
        let both = || (look::browsers(pid).len() == 2).then_some(());
        eventually("the second browser, still starting", both).await;
        let processes = children(pid);
        Self { data, site, house, pid, run, processes, ports, _in_flight: [pending, starting] }
    }

    async fn nothing_runs(&self) {
        wait_gone(self.pid).await;
        look::all_gone(&self.run).await;
        for process in &self.processes {
            wait_gone(*process).await;
        }
        // A killed process disappears a moment before its sockets are closed.
        for port in &self.ports {
            let closed = || (!look::listens(*port)).then_some(());
            eventually(&format!("the end of listening on port {port}"), closed).await;
        }
    }

    async fn ends_in_order(self) {
        let status = self.house.client.wait().await;
        assert!(status.success(), "greenroom ended with {status}: {}", self.house.client.stderr());
        assert_eq!(look::tagged(&self.run), Vec::<u32>::new(), "greenroom ended before its children did");
        let listening: Vec<_> = self.ports.iter().filter(|port| look::listens(**port)).collect();
        assert!(listening.is_empty(), "these ports still listen: {listening:?}");
        assert_eq!(look::runs(self.data.path()), Vec::<PathBuf>::new());
        self.nothing_runs().await;
    }
}

/// SIGTERM ends everything in order.
#[tokio::test]
async fn sigterm_ends_everything() {
    let scene = Scene::set().await;
    scene.house.client.signal(Signal::TERM);
    scene.ends_in_order().await;
}

/// SIGINT ends everything in order.
#[tokio::test]
async fn sigint_ends_everything() {
    let scene = Scene::set().await;
    scene.house.client.signal(Signal::INT);
    scene.ends_in_order().await;
}

/// A client that closes its end of stdin ends everything in order.
#[tokio::test]
async fn closed_stdin_ends_everything() {
    let scene = Scene::set().await;
    scene.house.client.close_stdin().await;
    scene.ends_in_order().await;
}

/// A parent that dies ends everything in order, though another process still holds greenroom's stdin open.
#[tokio::test]
async fn dead_parent_ends_everything() {
    let data = Data::new();
    let greenroom = env!("CARGO_BIN_EXE_greenroom");
    // A shell gives its background children no stdin, unless it is redirected explicitly.
    let launch = Launch::new("/bin/sh")
        .args([
            "-c",
            "exec 3<&0; \"$@\" <&3 & wait",
            "sh",
            greenroom,
            "mcp",
            "--pool-slots",
            "2",
            "--data-dir",
        ])
        .arg(data.path());
    let scene = Scene::set_with(data, launch, |shell| children(shell)[0]).await;
    scene.house.client.kill();
    scene.nothing_runs().await;
    assert_eq!(look::runs(scene.data.path()), Vec::<PathBuf>::new());
}

/// A greenroom that is killed takes its browsers and engines with it; the next one removes its folder, and leaves
/// a living neighbour on the same data folder alone.
#[tokio::test]
async fn sigkill_leaves_no_process() {
    let scene = Scene::set().await;
    let neighbour = GatewayFixture::start(&scene.data, &[]).await;
    neighbour.navigate("n", &scene.site.url("/canary?name=neighbour")).await.ok();
    let neighbours_run = look::run_of(scene.data.path(), neighbour.client.pid());
    let neighbours = look::tagged(&neighbours_run);

    scene.house.client.kill();
    scene.nothing_runs().await;
    assert_eq!(look::runs(scene.data.path()).len(), 2, "a killed process does not remove its folder");

    let next = GatewayFixture::start(&scene.data, &[]).await;
    assert!(!scene.run.exists(), "the next greenroom removes the folder");
    next.navigate("n", &scene.site.url("/canary?name=next")).await.ok();
    let kept = neighbour.call("n", "browser_snapshot", json!({})).await.unbroken();
    assert!(kept.contains("heading \"canary neighbour\""), "{kept}");
    let alive = look::tagged(&neighbours_run);
    assert!(neighbours.iter().all(|pid| alive.contains(pid)), "the neighbour lost a process");
    next.end().await;
    neighbour.call("n", "browser_snapshot", json!({})).await.unbroken();
    neighbour.end().await;
    assert_eq!(look::runs(scene.data.path()), Vec::<PathBuf>::new());
}
