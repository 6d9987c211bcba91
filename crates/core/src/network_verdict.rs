//! Network verdicts: whether a browser may connect to an address. The egress proxy asks at connect time, for
//! the address that it will really use; the spelling of a URL never counts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where a browser wants to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialTarget {
    /// The name or literal as the browser gave it.
    pub host: String,
    /// The address that the host resolved to.
    pub address: IpAddr,
    pub port: u16,
}

/// Why a connection is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Blocked {
    #[error("this port belongs to greenroom, one of its engines or a debugger")]
    OwnPort,
    #[error("browsers may not reach cloud metadata services")]
    Metadata,
}

/// The ports that no browser may reach: greenroom's own, its engines' and its debuggers', on this machine.
pub trait OwnPorts: Send + Sync {
    fn contains(&self, port: u16) -> bool;
}

/// The addresses of this machine: those of every interface that is up at the time of the verdict.
pub trait OwnAddresses: Send + Sync {
    /// Whether the address is this machine's; `None` if that is unknown, for instance because the system refuses to
    /// say.
    fn contains(&self, address: IpAddr) -> Option<bool>;
}

/// Judges one connection. It refuses greenroom's own ports at every address of this machine, because a socket that
/// listens on all interfaces is reachable through each of them, and at every address that may be this machine's.
pub fn check_target(
    target: &DialTarget,
    ports: &dyn OwnPorts,
    addresses: &dyn OwnAddresses,
) -> Result<(), Blocked> {
    let address = canonical(target.address);
    if is_metadata(&target.host, address) {
        return Err(Blocked::Metadata);
    }
    // Check the address first: `ports` may have to read its list from disk, and most addresses are elsewhere.
    let is_here = is_loopback(address) || addresses.contains(address).unwrap_or(true);
    if is_here && ports.contains(target.port) {
        return Err(Blocked::OwnPort);
    }
    Ok(())
}

/// Names that must not be resolved at all.
pub fn is_metadata_name(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    ["metadata.google", "metadata.google.internal", "metadata.aws.amazon.com", "instance-data"]
        .contains(&host.as_str())
}

fn is_metadata(host: &str, address: IpAddr) -> bool {
    const V4: [Ipv4Addr; 7] = [
        Ipv4Addr::new(169, 254, 169, 254), // AWS, Google, Azure, Oracle, DigitalOcean
        Ipv4Addr::new(169, 254, 170, 2),   // AWS container credentials
        Ipv4Addr::new(100, 100, 100, 200), // Alibaba
        Ipv4Addr::new(168, 63, 129, 16),   // Azure's host agent
        Ipv4Addr::new(169, 254, 170, 23),  // AWS pod credentials
        Ipv4Addr::new(169, 254, 0, 23),    // Tencent
        Ipv4Addr::new(192, 0, 0, 192),     // Oracle
    ];
    const V6: [Ipv6Addr; 3] = [
        Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), // AWS
        Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),  // AWS pod credentials
        Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),  // Google
    ];
    is_metadata_name(host)
        || match address {
            IpAddr::V4(v4) => V4.contains(&v4),
            IpAddr::V6(v6) => V6.contains(&v6),
        }
}

/// Addresses that reach this machine's loopback listeners, whatever interfaces it has.
fn is_loopback(address: IpAddr) -> bool {
    address.is_loopback() || address.is_unspecified()
}

