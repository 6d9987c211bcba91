//! The forward proxy that every Chromium goes through: the only way from browsers to the network.
//!
//! A [`Proxy`] owns a loopback listener and every connection that came in through it. It resolves names
//! itself, asks the `gate` about each address, and connects only to an address that the gate allowed. So neither
//! the spelling of a URL, nor a redirect, nor a name whose addresses change leads around the verdict. It
//! refuses greenroom's own ports, its own port among them, and cloud metadata services.
//!
//! It may have to go out through another proxy, an [`Upstream`]. The gate then judges first as well, but the upstream
//! decides to which address a name leads; `dial` says what that means.
//!
//! It does not look into what it carries, keeps nothing, and speaks HTTP/1.1 only: `CONNECT` in `tunnel`,
//! absolute-form requests in `forward`. Its owner starts it before the browsers, and ends it after them.

mod answer;
mod chain;
mod connection;
mod dial;
mod forward;
mod gate;
mod host;
mod this_machine;
mod tunnel;
mod upstream;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use greenroom_core::network_verdict::OwnPorts;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch},
    task::{JoinHandle, JoinSet},
};

use crate::{dial::Dialer, gate::Gate};
pub use crate::{
    this_machine::ThisMachine,
    upstream::{Upstream, UpstreamError},
};

/// Connections served at once; further ones wait in the listener's backlog. Chromium opens at most 32
/// connections to one proxy per context, so this is 64 contexts at their busiest. A connection costs two
/// descriptors and two copy buffers: at the limit 4,096 and 64 MiB.
const CONNECTIONS_MAX: usize = 2_048;

/// How long the listener pauses when `accept` fails: if descriptors ran out, other connections have to end first,
/// and asking again at once would only burn a core.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A running proxy. Dropping it ends its listener, its connections and their tunnels, soon;
/// [`Proxy::shutdown`] returns when they have ended.
pub struct Proxy {
    address: SocketAddr,
    connections: watch::Receiver<usize>,
    /// Never sent on: the listener task ends when this is dropped.
    stop: oneshot::Sender<()>,
    /// Owns the listener and, in turn, every connection's task.
    task: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy on a free loopback port. It asks `own` anew for every connection, so ports may come and go
    /// while it runs. With an `upstream` it sends everything that it does not refuse through that proxy, and connects
    /// to no site directly, even if the upstream does not answer.
    pub async fn start(own: Arc<dyn OwnPorts>, upstream: Option<Upstream>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let dialer = Arc::new(Dialer::new(Gate::new(own, address.port(), ThisMachine), upstream));
        let (stop, stopped) = oneshot::channel();
        let (count, connections) = watch::channel(0);
        let task = tokio::spawn(listen(listener, dialer, count, stopped));
        Ok(Self { address, connections, stop, task })
    }

    /// The address for browsers: `--proxy-server=http://ADDRESS`.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many browser connections are open now, tunnels included.
    pub fn connections(&self) -> watch::Receiver<usize> {
        self.connections.clone()
    }

    /// Ends the proxy. Returns when its port is free and every connection through it is closed.
    pub async fn shutdown(self) {
        drop(self.stop);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the egress proxy did not end cleanly");
        }
    }
}

/// Accepts connections until `stop`, then ends every connection.
async fn listen(
    listener: TcpListener,
    dialer: Arc<Dialer>,
    count: watch::Sender<usize>,
    mut stopped: oneshot::Receiver<()>,
) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "a proxied connection failed");
                }
                count.send_replace(connections.len());
            }
            Some((stream, permit)) = admit(&listener, &permits) => {
                let dialer = dialer.clone();
                connections.spawn(async move {
                    connection::serve(stream, dialer).await;
                    drop(permit);
                });
                count.send_replace(connections.len());
            }
        }
    }
    drop(listener);
    connections.shutdown().await;
    count.send_replace(0);
}

/// The next connection, once there is room for it. Dropping the future loses no connection.
async fn admit(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let permit = permits.clone().acquire_owned().await.ok()?;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return Some((stream, permit)),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a browser's connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
