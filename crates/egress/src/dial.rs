//! Dialling: from the host and port that a browser asked for to a connection, or the reason why there is none.
//!
//! The dialer resolves a name once, has the gate judge every address of it, and tries the judged addresses in
//! order. No code resolves the name a second time, so a name that answers differently the next moment (DNS
//! rebinding) changes nothing. A name with even one blocked address is refused as a whole: no honest name
//! points both to greenroom and elsewhere. Called by [`crate::tunnel`] and [`crate::forward`].
//!
//! With an upstream proxy the same verdicts come first, and then the connection goes to the upstream, whose
//! own address is not judged: the operator chose it. The upstream gets a judged address, so that it cannot reach another
//! one. An upstream that the operator trusts gets the name instead and **resolves it again**: then only the upstream
//! can prevent DNS rebinding, and the dialer judges a name that only the upstream can resolve by its spelling alone. It
//! sends even a trusted upstream an address in the spelling that it judged, not in the browser's, so that the upstream
//! cannot read it as another address. And an upstream on this machine has greenroom's loopback, so the dialer refuses
//! every name with one of greenroom's own port numbers.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use greenroom_core::{
    network::{Blocked, rule::canonical_host},
    port::human,
};
use tokio::{net::TcpStream, sync::Semaphore, time::timeout};

use crate::{
    gate::{Gate, PortPolicy},
    host,
    port::PortState,
    resolve::{Connect, Resolve, known_addresses},
    upstream::Upstream,
};

/// How long one address may take to accept: the first SYN and its repeats after 1 s and 3 s. A dead address
/// before a live one then still leaves a page time to load within an engine's usual 30 to 60 s.
pub(crate) const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// How long a name may take to resolve: the system resolver's own two attempts of 5 s. Waiting longer gains
/// nothing.
pub(crate) const LOOKUP_WITHIN: Duration = Duration::from_secs(10);

/// How many addresses of a name are tried. With [`CONNECT_WITHIN`] each, the whole wait stays within 30 s.
pub(crate) const ADDRESSES_MAX: u32 = 6;

/// How many addresses of a name are judged. Only judged ones are tried; large sites have some 20.
const JUDGED_MAX: usize = 64;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoConnection {
    #[error("{host}:{port} is refused: {reason}")]
    Blocked { host: String, port: u16, reason: Blocked },
    #[error("{host} cannot be resolved: {source}")]
    Unresolved { host: String, source: io::Error },
    #[error("{host}:{port} cannot be reached: {source}")]
    Unreachable { host: String, port: u16, source: io::Error },
    #[error("the upstream proxy cannot be reached: {0}")]
    NoUpstream(#[source] io::Error),
}

pub(crate) struct Dialer {
    gate: Arc<Gate>,
    upstream: Option<Upstream>,
    trust_upstream: Option<bool>,
    resolver: Arc<dyn Resolve>,
    connector: Arc<dyn Connect>,
    /// Whether the upstream was at fault in the latest report.
    upstream_failed: AtomicBool,
}

/// A connection for one judged request.
pub(crate) enum OutboundConnection<'a> {
    ToSite(TcpStream),
    ToUpstream {
        stream: TcpStream,
        upstream: &'a Upstream,
        /// The site that the request names to the upstream: a name, or an address in its usual spelling.
        host: String,
        /// Whether `host` stands for a name that the browser gave.
        resolved: bool,
    },
}

impl Dialer {
    pub(crate) fn new(
        gate: Gate,
        upstream: Option<Upstream>,
        trust_upstream: Option<bool>,
        resolver: Arc<dyn Resolve>,
        connector: Arc<dyn Connect>,
    ) -> Self {
        let upstream_failed = AtomicBool::new(false);
        Self { gate: Arc::new(gate), upstream, trust_upstream, resolver, connector, upstream_failed }
    }

    pub(crate) fn upstream(&self) -> Option<&Upstream> {
        self.upstream.as_ref()
    }

    /// The caller reports here that the upstream has answered.
    pub(crate) fn upstream_works(&self) {
        self.upstream_failed.store(false, Ordering::Relaxed);
    }

    /// The caller reports here that the upstream is at fault. Returns `true` the first time, so that the caller logs a
    /// page of a hundred requests once.
    pub(crate) fn upstream_fails(&self) -> bool {
        !self.upstream_failed.swap(true, Ordering::Relaxed)
    }

