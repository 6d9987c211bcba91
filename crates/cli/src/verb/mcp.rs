//! `greenroom mcp`: serves one agent over stdin and stdout.

use std::process::ExitCode;

use anyhow::Context;
use greenroom_core::settings::Resolved;
use greenroom_gateway::front;
use greenroom_mcp::stdio;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{
    config::Surroundings,
    house::{House, Kind},
    parent,
};

#[derive(Debug, clap::Args)]
pub struct Args {}

pub async fn run(resolved: &Resolved, surroundings: &Surroundings, _: &Args) -> anyhow::Result<ExitCode> {
    let stop = CancellationToken::new();
    stop_on_signals(&stop)?;
    parent::watch(stop.clone());
    let house = House::build(Kind::Stdio, &resolved.settings, surroundings).await?;
    house.warm_up();
    let stdio = stdio::open(std::io::stdin(), std::io::stdout()).context("cannot serve stdin and stdout")?;
    front::stdio::serve(house.gateway.clone(), stdio, stop).await;
    house.take_down().await;
    Ok(ExitCode::SUCCESS)
}

/// SIGTERM and SIGINT end the process in order, and so does the end of its terminal.
fn stop_on_signals(stop: &CancellationToken) -> anyhow::Result<()> {
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
        let mut signals = signal(kind).context("cannot listen for signals")?;
        let stop = stop.clone();
        tokio::spawn(async move {
            signals.recv().await;
            stop.cancel();
        });
    }
    Ok(())
}
