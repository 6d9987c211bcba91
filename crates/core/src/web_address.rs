//! Addresses of servers as people write them: a browser's debugger, an MCP server. How to show one, and whether two of them
//! lead to one server.
//!
//! An address may hold secrets: user and password before the host, a key in the query; in a text that is not a valid
//! address any part may be secret. Lists, logs and errors show an address only through [`shown`]. [`ServerAddress`]
//! compares addresses without resolving names, so two names of one machine count as two machines, except for
//! `localhost`. Settings, the fleet and the adapters call this module.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// Stands for a secret.
pub const HIDDEN: &str = "***";

/// An address, valid or not, with `***` for what may be secret in it: user, password, query, fragment.
pub fn shown(text: &str) -> String {
    let (start, tail) = text.split_at(text.find(['?', '#']).unwrap_or(text.len()));
    let (scheme, rest) = match start.find("://") {
        Some(at) => start.split_at(at + "://".len()),
        None => ("", start),
    };
    // In an invalid address, what looks like a query may be the rest of a password.
    if tail.contains('@') && Url::parse(start).is_err() {
        return format!("{scheme}{HIDDEN}");
    }
    let tail = tail.get(..1).map(|sign| format!("{sign}{HIDDEN}")).unwrap_or_default();
    // An `@` after the first slash may still end a password with a slash in it.
    match rest.rsplit_once('@') {
        Some((_, place)) => format!("{scheme}{HIDDEN}@{place}{tail}"),
        None => format!("{start}{tail}"),
    }
}

/// Where an address leads, for comparison alone.
#[derive(Debug, Clone)]
pub struct ServerAddress(ParsedAddress);

#[derive(Debug, Clone)]
enum ParsedAddress {
    /// A text that is no address equals only itself.
    Text(String),
    Server {
        host: HostName,
        port: Option<u16>,
        /// Everything else that has to be equal, letter by letter: encryption, user, protocol, path and query.
        rest: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostName {
    /// The name `localhost`, which may mean `127.0.0.1` or `::1`.
    Localhost,
    Other(String),
    Number(IpAddr),
}

impl ServerAddress {
    pub fn parse(address: &str) -> Self {
        let url = Url::parse(address).ok();
        let read = url.and_then(|url| Some((HostName::new(&url.host()?), url)));
        let Some((host, url)) = read else { return Self(ParsedAddress::Text(address.to_owned())) };
        let path = url.path().trim_end_matches('/');
        let (protocol, is_encrypted) = match url.scheme() {
            "https" => ("http", true),
            "wss" => ("ws", true),
            other => (other, false),
        };
        // greenroom finds the debugger through a WebSocket address without a path just as through an `http://` one.
        let protocol = if path.is_empty() && protocol == "ws" { "http" } else { protocol };
        let user = url.username();
        let password = url.password().unwrap_or_default();
        let query = url.query().unwrap_or_default();
        let rest = format!("{protocol} {is_encrypted} {user}:{password} {path}?{query}");
        Self(ParsedAddress::Server { host, port: url.port_or_known_default(), rest })
    }

    /// Whether both may lead to one server. `localhost` matches both `127.0.0.1` and `::1`, which do not match each
    /// other: so this is not transitive, and no equality.
    pub fn may_equal(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (ParsedAddress::Text(one), ParsedAddress::Text(other)) => one == other,
            (
                ParsedAddress::Server { host: one, port, rest },
                ParsedAddress::Server { host: other, port: other_port, rest: other_rest },
            ) => port == other_port && rest == other_rest && one.may_equal(other),
            _ => false,
        }
    }
}

impl HostName {
    fn new(host: &Host<&str>) -> Self {
        match host {
            Host::Domain(name) => match name.trim_end_matches('.') {
                // A server may tell names below `localhost` apart.
                "localhost" => Self::Localhost,
                name => Self::Other(name.to_owned()),
            },
            Host::Ipv4(ip) => Self::number((*ip).into()),
            Host::Ipv6(ip) => Self::number(ip.to_canonical()),
        }
    }

    /// The host of an IP address. The unspecified address becomes loopback, because a client that connects to it
    /// reaches this machine's loopback.
    fn number(ip: IpAddr) -> Self {
        Self::Number(match ip {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        })
    }

