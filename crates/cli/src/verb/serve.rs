//! `greenroom serve`: one server for many agents, until it is stopped.
//!
//! It binds its port first, so that a port in use fails the start before anything is made. Then it builds the [`App`],
//! opens the control socket, begins to start browsers, prints `ready:` and accepts connections.

use std::{
    io::{ErrorKind, Write},
    net::SocketAddr,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use greenroom_core::{
    port::human,
    settings::{Origin, Resolved, Server},
};
use greenroom_engine::run_folder;
use greenroom_gateway::{
    ClientLocation,
    control::{ProcessKind, RecentLog},
    front::http::{self, ConnectionLimits, HostRules, HttpClients, HttpState, KeyRing, Probes},
};
use hyper::Uri;
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    app::App,
    config::ConfigSources,
    control,
    key_watch::KeySources,
    port_holder, reload,
    report::CliError,
    signals::Signals,
    tcp,
    tls::{CertificateFiles, PortListener, ServerCertificate},
    unused_server_exit,
    verb::browser_command::background,
};

#[derive(Debug, clap::Args)]
pub struct ServeArgs {
    /// A command has started this server: it takes any port unless one is configured, and ends when it is not used
    #[arg(long, hide = true)]
    pub background: bool,
}

pub async fn run(
    resolved: Resolved,
    config_sources: &ConfigSources,
    recent_log: Arc<RecentLog>,
    args: &ServeArgs,
) -> anyhow::Result<ExitCode> {
    let settings = &resolved.settings;
    let env = &config_sources.env;
    let signals = Signals::listen(true)?;
    // Read the certificate first: a mistake in it must not cost a browser.
    let certificate = CertificateFiles::of(&settings.server)?.map(ServerCertificate::load).transpose()?;
    let acceptor = certificate.as_ref().map(|certificate| certificate.acceptor()).transpose()?;
    let listener = bind(&resolved, args.background).await?;
    let idle_exit =
        if args.background { background::idle_exit(&resolved) } else { settings.server.idle_exit };
    let address = listener.local_addr().context("cannot tell where the server listens")?;
    let mut app = App::build(ProcessKind::Server, settings, env).await?;
    // Close the port to browsers before any page can know it.
    let _port = app.block_port(address.port())?;
    let scheme = if acceptor.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{address}");
    let public_url = settings.server.public_url.clone();
    // Answers link to files below this URL. No client can use the address of a server on all addresses.
    if let Some(base) = public_url.clone().or_else(|| (!address.ip().is_unspecified()).then(|| url.clone())) {
        let _ = app.gateway.recall.base_url.set(base);
    }
    let closing = CancellationToken::new();
    let keys = Arc::new(KeyRing::new(closing.clone()));
    let mut key_sources = KeySources::new(settings, app.quotas.clone());
    key_sources.load(&keys)?;
    // The keys of the data folder may have gone since the port was bound.
    if !address.ip().is_loopback() && !keys.is_required() {
        return Err(
            CliError::failure("there is no API key: greenroom does not listen beyond this machine").into()
        );
    }
    let socket = HttpState {
        gateway: app.gateway.clone(),
        clients: Arc::new(HttpClients::default()),
        probes: Arc::new(Probes { server: app.run_folder().1.to_owned() }),
        location: ClientLocation::Local { folder: env.working_dir.clone() },
        keys: None,
        public_probes: true,
        rules: None,
        stop: closing.clone(),
        tasks: TaskTracker::new(),
    };
    let http_state = Arc::new(HttpState {
        location: ClientLocation::Network,
        keys: Some(keys.clone()),
        public_probes: settings.server.public_probes,
        rules: Some(host_rules(&settings.server, address)),
        ..socket.clone()
    });
    app.open_control(
        ProcessKind::Server,
        idle_exit,
        Some(url.clone()),
        recent_log,
        http::socket_router(Arc::new(socket)),
    );
    app.warm_up();
    // Write the file after the socket exists: who reads it connects to the socket.
    let server_file = app.run_folder().0.join(control::SERVER_FILE);
    run_folder::write_atomically(&server_file, url.as_bytes()).context("cannot write to the data folder")?;
    if args.background {
        background::release_start_lock().context("cannot release the lock of the start")?;
    }
    // The kernel accepts connections from here on; a program that waits for this line may connect. A closed stdout is fine.
    let _ = writeln!(std::io::stdout().lock(), "ready: {url}/mcp");
    tracing::info!(url, "ready");
    let limits = ConnectionLimits {
        trusted_proxies: settings.server.trusted_proxies.clone(),
        is_encrypted: acceptor.is_some(),
    };
    let listener = tcp::OwnUserListener::new(listener, settings.server.allow_other_users, keys.clone());
    let port = PortListener { tcp: listener, tls: acceptor };
    let serving = http::serve(port, http::port_router(http_state.clone()), limits, closing.clone());
    let watching_certificate = async {
        let Some(certificate) = certificate else { return };
        tokio::select! {
            () = certificate.watch() => {}
            () = closing.cancelled() => {}
        }
    };
    let stopping = async {
        signals.stop.cancelled().await;
        // Remove the file first, so that fronts which lose this server do not find it again.
        let _ = std::fs::remove_file(&server_file);
        drain(&app, settings.server.drain_timeout, &signals).await;
        closing.cancel();
    };
    let reloading = async {
        tokio::select! {
            () = reload::watch(&app, config_sources, resolved.settings.clone(), &signals) => {}
            () = signals.stop.cancelled() => {}
        }
    };
    let watching_keys = async {
        tokio::select! {
            () = key_sources.watch(keys, &http_state) => {}
            () = closing.cancelled() => {}
        }
    };
    let idling = async {
        let Some(after) = idle_exit else { return };
        let is_used = || {
            !app.gateway.fleet.list_all().is_empty()
                || !app.gateway.answering.is_empty()
                || http_state.clients.has_clients()
        };
        tokio::select! {
            () = unused_server_exit::unused_for(after, app.gateway.commands.subscribe(), is_used) => {
                tracing::info!("no session, client or command for {}: ending", human(after));
                signals.stop.cancel();
            }
            () = signals.stop.cancelled() => {}
        }
    };
    tokio::join!(
        serving,
        http::maintain_clients(http_state.clone()),
        stopping,
        reloading,
        watching_keys,
        watching_certificate,
        idling
    );
    app.shut_down(http_state.end()).await;
    Ok(ExitCode::SUCCESS)
}

