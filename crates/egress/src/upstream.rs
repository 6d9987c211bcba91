//! An upstream proxy: a forward proxy outside greenroom that browsers have to go out through, for instance a
//! company's. `PROXY_SERVER` of a pool names it.
//!
//! The parser accepts `http://[user:password@]host:port` and refuses everything else, so that a mistake shows
//! at startup and not as a browser that reaches nothing. Neither an error, nor `Debug`, nor `Display` shows
//! the password: the first two end in logs, the last in messages. [`crate::chain`] talks to the proxy.

use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hyper::header::HeaderValue;
use percent_encoding::percent_decode_str;

use crate::host;

/// The proxy's address and credentials. Parsed from `http://[user:password@]host:port`; a closing `/` is
/// accepted, since many programs write one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Upstream {
    /// A name or a literal, the latter without brackets.
    host: String,
    port: u16,
    /// `Proxy-Authorization`, marked sensitive.
    credentials: Option<HeaderValue>,
}

/// Why a text names no upstream proxy. No variant repeats the text, for a password may be anywhere in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    #[error("a proxy is written as `http://[user:password@]host:port`: `http://` is missing")]
    NoScheme,
    #[error("only `http://` proxies are supported: `{0}://`")]
    Scheme(String),
    #[error("a proxy is written as `http://[user:password@]host:port`: its host is missing or invalid")]
    Host,
    #[error("a proxy is written as `http://[user:password@]host:port`: its port is missing or invalid")]
    Port,
    #[error("a proxy is written as `http://[user:password@]host:port`: nothing may follow its port")]
    Path,
    #[error(
        "a proxy's user and password are percent-encoded: write `%25` for `%`, `%40` for `@`, `%2F` for `/`"
    )]
    Encoding,
    #[error("a proxy's user must not be empty or contain a colon")]
    User,
}

impl Upstream {
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn credentials(&self) -> Option<&HeaderValue> {
        self.credentials.as_ref()
    }
}

/// `host:port`, without the credentials.
impl fmt::Display for Upstream {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(out, "[{}]:{}", self.host, self.port)
        } else {
            write!(out, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Upstream {
    type Err = UpstreamError;

    fn from_str(text: &str) -> Result<Self, UpstreamError> {
        let (scheme, rest) = text.split_once("://").ok_or(UpstreamError::NoScheme)?;
        if !scheme.eq_ignore_ascii_case("http") {
            let is_scheme = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
            let known = !scheme.is_empty() && is_scheme;
            return Err(if known { UpstreamError::Scheme(scheme.into()) } else { UpstreamError::NoScheme });
        }
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if path.contains('@') {
            // An unescaped `/`, `?` or `#` in the credentials ends the authority early, and the text before it is
            // not a host.
            return Err(UpstreamError::Encoding);
        }
        if !path.is_empty() && path != "/" {
            return Err(UpstreamError::Path);
        }
        let (credentials, place) = match authority.rsplit_once('@') {
            Some((user, place)) => (Some(basic(user)?), place),
            None => (None, authority),
        };
        let (host, port) = place.rsplit_once(':').ok_or(UpstreamError::Port)?;
        let host = bare_host(host).ok_or(UpstreamError::Host)?;
        // `u16::from_str` would accept a sign too.
        let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|port| digits && *port != 0).ok_or(UpstreamError::Port)?;
        Ok(Self { host, port, credentials })
    }
}

/// A host as it is resolved: IPv6 without its brackets.
fn bare_host(host: &str) -> Option<String> {
    if let Some(literal) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return literal.parse::<Ipv6Addr>().ok().map(|address| address.to_string());
    }
    (host::is_name(host) || host.parse::<Ipv4Addr>().is_ok()).then(|| host.to_owned())
}

