//! Engines over stdio with the fake engine behind them, and shorthands for calls.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, sync::Arc};

use greenroom_core::{Agent, BoxFuture, Call, Engine, Instance, InstanceId, NoAgent, NoAnswer, Raw, Seat};
use greenroom_engine::{CustomEngine, CustomServer, launcher::Launcher, ports::Ports, run_folder::RunFolder};
use greenroom_testkit::{EngineLog, Gate, eventually, fake_engine_path};
use serde_json::{Value, json};
use tempfile::TempDir;

pub struct FakeEngineFixture {
    folder: TempDir,
    pub launcher: Launcher,
    pub run: Arc<RunFolder>,
}

impl FakeEngineFixture {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let run = Arc::new(RunFolder::claim(&folder.path().join("data")).unwrap());
        Self { launcher: Launcher::start(run.tag()).unwrap(), folder, run }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The log of the fake engines.
    pub fn log(&self) -> EngineLog {
        EngineLog::at(self.path("log"))
    }

    pub fn gate(&self) -> Gate {
        Gate::new(self.folder.path(), "gate")
    }

    /// An executable script.
    pub fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// The fake engine with these flags, as a custom engine.
    pub fn custom(&self, slots: usize, flags: &[&str]) -> CustomEngine {
        let log = self.log().path().display().to_string();
        let args = ["--log", &log].into_iter().chain(flags.iter().copied()).map(ToOwned::to_owned).collect();
        CustomEngine {
            server: CustomServer::Command { program: fake_engine_path(), args },
            slots,
            launcher: self.launcher.clone(),
            run: self.run.clone(),
            ports: Ports::new(&self.run),
            tools_changed: Arc::new(|_| {}),
        }
    }

    pub async fn start(&self, slots: usize, flags: &[&str]) -> Arc<dyn Instance> {
        start(&self.custom(slots, flags)).await
    }
}

pub async fn start(engine: &dyn Engine) -> Arc<dyn Instance> {
    engine.start(InstanceId(0)).await.unwrap()
}

pub async fn open(instance: &Arc<dyn Instance>) -> Box<dyn Seat> {
    instance.open(Arc::new(NoAgent)).await.unwrap()
}

/// The text that a tool answers.
pub async fn call(seat: &mut Box<dyn Seat>, tool: &str, arguments: Value) -> String {
    let params = greenroom_core::raw::encode(&json!({ "name": tool, "arguments": arguments }));
    let reply = seat.call(Call::new(tool, params), Arc::new(NoAgent)).await.unwrap();
    let body: Value = serde_json::from_str(reply.body.unwrap().get()).unwrap();
    body["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

/// Waits until this process has no launcher any more. A signal for the end of its thread would have reached the children by
/// then.
pub async fn launcher_gone() {
    let is_launcher = |task: fs::DirEntry| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim() == "launcher")
    };
    let has_launcher = || fs::read_dir("/proc/self/task").unwrap().flatten().any(is_launcher);
    eventually("the launcher's end", || (!has_launcher()).then_some(())).await;
}

/// The process behind a seat.
pub async fn pid(seat: &mut Box<dyn Seat>) -> u32 {
    call(seat, "pid", json!({})).await.parse().unwrap()
}

/// An agent whose client can answer questions.
pub struct AskableAgent;

impl Agent for AskableAgent {
    fn tell(&self, _: &str, _: Option<Raw>) {}

    fn ask<'a>(&'a self, _: &'a str, _: Option<Raw>) -> BoxFuture<'a, Result<Result<Raw, Raw>, NoAnswer>> {
        Box::pin(std::future::ready(Err(NoAnswer::Gone)))
    }

    fn capabilities(&self) -> Option<Raw> {
        Some(greenroom_core::raw::encode(&json!({ "elicitation": {} })))
    }

    fn roots(&self) -> BoxFuture<'_, Vec<PathBuf>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    fn log_level(&self) -> Option<String> {
        None
    }
}
