//! Which addresses are this machine's. This module asks the system about each address at the time of the
//! verdict, because interfaces come and go, and container networks add some.
//!
//! It tries to bind a socket to the address: that works for this machine's addresses and for no others. It works for
//! every interface that is up, for further addresses of one interface, for IPv6, and for whole networks that are
//! routed to this machine. A list of interfaces would miss those networks; the source address that the system chooses
//! would miss further addresses.

use std::{
    io,
    net::{IpAddr, UdpSocket},
};

use greenroom_core::network::OwnAddresses;
use rustix::io::Errno;

/// The machine that this process runs on.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThisMachine;

impl OwnAddresses for ThisMachine {
    fn contains(&self, address: IpAddr) -> Option<bool> {
        told(UdpSocket::bind((address, 0)).map(drop))
    }
}

/// What an attempt to bind says about the address: whether it is this machine's. Two errors mean that it is not: no
/// interface has the address, or the system has no addresses of its family, as one without IPv6. After others, such as
/// too many open files or a link-local address without its interface, it is unknown.
fn told(bound: io::Result<()>) -> Option<bool> {
    match bound {
        Ok(()) => Some(true),
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => Some(false),
        Err(error) if error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error()) => Some(false),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(address: &str) -> Option<bool> {
        ThisMachine.contains(address.parse().unwrap())
    }

    /// Loopback and the source address that the machine uses towards others are its own; an address reserved for
    /// documentation is not.
    #[test]
    fn this_machine() {
        assert_eq!(contains("127.0.0.1"), Some(true));
        assert_eq!(contains("198.51.100.200"), Some(false));
        // Connecting a datagram socket sends nothing; it tells which address this machine would speak from.
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        if socket.connect("198.51.100.200:9").is_ok() {
            let own = socket.local_addr().unwrap().ip();
            assert_eq!(ThisMachine.contains(own), Some(true), "{own}");
        }
    }

    /// An address that the system cannot judge is unknown, not elsewhere.
    #[test]
    fn unknown_is_not_elsewhere() {
        // A link-local address may mean another machine on each interface.
        assert_eq!(contains("fe80::1"), None);
        for (kind, expected) in [
            (io::ErrorKind::AddrNotAvailable, Some(false)),
            (io::ErrorKind::PermissionDenied, None),
            (io::ErrorKind::OutOfMemory, None),
        ] {
            assert_eq!(told(Err(kind.into())), expected, "{kind}");
        }
    }

    /// On a machine without IPv6 no IPv6 address is its own: sites with addresses of both kinds stay reachable.
    #[test]
    fn addresses_of_an_unknown_family_are_elsewhere() {
        assert_eq!(told(Err(Errno::AFNOSUPPORT.into())), Some(false));
    }
}
