//! Dialling: from the host and port a browser asked for to a connection, or the reason why there is none.
//!
//! A name is resolved once, here; every address it has is judged; then the judged addresses are tried in
//! order. Nothing resolves a second time, so a name that answers differently the next moment (DNS rebinding)
//! changes nothing. A name with even one blocked address is refused as a whole: no honest name is half
//! greenroom's own. Called by [`crate::tunnel`] and [`crate::forward`].

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use greenroom_core::{net::Blocked, port::human};
use tokio::{net::TcpStream, time::timeout};

use crate::gate::Gate;

/// How long one address may take to accept: the first SYN and its repeats after 1 s and 3 s. A dead address
/// in front of a living one then still leaves a page time to load within an engine's usual 30 to 60 s.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// How long a name may take to resolve: the system resolver's own two attempts of 5 s. Past that nothing
/// new happens.
const LOOKUP_WITHIN: Duration = Duration::from_secs(10);

/// How many addresses of a name are tried. With [`CONNECT_WITHIN`] each, the whole wait stays within 30 s.
const ADDRESSES_MAX: usize = 6;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoConnection {
    #[error("{host}:{port} is refused: {reason}")]
    Blocked { host: String, port: u16, reason: Blocked },
    #[error("{host} cannot be resolved: {source}")]
    Unresolved { host: String, source: io::Error },
    #[error("{host}:{port} cannot be reached: {source}")]
    Unreachable { host: String, port: u16, source: io::Error },
}

pub(crate) struct Dialer {
    gate: Gate,
}

impl Dialer {
    pub(crate) fn new(gate: Gate) -> Self {
        Self { gate }
    }

    /// Connects to `host`, a name or a literal with or without brackets.
    pub(crate) async fn dial(&self, host: &str, port: u16) -> Result<TcpStream, NoConnection> {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let blocked = |reason| NoConnection::Blocked { host: host.to_owned(), port, reason };
        self.gate.admit_name(bare).map_err(blocked)?;
        let addresses = resolve(bare, port)
            .await
            .map_err(|source| NoConnection::Unresolved { host: host.to_owned(), source })?;
        for address in &addresses {
            self.gate.admit(bare, *address).map_err(blocked)?;
        }
        connect(&addresses).await.map_err(|source| NoConnection::Unreachable {
            host: host.to_owned(),
            port,
            source,
        })
    }
}

/// Every address of `host`.
async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(literal) = host.parse::<IpAddr>() {
        return Ok(vec![(literal, port).into()]);
    }
    // RFC 6761 keeps these names for loopback. Browsers resolve them so without asking anyone, and a
    // system's resolver often knows only the bare one.
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    if name == "localhost" || name.ends_with(".localhost") {
        return Ok(vec![(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()]);
    }
    match timeout(LOOKUP_WITHIN, tokio::net::lookup_host((host, port))).await {
        Ok(found) => Ok(found?.collect()),
        Err(_) => Err(late("the resolver did not answer", LOOKUP_WITHIN)),
    }
}

/// The first connection that succeeds, or what the last address tried had to say.
async fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses.iter().take(ADDRESSES_MAX) {
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

fn late(what: &str, within: Duration) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("{what} within {}", human(within)))
}
