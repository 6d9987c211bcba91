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
    fixture::{DataFolder, GatewayFixture, launch},
    inspect,
};

/// A greenroom with open sessions, a call in flight and a session that is starting.
struct BusyGateway {
    data: DataFolder,
    site: Site,
    gateway: GatewayFixture,
    /// greenroom's own process, which the test may have started indirectly.
    pid: u32,
    run: PathBuf,
    /// Every process below greenroom, with a browser's helpers, which carry no tag.
    processes: Vec<u32>,
    ports: Vec<u16>,
    _in_flight: [Pending; 2],
}

impl BusyGateway {
    async fn start() -> Self {
        let data = DataFolder::new();
        let flags = ["--pool-slots", "2"];
        let launch = launch(data.path(), &flags);
        Self::start_with(data, launch, |client| client).await
    }

    /// `find` finds greenroom's process from the one that was started.
    async fn start_with(data: DataFolder, launch: Launch, find: impl Fn(u32) -> u32) -> Self {
        let site = Site::start().await;
        let gateway = GatewayFixture::spawn(launch).await;
        let pid = find(gateway.client.pid());
        for session in ["a", "b"] {
            gateway.navigate(session, &site.url("/canary?name=x")).await.ok();
        }
        let pending = gateway.hang("a", &site, "/hang").await;
        let run = inspect::run_of(data.path(), pid);
        let ports = inspect::ports(&run);
        let what =
            "CDP proxy and engine, and ports of the egress proxy: its main one, the browser's, its contexts'";
        assert!(ports.len() >= 6, "{what}: {ports:?}");
        assert!(ports.iter().all(|port| inspect::listens(*port)));
        let starting = gateway.start_call("c", "browser_navigate", json!({ "url": site.url("/") })).await;
        let both = || (inspect::browsers(pid).len() == 2).then_some(());
        eventually("the second browser, still starting", both).await;
        let processes = children(pid);
        Self { data, site, gateway, pid, run, processes, ports, _in_flight: [pending, starting] }
    }

    async fn nothing_runs(&self) {
        wait_gone(self.pid).await;
        inspect::all_gone(&self.run).await;
        for process in &self.processes {
            wait_gone(*process).await;
        }
        // A killed process disappears a moment before its sockets are closed.
        for port in &self.ports {
            let closed = || (!inspect::listens(*port)).then_some(());
            eventually(&format!("the end of listening on port {port}"), closed).await;
        }
    }

    async fn ends_in_order(self) {
        let status = self.gateway.client.wait().await;
        assert!(status.success(), "greenroom ended with {status}: {}", self.gateway.client.stderr());
        assert_eq!(inspect::tagged(&self.run), Vec::<u32>::new(), "greenroom ended before its children did");
        let listening: Vec<_> = self.ports.iter().filter(|port| inspect::listens(**port)).collect();
        assert!(listening.is_empty(), "these ports still listen: {listening:?}");
        assert_eq!(inspect::runs(self.data.path()), Vec::<PathBuf>::new());
        self.nothing_runs().await;
    }
}

/// SIGTERM ends everything in order.
#[tokio::test]
async fn sigterm_ends_everything() {
    let busy = BusyGateway::start().await;
    busy.gateway.client.signal(Signal::TERM);
    busy.ends_in_order().await;
}

/// SIGINT ends everything in order.
#[tokio::test]
async fn sigint_ends_everything() {
    let busy = BusyGateway::start().await;
    busy.gateway.client.signal(Signal::INT);
    busy.ends_in_order().await;
}

/// A client that closes its end of stdin ends everything in order.
#[tokio::test]
async fn closed_stdin_ends_everything() {
    let busy = BusyGateway::start().await;
    busy.gateway.client.close_stdin().await;
    busy.ends_in_order().await;
}

/// A parent that dies ends everything in order, though another process still holds greenroom's stdin open.
#[tokio::test]
async fn dead_parent_ends_everything() {
    let data = DataFolder::new();
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
    let busy = BusyGateway::start_with(data, launch, |shell| children(shell)[0]).await;
    busy.gateway.client.kill();
    busy.nothing_runs().await;
    assert_eq!(inspect::runs(busy.data.path()), Vec::<PathBuf>::new());
}

/// A greenroom that is killed takes its browsers and engines with it; the next one removes its folder, and leaves
/// a running neighbour on the same data folder alone.
#[tokio::test]
async fn sigkill_leaves_no_process() {
    let busy = BusyGateway::start().await;
    let neighbour = GatewayFixture::start(&busy.data, &[]).await;
    neighbour.navigate("n", &busy.site.url("/canary?name=neighbour")).await.ok();
    let neighbours_run = inspect::run_of(busy.data.path(), neighbour.client.pid());
    let neighbours = inspect::tagged(&neighbours_run);

    busy.gateway.client.kill();
    busy.nothing_runs().await;
    assert_eq!(inspect::runs(busy.data.path()).len(), 2, "a killed process does not remove its folder");

    let next = GatewayFixture::start(&busy.data, &[]).await;
    assert!(!busy.run.exists(), "the next greenroom removes the folder");
    next.navigate("n", &busy.site.url("/canary?name=next")).await.ok();
    let snapshot = neighbour.call("n", "browser_snapshot", json!({})).await.ok_without_restart();
    assert!(snapshot.contains("heading \"canary neighbour\""), "{snapshot}");
    let alive = inspect::tagged(&neighbours_run);
    assert!(neighbours.iter().all(|pid| alive.contains(pid)), "the neighbour lost a process");
    next.end().await;
    neighbour.call("n", "browser_snapshot", json!({})).await.ok_without_restart();
    neighbour.end().await;
    assert_eq!(inspect::runs(busy.data.path()), Vec::<PathBuf>::new());
}
