//! One rule of a network policy, as `network.allow` and `network.deny` list them: a host, a host with `*` in it, an
//! address or a network (CIDR), each with an optional port.
//!
//! A host rule is compared with the host that the browser names, a network with the address that is dialled. Rules are
//! read strictly: a rule that two readers could understand differently is refused.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use ipnet::IpNet;
use url::Host;

use super::{range::with_embedded, verdict::DialTarget};

/// The longest rule: the longest host name (253), a port, and room for a network's brackets.
const RULE_BYTES_MAX: usize = 300;

/// A parsed rule. Two rules are equal if they are written alike.
#[derive(Debug, Clone)]
pub struct NetworkRule {
    /// As it was written, for messages.
    text: Arc<str>,
    target: RuleTarget,
    port: Option<u16>,
}

#[derive(Debug, Clone)]
enum RuleTarget {
    Network(IpNet),
    /// A name in its canonical form: ASCII, lower case, no dot at the end.
    Host(Box<str>),
    /// The literal parts between the stars of a pattern, in canonical form. There is at least one star.
    Pattern(Box<[Box<str>]>),
}

/// Why a text is no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRule {
    #[error("it is empty or longer than {RULE_BYTES_MAX} bytes")]
    Length,
    #[error("a rule is a host, a host pattern or a network, not a URL: leave out the scheme and the path")]
    Url,
    #[error("its port is not a number from 1 to 65535")]
    Port,
    #[error("its prefix length is not a number from 0 to {0}")]
    Prefix(u8),
    #[error("the network has bits outside its prefix: write `{0}`")]
    HostBits(IpNet),
    #[error("write the address as `{0}`")]
    Spelling(Ipv4Addr),
    #[error("write an IPv6 address or network with a port in brackets, as in `[2001:db8::/32]:443`")]
    Brackets,
    #[error("it is no host name")]
    Host,
}

impl NetworkRule {
    /// Whether the rule is about this connection.
    pub fn matches(&self, target: &DialTarget) -> bool {
        self.port.is_none_or(|port| port == target.port)
            && match &self.target {
                RuleTarget::Network(network) => with_embedded(target.address)
                    .any(|address| network.contains(&address) || network.contains(&dialled_address(address))),
                RuleTarget::Host(host) => **host == *target.host,
                RuleTarget::Pattern(parts) => matches_pattern(&target.host, parts),
            }
    }

    /// Whether the rule is about this host whatever its address is, so that the name need not be resolved.
    pub fn matches_name(&self, host: &str, port: u16) -> bool {
        self.port.is_none_or(|own| own == port)
            && match &self.target {
                RuleTarget::Network(_) => false,
                RuleTarget::Host(own) => **own == *host,
                RuleTarget::Pattern(parts) => matches_pattern(host, parts),
            }
    }

    /// Whether this rule is about every connection that the other one is about. It may miss that for two host patterns.
    pub fn covers(&self, other: &Self) -> bool {
        let covers_port = self.port.is_none() || self.port == other.port;
        covers_port
            && match (&self.target, &other.target) {
                (RuleTarget::Network(own), RuleTarget::Network(other)) => own.contains(other),
                (RuleTarget::Host(own), RuleTarget::Host(other)) => own == other,
                (RuleTarget::Pattern(parts), RuleTarget::Host(host)) => matches_pattern(host, parts),
                (RuleTarget::Pattern(own), RuleTarget::Pattern(other)) => covers_pattern(own, other),
                // The host `*` is about every address.
                (RuleTarget::Pattern(parts), RuleTarget::Network(_)) => {
                    parts.iter().all(|part| part.is_empty())
                }
                (RuleTarget::Network(_) | RuleTarget::Host(_), _) => false,
            }
    }

    /// The network that the rule names; `None` for a host or a pattern.
    pub fn network(&self) -> Option<IpNet> {
        match &self.target {
            RuleTarget::Network(network) => Some(*network),
            RuleTarget::Host(_) | RuleTarget::Pattern(_) => None,
        }
    }

    /// The host that the rule names; `None` for a pattern or a network.
    pub fn host(&self) -> Option<&str> {
        match &self.target {
            RuleTarget::Host(host) => Some(host),
            RuleTarget::Network(_) | RuleTarget::Pattern(_) => None,
        }
    }

    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The rule as it was written.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }
}

