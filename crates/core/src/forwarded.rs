//! Which client is behind a reverse proxy: what `X-Forwarded-For` and `X-Forwarded-Proto` say, if a trusted proxy sends
//! them. Anyone else may write anything there.

use std::net::IpAddr;

use ipnet::IpNet;

/// The networks of the reverse proxies in front of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    pub fn new(networks: Vec<IpNet>) -> Self {
        Self(networks)
    }

    pub fn networks(&self) -> &[IpNet] {
        &self.0
    }

    pub fn trusts(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// The address of the client, whose connection came from `peer`. Each proxy adds the address that it saw at the end of
    /// the list, so the client is the last address that is not a trusted proxy's.
    pub fn client<'a>(&self, peer: IpAddr, forwarded_for: impl Iterator<Item = &'a str>) -> IpAddr {
        let hops: Vec<_> = forwarded_for.flat_map(|value| value.split(',')).collect();
        let mut client = peer.to_canonical();
        for hop in hops.into_iter().rev() {
            if !self.trusts(client) {
                break;
            }
            // A proxy that writes anything but an address hides its client: the proxy stands for it.
            let Some(address) = parse_hop(hop.trim()) else { break };
            client = address;
        }
        client
    }

    /// Whether the client speaks TLS with a trusted proxy, as the proxy says.
    pub fn is_encrypted(&self, peer: IpAddr, forwarded_proto: Option<&str>) -> bool {
        self.trusts(peer) && forwarded_proto.is_some_and(|proto| proto.trim().eq_ignore_ascii_case("https"))
    }
}

/// An address, with or without a port and brackets.
fn parse_hop(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(address, _)| address);
    let address = bare.unwrap_or(text).parse::<IpAddr>().ok();
    let with_port = || text.parse::<std::net::SocketAddr>().ok().map(|address| address.ip());
    address.or_else(with_port).map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, forwarded: &[&str]) -> String {
        let proxies = TrustedProxies::new(vec!["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()]);
        proxies.client(peer.parse().unwrap(), forwarded.iter().copied()).to_string()
    }

    /// Only a trusted proxy's header counts, and only the part of it that trusted proxies have written.
    #[test]
    fn only_trusted_proxies_name_the_client() {
        for (peer, forwarded, expected) in [
            ("192.0.2.1", &["203.0.113.5"][..], "192.0.2.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["203.0.113.5"], "203.0.113.5"),
            ("10.0.0.1", &["1.1.1.1, 203.0.113.5"], "203.0.113.5"),
            ("10.0.0.1", &["1.1.1.1", "203.0.113.5, 10.0.0.2"], "203.0.113.5"),
            ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            ("10.0.0.1", &["203.0.113.5, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["203.0.113.5:4711"], "203.0.113.5"),
            ("10.0.0.1", &["[2001:db8::1]:4711"], "2001:db8::1"),
            ("::ffff:10.0.0.1", &["203.0.113.5"], "203.0.113.5"),
            ("::1", &["2001:db8::1"], "2001:db8::1"),
        ] {
            assert_eq!(client(peer, forwarded), expected, "{peer} {forwarded:?}");
        }
        let proxies = TrustedProxies::new(vec!["10.0.0.0/8".parse().unwrap()]);
        assert!(proxies.is_encrypted("10.0.0.1".parse().unwrap(), Some("https")));
        assert!(!proxies.is_encrypted("10.0.0.1".parse().unwrap(), Some("http")));
        assert!(!proxies.is_encrypted("192.0.2.1".parse().unwrap(), Some("https")));
    }
}
