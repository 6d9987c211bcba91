//! The gate: whether a browser may connect to an address. The only place of this crate that knows policy.
//!
//! It is asked twice: for the name, before anything is resolved, and for each address, before anything is
//! dialled. An upstream proxy changes nothing in that; only what follows a verdict. The verdicts themselves are [`greenroom_core::net`]'s; the gate adds what only a running proxy
//! knows, its own port and which addresses are this machine's. Presets, lists and policies per session
//! belong behind these two methods.

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::Arc,
};

use greenroom_core::net::{self, Blocked, OwnPorts, Target};

pub(crate) struct Gate {
    own: Own,
}

/// The ports that somebody else declares, and the proxy's.
struct Own {
    declared: Arc<dyn OwnPorts>,
    proxy: u16,
}

impl OwnPorts for Own {
    fn contains(&self, port: u16) -> bool {
        port == self.proxy || self.declared.contains(port)
    }
}

impl Gate {
    pub(crate) fn new(declared: Arc<dyn OwnPorts>, proxy: u16) -> Self {
        Self { own: Own { declared, proxy } }
    }

    /// May this name be resolved at all? A lookup by itself can already tell or ask something.
    pub(crate) fn admit_name(&self, host: &str) -> Result<(), Blocked> {
        if net::is_metadata_name(host) { Err(Blocked::Metadata) } else { Ok(()) }
    }

    /// May this very address be dialled?
    pub(crate) fn admit(&self, host: &str, address: SocketAddr) -> Result<(), Blocked> {
        let target = Target { host: host.to_owned(), address: address.ip(), port: address.port() };
        net::judge(&target, &self.own)?;
        // The address first: the list of ports may have to be read from disk, and most addresses are elsewhere.
        if is_this_machine(address) && self.own.contains(address.port()) {
            return Err(Blocked::OwnPort);
        }
        Ok(())
    }

    /// Is this one of greenroom's own ports?
    pub(crate) fn is_own(&self, address: SocketAddr) -> bool {
        self.admit("", address) == Err(Blocked::OwnPort)
    }
}

/// Whether the address is one of this machine's, loopback or not: a port that listens on every interface is
/// reached through each of them. The kernel answers a connection to itself from the address it goes to, and
/// connecting a datagram socket asks it for that choice without sending anything.
fn is_this_machine(address: SocketAddr) -> bool {
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let source = UdpSocket::bind(any).and_then(|socket| {
        socket.connect(address)?;
        socket.local_addr()
    });
    source.is_ok_and(|source| source.ip() == address.ip())
}
