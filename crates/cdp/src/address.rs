//! A debugger's address as a user wrote it, and the headers that go with it.
//!
//! Addresses and headers may hold secrets: a password before the host, a token in the query. Messages of this crate name an
//! address as [`greenroom_core::web_address::shown`] does, and no header's value.

use base64::{Engine, prelude::BASE64_STANDARD};
use hyper::header::{AUTHORIZATION, CONNECTION, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use percent_encoding::percent_decode_str;
use url::{Host, Url};

use crate::{Unreachable, dial::is_this_machine};

/// The path at which a debugger serves its version and its WebSocket address, below the path of the address.
const VERSION: &str = "/json/version";

/// `http://`, `https://`, `ws://` or `wss://` with a host.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address(Url);

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self, Unreachable> {
        let url = Url::parse(text.trim()).map_err(|error| Unreachable::Address(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https" | "ws" | "wss") {
            return Err(Unreachable::Address(format!("`{}://` is not a debugger's scheme", url.scheme())));
        }
        Ok(Self(url))
    }

    pub(crate) fn is_web_socket(&self) -> bool {
        self.0.scheme().starts_with("ws")
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self.0.scheme(), "https" | "wss")
    }

    /// Whether the address has no path, so that it does not say which of a browser's endpoints is meant.
    pub(crate) fn has_no_path(&self) -> bool {
        matches!(self.0.path(), "" | "/")
    }

    pub(crate) fn host(&self) -> Result<Host<&str>, Unreachable> {
        self.0.host().ok_or_else(|| Unreachable::Address("it names no host".to_owned()))
    }

    /// Whether the host is a name that has to be looked up.
    pub(crate) fn has_host_name(&self) -> bool {
        matches!(self.0.host(), Some(Host::Domain(_)))
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.port_or_known_default().unwrap_or(80)
    }

    /// Host and port, as a `Host` header has them: without the scheme's default port.
    pub(crate) fn authority(&self) -> String {
        let host = self.0.host_str().unwrap_or_default();
        self.0.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// The address without its user name, password and fragment. [`Address::headers`] carries the password.
    pub(crate) fn url_without_credentials(&self) -> String {
        let mut url = self.0.clone();
        // These two calls fail only for an address without a host.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_fragment(None);
        url.into()
    }

    /// Path and query at which this browser describes itself.
    pub(crate) fn version_path(&self) -> String {
        let path = self.0.path().trim_end_matches('/');
        let path = path.strip_suffix(VERSION).unwrap_or(path);
        let query = self.0.query().map(|query| format!("?{query}")).unwrap_or_default();
        format!("{path}{VERSION}{query}")
    }

    /// The same address with this IP as its host, for a browser that refuses requests by host name.
    pub(crate) fn on_ip(&self, ip: std::net::IpAddr) -> Option<Self> {
        let mut url = self.0.clone();
        url.set_ip_host(ip).ok()?;
        Some(Self(url))
    }

    /// The WebSocket address that the browser at this address returned, with the host and port of this address. The
    /// browser returns the host and port on which it listens; behind a forwarded port or a container those do not lead
    /// to it.
    pub(crate) fn web_socket(&self, named: &str) -> Result<String, Unreachable> {
        let named = Url::parse(named).ok().filter(|url| matches!(url.scheme(), "ws" | "wss"));
        let named = named
            .ok_or_else(|| Unreachable::InvalidResponse("the address in its answer is invalid".to_owned()))?;
        let mut url = self.0.clone();
        let scheme = if self.is_encrypted() { "wss" } else { "ws" };
        url.set_scheme(scheme).map_err(|()| Unreachable::Address("it cannot be a WebSocket".to_owned()))?;
        url.set_path(named.path());
        // A token that was valid for this request opens the WebSocket too, unless the browser names one itself.
        url.set_query(named.query().or(self.0.query()));
        Ok(Self(url).url_without_credentials())
    }

    /// The value of the `Authorization` header that carries the address's password.
    fn authorization(&self) -> Option<String> {
        if self.0.username().is_empty() && self.0.password().is_none() {
            return None;
        }
        let mut pair: Vec<u8> = percent_decode_str(self.0.username()).collect();
        pair.push(b':');
        pair.extend(percent_decode_str(self.0.password().unwrap_or_default()));
        Some(format!("Basic {}", BASE64_STANDARD.encode(pair)))
    }

    /// The headers that the client sends with every request to this address.
    pub(crate) fn headers(&self, given: &[(String, String)]) -> Result<HeaderMap, Unreachable> {
        let mut headers = HeaderMap::new();
        if let Some(authorization) = self.authorization() {
            let mut value = HeaderValue::try_from(authorization)
                .map_err(|_| Unreachable::Address("its password cannot be sent".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        for (name, value) in given {
            let unusable = |why| Unreachable::Header { name: name.clone(), why };
            let header =
                HeaderName::try_from(name.as_str()).map_err(|_| unusable("that is not a header's name"))?;
            let taken =
                [CONNECTION, UPGRADE].contains(&header) || header.as_str().starts_with("sec-websocket-");
            if taken {
                return Err(unusable("it belongs to the connection itself"));
            }
            let mut value = HeaderValue::try_from(value.as_str())
                .map_err(|_| unusable("its value has characters that cannot be sent"))?;
            value.set_sensitive(true);
            headers.insert(header, value);
        }
        Ok(headers)
    }
}

/// The `Authorization` header for the password in an address; `None` if the address has no password.
pub fn authorization(url: &str) -> Option<(String, String)> {
    Some(("Authorization".to_owned(), Address::parse(url).ok()?.authorization()?))
}

/// The secret parts of an address: its password, its query, and the header that carries the password.
pub fn secrets(url: &str) -> Vec<String> {
    let Ok(address) = Address::parse(url) else { return Vec::new() };
    let Address(parsed) = &address;
    let written = parsed.password().into_iter().chain(parsed.query());
    let mut secrets: Vec<String> = written.map(ToOwned::to_owned).collect();
    secrets.extend(address.authorization());
    secrets.retain(|secret| !secret.is_empty());
    secrets
}

/// Host and port of an address; `None` if the text is no address. A numeric host is returned in the usual notation.
pub fn host_and_port(url: &str) -> Option<(String, u16)> {
    let address = Address::parse(url).ok()?;
    let host = match address.host().ok()? {
        Host::Domain(name) => name.to_owned(),
        Host::Ipv4(ip) => ip.to_string(),
        Host::Ipv6(ip) => ip.to_string(),
    };
    Some((host, address.port()))
}

/// The same address with the name replaced by this IP, so that a later change of the name has no effect. Over TLS the name
/// stays: the certificate is for it.
pub fn pinned(url: &str, ip: std::net::IpAddr) -> Option<String> {
    let address = Address::parse(url).ok()?;
    if address.is_encrypted() { Some(url.to_owned()) } else { Some(address.on_ip(ip)?.0.into()) }
}

/// The port of an address; `None` if the text is no address.
pub fn port(url: &str) -> Option<u16> {
    Address::parse(url).ok().map(|address| address.port())
}

/// The port of a debugger, if the address is on this machine. A name other than `localhost` is not resolved to find that
/// out.
pub fn local_port(url: &str) -> Option<u16> {
    let address = Address::parse(url).ok()?;
    let here = match address.host().ok()? {
        Host::Domain(name) => {
            let name = name.trim_end_matches('.');
            name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost")
        }
        Host::Ipv4(ip) => is_this_machine(ip.into()),
        Host::Ipv6(ip) => is_this_machine(ip.into()),
    };
    here.then(|| address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        Address::parse(text).unwrap()
    }

    /// `pinned` replaces a host name by the given IP, except over TLS; `host_and_port` reads unusual spellings of an
    /// IP.
    #[test]
    fn host_names_are_pinned_except_over_tls() {
        let ip = "10.1.2.3".parse().unwrap();
        for (url, host, expected) in [
            ("http://chrome.lan:9222", "chrome.lan", "http://10.1.2.3:9222/"),
            (
                "ws://chrome.lan:9222/devtools/browser/e7",
                "chrome.lan",
                "ws://10.1.2.3:9222/devtools/browser/e7",
            ),
            ("wss://chrome.lan:9222/x", "chrome.lan", "wss://chrome.lan:9222/x"),
            ("http://2130706433:9222", "127.0.0.1", "http://10.1.2.3:9222/"),
            ("http://[::1]:9222", "::1", "http://10.1.2.3:9222/"),
        ] {
            assert_eq!(host_and_port(url), Some((host.to_owned(), 9222)));
            assert_eq!(pinned(url, ip).as_deref(), Some(expected));
        }
        assert_eq!((host_and_port("nonsense"), pinned("nonsense", ip)), (None, None));
    }

    /// The requested host and port replace those that the browser returns; the browser's path stays, and so does a
    /// token.
    #[test]
    fn requested_host_and_port_stay() {
        for (asked, named, expected) in [
            (
                "http://127.0.0.1:9333",
                "ws://127.0.0.1:9222/devtools/browser/e7",
                "ws://127.0.0.1:9333/devtools/browser/e7",
            ),
            (
                "https://chrome.lan/",
                "ws://0.0.0.0:3000/devtools/browser/e7",
                "wss://chrome.lan/devtools/browser/e7",
            ),
            ("http://h:1?token=a", "ws://x/devtools/browser/e7", "ws://h:1/devtools/browser/e7?token=a"),
            ("http://h:1?token=a", "ws://x/e7?token=b", "ws://h:1/e7?token=b"),
            ("http://ann:pw@h:1", "ws://x/e7", "ws://h:1/e7"),
        ] {
            assert_eq!(address(asked).web_socket(named).unwrap(), expected);
        }
        assert!(address("http://h").web_socket("/devtools").is_err());
        assert!(address("http://h").web_socket("http://x/").is_err());
    }

    /// The version's path is below the path that the user wrote, and is not doubled if the user wrote it already.
    #[test]
    fn version_path_is_below_the_written_path() {
        for (asked, expected) in [
            ("http://h:9222", "/json/version"),
            ("http://h:9222/json/version", "/json/version"),
            ("http://h/chrome/?token=a", "/chrome/json/version?token=a"),
        ] {
            assert_eq!(address(asked).version_path(), expected);
        }
    }

    /// A password in the address becomes a header, unless the user gives that header; headers that control
    /// the connection are refused.
    #[test]
    fn password_becomes_a_header() {
        let own = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        let asked = address("http://ann:s%40fe@h:1/");
        assert_eq!(asked.headers(&[]).unwrap()[AUTHORIZATION], "Basic YW5uOnNAZmU=");
        assert_eq!(asked.url_without_credentials(), "http://h:1/");
        assert_eq!(asked.headers(&own("authorization", "Bearer x")).unwrap()[AUTHORIZATION], "Bearer x");
        for (name, value) in [("Upgrade", "x"), ("Sec-WebSocket-Key", "x"), ("a b", "x"), ("x", "secret\n")] {
            let refused = asked.headers(&own(name, value)).unwrap_err().to_string();
            assert!(refused.contains(name) && !refused.contains("secret"), "{refused}");
        }
    }

    /// `local_port` recognises addresses of this machine in every spelling, and returns `None` for others.
    #[test]
    fn only_addresses_of_this_machine_have_a_local_port() {
        for (text, port) in [
            ("http://127.0.0.1:9222", Some(9222)),
            ("ws://localhost:9222/devtools/browser/e7", Some(9222)),
            ("http://LOCALHOST.:9222", Some(9222)),
            ("http://0x7f.1:9222", Some(9222)),
            ("http://[::1]:9222", Some(9222)),
            ("http://[::ffff:127.0.0.1]:9222", Some(9222)),
            ("http://0.0.0.0:9222", Some(9222)),
            ("https://localhost", Some(443)),
            ("http://198.51.100.200:9222", None),
            ("http://localhost.example:9222", None),
            ("nonsense", None),
        ] {
            assert_eq!(local_port(text), port, "{text}");
        }
        // Connecting a datagram socket sends nothing; it tells which address this machine would speak from.
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        if socket.connect("198.51.100.200:9").is_ok() {
            let own = socket.local_addr().unwrap().ip();
            assert_eq!(local_port(&format!("http://{own}:9222")), Some(9222), "{own}");
        }
    }
}
