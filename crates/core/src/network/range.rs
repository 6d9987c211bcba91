//! Address ranges that are not on the public internet, from the IANA special-purpose registries, and the addresses that
//! other addresses embed: an IPv6 address may lead to the IPv4 address inside it.
//!
//! An IPv6 address outside `2000::/3` counts as reserved until a row here names it.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// Why an address is not a public one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AddressRange {
    Loopback,
    Private,
    /// Carrier-grade NAT (RFC 6598).
    Shared,
    LinkLocal,
    UniqueLocal,
    Multicast,
    Broadcast,
    /// `0.0.0.0/8` and `::`, which reach this machine.
    Unspecified,
    Documentation,
    Benchmarking,
    Reserved,
    /// An address of one of this machine's interfaces, whatever range it is in.
    ThisMachine,
}

impl AddressRange {
    /// Every range, for tables and tests.
    pub const ALL: [Self; 12] = [
        Self::Loopback,
        Self::Private,
        Self::Shared,
        Self::LinkLocal,
        Self::UniqueLocal,
        Self::Multicast,
        Self::Broadcast,
        Self::Unspecified,
        Self::Documentation,
        Self::Benchmarking,
        Self::Reserved,
        Self::ThisMachine,
    ];

    /// The range as a word for programs, in the header `x-greenroom-refused`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::Shared => "shared",
            Self::LinkLocal => "link-local",
            Self::UniqueLocal => "unique-local",
            Self::Multicast => "multicast",
            Self::Broadcast => "broadcast",
            Self::Unspecified => "unspecified",
            Self::Documentation => "documentation",
            Self::Benchmarking => "benchmarking",
            Self::Reserved => "reserved",
            Self::ThisMachine => "this-machine",
        }
    }

    /// The range of an address that is not public. The embedded addresses are the caller's to judge.
    pub fn of_address(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V4(v4) => of_v4(v4),
            IpAddr::V6(v6) => of_v6(v6),
        }
    }
}

/// In words, after "it has".
impl fmt::Display for AddressRange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Loopback => "a loopback address",
            Self::Private => "a private address",
            Self::Shared => "a carrier's shared address",
            Self::LinkLocal => "a link-local address",
            Self::UniqueLocal => "a unique local address",
            Self::Multicast => "a multicast address",
            Self::Broadcast => "the broadcast address",
            Self::Unspecified => "an unspecified address",
            Self::Documentation => "an address for documentation",
            Self::Benchmarking => "an address for benchmarks",
            Self::Reserved => "a reserved address",
            Self::ThisMachine => "an address of greenroom's own machine",
        })
    }
}

fn of_v4(address: Ipv4Addr) -> Option<AddressRange> {
    use AddressRange::{
        Benchmarking, Broadcast, Documentation, LinkLocal, Loopback, Multicast, Private, Reserved, Shared,
        Unspecified,
    };
    Some(match address.octets() {
        [0, ..] => Unspecified,
        [10, ..] | [192, 168, ..] => Private,
        [172, second, ..] if second & 0xf0 == 16 => Private,
        [100, second, ..] if second & 0xc0 == 64 => Shared,
        [127, ..] => Loopback,
        [169, 254, ..] => LinkLocal,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Documentation,
        // Protocol assignments, and the relays of 6to4.
        [192, 0, 0, _] | [192, 88, 99, _] => Reserved,
        [198, 18 | 19, ..] => Benchmarking,
        [224..=239, ..] => Multicast,
        [255, 255, 255, 255] => Broadcast,
        [240..=255, ..] => Reserved,
        _ => return None,
    })
}

fn of_v6(address: Ipv6Addr) -> Option<AddressRange> {
    use AddressRange::{
        Benchmarking, Documentation, LinkLocal, Loopback, Multicast, Reserved, UniqueLocal, Unspecified,
    };
    Some(match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => Loopback,
        // The IPv4 address inside decides.
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
            return None;
        }
        [first, ..] if first & 0xfe00 == 0xfc00 => UniqueLocal,
        // Site-local addresses (`fec0::/10`) are no longer assigned, and some networks still route them.
        [first, ..] if first & 0xff80 == 0xfe80 => LinkLocal,
        [first, ..] if first & 0xff00 == 0xff00 => Multicast,
        [0x2001, 0x0db8, ..] => Documentation,
        [0x3fff, second, ..] if second < 0x1000 => Documentation,
        [0x2001, 2, 0, ..] => Benchmarking,
        // Teredo: the IPv4 addresses inside decide.
        [0x2001, 0, ..] => return None,
        // Protocol assignments.
        [0x2001, second, ..] if second < 0x0200 => Reserved,
        // Only `2000::/3` is assigned to the internet.
        [first, ..] if first & 0xe000 != 0x2000 => Reserved,
        _ => return None,
    })
}