    fn may_equal(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Localhost, Self::Number(ip)) | (Self::Number(ip), Self::Localhost) => {
                *ip == Ipv4Addr::LOCALHOST || *ip == Ipv6Addr::LOCALHOST
            }
            (one, other) => one == other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shown address, valid or not, has no key and no password, and is otherwise what was written.
    #[test]
    fn secrets_are_hidden() {
        for (written, said) in [
            ("http://h:1", "http://h:1"),
            ("HTTP://H:1/", "HTTP://H:1/"),
            ("ws://[::1]:9222/devtools/browser/e7", "ws://[::1]:9222/devtools/browser/e7"),
            ("https://h/one/", "https://h/one/"),
            ("wss://h/p?token=s3cret", "wss://h/p?***"),
            ("wss://h/?token=s3cret#s3cret", "wss://h/?***"),
            ("wss://h?mail=s3cret@h", "wss://h?***"),
            ("http://h:1/#s3cret", "http://h:1/#***"),
            ("http://h:1/#s3cret?s3cret", "http://h:1/#***"),
            ("http://ann:s3cret@h:1/x", "http://***@h:1/x"),
            ("http://ann:s3cret@h:1/", "http://***@h:1/"),
            ("http://ann@h:1?k=s3cret", "http://***@h:1?***"),
            // Invalid addresses hide at least as much.
            ("http://ann:s3/cret@h:1", "http://***@h:1"),
            ("http://ann:s3?cret@h:1", "http://***"),
            ("http://ann:s3#cret@h:1", "http://***"),
            ("ann:s3cret@h", "***@h"),
            ("http:///", "http:///"),
            ("", ""),
        ] {
            assert_eq!(shown(written), said, "{written}");
        }
    }

    /// Spellings of one address are equal, `localhost` matches both loopback addresses, and any other difference
    /// counts.
    #[test]
    fn equal_addresses_are_recognised() {
        let check = |one: &str, other: &str, expected: bool| {
            let left = ServerAddress::parse(one);
            let right = ServerAddress::parse(other);
            assert_eq!(
                (left.may_equal(&right), right.may_equal(&left)),
                (expected, expected),
                "{one} {other}"
            );
        };
        for (one, other) in [
            ("http://localhost:9222", "http://127.0.0.1:9222"),
            ("http://localhost:9222/", "http://[::1]:9222"),
            ("http://LOCALHOST.:9222", "http://localhost:9222//"),
            ("http://0.0.0.0:9222", "http://127.0.0.1:9222"),
            ("http://[::]:9222", "http://[::1]:9222"),
            ("http://[::ffff:127.0.0.1]:9222", "http://127.0.0.1:9222"),
            ("http://0x7f.1:9222", "http://localhost:9222"),
            ("http://h", "http://h:80/"),
            ("wss://h:443/x", "wss://h/x"),
            ("ws://localhost:9222", "http://127.0.0.1:9222"),
            ("ws://localhost:9222/devtools/browser/a", "ws://127.0.0.1:9222/devtools/browser/a"),
            ("wss://h?token=a", "wss://h/?token=a"),
            ("nonsense", "nonsense"),
        ] {
            check(one, other, true);
        }
        for (one, other) in [
            ("http://127.0.0.1:9222", "http://[::1]:9222"),
            ("http://localhost:9222", "http://127.0.0.2:9222"),
            ("http://localhost:9222", "http://localhost:9223"),
            ("http://localhost:9222", "http://chrome.localhost:9222"),
            ("http://a.localhost:9222", "http://b.localhost:9222"),
            ("http://localhost:9222", "https://localhost:9222"),
            ("http://h:9222", "http://g:9222"),
            ("ws://localhost:9222/devtools/browser/a", "ws://127.0.0.1:9222/devtools/browser/b"),
            ("ws://h:1/x", "http://h:1/x"),
            ("wss://h?token=a", "wss://h?token=b"),
            ("https://ann:a@h", "https://bob:a@h"),
            ("nonsense", "http://h"),
        ] {
            check(one, other, false);
        }
    }
}
