//! The gate: whether a browser may connect to an address. The only module of this crate that knows policy.
//!
//! The dialer asks it twice: for the name, before it resolves anything, and for each address, before it connects.
//! [`network_verdict`] makes the verdicts; the gate adds what only a running proxy knows, its own port.

use std::{net::SocketAddr, sync::Arc};

use greenroom_core::network_verdict::{self, Blocked, DialTarget, OwnAddresses, OwnPorts};

pub(crate) struct Gate {
    ports: ProxyAndDeclaredPorts,
    addresses: Box<dyn OwnAddresses>,
}

/// The ports that greenroom declares as its own, and the proxy's port.
struct ProxyAndDeclaredPorts {
    declared: Arc<dyn OwnPorts>,
    proxy: u16,
}

impl OwnPorts for ProxyAndDeclaredPorts {
    fn contains(&self, port: u16) -> bool {
        port == self.proxy || self.declared.contains(port)
    }
}

impl Gate {
    pub(crate) fn new(
        declared: Arc<dyn OwnPorts>,
        proxy: u16,
        addresses: impl OwnAddresses + 'static,
    ) -> Self {
        Self { ports: ProxyAndDeclaredPorts { declared, proxy }, addresses: Box::new(addresses) }
    }

    /// Whether the proxy may resolve this name: the lookup alone can leak data or reach a server.
    pub(crate) fn admit_name(&self, host: &str) -> Result<(), Blocked> {
        if network_verdict::is_metadata_name(host) { Err(Blocked::Metadata) } else { Ok(()) }
    }

    /// Whether the proxy may dial this address of the host.
    pub(crate) fn admit(&self, host: &str, address: SocketAddr) -> Result<(), Blocked> {
        let target = DialTarget { host: host.to_owned(), address: address.ip(), port: address.port() };
        network_verdict::check_target(&target, &self.ports, self.addresses.as_ref())
    }

    /// Whether the upstream may dial this address of the host: only greenroom's own ports are refused.
    pub(crate) fn admit_unless_own(&self, host: &str, address: SocketAddr) -> Result<(), Blocked> {
        self.admit(host, address).or_else(|blocked| match blocked {
            Blocked::OwnPort => Err(Blocked::OwnPort),
            _ => Ok(()),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    struct Port9222;
    impl OwnPorts for Port9222 {
        fn contains(&self, port: u16) -> bool {
            port == 9222
        }
    }

    /// A machine with two addresses in one network; the system sends from the first only.
    struct TwoAddressMachine;
    impl OwnAddresses for TwoAddressMachine {
        fn contains(&self, address: IpAddr) -> Option<bool> {
            Some(["203.0.113.7", "203.0.113.8"].iter().any(|own| own.parse() == Ok(address)))
        }
    }

    /// Declared ports and the proxy's own are refused at every address of the machine, the second one of an interface
    /// too; other machines and other ports are not.
    #[test]
    fn every_address_counts() {
        let gate = Gate::new(Arc::new(Port9222), 4000, TwoAddressMachine);
        let admit = |address: &str| gate.admit("x", address.parse().unwrap());
        for address in ["203.0.113.7:9222", "203.0.113.8:9222", "[::ffff:203.0.113.8]:4000", "127.0.0.1:4000"]
        {
            assert_eq!(admit(address), Err(Blocked::OwnPort), "{address}");
        }
        for address in ["203.0.113.9:9222", "203.0.113.8:80", "127.0.0.1:80"] {
            assert_eq!(admit(address), Ok(()), "{address}");
        }
    }
}
