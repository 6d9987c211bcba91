//! Runs a verb while the greenrooms of a stage run, as a person in another window would.

use std::{
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use greenroom_testkit::{Client, PATIENCE, within};
use serde_json::Value;
use tokio::process::Command;

use crate::front::stage::Stage;

/// The output of a verb.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Said {
    pub fn of(output: Output) -> Self {
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
    pub fn check(&self, name: &str, stage: &Stage) {
        let all = format!(
            "exit code: {}\n----- stdout -----\n{}----- stderr -----\n{}",
            self.code, self.stdout, self.stderr
        );
        let all = all.replace(&stage.path("home").display().to_string(), "[HOME]");
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

/// A verb to be run in a stage's home.
pub fn greenroom(stage: &Stage, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_greenroom"));
    command
        .args(arguments)
        .env_clear()
        .env("HOME", stage.path("home"))
        .current_dir(stage.path("home"))
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Runs a verb to its end.
pub async fn ask(stage: &Stage, arguments: &[&str]) -> Said {
    Said::of(within(PATIENCE, greenroom(stage, arguments).output()).await.unwrap())
}

/// The control socket of a greenroom.
pub fn socket(stage: &Stage, client: &Client) -> PathBuf {
    crate::real::look::run_of(&stage.data(), client.pid()).join("control.sock")
}

/// Runs a verb to its end, for the greenrooms of a data folder.
pub async fn verb(data: &Path, arguments: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_greenroom"));
    command.args(arguments).arg("--data-dir").arg(data);
    command.env_clear().env("HOME", data).current_dir(data).stdin(Stdio::null()).kill_on_drop(true);
    Said::of(within(PATIENCE, command.output()).await.unwrap())
}
