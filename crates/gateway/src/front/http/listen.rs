//! Accepts connections and serves each, until the server stops. [`maintain_clients`] meanwhile notifies clients of changed tools,
//! and ends clients that have been silent for too long.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{Router, serve::Listener};
use greenroom_core::TrustedProxies;
use hyper::{
    Request,
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use parking_lot::Mutex;
use tokio::{
    net::unix,
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

/// How many connections one address may have, so that one machine cannot take all of them. Loopback and trusted proxies may
/// have more: many clients are behind them.
const CONNECTIONS_PER_ADDRESS_MAX: usize = 512;

/// The largest head of a request. A client gets 431 for a larger one.
const HEAD_BYTES_MAX: usize = 256 * 1024;

/// How long requests may take to end once the server stops. Each request ends by itself, with an error if it still
/// runs. This limit is for clients that do not read.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Who is at the other end of a connection: the kernel's word, whatever the request says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionPeer {
    /// `None` on the control socket.
    pub address: Option<IpAddr>,
    /// Whether the connection itself is encrypted.
    pub is_encrypted: bool,
}

/// An address as listeners have it.
pub trait PeerAddress {
    fn ip(&self) -> Option<IpAddr>;
}

impl PeerAddress for SocketAddr {
    fn ip(&self) -> Option<IpAddr> {
        Some(SocketAddr::ip(self).to_canonical())
    }
}

impl PeerAddress for unix::SocketAddr {
    fn ip(&self) -> Option<IpAddr> {
        None
    }
}

/// What a listener permits its clients, and what it knows of their connections.
#[derive(Debug, Clone, Default)]
pub struct ConnectionLimits {
    pub trusted_proxies: TrustedProxies,
    /// Whether every connection of the listener is encrypted.
    pub is_encrypted: bool,
}

/// The connections of each address.
#[derive(Default)]
struct OpenConnections(Mutex<HashMap<IpAddr, usize>>);

/// One connection of an address. Dropping it gives its place back.
struct CountedConnection {
    all: Arc<OpenConnections>,
    address: IpAddr,
}

impl OpenConnections {
    /// `None` if the address has too many.
    fn add(self: &Arc<Self>, address: IpAddr) -> Option<CountedConnection> {
        // One customer of a provider has a whole /64 of IPv6.
        let address = match address {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from(u128::from(address) >> 64 << 64)),
            address => address,
        };
        let mut counts = self.0.lock();
        let count = counts.entry(address).or_default();
        if *count >= CONNECTIONS_PER_ADDRESS_MAX {
            return None;
        }
        *count += 1;
        Some(CountedConnection { all: self.clone(), address })
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut counts = self.all.0.lock();
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

/// Serves a listener. Returns when every connection has ended.
pub async fn serve<L: Listener<Addr: PeerAddress>>(
    mut listener: L,
    router: Router,
    limits: ConnectionLimits,
    stop: CancellationToken,
) {
    let connections = TaskTracker::new();
    let open = Arc::new(OpenConnections::default());
    let connection_permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = async {
            let permit = connection_permits.clone().acquire_owned().await.ok()?;
            let (io, address) = listener.accept().await;
            Some((permit, io, address.ip()))
        };
        let (permit, io, address) = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = accepted => match accepted {
                Some(accepted) => accepted,
                None => break,
            },
        };
        let is_limited =
            |address: &IpAddr| !address.is_loopback() && !limits.trusted_proxies.trusts(*address);
        let counted = match address.filter(is_limited) {
            None => None,
            Some(address) => match open.add(address) {
                Some(counted) => Some(counted),
                None => {
                    tracing::debug!(%address, "closed a connection: its address has too many");
                    continue;
                }
            },
        };
        let peer = ConnectionPeer { address, is_encrypted: limits.is_encrypted };
        let service = TowerToHyperService::new(router.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            service.call(request)
        });
        let stop = stop.clone();
        connections.spawn(async move {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .max_buf_size(HEAD_BYTES_MAX)
                .serve_connection(TokioIo::new(io), service)
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
            drop((permit, counted));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// An address has a number of connections, an IPv6 network together; each that ends leaves room for another.
    #[test]
    fn connections_of_an_address_are_limited() {
        let open = Arc::new(OpenConnections::default());
        for (one, same) in [("192.0.2.1", "192.0.2.1"), ("2001:db8::1", "2001:db8::ffff")] {
            let [one, same]: [IpAddr; 2] = [one, same].map(|address| address.parse().unwrap());
            let mut all: Vec<_> = (0..CONNECTIONS_PER_ADDRESS_MAX).map(|_| open.add(one).unwrap()).collect();
            assert!(open.add(same).is_none());
            assert!(open.add("192.0.2.2".parse().unwrap()).is_some(), "another address");
            all.pop();
            assert!(open.add(same).is_some());
        }
        assert!(open.0.lock().is_empty());
    }
}
