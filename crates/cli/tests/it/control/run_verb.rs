//! Runs a verb while greenroom processes run with the same home folder, as a user in another terminal does.

use std::{
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use greenroom_testkit::{Client, TEST_TIMEOUT, within};
use serde_json::Value;
use tokio::process::Command;

use crate::front::fixture::FakeEngineSetup;

/// The output of a verb.
#[derive(Debug)]
pub struct VerbOutput {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl VerbOutput {
    pub fn new(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let code = output.status.code().unwrap_or_else(|| panic!("it was killed: {}", output.status));
        Self { code, stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Compares all output with a snapshot, with values that differ each time replaced.
    #[track_caller]
    pub fn check(&self, name: &str, setup: &FakeEngineSetup) {
        let all = format!(
            "exit code: {}\n----- stdout -----\n{}----- stderr -----\n{}",
            self.code, self.stdout, self.stderr
        );
        let all = all.replace(&setup.path("home").display().to_string(), "[HOME]");
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path("../snapshots");
        settings.add_filter(r"pid \d+", "pid [PID]");
        settings.add_filter(r#""pid": \d+"#, r#""pid": "[PID]""#);
        settings.add_filter(r"(?m)^\d+  ", "[PID]  ");
        settings.add_filter(r"(?m)^PID +", "PID    ");
        settings.add_filter(r" +\d+ (s|min)( \d+ s)?\b", " [TIME]");
        settings.add_filter(r" +IDLE +EXPIRES IN", " IDLE EXPIRES IN");
        settings.add_filter(r" +- +-", " - -");
        settings.add_filter(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "[WHEN]");
        settings.add_filter(r#"Seconds": \d+"#, r#"Seconds": "[SECONDS]""#);
        settings.bind(|| insta::assert_snapshot!(name, all));
    }
}

/// The command that runs a verb in this setup's home folder.
pub fn greenroom(setup: &FakeEngineSetup, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_greenroom"));
    command
        .args(arguments)
        .env_clear()
        .env("HOME", setup.path("home"))
        .current_dir(setup.path("home"))
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Runs a verb to its end.
pub async fn run_verb(setup: &FakeEngineSetup, arguments: &[&str]) -> VerbOutput {
    VerbOutput::new(within(TEST_TIMEOUT, greenroom(setup, arguments).output()).await.unwrap())
}

/// The control socket of a greenroom.
pub fn socket(setup: &FakeEngineSetup, client: &Client) -> PathBuf {
    crate::real::inspect::run_of(&setup.data(), client.pid()).join("control.sock")
}

/// Runs a verb to its end, for the greenrooms of a data folder.
pub async fn run_verb_in(data: &Path, arguments: &[&str]) -> VerbOutput {
    let mut command = Command::new(env!("CARGO_BIN_EXE_greenroom"));
    command.args(arguments).arg("--data-dir").arg(data);
    command.env_clear().env("HOME", data).current_dir(data).stdin(Stdio::null()).kill_on_drop(true);
    VerbOutput::new(within(TEST_TIMEOUT, command.output()).await.unwrap())
}
