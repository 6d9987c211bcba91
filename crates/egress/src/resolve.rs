//! From names to addresses, and from addresses to connections. Both are traits, so that tests resolve names as a hostile
//! name server would, and record connections instead of making them.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use greenroom_core::port::BoxFuture;
use tokio::net::TcpStream;

/// Resolves names.
pub trait Resolve: Send + Sync {
    /// Every address of a name. The caller limits the time.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// Connects to judged addresses.
pub trait Connect: Send + Sync {
    /// The caller limits the time.
    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>>;
}

/// The system's resolver and its network.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemNetwork;

impl Resolve for SystemNetwork {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let addresses = tokio::net::lookup_host((name, 0)).await?;
            Ok(addresses.map(|address| address.ip()).collect())
        })
    }
}

impl Connect for SystemNetwork {
    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        Box::pin(TcpStream::connect(address))
    }
}

/// The address of a host that needs no resolver: a literal, or a name that RFC 6761 reserves for loopback. Browsers
/// resolve those names themselves, and a system's resolver often knows only `localhost` itself.
pub(crate) fn known_addresses(host: &str) -> Option<Vec<IpAddr>> {
    if let Ok(literal) = host.parse::<IpAddr>() {
        return Some(vec![literal]);
    }
    let is_loopback = host == "localhost" || host.ends_with(".localhost");
    is_loopback.then(|| vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()])
}
