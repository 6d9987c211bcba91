//! `greenroom setup`: installs the pinned engine.

use std::process::ExitCode;

use anyhow::bail;
use greenroom_core::settings::Resolved;

#[derive(Debug, clap::Args)]
pub struct Args {}

pub async fn run(_settings: Resolved, _args: Args) -> anyhow::Result<ExitCode> {
    bail!("installing the engine is not built yet")
}
