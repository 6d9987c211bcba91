//! Network verdicts: whether a browser may connect to an address. The egress proxy asks at connect time, for
//! the address that it will really use; the spelling of a URL never counts.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use super::{
    policy::PolicyLayers,
    range::{AddressRange, with_embedded},
};

/// Where a browser wants to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialTarget {
    /// The name or literal that the browser gave, as [`canonical_host`](super::rule::canonical_host) writes it.
    pub host: String,
    /// The address that the host resolved to.
    pub address: IpAddr,
    pub port: u16,
}

/// Why a connection is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Blocked {
    #[error("this port belongs to greenroom, one of its engines or a debugger")]
    OwnPort,
    #[error("browsers may not reach cloud metadata services")]
    Metadata,
    #[error("it has {0}, and browsers may reach public addresses only")]
    Range(AddressRange),
    #[error("the rule `{0}` denies it")]
    Denied(Arc<str>),
    /// A policy that permits only what its rules name.
    #[error("its rules do not name it")]
    NotListed,
    /// The pool permits it, the session's own policy does not.
    #[error("the session's own `network` refuses it: {0}")]
    Session(Box<Blocked>),
}

impl Blocked {
    /// The reason as a word for programs, in the header `x-greenroom-refused`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::OwnPort => "own-port",
            Self::Metadata => "metadata",
            Self::Range(range) => range.word(),
            Self::Denied(_) => "denied",
            Self::NotListed => "not-listed",
            Self::Session(_) => "session",
        }
    }

    /// What the operator can set to permit the connection; `None` if no setting permits it.
    pub fn remedy(&self, host: &str, port: u16) -> Option<String> {
        match self {
            Self::OwnPort | Self::Metadata | Self::NotListed => None,
            Self::Session(_) => Some("a session with another `network` can reach it".to_owned()),
            Self::Range(_) => {
                Some(format!("the operator can permit it with `network.allow = [\"{host}:{port}\"]`"))
            }
            Self::Denied(rule) => Some(format!("the operator can remove `{rule}` from `network.deny`")),
        }
    }
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
/// listens on all interfaces is reachable through each of them, and at every address that may be this machine's. No
/// policy permits these or a metadata service.
pub fn check_target(
    target: &DialTarget,
    ports: &dyn OwnPorts,
    addresses: &dyn OwnAddresses,
    policy: &PolicyLayers,
) -> Result<(), Blocked> {
    if is_metadata_name(&target.host) || with_embedded(target.address).any(is_metadata_address) {
        return Err(Blocked::Metadata);
    }
    let is_this_machine =
        |address: IpAddr| is_loopback(address) || addresses.contains(address).unwrap_or(true);
    // Check the address first: `ports` may have to read its list from disk, and most addresses are elsewhere.
    if with_embedded(target.address).any(is_this_machine) && ports.contains(target.port) {
        return Err(Blocked::OwnPort);
    }
    policy.judge(target, &is_this_machine)
}

/// Judges a name before anything resolves it.
pub fn check_name(host: &str, port: u16, policy: &PolicyLayers) -> Result<(), Blocked> {
    if is_metadata_name(host) { Err(Blocked::Metadata) } else { policy.judge_name(host, port) }
}

/// Names that must not be resolved at all.
pub fn is_metadata_name(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    ["metadata.google", "metadata.google.internal", "metadata.aws.amazon.com", "instance-data"]
        .contains(&host.as_str())
}

fn is_metadata_address(address: IpAddr) -> bool {
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
    match address {
        IpAddr::V4(v4) => V4.contains(&v4),
        IpAddr::V6(v6) => V6.contains(&v6),
    }
}

