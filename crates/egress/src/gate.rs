//! The gate: whether a browser may connect to an address. The only module of this crate that knows policy.
//!
//! The dialer asks it twice: for the name, before it resolves anything, and for each address, before it connects.
//! [`verdict`] makes the verdicts; the gate adds what only a running proxy knows, the port that the browser came through.

use std::{net::SocketAddr, sync::Arc};

use greenroom_core::network::{
    Blocked, DialTarget, OwnAddresses, OwnPorts, PolicyLayers, rule::canonical_host, verdict,
};

pub(crate) struct Gate {
    declared: Arc<dyn OwnPorts>,
    addresses: Box<dyn OwnAddresses>,
}

/// By what a connection is judged: the policy of the port through which the browser came, and the port itself.
#[derive(Clone)]
pub(crate) struct PortPolicy {
    pub(crate) layers: PolicyLayers,
    pub(crate) proxy_port: u16,
}

/// The ports that greenroom declares as its own, and the proxy's port.
struct ProxyAndDeclaredPorts<'a> {
    declared: &'a dyn OwnPorts,
    proxy: u16,
}

impl OwnPorts for ProxyAndDeclaredPorts<'_> {
    fn contains(&self, port: u16) -> bool {
        port == self.proxy || self.declared.contains(port)
    }
}

impl Gate {
    pub(crate) fn new(declared: Arc<dyn OwnPorts>, addresses: impl OwnAddresses + 'static) -> Self {
        Self { declared, addresses: Box::new(addresses) }
    }

    /// Whether the proxy may resolve this name: the lookup alone can leak data or reach a server.
    pub(crate) fn admit_name(&self, policy: &PortPolicy, host: &str, port: u16) -> Result<(), Blocked> {
        verdict::check_name(&canonical_host(host), port, &policy.layers)
    }

    /// Whether the proxy may dial this address of the host.
    pub(crate) fn admit(&self, policy: &PortPolicy, host: &str, address: SocketAddr) -> Result<(), Blocked> {
        let target = DialTarget { host: canonical_host(host), address: address.ip(), port: address.port() };
        let ports = ProxyAndDeclaredPorts { declared: &*self.declared, proxy: policy.proxy_port };
        verdict::check_target(&target, &ports, self.addresses.as_ref(), &policy.layers)
    }

    /// Whether the upstream may dial this address of the host: only greenroom's own ports are refused.
    pub(crate) fn admit_unless_own(
        &self,
        policy: &PortPolicy,
        host: &str,
        address: SocketAddr,
    ) -> Result<(), Blocked> {
        self.admit(policy, host, address).or_else(|blocked| match blocked {
            Blocked::OwnPort => Err(Blocked::OwnPort),
            Blocked::Metadata
            | Blocked::Range(_)
            | Blocked::Denied(_)
            | Blocked::NotListed
            | Blocked::Session(_) => Ok(()),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use greenroom_core::network::NetworkPolicy;

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
        let gate = Gate::new(Arc::new(Port9222), TwoAddressMachine);
        let policy = PortPolicy { layers: NetworkPolicy::OPEN.into(), proxy_port: 4000 };
        let admit = |address: &str| gate.admit(&policy, "x", address.parse().unwrap());
        for address in ["203.0.113.7:9222", "203.0.113.8:9222", "[::ffff:203.0.113.8]:4000", "127.0.0.1:4000"]
        {
            assert_eq!(admit(address), Err(Blocked::OwnPort), "{address}");
        }
        for address in ["203.0.113.9:9222", "203.0.113.8:80", "127.0.0.1:80"] {
            assert_eq!(admit(address), Ok(()), "{address}");
        }
    }
}
