//! The real devtools engine with a real Chromium. [`DevtoolsFixture`] is one instance with seats, and a test site, which is
//! also the egress proxy.

mod answers;
mod disk;
mod files;
mod lifecycle;
mod outside_connections;

use std::{path::Path, sync::Arc};

use greenroom_core::{Call, Engine, Instance, InstanceId, Lost, Reply, Seat};
use greenroom_engine::{DevtoolsEngine, EngineOptions, browser::InstallPaths, run_folder::RunFolder};
use greenroom_testkit::{Site, TEST_TIMEOUT, case, within};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{AgentWithWorkspace, GRACE, data_folder, shared_browser::selectors, sizes, text};

pub struct DevtoolsFixture {
    pub site: Site,
    workspace: TempDir,
    engine: DevtoolsEngine,
    instance: Arc<dyn Instance>,
    /// Last, so that it is dropped after all users of it.
    data: TempDir,
}

impl DevtoolsFixture {
    /// An instance whose options were changed.
    async fn with(change: impl FnOnce(&mut EngineOptions)) -> Self {
        let site = Site::start().await;
        let data = data_folder();
        let engine = engine(data.path(), site.port(), change);
        let instance = engine.start(InstanceId(0)).await.unwrap();
        Self { site, workspace: tempfile::tempdir().unwrap(), engine, instance, data }
    }

    pub async fn open() -> (Self, DevtoolsSeat) {
        let fixture = Self::with(|_| {}).await;
        let seat = fixture.open_seat().await;
        (fixture, seat)
    }

    /// One more seat.
    async fn open_seat(&self) -> DevtoolsSeat {
        let worker = Arc::new(AgentWithWorkspace(self.workspace.path().to_owned()));
        let seat = within(TEST_TIMEOUT, self.instance.open(worker.clone())).await.unwrap();
        DevtoolsSeat { seat, worker }
    }

    pub async fn end(self) {
        self.instance.stop(GRACE).await;
    }
}

/// What the devtools engine answers, one case after the other in the first page of one seat: snapshots, console lines, files,
/// downloads, recordings, audits, sizes, and selectors as hostile agents write them.
#[tokio::test]
async fn answers_of_the_devtools_engine() {
    let (fixture, mut seat) = DevtoolsFixture::open().await;
    macro_rules! run {
        ($($name:path),+ $(,)?) => {
            $(case(stringify!($name), $name(&fixture, &mut seat)).await;)+
        };
    }
    run!(
        answers::snapshots_are_kept,
        answers::console_lines_and_values_are_kept,
        files::results_are_written_where_the_agent_wants,
        files::only_workspace_files_can_be_uploaded,
        files::downloads_come_with_an_answer,
        files::recordings_arrive_when_they_end,
        files::audit_writes_several_files,
        sizes::devtools_refuses_large_sizes,
        selectors::devtools_answers_every_selector,
    );
    fixture.end().await;
}

/// A seat, and the agent that uses it. The first page of a fresh engine is number 1.
pub struct DevtoolsSeat {
    seat: Box<dyn Seat>,
    worker: Arc<AgentWithWorkspace>,
}

impl DevtoolsSeat {
    pub async fn try_call(&mut self, tool: &str, arguments: Value) -> Result<Reply, Lost> {
        let params = greenroom_core::raw::encode(&json!({ "name": tool, "arguments": arguments }));
        self.raw_call(Call::new(tool, params)).await
    }

    /// The same with arguments of any form.
    pub async fn raw_call(&mut self, call: Call) -> Result<Reply, Lost> {
        within(TEST_TIMEOUT, self.seat.call(call, self.worker.clone())).await
    }

    /// The answer of a tool, which must not fail.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Reply {
        let reply = self.try_call(tool, arguments).await.unwrap();
        assert!(!reply.is_failure(), "{tool}: {}", text(&reply));
        reply
    }

    pub async fn navigate(&mut self, url: &str) -> Reply {
        let reply = self.call("navigate_page", json!({ "pageId": 1, "url": url })).await;
        assert!(text(&reply).starts_with("Successfully navigated"), "{}", text(&reply));
        reply
    }

    async fn snapshot(&mut self) -> String {
        let reply = self.call("take_snapshot", json!({ "pageId": 1 })).await;
        reply.snapshot_text().unwrap().to_string()
    }

    /// The result of a function, as the engine writes it.
    pub async fn evaluate(&mut self, function: &str) -> Value {
        let arguments = json!({ "pageId": 1, "function": function, "waitForStableDom": false });
        let text = text(&self.call("evaluate_script", arguments).await);
        let value = text.strip_prefix("Script ran on page and returned:\n```json\n");
        serde_json::from_str(value.unwrap().strip_suffix("\n```").unwrap()).unwrap_or_default()
    }
}

/// The reference of an element in a snapshot, by role and name.
pub fn uid(snapshot: &str, element: &str) -> String {
    let line = snapshot.lines().find(|line| line.contains(element));
    let line = line.unwrap_or_else(|| panic!("no {element}: {snapshot}"));
    line.trim_start().strip_prefix("uid=").unwrap().split(' ').next().unwrap().to_owned()
}

#[allow(clippy::disallowed_methods, reason = "a test takes the machine's own search path")]
pub fn engine(data: &Path, proxy: u16, change: impl FnOnce(&mut EngineOptions)) -> DevtoolsEngine {
    let run = Arc::new(RunFolder::claim(data).unwrap());
    let install_paths = InstallPaths::new(std::env::home_dir(), std::env::var_os("PATH").unwrap_or_default());
    let mut options = EngineOptions::new(data.to_owned(), install_paths);
    change(&mut options);
    DevtoolsEngine(super::base(options, run, proxy))
}