/// Addresses that reach this machine's loopback listeners, whatever interfaces it has.
fn is_loopback(address: IpAddr) -> bool {
    address.is_loopback() || address.is_unspecified()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{NetworkPolicy, rule::canonical_host};

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

    fn verdict(policy: &NetworkPolicy, host: &str, address: &str, port: u16) -> Result<(), Blocked> {
        let target = DialTarget { host: canonical_host(host), address: address.parse().unwrap(), port };
        check_target(&target, &FixedOwnPorts, &NONE, &policy.clone().into())
    }

    fn check_on(
        machine: &KnownAddresses,
        host: &str,
        address: &str,
        port: u16,
        expected: &Result<(), Blocked>,
    ) {
        let target = DialTarget { host: canonical_host(host), address: address.parse().unwrap(), port };
        let open = NetworkPolicy::OPEN.into();
        let judged = check_target(&target, &FixedOwnPorts, machine, &open);
        assert_eq!(&judged, expected, "{host} {address}:{port}");
    }

    fn check(host: &str, address: &str, port: u16, expected: &Result<(), Blocked>) {
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
            check("x", address, 9222, &Err(Blocked::OwnPort));
            check("x", address, 8080, &Ok(()));
        }
        check("x", "192.0.2.1", 9222, &Ok(()));
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
            check_on(&machine, "x", address, 9222, &Err(Blocked::OwnPort));
            check_on(&machine, "x", address, 8080, &Ok(()));
        }
        for address in ["192.0.2.9", "172.17.0.2", "2001:db8::8", "fe80::1", "::ffff:192.0.2.9"] {
            check_on(&machine, "x", address, 9222, &Ok(()));
        }
    }

    /// A machine that does not know its own addresses refuses own ports at all addresses, and nothing else.
    #[test]
    fn own_ports_are_refused_everywhere_without_known_addresses() {
        for address in ["192.0.2.7", "2001:db8::7", "127.0.0.1"] {
            check_on(&KnownAddresses(None), "x", address, 9222, &Err(Blocked::OwnPort));
            check_on(&KnownAddresses(None), "x", address, 8080, &Ok(()));
        }
    }

    /// Metadata services are refused by address and by name, on any port.
    #[test]
    fn metadata_services_are_refused() {
        for address in
            ["169.254.169.254", "::ffff:169.254.169.254", "fd00:ec2::254", "100.100.100.200", "169.254.170.2"]
        {
            check("x", address, 80, &Err(Blocked::Metadata));
        }
        check("Metadata.Google.Internal.", "192.0.2.1", 80, &Err(Blocked::Metadata));
        check("metadata.example", "192.0.2.1", 80, &Ok(()));
    }

    fn rules(rules: &[&str]) -> Vec<crate::network::NetworkRule> {
        rules.iter().map(|rule| rule.parse().unwrap()).collect()
    }

    fn guarded(allow: &[&str], deny: &[&str]) -> NetworkPolicy {
        NetworkPolicy { allow: rules(allow), deny: rules(deny), ..NetworkPolicy::GUARDED }
    }

    /// `guarded` refuses every address that is not public, in IPv6 too, and permits public ones; `open` permits both.
    #[test]
    fn guarded_permits_public_addresses_only() {
        use AddressRange::*;
        for (address, range) in [
            ("127.0.0.1", Loopback),
            ("::ffff:127.0.0.1", Loopback),
            ("2002:7f00:1::", Loopback),
            ("64:ff9b::7f00:1", Loopback),
            ("10.1.2.3", Private),
            ("::ffff:192.168.1.1", Private),
            ("2001:0:a00:1::", Private),
            ("100.64.0.1", Shared),
            ("169.254.1.1", LinkLocal),
            ("0.0.0.0", Unspecified),
            ("::", Unspecified),
            ("fd12::1", UniqueLocal),
            ("fe80::1", LinkLocal),
            ("224.0.0.1", Multicast),
            ("255.255.255.255", Broadcast),
            ("203.0.113.9", Documentation),
        ] {
            let refused = Err(Blocked::Range(range));
            assert_eq!(verdict(&NetworkPolicy::GUARDED, "x", address, 80), refused, "{address}");
            assert_eq!(verdict(&NetworkPolicy::OPEN, "x", address, 80), Ok(()), "{address}");
        }
        for public in ["1.1.1.1", "2606:4700::1111", "::ffff:1.1.1.1", "2002:101:101::"] {
            assert_eq!(verdict(&NetworkPolicy::GUARDED, "x", public, 80), Ok(()), "{public}");
        }
    }

    /// Under `guarded` an address of one of this machine's interfaces is refused although it is public, and so is one of
    /// which that is unknown.
    #[test]
    fn guarded_refuses_this_machine() {
        let target = DialTarget { host: "x".to_owned(), address: "1.2.3.4".parse().unwrap(), port: 80 };
        for (machine, expected) in [
            (KnownAddresses(Some(&["1.2.3.4"])), Err(Blocked::Range(AddressRange::ThisMachine))),
            (KnownAddresses(None), Err(Blocked::Range(AddressRange::ThisMachine))),
            (NONE, Ok(())),
        ] {
            let guarded = NetworkPolicy::GUARDED.into();
            assert_eq!(check_target(&target, &FixedOwnPorts, &machine, &guarded), expected);
        }
        // The refusal names the range even if the system knows the address as its own.
        let mapped = DialTarget { address: "::ffff:127.0.0.1".parse().unwrap(), ..target };
        let machine = KnownAddresses(Some(&["::ffff:127.0.0.1"]));
        let loopback = Err(Blocked::Range(AddressRange::Loopback));
        assert_eq!(check_target(&mapped, &FixedOwnPorts, &machine, &NetworkPolicy::GUARDED.into()), loopback);
    }

    /// A rule that allows lifts ranges, for its host, network and port alone; never metadata or own ports.
    #[test]
    fn allow_lifts_ranges_only() {
        let policy = guarded(&["*", "0.0.0.0/0", "::/0"], &[]);
        assert_eq!(verdict(&policy, "x", "127.0.0.1", 80), Ok(()));
        assert_eq!(verdict(&policy, "x", "127.0.0.1", 9222), Err(Blocked::OwnPort));
        assert_eq!(verdict(&policy, "x", "169.254.169.254", 80), Err(Blocked::Metadata));
        assert_eq!(verdict(&policy, "metadata.google.internal", "1.1.1.1", 80), Err(Blocked::Metadata));

        let policy = guarded(&["intranet.corp:443", "10.0.0.0/8"], &[]);
        assert_eq!(verdict(&policy, "Intranet.corp.", "192.168.0.1", 443), Ok(()));
        assert_eq!(verdict(&policy, "x", "10.9.9.9", 80), Ok(()));
        let private = Err(Blocked::Range(AddressRange::Private));
        assert_eq!(verdict(&policy, "intranet.corp", "192.168.0.1", 80), private);
        assert_eq!(verdict(&policy, "evil.example", "192.168.0.1", 443), private);
    }

    /// A rule that denies beats a rule that allows, under both presets, and the refusal names it.
    #[test]
    fn deny_beats_allow() {
        for preset in [NetworkPolicy::OPEN, NetworkPolicy::GUARDED] {
            let policy = NetworkPolicy {
                allow: rules(&["ads.example", "10.0.0.1"]),
                deny: rules(&["*.example", "10.0.0.0/8:80"]),
                ..preset
            };
            let denied = |rule: &str| Err(Blocked::Denied(rule.into()));
            assert_eq!(verdict(&policy, "ads.example", "1.1.1.1", 80), denied("*.example"));
            assert_eq!(verdict(&policy, "x", "10.0.0.1", 80), denied("10.0.0.0/8:80"));
            assert_eq!(verdict(&policy, "x", "10.0.0.1", 81), Ok(()));
            assert_eq!(check_name("ads.example", 80, &policy.clone().into()), denied("*.example"));
            assert_eq!(check_name("other.test", 80, &policy.into()), Ok(()));
        }
    }

    /// A session's layer narrows its pool's and cannot widen it.
    #[test]
    fn layers_only_narrow() {
        let judge = |pool: NetworkPolicy, session: NetworkPolicy, address: &str| {
            let layers = PolicyLayers::from(pool).narrowed(Arc::new(session));
            let target = DialTarget { host: "x".to_owned(), address: address.parse().unwrap(), port: 80 };
            check_target(&target, &FixedOwnPorts, &NONE, &layers)
        };
        let private = Blocked::Range(AddressRange::Private);
        let of_session = Err(Blocked::Session(Box::new(private.clone())));
        let private = Err(private);
        assert_eq!(judge(NetworkPolicy::GUARDED, NetworkPolicy::OPEN, "10.0.0.1"), private);
        assert_eq!(judge(NetworkPolicy::GUARDED, guarded(&["*"], &[]), "10.0.0.1"), private);
        assert_eq!(judge(guarded(&["*"], &[]), NetworkPolicy::GUARDED, "10.0.0.1"), of_session);
        assert_eq!(judge(NetworkPolicy::OPEN, guarded(&["10.0.0.1"], &[]), "10.0.0.1"), Ok(()));
        assert_eq!(judge(NetworkPolicy::OPEN, guarded(&["10.0.0.1"], &[]), "10.0.0.2"), of_session);
    }

    /// A thousand rules and contradictory ones are judged as few are: the refusal names the first rule that denies.
    #[test]
    fn many_rules_are_judged() {
        let names: Vec<String> = (0..1_000).map(|n| format!("host{n}.example")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let policy = guarded(&names, &names);
        assert_eq!(
            verdict(&policy, "host999.example", "10.0.0.1", 80),
            Err(Blocked::Denied("host999.example".into()))
        );
        assert_eq!(verdict(&policy, "other.example", "1.1.1.1", 80), Ok(()));
    }
}