impl PartialEq for NetworkRule {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for NetworkRule {}

impl fmt::Display for NetworkRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl std::str::FromStr for NetworkRule {
    type Err = InvalidRule;

    fn from_str(text: &str) -> Result<Self, InvalidRule> {
        let written = text.trim();
        if written.is_empty() || written.len() > RULE_BYTES_MAX {
            return Err(InvalidRule::Length);
        }
        if written.contains("://") || written.contains('@') {
            return Err(InvalidRule::Url);
        }
        let (target, port) = split_port(written)?;
        Ok(Self { text: written.into(), target: parse_target(target)?, port })
    }
}

/// Splits a rule into what it names and its port. `*` stands for every port, as no port does.
fn split_port(text: &str) -> Result<(&str, Option<u16>), InvalidRule> {
    if let Some(rest) = text.strip_prefix('[') {
        let (inside, after) = rest.split_once(']').ok_or(InvalidRule::Brackets)?;
        // Inside the brackets is an IPv6 address or network, and nothing else.
        let address = inside.split_once('/').map_or(inside, |(address, _)| address);
        if address.parse::<Ipv6Addr>().is_err() {
            return Err(InvalidRule::Brackets);
        }
        return match after.strip_prefix(':') {
            Some(port) => Ok((inside, parse_port(port)?)),
            None if after.is_empty() => Ok((inside, None)),
            None => Err(InvalidRule::Brackets),
        };
    }
    match text.split_once(':') {
        None => Ok((text, None)),
        Some((_, rest)) if rest.contains(':') => Ok((text, None)),
        Some((target, port)) => Ok((target, parse_port(port)?)),
    }
}

fn parse_port(text: &str) -> Result<Option<u16>, InvalidRule> {
    if text == "*" {
        return Ok(None);
    }
    // `u16::from_str` would accept a sign too.
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(port) if is_number && port != 0 => Ok(Some(port)),
        _ => Err(InvalidRule::Port),
    }
}

fn parse_target(text: &str) -> Result<RuleTarget, InvalidRule> {
    if let Some((address, prefix)) = text.split_once('/') {
        let Ok(address) = address.parse::<IpAddr>() else { return Err(InvalidRule::Url) };
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let is_number = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
        let network =
            prefix.parse().ok().filter(|_| is_number).and_then(|prefix| IpNet::new(address, prefix).ok());
        let network = network.ok_or(InvalidRule::Prefix(bits))?;
        if network.trunc() != network {
            return Err(InvalidRule::HostBits(network.trunc()));
        }
        return Ok(RuleTarget::Network(network));
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(RuleTarget::Network(address.into()));
    }
    if text.contains(':') {
        return Err(InvalidRule::Brackets);
    }
    if text.contains('*') {
        return parse_pattern(text);
    }
    match Host::parse(text) {
        Ok(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            if name.is_empty() { Err(InvalidRule::Host) } else { Ok(RuleTarget::Host(name.into())) }
        }
        // A spelling that browsers read as an address: `127.1`, `0x7f000001`, `2130706433`.
        Ok(Host::Ipv4(address)) => Err(InvalidRule::Spelling(address)),
        Ok(Host::Ipv6(_)) | Err(_) => Err(InvalidRule::Host),
    }
}

/// Reads a pattern. Labels with a star are ASCII; other labels may be in any script.
fn parse_pattern(text: &str) -> Result<RuleTarget, InvalidRule> {
    let text = text.strip_suffix('.').unwrap_or(text);
    let mut labels = Vec::new();
    for label in text.split('.') {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_*".contains(&byte);
        if label.contains('*') {
            if !label.bytes().all(is_plain) {
                return Err(InvalidRule::Host);
            }
            labels.push(label.to_ascii_lowercase());
        } else {
            // A number alone is a label of an address pattern such as `10.*`, which a network says better.
            let is_number = label.bytes().all(|byte| byte.is_ascii_digit());
            match Host::parse(&format!("{label}.x")) {
                Ok(Host::Domain(name)) if !is_number => {
                    labels.push(name.strip_suffix(".x").ok_or(InvalidRule::Host)?.to_owned());
                }
                _ => return Err(InvalidRule::Host),
            }
        }
    }
    let parts = labels.join(".");
    Ok(RuleTarget::Pattern(parts.split('*').map(Box::from).collect()))
}