/// `user[:password]`, percent-encoded, as a `Basic` credential (RFC 7617).
fn basic(user: &str) -> Result<HeaderValue, UpstreamError> {
    let (user, password) = user.split_once(':').unwrap_or((user, ""));
    let user = decoded(user)?;
    let password = decoded(password)?;
    if user.is_empty() || user.contains(&b':') {
        return Err(UpstreamError::User);
    }
    let pair = [user.as_slice(), b":", &password].concat();
    let mut value = HeaderValue::try_from(format!("Basic {}", BASE64_STANDARD.encode(pair)))
        .map_err(|_| UpstreamError::Encoding)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Decodes percent escapes and refuses incomplete ones: a password read differently from how the operator meant it
/// would fail only at the upstream.
fn decoded(text: &str) -> Result<Vec<u8>, UpstreamError> {
    let escaped =
        |escape: &str| escape.len() >= 2 && escape.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    if text.contains('@') || !text.split('%').skip(1).all(escaped) {
        return Err(UpstreamError::Encoding);
    }
    Ok(percent_decode_str(text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks what `text` is parsed to: `host:port`, and the credentials decoded.
    fn check(text: &str, place: &str, credentials: Option<&[u8]>) {
        let upstream: Upstream = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(upstream.to_string(), place, "{text}");
        let plain = upstream.credentials().map(|value| {
            let basic = value.to_str().unwrap().strip_prefix("Basic ").unwrap();
            BASE64_STANDARD.decode(basic).unwrap()
        });
        assert_eq!(plain.as_deref(), credentials, "{text}");
    }

    /// Valid hosts, ports and credentials are parsed and decoded.
    #[test]
    fn what_is_understood() {
        check("http://proxy.corp:3128", "proxy.corp:3128", None);
        check("HTTP://proxy:80/", "proxy:80", None);
        check("http://127.0.0.1:8080", "127.0.0.1:8080", None);
        check("http://[::1]:8080", "[::1]:8080", None);
        check("http://ann:secret@proxy:1", "proxy:1", Some(b"ann:secret"));
        check("http://ann@proxy:1", "proxy:1", Some(b"ann:"));
        check(
            "http://CORP%5Cann:p%40s%3As%2f%25%C3%A9@proxy:1",
            "proxy:1",
            Some("CORP\\ann:p@s:s/%é".as_bytes()),
        );
        check("http://ann:a:b@proxy:1", "proxy:1", Some(b"ann:a:b"));
    }

    /// Every other text is an error that says what is wrong.
    #[test]
    fn what_is_refused() {
        use UpstreamError::{Encoding, Host, NoScheme, Path, Port, Scheme, User};
        for (text, error) in [
            ("", NoScheme),
            ("proxy:3128", NoScheme),
            ("ann:secret://x@proxy:1", NoScheme),
            ("https://proxy:443", Scheme("https".into())),
            ("socks5://proxy:1080", Scheme("socks5".into())),
            ("http://", Port),
            ("http://proxy", Port),
            ("http://ann:secret@proxy", Port),
            ("http://proxy:", Port),
            ("http://proxy:0", Port),
            ("http://proxy:+80", Port),
            ("http://proxy:65536", Port),
            ("http://proxy:3128 ", Port),
            ("http://:3128", Host),
            ("http://ann:secret@:3128", Host),
            ("http://::1:3128", Host),
            ("http://[proxy]:3128", Host),
            ("http://pro xy:3128", Host),
            ("http://1.2.3.4.5:3128", Host),
            ("http://proxy:3128/path", Path),
            ("http://proxy:3128?x", Path),
            ("http://proxy:3128#x", Path),
            ("http://ann:50%off@proxy:1", Encoding),
            ("http://ann:50%@proxy:1", Encoding),
            ("http://ann:p@ss@proxy:1", Encoding),
            ("http://ann:p/ss@proxy:1", Encoding),
            ("http://@proxy:1", User),
            ("http://:secret@proxy:1", User),
            ("http://a%3Ab:secret@proxy:1", User),
        ] {
            assert_eq!(text.parse::<Upstream>(), Err(error), "{text}");
        }
    }

    /// A password shows nowhere: not in errors, not when the upstream is printed.
    #[test]
    fn passwords_stay_hidden() {
        for text in [
            "http://ann:secret@proxy:1",
            "http://ann:secret@proxy",
            "http://ann:secret/x@proxy:1",
            "https://ann:secret@proxy:1",
            "ann:secret://x@proxy:1",
            "http://ann:secret%@proxy:1",
        ] {
            let parsed = text.parse::<Upstream>();
            let shown = match &parsed {
                Ok(upstream) => upstream.to_string(),
                Err(error) => error.to_string(),
            };
            for shown in [shown, format!("{parsed:?}")] {
                assert!(!shown.contains("secret") && !shown.contains("YW5u"), "{text}: {shown}");
            }
        }
    }
}
