//! One port of the proxy: a listener for one browser context, its user and policy, and what it has refused.
//!
//! The port's task owns the listener and every connection; both end when the port is dropped or the proxy ends. A
//! connection asks for the port's policy anew with each request, so a new user's policy holds at once, also on
//! connections that the browser keeps open. Tunnels of an earlier user go on: their verdict was made when they opened, and
//! greenroom gives a used context to another owner only after it has been closed.

use std::{io, net::SocketAddr, sync::Arc};

use greenroom_core::{
    network::{Blocked, PolicyLayers},
    port::{EgressPort, PortUser, RefusalReport, Refusals, RefusedConnection},
};
use parking_lot::Mutex;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    ACCEPT_PAUSE, Shared, connection, connection_permits::PortPermits, peer_user, refusals::RefusalLog,
};

/// How much of a refused host is kept: the longest name of the DNS.
const HOST_CHARS_MAX: usize = 253;

/// Names that one port resolves at once: a slow name server must not take the threads that other ports need.
const PORT_LOOKUPS_MAX: usize = 16;

/// A listening port.
pub struct Port {
    state: Arc<PortState>,
    connections: watch::Receiver<usize>,
    /// Dropping it ends the listener and its connections.
    _stop: DropGuard,
}

/// What a port's connections share.
pub(crate) struct PortState {
    pub(crate) shared: Arc<Shared>,
    address: SocketAddr,
    /// The user and the policy that holds for it.
    assigned: Mutex<(Option<PortUser>, PolicyLayers)>,
    refusals: Mutex<RefusalLog>,
    pub(crate) lookups: Arc<Semaphore>,
}

impl PortState {
    pub(crate) fn policy(&self) -> PolicyLayers {
        self.assigned.lock().1.clone()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Keeps a refusal, and reports it.
    pub(crate) fn refuse(&self, host: &str, port: u16, reason: &Blocked) {
        // A page chooses the name, and some names need no name server that would refuse a longer one.
        let host = host.chars().take(HOST_CHARS_MAX).collect();
        let refusal = RefusedConnection { host, port, reason: reason.clone() };
        let is_new = self.refusals.lock().add(&refusal);
        let user = self.assigned.lock().0.clone();
        self.shared.sink.refused(RefusalReport {
            pool: self.shared.pool.as_deref(),
            user: user.as_ref(),
            refused: &refusal,
            is_new,
        });
    }
}

impl Port {
    /// Starts to listen on a free loopback port. Needs a runtime.
    pub(crate) fn open(shared: &Arc<Shared>) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let state = Arc::new(PortState {
            shared: shared.clone(),
            address: listener.local_addr()?,
            assigned: Mutex::new((None, shared.policy.clone())),
            refusals: Mutex::default(),
            lookups: Arc::new(Semaphore::new(PORT_LOOKUPS_MAX)),
        });
        let stop = shared.stop.child_token();
        let (count, connections) = watch::channel(0);
        shared.tasks.spawn(listen(listener, state.clone(), count, stop.clone()));
        Ok(Self { state, connections, _stop: stop.drop_guard() })
    }

    /// How many browser connections are open now, tunnels included.
    pub fn connections(&self) -> watch::Receiver<usize> {
        self.connections.clone()
    }
}

impl EgressPort for Port {
    fn address(&self) -> SocketAddr {
        self.state.address
    }

    fn assign(&self, user: PortUser) {
        let pool = &self.state.shared.policy;
        let policy = user.network.as_ref().map_or_else(|| pool.clone(), |own| pool.narrowed(own.clone()));
        *self.state.assigned.lock() = (Some(user), policy);
        *self.state.refusals.lock() = RefusalLog::default();
    }

    fn take_refusals(&self) -> Refusals {
        self.state.refusals.lock().take()
    }

    fn refusal_of(&self, host: &str, port: u16) -> Option<Blocked> {
        self.state.refusals.lock().reason(host, port)
    }
}

/// Accepts connections until `stop`, then ends every connection.
async fn listen(
    listener: TcpListener,
    state: Arc<PortState>,
    count: watch::Sender<usize>,
    stop: CancellationToken,
) {
    let permits = state.shared.permits.port();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "a proxied connection failed");
                }
                count.send_replace(connections.len());
            }
            Some((stream, accepted)) = accept(&listener, &permits, &state) => {
                let state = state.clone();
                let permits = permits.clone();
                connections.spawn(async move {
                    let _served = permits.serve().await;
                    connection::serve(stream, state).await;
                    drop(accepted);
                });
                count.send_replace(connections.len());
            }
        }
    }
    drop(listener);
    connections.shutdown().await;
    count.send_replace(0);
}

/// Whether the proxy serves this client: one of greenroom's own user, unless it serves all.
fn is_served(state: &PortState, stream: &TcpStream, client: SocketAddr) -> bool {
    let is_own = |proxy| peer_user::is_own(client, proxy);
    state.shared.serves_all_users || stream.local_addr().is_ok_and(is_own)
}

/// The next connection, once there is room for it. Dropping the future loses no connection.
async fn accept(
    listener: &TcpListener,
    permits: &PortPermits,
    state: &PortState,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let permit = permits.accept().await?;
    loop {
        match listener.accept().await {
            Ok((stream, client)) if is_served(state, &stream, client) => return Some((stream, permit)),
            Ok((_, client)) => tracing::debug!(%client, "refused a connection of another user"),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a browser's connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