/// The address at which a connection to this one ends: systems dial loopback instead of an unspecified address. Without
/// this, `http://0.0.0.0/` would go around a rule that denies `127.0.0.1`.
fn dialled_address(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        other => other,
    }
}

/// Whether the host is made of these parts with any text between them. `*.example.com` does not match `example.com`.
fn matches_pattern(host: &str, parts: &[Box<str>]) -> bool {
    let [first, middle @ .., last] = parts else { return false };
    let Some(mut rest) = host.strip_prefix(&**first) else { return false };
    for part in middle {
        let Some(start) = rest.find(&**part) else { return false };
        rest = &rest[start + part.len()..];
    }
    rest.ends_with(&**last)
}

/// Whether every host of the other pattern is one of this pattern: the two are alike, or this one is `*` with an end that the
/// other one's end has too.
fn covers_pattern(own: &[Box<str>], other: &[Box<str>]) -> bool {
    match (own, other) {
        ([start, end], [.., other_end]) if start.is_empty() => other_end.ends_with(&**end),
        _ => own == other,
    }
}

/// The form in which rules compare hosts: lower case, without the dot at the end and the brackets of IPv6.
pub fn canonical_host(host: &str) -> String {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(host: &str, address: &str, port: u16) -> DialTarget {
        DialTarget { host: canonical_host(host), address: address.parse().unwrap(), port }
    }

    fn check(rule: &str, host: &str, address: &str, port: u16, expected: bool) {
        let parsed: NetworkRule = rule.parse().unwrap_or_else(|error| panic!("{rule}: {error}"));
        assert_eq!(parsed.matches(&target(host, address, port)), expected, "{rule} {host} {address}:{port}");
        assert_eq!(parsed.to_string(), rule);
    }

    /// Hosts are compared in canonical form, networks by the address and what it embeds, ports where a rule has one.
    #[test]
    fn rules_match_hosts_networks_and_ports() {
        for (rule, host, address, port, expected) in [
            ("example.com", "example.com", "93.184.1.1", 80, true),
            ("Example.COM", "EXAMPLE.com.", "93.184.1.1", 80, true),
            ("example.com.", "example.com", "93.184.1.1", 80, true),
            ("example.com", "www.example.com", "93.184.1.1", 80, false),
            ("example.com:8080", "example.com", "93.184.1.1", 8080, true),
            ("example.com:8080", "example.com", "93.184.1.1", 80, false),
            ("example.com:*", "example.com", "93.184.1.1", 80, true),
            ("münchen.example", "xn--mnchen-3ya.example", "93.184.1.1", 80, true),
            ("my_host", "my_host", "10.0.0.1", 80, true),
            ("*", "anything", "10.0.0.1", 80, true),
            ("*:25", "anything", "10.0.0.1", 25, true),
            ("*:25", "anything", "10.0.0.1", 26, false),
            ("*.example.com", "a.b.example.com", "93.184.1.1", 80, true),
            ("*.example.com", "example.com", "93.184.1.1", 80, false),
            ("*.example.com", "badexample.com", "93.184.1.1", 80, false),
            ("*.example.com", "a.example.com.evil", "93.184.1.1", 80, false),
            ("api-*.example.*", "api-7.example.org", "93.184.1.1", 80, true),
            ("*.münchen.example", "a.xn--mnchen-3ya.example", "93.184.1.1", 80, true),
            ("10.0.0.0/8", "x", "10.1.2.3", 80, true),
            ("10.0.0.0/8", "x", "11.1.2.3", 80, false),
            ("10.0.0.0/8", "x", "::ffff:10.1.2.3", 80, true),
            ("10.0.0.0/8:443", "x", "10.1.2.3", 80, false),
            ("10.0.0.0/8:443", "x", "10.1.2.3", 443, true),
            ("127.0.0.1", "x", "127.0.0.1", 80, true),
            ("127.0.0.1:3000", "x", "127.0.0.1", 3000, true),
            ("fd00::/8", "x", "fd00::1", 80, true),
            ("[fd00::/8]:443", "x", "fd00::1", 443, true),
            ("[fd00::/8]:443", "x", "fd00::1", 80, false),
            ("[::1]", "x", "::1", 80, true),
            ("::1", "x", "::1", 80, true),
            ("127.0.0.1", "x", "0.0.0.0", 80, true),
            ("127.0.0.0/8", "x", "::ffff:0.0.0.0", 80, true),
            ("127.0.0.2", "x", "0.0.0.0", 80, false),
            ("::1", "x", "::", 80, true),
            ("0.0.0.0", "x", "127.0.0.1", 80, false),
            ("0.0.0.0/0", "x", "8.8.8.8", 80, true),
            ("0.0.0.0/0", "x", "2600::1", 80, false),
        ] {
            check(rule, host, address, port, expected);
        }
    }

    /// A rule covers another one if it is about all that the other is about.
    #[test]
    fn rules_cover_narrower_ones() {
        for (wide, narrow, expected) in [
            ("10.0.0.0/8", "10.1.0.0/16", true),
            ("10.0.0.0/8", "10.1.2.3:80", true),
            ("10.0.0.0/8:80", "10.1.2.3", false),
            ("10.0.0.0/8:80", "10.1.2.3:81", false),
            ("10.1.0.0/16", "10.0.0.0/8", false),
            ("a.example", "A.example:80", true),
            ("a.example", "b.example", false),
            ("*.example", "a.example", true),
            ("*.example", "*.a.example", true),
            ("*.a.example", "*.example", false),
            ("*.example", "x-*.example", true),
            ("a*.example", "a*.example", true),
            ("a*.example", "ab*.example", false),
            ("*", "*.example:80", true),
            ("*", "10.0.0.0/8", true),
            ("*.example", "10.0.0.0/8", false),
            ("10.0.0.0/8", "*", false),
        ] {
            let [wide, narrow] = [wide, narrow].map(|rule| rule.parse::<NetworkRule>().unwrap());
            assert_eq!(wide.covers(&narrow), expected, "{wide} {narrow}");
        }
    }

    /// Text that is no rule, or that could be read in two ways, is refused with the reason.
    #[test]
    fn unclear_rules_are_refused() {
        let long = "a".repeat(301);
        for (rule, error) in [
            ("", InvalidRule::Length),
            ("  ", InvalidRule::Length),
            (long.as_str(), InvalidRule::Length),
            ("http://example.com", InvalidRule::Url),
            ("example.com/path", InvalidRule::Url),
            ("user@example.com", InvalidRule::Url),
            ("example.com:0", InvalidRule::Port),
            ("example.com:", InvalidRule::Port),
            ("example.com:+80", InvalidRule::Port),
            ("example.com:65536", InvalidRule::Port),
            ("example.com:http", InvalidRule::Port),
            ("10.0.0.0/33", InvalidRule::Prefix(32)),
            ("10.0.0.0/", InvalidRule::Prefix(32)),
            ("10.0.0.0/+8", InvalidRule::Prefix(32)),
            ("fd00::/129", InvalidRule::Prefix(128)),
            ("10.0.0.1/8", InvalidRule::HostBits("10.0.0.0/8".parse().unwrap())),
            ("127.1", InvalidRule::Spelling(Ipv4Addr::LOCALHOST)),
            ("0x7f000001", InvalidRule::Spelling(Ipv4Addr::LOCALHOST)),
            ("2130706433", InvalidRule::Spelling(Ipv4Addr::LOCALHOST)),
            ("0177.0.0.1", InvalidRule::Spelling(Ipv4Addr::LOCALHOST)),
            ("[example.com]:80", InvalidRule::Brackets),
            ("[::1", InvalidRule::Brackets),
            ("[::1]80", InvalidRule::Brackets),
            ("fd00::zz", InvalidRule::Brackets),
            ("10.*", InvalidRule::Host),
            ("*.ex ample", InvalidRule::Host),
            ("ex ample", InvalidRule::Host),
            ("*..x", InvalidRule::Host),
            (".", InvalidRule::Host),
        ] {
            assert_eq!(rule.parse::<NetworkRule>(), Err(error), "{rule}");
        }
    }
}
