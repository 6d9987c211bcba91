//! `greenroom mcp`: serves one agent over stdin and stdout.

use std::process::ExitCode;

use anyhow::bail;
use greenroom_core::settings::Resolved;

#[derive(Debug, clap::Args)]
pub struct Args {}

pub async fn run(_settings: Resolved, _args: Args) -> anyhow::Result<ExitCode> {
    bail!("serving over stdio is not built yet")
}
