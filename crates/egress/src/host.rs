//! How hosts are written: which are names, which are addresses, and the one spelling of an address that every
//! program reads alike.
//!
//! The spelling matters where another program reads the host again, as an upstream proxy does. Resolvers read `0x7f.1`,
//! `0177.0.0.1` and `2130706433` as `127.0.0.1`, other programs read some of them otherwise. No top-level
//! domain is a number, so a host whose last label is a number is an address or invalid.

use std::net::IpAddr;

/// The host without the brackets of an IPv6 literal.
pub(crate) fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// Whether every program reads the host as a name: it has only characters of names (the underscore included, which
/// intranets use), and its last label is no number.
pub(crate) fn is_name(host: &str) -> bool {
    let letters = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    let hex = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    let number = last.bytes().all(|byte| byte.is_ascii_digit())
        || hex.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    letters && !number
}

/// An address as a host in a URL.
pub(crate) fn literal(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => format!("[{v6}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `is_name` accepts no spelling of an address that some resolver reads.
    #[test]
    fn names_and_addresses() {
        for name in [
            "a",
            "example.com",
            "example.com.",
            "my_host",
            "4chan.org",
            "0x7f.example",
            "1.2.3.4.in-addr.arpa",
        ] {
            assert!(is_name(name), "{name}");
        }
        for other in [
            "",
            ".",
            "127.0.0.1",
            "127.0.0.1.",
            "127.1",
            "0",
            "0x7f000001",
            "0X7f.1",
            "1.0x",
            "0169.254.169.254",
            "::1",
            "a b",
            "１.１",
        ] {
            assert!(!is_name(other), "{other}");
        }
    }
}
