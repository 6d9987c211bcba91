//! `greenroom serve`: one server for many agents, until it is stopped.

use std::{
    io::{ErrorKind, Write},
    net::SocketAddr,
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context;
use axum::serve::ListenerExt;
use greenroom_core::{Owner, settings::Resolved};
use greenroom_engine::run_folder;
use greenroom_gateway::{
    Reach,
    front::http::{self, Door, Probes, Rules, Sessions},
};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{config::Surroundings, house::House, report::Hinted, signals};

/// The file in the run folder that says where this server listens.
pub const MARK: &str = "server";

#[derive(Debug, clap::Args)]
pub struct Args {}

pub async fn run(resolved: &Resolved, surroundings: &Surroundings, _: &Args) -> anyhow::Result<ExitCode> {
    let settings = &resolved.settings;
    let stop = CancellationToken::new();
    signals::stop_on(&stop)?;
    let listener = bind(resolved).await?;
    let address = listener.local_addr().context("cannot tell where the server listens")?;
    let house = House::build(settings, surroundings).await?;
    // Before any page can know it.
    let _port = house.hold(address.port())?;
    let (folder, tag) = house.run_folder();
    let url = format!("http://{address}");
    let door = Arc::new(Door {
        gateway: house.gateway.clone(),
        sessions: Arc::new(Sessions::default()),
        probes: Arc::new(Probes { server: tag.to_owned() }),
        reach: Reach::Network,
        owner: Owner::local(),
        rules: Some(Rules { address: Some(address.ip()), hosts: settings.server.allowed_hosts.clone() }),
        stop: stop.clone(),
        tasks: TaskTracker::new(),
    });
    run_folder::write_whole(&folder.join(MARK), url.as_bytes()).context("cannot write to the data folder")?;
    // The kernel accepts from here on; whoever waits for this line may connect. A closed stdout bothers nobody.
    let _ = writeln!(std::io::stdout().lock(), "ready: {url}");
    tracing::info!(url, "ready");
    // Answers are written when they are whole, so waiting for more would only delay them.
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot switch off the delay of small packets");
        }
    });
    let serving = http::serve(listener, http::router(door.clone()), stop.clone());
    tokio::join!(serving, http::attend(door.clone()));
    door.tasks.close();
    door.tasks.wait().await;
    drop(door);
    house.take_down().await;
    Ok(ExitCode::SUCCESS)
}

async fn bind(resolved: &Resolved) -> anyhow::Result<TcpListener> {
    let address: SocketAddr = resolved.settings.server.listen;
    if !address.ip().is_loopback() {
        let origin = resolved.origin("server.listen");
        let message =
            format!("refusing to listen beyond this machine without API keys: `{address}` (from {origin})");
        return Err(Hinted::usage(message)
            .hint("listen on 127.0.0.1, and reach it through a tunnel or a proxy that knows who comes")
            .into());
    }
    TcpListener::bind(address).await.map_err(|error| {
        let message = format!("cannot listen on {address}: {error}");
        let hint = if error.kind() == ErrorKind::AddrInUse {
            "another program listens there, perhaps another greenroom: `greenroom status` shows it; or give another port with --listen"
        } else {
            "give another address with --listen"
        };
        Hinted::failure(message).hint(hint).into()
    })
}