    /// Connects to `host`, a name or a literal with or without brackets, or to the upstream on its behalf. The port
    /// through which the browser came gives the policy, and keeps a refusal.
    pub(crate) async fn dial(
        &self,
        through: &PortState,
        host: &str,
        port: u16,
    ) -> Result<OutboundConnection<'_>, NoConnection> {
        let dialled = self.dial_judged(through, host, port).await;
        if let Err(NoConnection::Blocked { host, port, reason }) = &dialled {
            through.refuse(host, *port, reason);
        }
        dialled
    }

    async fn dial_judged(
        &self,
        through: &PortState,
        host: &str,
        port: u16,
    ) -> Result<OutboundConnection<'_>, NoConnection> {
        let bare = host::bare(host);
        let policy = PortPolicy { layers: through.policy(), proxy_port: through.address().port() };
        let blocked = |reason| NoConnection::Blocked { host: host.to_owned(), port, reason };
        let unresolved = |source| NoConnection::Unresolved { host: host.to_owned(), source };
        self.gate.admit_name(&policy, bare, port).map_err(blocked)?;
        let resolved = self.resolve(&through.lookups, bare).await;
        let at_port = |address: &IpAddr| SocketAddr::new(*address, port);
        let addresses: Vec<_> = resolved.iter().flatten().map(at_port).collect();
        self.judge(&policy, bare, addresses.clone(), Gate::admit).await.map_err(blocked)?;
        let Some(upstream) = &self.upstream else {
            resolved.map_err(unresolved)?;
            let unreachable = |source| NoConnection::Unreachable { host: host.to_owned(), port, source };
            return Ok(OutboundConnection::ToSite(self.connect(&addresses).await.map_err(unreachable)?));
        };

        let upstream_addresses =
            self.resolve(&through.lookups, upstream.host()).await.map_err(NoConnection::NoUpstream)?;
        let is_name = host::is_name(bare);
        // A session's policy may judge addresses although its pool's does not.
        let trusted = self.trust_upstream.unwrap_or_else(|| !policy.layers.judges_addresses());
        let site_host = if is_name && trusted {
            let own_port: Vec<_> = upstream_addresses.iter().map(at_port).collect();
            self.judge(&policy, "", own_port, Gate::admit_unless_own).await.map_err(blocked)?;
            bare.to_owned()
        } else {
            let first = resolved.and_then(|all| all.first().copied().ok_or_else(no_address));
            host::literal(first.map_err(unresolved)?)
        };
        let upstream_port = upstream.port();
        let upstream_addresses: Vec<_> =
            upstream_addresses.into_iter().map(|address| SocketAddr::new(address, upstream_port)).collect();
        let stream = self.connect(&upstream_addresses).await.map_err(NoConnection::NoUpstream)?;
        let resolved = is_name && !trusted;
        Ok(OutboundConnection::ToUpstream { stream, upstream, host: site_host, resolved })
    }

    /// Judges addresses on a blocking thread, since the port lists of other greenroom processes are files. Returns the
    /// first refusal; an address that gets no verdict is refused.
    async fn judge(
        &self,
        policy: &PortPolicy,
        host: &str,
        addresses: Vec<SocketAddr>,
        verdict: fn(&Gate, &PortPolicy, &str, SocketAddr) -> Result<(), Blocked>,
    ) -> Result<(), Blocked> {
        let gate = self.gate.clone();
        let policy = policy.clone();
        let host = host.to_owned();
        let judged = tokio::task::spawn_blocking(move || {
            addresses.into_iter().try_for_each(|address| verdict(&gate, &policy, &host, address))
        });
        judged.await.unwrap_or_else(|error| {
            tracing::error!(%error, "an address got no verdict, and is refused");
            Err(Blocked::OwnPort)
        })
    }

    /// The addresses of `host`, [`JUDGED_MAX`] at most.
    async fn resolve(&self, lookups: &Arc<Semaphore>, host: &str) -> io::Result<Vec<IpAddr>> {
        let name = canonical_host(host);
        if let Some(known) = known_addresses(&name) {
            return Ok(known);
        }
        let resolver = self.resolver.clone();
        let host = host.to_owned();
        let lookups = lookups.clone();
        let lookup = async move {
            // The port never closes this semaphore.
            let permit = lookups.acquire_owned().await;
            // The system goes on with a lookup whose caller has left, so the lookup itself keeps its permit to the end.
            let lookup = tokio::spawn(async move {
                let _permit = permit;
                resolver.resolve(&host).await
            });
            lookup.await.unwrap_or_else(|panicked| Err(io::Error::other(panicked)))
        };
        let mut addresses = timeout(LOOKUP_WITHIN, lookup)
            .await
            .unwrap_or_else(|_| Err(late("the resolver did not answer", LOOKUP_WITHIN)))?;
        addresses.truncate(JUDGED_MAX);
        Ok(addresses)
    }

    /// Tries the addresses in order. Returns the first connection, or the error of the last address.
    async fn connect(&self, addresses: &[SocketAddr]) -> io::Result<TcpStream> {
        let mut last = no_address();
        for address in addresses.iter().take(ADDRESSES_MAX as usize) {
            match timeout(CONNECT_WITHIN, self.connector.connect(*address)).await {
                Ok(Ok(stream)) => {
                    // Without this, small frames of an interactive page wait for each other's acknowledgement.
                    // A socket that refuses the option still carries bytes.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => last = error,
                Err(_) => last = late("it did not accept a connection", CONNECT_WITHIN),
            }
        }
        Err(last)
    }
}

fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the name has no address")
}

fn late(what: &str, within: Duration) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("{what} within {}", human(within)))
}
