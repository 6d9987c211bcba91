//! Stands in for the network behind the egress proxy: records connections instead of making them.
//!
//! Tests of the network policy name private, metadata and public addresses. This dialer connects to loopback only,
//! whatever the policy under test lets through: to sites that stand for another address, and, if a test asks for it, to
//! loopback itself.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Mutex,
};

use tokio::net::TcpStream;

/// The dialer. The test's own type implements the proxy's trait with it.
#[derive(Debug, Default)]
pub struct RecordingDialer {
    sites: HashMap<SocketAddr, SocketAddr>,
    connects_to_loopback: bool,
    dials: Mutex<Vec<SocketAddr>>,
}

impl RecordingDialer {
    /// A dialer that makes no connection at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// A dialer that connects to `site`, a socket on loopback, when it is asked for `address`.
    pub fn with_site(mut self, address: SocketAddr, site: SocketAddr) -> Self {
        assert!(site.ip().is_loopback(), "{site} is not on loopback");
        self.sites.insert(address, site);
        self
    }

    /// A dialer that connects to `127.0.0.1` when it is asked for an address that reaches loopback listeners. So a listener
    /// on `127.0.0.1` sees connections to every such address, and need not listen on all of them.
    pub fn with_loopback(mut self) -> Self {
        self.connects_to_loopback = true;
        self
    }

    /// Records the connection. Makes it if the address stands for loopback here.
    pub async fn dial(&self, address: SocketAddr) -> io::Result<TcpStream> {
        self.dials.lock().unwrap().push(address);
        let site = match self.sites.get(&address) {
            Some(site) => *site,
            None if self.connects_to_loopback && reaches_loopback(address.ip()) => {
                (Ipv4Addr::LOCALHOST, address.port()).into()
            }
            None => return Err(io::Error::other("this connection is recorded and not made")),
        };
        TcpStream::connect(site).await
    }

    /// Every address that was asked for, in order.
    pub fn dials(&self) -> Vec<SocketAddr> {
        self.dials.lock().unwrap().clone()
    }
}

/// Whether the kernel connects to a loopback listener if a program connects to this address.
pub fn reaches_loopback(address: IpAddr) -> bool {
    let canonical = address.to_canonical();
    canonical.is_loopback() || canonical.is_unspecified()
}
