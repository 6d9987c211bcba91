//! Browsers that somebody else runs: [`Guest`] is greenroom in one of them.

pub(super) mod life;
mod tabs;
pub(super) mod user;

use std::sync::Arc;

use greenroom_core::{Call, Engine, Instance, InstanceId, Lost, Nobody, Reply, Seat};
use greenroom_engine::{Endpoint, PlaywrightEngine, PlaywrightOptions};
use greenroom_testkit::{PATIENCE, within};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{GRACE, data_folder, engine, text};

/// greenroom, attached to somebody's browser.
struct Guest {
    engine: PlaywrightEngine,
    instance: Arc<dyn Instance>,
    seat: Box<dyn Seat>,
    /// Last, so that it goes when nobody uses it any more.
    _data: TempDir,
}

/// The engine for it, with other options if need be.
fn attached(
    data: &TempDir,
    endpoint: Arc<Endpoint>,
    change: impl FnOnce(&mut PlaywrightOptions),
) -> PlaywrightEngine {
    // The proxy is nobody's: what is attached to has its own way.
    let engine = engine(data.path(), 9, &[]);
    let mut options = (*engine.options).clone();
    (options.attach, options.isolated, options.timeout_settle) = (Some(endpoint), false, None);
    change(&mut options);
    PlaywrightEngine { options: Arc::new(options), ..engine }
}

impl Guest {
    async fn attach(endpoint: Arc<Endpoint>) -> Self {
        Self::attach_with(endpoint, |_| {}).await
    }

    async fn attach_with(endpoint: Arc<Endpoint>, change: impl FnOnce(&mut PlaywrightOptions)) -> Self {
        let data = data_folder();
        let engine = attached(&data, endpoint, change);
        let instance = engine.start(InstanceId(0)).await.unwrap();
        let seat = instance.open(Arc::new(Nobody)).await.unwrap();
        Self { engine, instance, seat, _data: data }
    }

    async fn try_call(&mut self, tool: &str, arguments: Value) -> Result<Reply, Lost> {
        let params = greenroom_core::raw::encode(&json!({ "name": tool, "arguments": arguments }));
        within(PATIENCE, self.seat.call(Call::new(tool, params), Arc::new(Nobody))).await
    }

    /// The text that a tool answers, which must not fail.
    async fn call(&mut self, tool: &str, arguments: Value) -> String {
        let reply = self.try_call(tool, arguments).await.unwrap();
        assert!(!reply.is_failure(), "{tool}: {}", text(&reply));
        text(&reply)
    }

    async fn navigate(&mut self, url: &str) -> String {
        self.call("browser_navigate", json!({ "url": url })).await
    }

    async fn evaluate(&mut self, function: &str) -> String {
        self.call("browser_evaluate", json!({ "function": function })).await
    }

    /// Waits until the engine has noticed that tabs were closed, which it may hear of after the browser did it.
    async fn until_tabs(&mut self, count: usize) {
        within(PATIENCE, async {
            loop {
                // The engine fails to list a tab that closes just then.
                let list = self.try_call("browser_tabs", json!({ "action": "list" })).await.unwrap();
                if !list.is_failure()
                    && text(&list).lines().filter(|line| line.starts_with("- ")).count() == count
                {
                    break;
                }
            }
        })
        .await;
    }

    /// Selects the tab of this title.
    async fn select(&mut self, title: &str) {
        let list = self.call("browser_tabs", json!({ "action": "list" })).await;
        let line = list.lines().find(|line| line.contains(&format!("t={title}"))).unwrap();
        let index: u32 = line.trim_start_matches("- ").split(':').next().unwrap().parse().unwrap();
        self.call("browser_tabs", json!({ "action": "select", "index": index })).await;
    }

    async fn leave(self) {
        self.seat.close().await;
        self.instance.stop(GRACE).await;
        within(PATIENCE, self.engine.launcher.all_ended()).await;
    }
}