/// The IPv4 address that an IPv6 address embeds (`::ffff:a.b.c.d`, `::a.b.c.d`, NAT64's `64:ff9b::/96`), or the address
/// itself. Verdicts must judge the embedded address, because that is where the connection goes.
fn canonical(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    if let Some(v4) = v6.to_ipv4_mapped() {
        return IpAddr::V4(v4);
    }
    let segments = v6.segments();
    let low = u32::from(segments[6]) << 16 | u32::from(segments[7]);
    let compatible = segments[..6] == [0; 6] && low > 1;
    let nat64 = segments[..6] == [0x64, 0xff9b, 0, 0, 0, 0];
    if compatible || nat64 { IpAddr::V4(Ipv4Addr::from_bits(low)) } else { address }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct FixedOwnPorts;
    impl OwnPorts for FixedOwnPorts {
        fn contains(&self, port: u16) -> bool {
            port == 9222
        }
    }

    /// A machine with these addresses besides loopback; with `None` the addresses are unknown.
    struct KnownAddresses(Option<&'static [&'static str]>);
    impl OwnAddresses for KnownAddresses {
        fn contains(&self, address: IpAddr) -> Option<bool> {
            self.0.map(|list| list.iter().any(|own| own.parse::<IpAddr>().unwrap() == address))
        }
    }

    const NONE: KnownAddresses = KnownAddresses(Some(&[]));

    fn check_on(
        machine: &KnownAddresses,
        host: &str,
        address: &str,
        port: u16,
        expected: Result<(), Blocked>,
    ) {
        let target = DialTarget { host: host.to_owned(), address: address.parse().unwrap(), port };
        assert_eq!(check_target(&target, &FixedOwnPorts, machine), expected, "{host} {address}:{port}");
    }

    fn check(host: &str, address: &str, port: u16, expected: Result<(), Blocked>) {
        check_on(&NONE, host, address, port, expected);
    }

    /// On a machine without another address, own ports are refused at every form of loopback; other ports and machines
    /// are not.
    #[test]
    fn own_ports_are_refused_at_loopback() {
        for address in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "::1",
            "::",
            "::ffff:127.0.0.1",
            "::ffff:0.0.0.0",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
        ] {
            check("x", address, 9222, Err(Blocked::OwnPort));
            check("x", address, 8080, Ok(()));
        }
        check("x", "192.0.2.1", 9222, Ok(()));
    }

    /// Own ports are refused at every address of every interface, in each form of the address.
    #[test]
    fn own_ports_are_refused_at_every_interface() {
        // An Ethernet with a second address, a container bridge, a global and a link-local IPv6 address.
        let machine = KnownAddresses(Some(&[
            "192.0.2.7",
            "192.0.2.8",
            "172.17.0.1",
            "2001:db8::7",
            "fe80::fc:ff:fe00:1",
        ]));
        for address in [
            "192.0.2.7",
            "192.0.2.8",
            "172.17.0.1",
            "::ffff:192.0.2.8",
            "::192.0.2.8",
            "64:ff9b::192.0.2.8",
            "2001:db8::7",
            "fe80::fc:ff:fe00:1",
        ] {
            check_on(&machine, "x", address, 9222, Err(Blocked::OwnPort));
            check_on(&machine, "x", address, 8080, Ok(()));
        }
        for address in ["192.0.2.9", "172.17.0.2", "2001:db8::8", "fe80::1", "::ffff:192.0.2.9"] {
            check_on(&machine, "x", address, 9222, Ok(()));
        }
    }

    /// A machine that does not know its own addresses refuses own ports at all addresses, and nothing else.
    #[test]
    fn own_ports_are_refused_everywhere_without_known_addresses() {
        for address in ["192.0.2.7", "2001:db8::7", "127.0.0.1"] {
            check_on(&KnownAddresses(None), "x", address, 9222, Err(Blocked::OwnPort));
            check_on(&KnownAddresses(None), "x", address, 8080, Ok(()));
        }
    }

    /// Metadata services are refused by address and by name, on any port.
    #[test]
    fn metadata_services_are_refused() {
        for address in
            ["169.254.169.254", "::ffff:169.254.169.254", "fd00:ec2::254", "100.100.100.200", "169.254.170.2"]
        {
            check("x", address, 80, Err(Blocked::Metadata));
        }
        check("Metadata.Google.Internal.", "192.0.2.1", 80, Err(Blocked::Metadata));
        check("metadata.example", "192.0.2.1", 80, Ok(()));
    }
}
