//! Declared pools with real browsers: one `greenroom serve`, agents over HTTP, and instances that are killed.
//!
//! [`PoolFixture`] is the server with its pool. [`kills_under_load`] kills instances while many agents call, long in
//! `make soak` and short here. [`status_invariants`] has the invariants of a pool's status.

mod example;
mod failure;
pub mod kills_under_load;
mod status_invariants;

use std::path::PathBuf;

use greenroom_testkit::{
    http::{HttpMcpClient, Server},
    process::{Signal, signal},
    until_some,
};
use serde_json::{Value, json};

use super::{
    fixture::{DataFolder, REVISION, ToolAnswer},
    inspect,
};

/// A server with one declared pool.
pub struct PoolFixture {
    data: DataFolder,
    pub server: Server,
    pool: &'static str,
}

/// The part of an instance to kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillTarget {
    Browser,
    Node,
}

impl PoolFixture {
    /// Starts a server with these variables, which declare this pool, and returns when all its instances are healthy.
    pub async fn open(pool: &'static str, variables: &[(&str, &str)]) -> Self {
        let data = DataFolder::new();
        let launch = greenroom_testkit::Launch::new(env!("CARGO_BIN_EXE_greenroom"))
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(data.path())
            // The tests wait for what they want to see.
            .env("PW_MCP_PROXY_TIMEOUT_SETTLE", "0");
        let launch = variables.iter().fold(launch, |launch, (name, value)| launch.env(name, value));
        let fixture = Self { data, server: Server::start(launch).await, pool };
        fixture.until(|pool| pool["healthy_instances"] == pool["total_instances"]).await;
        fixture
    }

    /// An agent after its handshake.
    pub async fn agent(&self) -> HttpMcpClient {
        HttpMcpClient::open(&self.server, REVISION, json!({})).await
    }

    /// The pool as `browser_pool_status` shows it.
    pub async fn status(&self, agent: &HttpMcpClient) -> Value {
        let answer = ToolAnswer::new(agent.call("browser_pool_status", json!({})).await);
        serde_json::from_str(&answer.ok()).unwrap()
    }

    /// The pool as programs see it.
    pub async fn pool(&self) -> Value {
        self.server.get(&format!("/api/pools/{}", self.pool)).await.json().await
    }

    /// Asks again until `wanted` accepts the pool: no message announces an instance's state.
    pub async fn until(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        until_some("the pool as it should be", async || Some(self.pool().await).filter(&wanted)).await
    }

    /// The main process of an instance's browser: the one with its profile.
    pub fn browser(&self, instance: usize) -> u32 {
        let profile: PathBuf = self.data.path().join("profiles").join(self.pool).join(instance.to_string());
        inspect::browser_of(self.server.pid(), &profile)
    }

    /// Kills a part of an instance; returns which process it was.
    pub async fn kill(&self, instance: usize, target: KillTarget) -> u32 {
        let pid = match target {
            KillTarget::Browser => self.browser(instance),
            // The status shows the engine's process.
            KillTarget::Node => {
                let pid = &self.pool().await["instances"][instance]["process_id"];
                u32::try_from(pid.as_u64().unwrap()).unwrap()
            }
        };
        signal(pid, Signal::KILL);
        pid
    }

    pub async fn ready(&self) -> (u16, Value) {
        let mut reply = self.server.get("/ready").await;
        (reply.status, reply.json().await)
    }

    /// The server's data folder, for verbs that look for it.
    pub fn data(&self) -> &std::path::Path {
        self.data.path()
    }

    /// Ends the server and waits for it; nothing of it is left behind.
    pub async fn close(self) {
        let run = inspect::run_of(self.data.path(), self.server.pid());
        let status = self.server.stop().await;
        assert!(status.success(), "greenroom ended with {status}: {}", self.server.stderr());
        inspect::all_gone(&run).await;
    }
}

/// Calls a tool.
pub async fn call(agent: &HttpMcpClient, tool: &str, arguments: Value) -> ToolAnswer {
    ToolAnswer::new(agent.call(tool, arguments).await)
}

pub async fn navigate(agent: &HttpMcpClient, url: &str, instance: Option<&str>) -> ToolAnswer {
    let mut arguments = json!({ "url": url });
    if let Some(instance) = instance {
        arguments["browser_instance"] = json!(instance);
    }
    call(agent, "browser_navigate", arguments).await
}
