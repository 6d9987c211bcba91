//! Instances of every kind with the real engine and real Chromium, without a fleet around them.
//!
//! [`InstanceFixture`] holds all that an instance is made with; each test changes its options.

mod launched;
mod options;
mod ping;
mod profile;

use std::{path::Path, sync::Arc, time::Duration};

use greenroom_core::{Call, Engine, Instance, InstanceId, NoAgent, Reply, Seat, StartError};
use greenroom_egress::{Proxy, ProxyOptions};
use greenroom_engine::{
    EngineBase, EngineOptions, PlaywrightEngine, browser::InstallPaths, launcher::Launcher, ports::Ports,
    run_folder::RunFolder,
};
use serde_json::{Value, json};

use super::fixture::DataFolder;

/// How long an instance may take to end on its own; the same as the fleet's.
const GRACE: Duration = Duration::from_secs(2);

struct InstanceFixture {
    data: DataFolder,
    launcher: Launcher,
    run: Arc<RunFolder>,
    ports: Ports,
    proxy: Proxy,
}

impl InstanceFixture {
    async fn new() -> Self {
        let data = DataFolder::new();
        let run = Arc::new(RunFolder::claim(data.path()).unwrap());
        let ports = Ports::new(&run);
        let proxy = Proxy::start(ProxyOptions::new(Arc::new(ports.clone()))).await.unwrap();
        Self { launcher: Launcher::start(run.tag()).unwrap(), data, run, ports, proxy }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.data.path().join(name)
    }

    /// Isolated, headless, one slot, no settling.
    fn options(&self) -> EngineOptions {
        let install_paths =
            InstallPaths::new(std::env::home_dir(), std::env::var_os("PATH").unwrap_or_default());
        let mut options = EngineOptions::new(self.data.path().to_owned(), install_paths);
        options.pool.timeout_settle = Some(Duration::ZERO);
        options
    }

    /// The options of an instance with a persistent profile.
    fn with_profile(&self, profile: &Path) -> EngineOptions {
        let mut options = self.options();
        options.pool.isolated = false;
        options.profile = Some(profile.to_owned());
        options
    }

    async fn try_start(&self, options: EngineOptions) -> Result<Arc<dyn Instance>, StartError> {
        let engine = PlaywrightEngine(EngineBase {
            options: Arc::new(options),
            launcher: self.launcher.clone(),
            run: self.run.clone(),
            ports: self.ports.clone(),
            proxy: self.proxy.address(),
            egress: self.proxy.ports(),
            tools_changed: Arc::new(|_| {}),
        });
        engine.start(InstanceId(0)).await
    }

    async fn start(&self, options: EngineOptions) -> Arc<dyn Instance> {
        self.try_start(options).await.unwrap_or_else(|error| panic!("{error}; hint: {:?}", error.hint))
    }
}

/// A seat, with methods for its tools.
pub struct TestSeat(pub Box<dyn Seat>);

impl TestSeat {
    pub async fn open(instance: &Arc<dyn Instance>) -> Self {
        Self(instance.open(Arc::new(NoAgent)).await.unwrap_or_else(|error| panic!("{error}")))
    }

    /// The whole answer, as the engine gave it.
    pub async fn answer(&mut self, tool: &str, arguments: Value) -> (Value, Reply) {
        let params = greenroom_core::raw::encode(&json!({ "name": tool, "arguments": arguments }));
        let call = Call::new(tool, params);
        let reply = self.0.call(call, Arc::new(NoAgent)).await.unwrap_or_else(|lost| panic!("{lost}"));
        let body = reply.body.clone().unwrap_or_else(|error| panic!("{error}"));
        (serde_json::from_str(body.get()).unwrap(), reply)
    }

    /// The text of an answer, and whether the tool failed.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Result<String, String> {
        let (body, _) = self.answer(tool, arguments).await;
        let text = body["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        if body["isError"] == true { Err(text) } else { Ok(text) }
    }

    pub async fn navigate(&mut self, url: &str) -> Result<String, String> {
        self.call("browser_navigate", json!({ "url": url })).await
    }

    /// What a function in the page returns, as text.
    pub async fn evaluate(&mut self, function: &str) -> String {
        self.call("browser_evaluate", json!({ "function": function })).await.unwrap()
    }

    pub async fn close(self) {
        self.0.close().await;
    }
}