/// By which names clients may call the server, and for which pages.
fn host_rules(server: &Server, address: SocketAddr) -> HostRules {
    let mut hosts = server.allowed_hosts.clone();
    let public: Option<Uri> = server.public_url.as_ref().and_then(|url| url.parse().ok());
    hosts.extend(public.as_ref().and_then(Uri::host).map(|host| host.trim_matches(['[', ']']).to_owned()));
    HostRules {
        address: Some(address.ip()),
        hosts,
        origins: server.allowed_origins.clone(),
        proxies: server.trusted_proxies.clone(),
    }
}

/// Lets running calls end, for a limited time, unless a second signal arrives.
async fn drain(app: &App, within: Duration, signals: &Signals) {
    tokio::select! {
        done = app.gateway.drain(within) => {
            if !done {
                tracing::warn!("calls still run after {}; ending them now", human(within));
            }
        }
        () = signals.stop_now.cancelled() => tracing::warn!("received a second signal; ending running calls now"),
    }
}

async fn bind(resolved: &Resolved, is_background: bool) -> anyhow::Result<TcpListener> {
    let server = &resolved.settings.server;
    let address: SocketAddr = server.listen;
    if !address.ip().is_loopback() && !resolved.settings.has_keys() {
        let origin = resolved.origin("server.listen");
        let message =
            format!("refusing to listen beyond this machine without API keys: `{address}` (from {origin})");
        return Err(CliError::usage(message)
            .hint("make a key with `greenroom keys create NAME`, or set GREENROOM_API_KEYS; or listen on 127.0.0.1 and open a tunnel")
            .into());
    }
    if !address.ip().is_loopback()
        && server.tls_cert.is_none()
        && server.trusted_proxies.networks().is_empty()
    {
        tracing::warn!(
            "`{address}` is reached without TLS, so everyone on the way can read API keys; set `server.tls_cert` and `server.tls_key`, or name the reverse proxy that adds TLS in `server.trusted_proxies`"
        );
    }
    // Clients know a port that the user chose, so the server must have it. It may replace the default port.
    let may_move = matches!(resolved.origin("server.listen"), Origin::Default);
    if is_background {
        // Commands find the server by its socket. The default port stays free for a server that its user starts.
        let port = if may_move { 0 } else { address.port() };
        if let Ok(listener) = TcpListener::bind((address.ip(), port)).await {
            return Ok(listener);
        }
        return TcpListener::bind((address.ip(), 0)).await.context("cannot listen on any port");
    }
    listen(address, may_move).await
}

/// Listens at the address. With `may_move` it takes another port if only a connection holds this one.
async fn listen(address: SocketAddr, may_move: bool) -> anyhow::Result<TcpListener> {
    let error = match TcpListener::bind(address).await {
        Ok(listener) => return Ok(listener),
        Err(error) => error,
    };
    let holder = (error.kind() == ErrorKind::AddrInUse).then(|| port_holder::holder(address)).flatten();
    let (who, hint) = match &holder {
        Some(holder) if holder.listens => (
            format!("{} listens there", holder.describe()),
            "end it, or give another port with --listen; if it is a greenroom, `greenroom status` shows it",
        ),
        Some(holder) => (
            format!("a connection of {} has that port, and no program listens there", holder.describe()),
            "try again when that connection has ended, or give another port with --listen",
        ),
        None if error.kind() == ErrorKind::AddrInUse => (
            error.to_string(),
            "another program listens there, perhaps another greenroom: `greenroom status` shows it; or give another port with --listen",
        ),
        None => (error.to_string(), "give another address with --listen"),
    };
    let message = format!("cannot listen on {address}: {who}");
    if may_move && holder.is_some_and(|holder| !holder.listens) {
        let listener = TcpListener::bind((address.ip(), 0)).await.context("cannot listen on any port")?;
        tracing::warn!(
            "{message}; listening on a free port instead, which clients with the usual URL will not find"
        );
        return Ok(listener);
    }
    Err(CliError::failure(message).hint(hint).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpSocket;

    /// The default port is replaced when only a connection holds it; a chosen one is not, and the error names the holder. A
    /// port where a program listens is never replaced silently.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn port_in_use_error_names_its_process() {
        // No other program has connections from this address.
        let taken = TcpListener::bind("127.0.53.3:0").await.unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.53.4:0".parse().unwrap()).unwrap();
        let stream = socket.connect(taken.local_addr().unwrap()).await.unwrap();
        let local = stream.local_addr().unwrap();
        let moved = listen(local, true).await.unwrap().local_addr().unwrap();
        assert!(moved.ip() == local.ip() && moved.port() != local.port(), "{moved}");
        let own = format!("(pid {})", std::process::id());
        let error = listen(local, false).await.unwrap_err().to_string();
        assert!(error.contains("a connection of `") && error.contains(&own), "{error}");
        for may_move in [true, false] {
            let error = listen(taken.local_addr().unwrap(), may_move).await.unwrap_err().to_string();
            assert!(error.contains(&own) && error.ends_with(" listens there"), "{error}");
        }
    }
}
