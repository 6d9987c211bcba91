//! Dialling: from the host and port that a browser asked for to a connection, or the reason why there is none.
//!
//! The dialer resolves a name once, has the gate judge every address of it, and tries the judged addresses in
//! order. No code resolves the name a second time, so a name that answers differently the next moment (DNS
//! rebinding) changes nothing. A name with even one blocked address is refused as a whole: no honest name
//! points both to greenroom and elsewhere. Called by [`crate::tunnel`] and [`crate::forward`].
//!
//! With an upstream proxy the same verdicts come first, and then the connection goes to the upstream, whose
//! own address is not judged: the operator chose it. **The upstream resolves names again**, so only the upstream can
//! prevent DNS rebinding there: the dialer may judge a name by one address and the upstream reach it at another, and
//! the dialer judges a name that only the upstream can resolve by its spelling alone. The dialer trusts the upstream
//! with that, but not with two other things. It sends the upstream an address in the spelling that it judged, not in
//! the browser's, so that the upstream cannot read it as another address. And an upstream on this machine has
//! greenroom's loopback, so the dialer refuses every name with one of greenroom's own port numbers.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use greenroom_core::{network_verdict::Blocked, port::human};
use tokio::{net::TcpStream, time::timeout};

use crate::{gate::Gate, host, upstream::Upstream};

/// How long one address may take to accept: the first SYN and its repeats after 1 s and 3 s. A dead address
/// before a live one then still leaves a page time to load within an engine's usual 30 to 60 s.
pub(crate) const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// How long a name may take to resolve: the system resolver's own two attempts of 5 s. Waiting longer gains
/// nothing.
pub(crate) const LOOKUP_WITHIN: Duration = Duration::from_secs(10);

/// How many addresses of a name are tried. With [`CONNECT_WITHIN`] each, the whole wait stays within 30 s.
pub(crate) const ADDRESSES_MAX: u32 = 6;

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
    /// Whether the upstream was at fault in the latest report.
    upstream_failed: AtomicBool,
}

/// A connection for one judged request.
pub(crate) enum OutboundConnection<'a> {
    ToSite(TcpStream),
    /// `host` is the site that the request names to the upstream: a name, or an address in its usual spelling.
    ToUpstream {
        stream: TcpStream,
        upstream: &'a Upstream,
        host: String,
    },
}

impl Dialer {
    pub(crate) fn new(gate: Gate, upstream: Option<Upstream>) -> Self {
        Self { gate: Arc::new(gate), upstream, upstream_failed: AtomicBool::new(false) }
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

    /// Connects to `host`, a name or a literal with or without brackets, or to the upstream on its behalf.
    pub(crate) async fn dial(&self, host: &str, port: u16) -> Result<OutboundConnection<'_>, NoConnection> {
        let bare = host::bare(host);
        let blocked = |reason| NoConnection::Blocked { host: host.to_owned(), port, reason };
        self.gate.admit_name(bare).map_err(blocked)?;
        let site_addresses = resolve(bare, port).await;
        let addresses = site_addresses.as_deref().unwrap_or_default();
        self.judge(bare, addresses, Gate::admit).await.map_err(blocked)?;
        let unresolved = |source| NoConnection::Unresolved { host: host.to_owned(), source };
        let Some(upstream) = &self.upstream else {
            let unreachable = |source| NoConnection::Unreachable { host: host.to_owned(), port, source };
            let stream = connect(&site_addresses.map_err(unresolved)?).await.map_err(unreachable)?;
            return Ok(OutboundConnection::ToSite(stream));
        };

        let upstream_addresses =
            resolve(upstream.host(), upstream.port()).await.map_err(NoConnection::NoUpstream)?;
        let site_host = if host::is_name(bare) {
            let at_port: Vec<_> =
                upstream_addresses.iter().map(|address| SocketAddr::new(address.ip(), port)).collect();
            self.judge("", &at_port, Gate::admit_unless_own).await.map_err(blocked)?;
            bare.to_owned()
        } else {
            let first = site_addresses
                .and_then(|site_addresses| site_addresses.first().copied().ok_or_else(no_address));
            host::literal(first.map_err(unresolved)?.ip())
        };
        let stream = connect(&upstream_addresses).await.map_err(NoConnection::NoUpstream)?;
        Ok(OutboundConnection::ToUpstream { stream, upstream, host: site_host })
    }

    /// Judges addresses on a blocking thread, since the port lists of other greenroom processes are files. Returns the
    /// first refusal; an address that gets no verdict is refused.
    async fn judge(
        &self,
        host: &str,
        addresses: &[SocketAddr],
        verdict: fn(&Gate, &str, SocketAddr) -> Result<(), Blocked>,
    ) -> Result<(), Blocked> {
        let gate = self.gate.clone();
        let host = host.to_owned();
        let addresses = addresses.to_owned();
        let judged = tokio::task::spawn_blocking(move || {
            addresses.into_iter().try_for_each(|address| verdict(&gate, &host, address))
        });
        judged.await.unwrap_or(Err(Blocked::OwnPort))
    }
}

/// Every address of `host`.
async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(literal) = host.parse::<IpAddr>() {
        return Ok(vec![(literal, port).into()]);
    }
    // RFC 6761 reserves these names for loopback. Browsers resolve them without a resolver, and a system's resolver
    // often knows only `localhost` itself.
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    if name == "localhost" || name.ends_with(".localhost") {
        return Ok(vec![(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()]);
    }
    match timeout(LOOKUP_WITHIN, tokio::net::lookup_host((host, port))).await {
        Ok(site_addresses) => Ok(site_addresses?.collect()),
        Err(_) => Err(late("the resolver did not answer", LOOKUP_WITHIN)),
    }
}

/// Tries the addresses in order. Returns the first connection, or the error of the last address.
async fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut last = no_address();
    for address in addresses.iter().take(ADDRESSES_MAX as usize) {
        match timeout(CONNECT_WITHIN, TcpStream::connect(address)).await {
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

fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the name has no address")
}

fn late(what: &str, within: Duration) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("{what} within {}", human(within)))
}