/// The address and every IPv4 address that it embeds: mapped, compatible, translated, NAT64, 6to4, Teredo, ISATAP. A
/// connection to the address may end at any of them.
pub fn with_embedded(address: IpAddr) -> impl Iterator<Item = IpAddr> {
    let embedded = match address {
        IpAddr::V4(_) => [None, None],
        IpAddr::V6(v6) => embedded_v4(v6),
    };
    std::iter::once(address).chain(embedded.into_iter().flatten().map(IpAddr::V4))
}

fn embedded_v4(address: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    let segments = address.segments();
    let pair = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    let low = pair(segments[6], segments[7]);
    match segments {
        // `::` and `::1` are addresses of their own.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => [None, None],
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => [Some(low), None],
        // NAT64, and its prefixes for local use.
        [0x64, 0xff9b, 0, 0, 0, 0, ..] | [0x64, 0xff9b, 1, ..] => [Some(low), None],
        [0x2002, high, middle, ..] => [Some(pair(high, middle)), None],
        // Teredo has the server's address, and the client's with every bit flipped.
        [0x2001, 0, high, middle, ..] => {
            [Some(pair(high, middle)), Some(Ipv4Addr::from_bits(!low.to_bits()))]
        }
        [_, _, _, _, 0 | 0x200, 0x5efe, ..] => [Some(low), None],
        _ => [None, None],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, expected: Option<AddressRange>) {
        assert_eq!(AddressRange::of_address(address.parse().unwrap()), expected, "{address}");
    }

    /// The first and the last address of every special range are recognised, and their public neighbours are not.
    #[test]
    fn special_ranges_end_where_the_registries_say() {
        use AddressRange::*;
        for (first, last, range) in [
            ("0.0.0.0", "0.255.255.255", Unspecified),
            ("10.0.0.0", "10.255.255.255", Private),
            ("100.64.0.0", "100.127.255.255", Shared),
            ("127.0.0.0", "127.255.255.255", Loopback),
            ("169.254.0.0", "169.254.255.255", LinkLocal),
            ("172.16.0.0", "172.31.255.255", Private),
            ("192.0.0.0", "192.0.0.255", Reserved),
            ("192.0.2.0", "192.0.2.255", Documentation),
            ("192.88.99.0", "192.88.99.255", Reserved),
            ("192.168.0.0", "192.168.255.255", Private),
            ("198.18.0.0", "198.19.255.255", Benchmarking),
            ("198.51.100.0", "198.51.100.255", Documentation),
            ("203.0.113.0", "203.0.113.255", Documentation),
            ("224.0.0.0", "239.255.255.255", Multicast),
            ("240.0.0.0", "255.255.255.254", Reserved),
            ("255.255.255.255", "255.255.255.255", Broadcast),
            ("::", "::", Unspecified),
            ("::1", "::1", Loopback),
            ("100::", "100::ffff:ffff:ffff:ffff", Reserved),
            ("64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", Reserved),
            ("2001:1::", "2001:1:ffff:ffff:ffff:ffff:ffff:ffff", Reserved),
            ("2001:2::", "2001:2:0:ffff:ffff:ffff:ffff:ffff", Benchmarking),
            ("2001:20::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", Reserved),
            ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", Documentation),
            ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", Documentation),
            ("4000::", "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Reserved),
            ("fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", UniqueLocal),
            ("fe80::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", LinkLocal),
            ("ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Multicast),
        ] {
            check(first, Some(range));
            check(last, Some(range));
        }
        for public in [
            "1.0.0.0",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.3.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2000::",
            "2001:200::",
            "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff",
            "2001:db9::",
            "2002::",
            "3fff:1000::",
        ] {
            check(public, None);
        }
    }

    /// Every form of IPv6 that can carry an IPv4 address yields it; other addresses yield themselves alone.
    #[test]
    fn embedded_addresses_are_found() {
        for (address, embedded) in [
            ("::ffff:127.0.0.1", &["127.0.0.1"][..]),
            ("::127.0.0.1", &["127.0.0.1"]),
            ("::ffff:0:127.0.0.1", &["127.0.0.1"]),
            ("64:ff9b::127.0.0.1", &["127.0.0.1"]),
            ("64:ff9b:1::169.254.169.254", &["169.254.169.254"]),
            ("2002:7f00:1::", &["127.0.0.1"]),
            ("2002:a9fe:a9fe::1", &["169.254.169.254"]),
            ("2001:0:a00:1:0:0:80ff:fffe", &["10.0.0.1", "127.0.0.1"]),
            ("2600::5efe:10.0.0.1", &["10.0.0.1"]),
            ("2600::200:5efe:10.0.0.1", &["10.0.0.1"]),
            ("::1", &[]),
            ("::", &[]),
            ("2600::1", &[]),
            ("1.2.3.4", &[]),
        ] {
            let address: IpAddr = address.parse().unwrap();
            let expected: Vec<IpAddr> =
                std::iter::once(address).chain(embedded.iter().map(|v4| v4.parse().unwrap())).collect();
            assert_eq!(with_embedded(address).collect::<Vec<_>>(), expected, "{address}");
        }
    }
}
