//! The verbs that drive a browser from a shell, with the fake engine: which greenroom runs them, what they print, and what
//! they do when something is wrong.

mod background;
mod calls;
mod faults;

use std::process::Stdio;

use greenroom_testkit::{TEST_TIMEOUT, within};
use tokio::process::Command;

use crate::{control::run_verb::VerbOutput, front::fixture::FakeEngineSetup};

/// A command in a setup's home, with the setup's settings.
pub fn command(setup: &FakeEngineSetup, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_greenroom"));
    command
        .args(arguments)
        .env_clear()
        .envs(setup.environment())
        .current_dir(setup.path("home"))
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Runs a command to its end.
pub async fn run(setup: &FakeEngineSetup, arguments: &[&str]) -> VerbOutput {
    VerbOutput::new(within(TEST_TIMEOUT, command(setup, arguments).output()).await.unwrap())
}
