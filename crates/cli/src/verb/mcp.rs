//! `greenroom mcp`: serves one agent over stdin and stdout.

use std::process::ExitCode;

use anyhow::Context;
use greenroom_core::settings::Resolved;
use greenroom_gateway::front;
use greenroom_mcp::stdio;
use tokio_util::sync::CancellationToken;

use crate::{config::Surroundings, house::House, parent, signals};

#[derive(Debug, clap::Args)]
pub struct Args {}

pub async fn run(resolved: &Resolved, surroundings: &Surroundings, _: &Args) -> anyhow::Result<ExitCode> {
    let stop = CancellationToken::new();
    signals::stop_on(&stop)?;
    parent::watch(stop.clone());
    let house = House::build(&resolved.settings, surroundings).await?;
    let stdio = stdio::open(std::io::stdin(), std::io::stdout()).context("cannot serve stdin and stdout")?;
    front::stdio::serve(house.gateway.clone(), stdio, stop).await;
    house.take_down().await;
    Ok(ExitCode::SUCCESS)
}
