//! Accepts connections and serves each, until the server stops. [`maintain_clients`] meanwhile notifies clients of changed tools,
//! and ends clients that have been silent for too long.

use std::{sync::Arc, time::Duration};

use axum::{Router, serve::Listener};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    sync::Semaphore,
    time::{interval, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{HttpState, session::POLL_INTERVAL};

/// How long a connection may be silent before a request, and how long a request's headers may take to arrive. A client
/// that keeps a connection for later keeps it for a minute or less.
const HEADER_TIMEOUT: Duration = Duration::from_secs(90);

/// How many connections are served at once. A client has two or three; a flood waits in the kernel's queue, and
/// file descriptors are left for browsers.
const CONNECTIONS_MAX: usize = 4096;

/// How long requests may take to end once the server stops. Each request ends by itself, with an error if it still
/// runs. This limit is for clients that do not read.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves a listener. Returns when every connection has ended.
pub async fn serve<L: Listener>(mut listener: L, router: Router, stop: CancellationToken) {
    let connections = TaskTracker::new();
    let connection_permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = async {
            let permit = connection_permits.clone().acquire_owned().await.ok()?;
            Some((permit, listener.accept().await.0))
        };
        let (permit, io) = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = accepted => match accepted {
                Some(accepted) => accepted,
                None => break,
            },
        };
        let router = router.clone();
        let stop = stop.clone();
        connections.spawn(async move {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .serve_connection(TokioIo::new(io), TowerToHyperService::new(router))
                .with_upgrades();
            let mut connection = std::pin::pin!(connection);
            let ended = tokio::select! {
                ended = connection.as_mut() => Some(ended),
                () = stop.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    timeout(SHUTDOWN_TIMEOUT, connection).await.ok()
                }
            };
            if let Some(Err(error)) = ended {
                tracing::debug!(%error, "an HTTP connection broke");
            }
            drop(permit);
        });
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// Notifies clients of changed tools and forgets silent clients, until the server stops. [`HttpState::end`]
/// then ends them.
pub async fn maintain_clients(http_state: Arc<HttpState>) {
    let mut changes = http_state.gateway.catalog.changes();
    let mut look = interval(POLL_INTERVAL);
    loop {
        tokio::select! {
            () = http_state.stop.cancelled() => return,
            changed = changes.changed() => match changed {
                Ok(()) => http_state.clients.tools_changed().await,
                Err(_) => return,
            },
            _ = look.tick() => {
                http_state.clients.forget_silent(&http_state);
                http_state.clients.forget_ended_streams();
                http_state.gateway.suspended_calls.forget_old();
            }
        }
    }
}
