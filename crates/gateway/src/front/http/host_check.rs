//! Refuses requests that a web page makes a browser send: the `Host` check and the `Origin` check.
//!
//! A web page can make a browser send requests to a server on the user's own machine. Three headers reveal such a
//! request: `Host` is the name by which the page knows the server (a name of its own that it had resolved to
//! 127.0.0.1); `Origin` is where the page came from; and `Sec-Fetch-Site` says how that origin is related to this
//! server. Browsers also send the last one with pictures, scripts, frames, links and event streams, which have no
//! `Origin`: the page cannot read their answers, but reading a record changes what is new in it. Browsers send it to
//! loopback addresses and over TLS. Programs send neither `Origin` nor `Sec-Fetch-Site`.

use std::{
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

use axum::{
    extract::{Request, State},
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
        header::{
            ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
            ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, HOST,
            ORIGIN, VARY,
        },
    },
    middleware::Next,
    response::Response,
};
use greenroom_core::{TrustedProxies, excerpt::echoed};

use super::{HttpState, listen::ConnectionPeer, refusal};

/// The browser's statement of how the requesting page is related to this server.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// A proxy's word on its client: the address, and whether its connection is encrypted.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Keeps pages of other origins from using answers as pictures or scripts, also in a browser that sends no
/// `Sec-Fetch-Site`.
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// The one path that every page may request: it changes nothing, and reveals only that the server runs.
const UNCHECKED_PATH: &str = "/health";

/// The names by which clients may call this server.
#[derive(Debug, Clone, Default)]
pub struct HostRules {
    /// The address that the server listens on.
    pub address: Option<IpAddr>,
    /// More names, without ports: those of a proxy in front.
    pub hosts: Vec<String>,
    /// Origins of pages that may use this server: `https://app.example`.
    pub origins: Vec<String>,
    /// Whose `X-Forwarded-…` headers count.
    pub proxies: TrustedProxies,
}

impl HostRules {
    /// Whether the client's connection is encrypted, to this server or to a trusted proxy.
    fn is_encrypted(&self, peer: ConnectionPeer, headers: &HeaderMap) -> bool {
        let proto = headers.get(FORWARDED_PROTO).and_then(|value| value.to_str().ok());
        peer.is_encrypted || peer.address.is_some_and(|address| self.proxies.is_encrypted(address, proto))
    }

    /// The address of the client, for the log.
    pub(super) fn client(&self, peer: ConnectionPeer, headers: &HeaderMap) -> Option<IpAddr> {
        let hops = headers.get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
        peer.address.map(|address| self.proxies.client(address, hops))
    }

    fn knows(&self, authority: &str) -> bool {
        let Some(host) = host_of(authority) else { return false };
        let address = host.parse::<IpAddr>().ok();
        let loopback =
            address.is_some_and(|address| address.is_loopback()) || host.eq_ignore_ascii_case("localhost");
        loopback
            || (address.is_some() && address == self.address)
            // A server on all addresses of the machine does not know them. A page that had a name resolved to one of
            // them still sends its name.
            || (address.is_some() && self.address.is_some_and(|own| own.is_unspecified()))
            || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    }

    /// Checks a request, which came over TLS if `is_encrypted`. Returns the configured origin of the page that sends it.
    fn check(&self, path: &str, headers: &HeaderMap, is_encrypted: bool) -> Result<Option<&str>, String> {
        let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or(""));
        let host = text(HOST).ok_or("the header `Host` is missing")?;
        for (name, shown) in [(HOST, "Host"), (ORIGIN, "Origin")] {
            if headers.get_all(name).iter().count() > 1 {
                return Err(format!("the header `{shown}` is given more than once"));
            }
        }
        if !self.knows(host) {
            return Err(format!(
                "this server does not accept the host name `{}`\n\nhint: use its address, or add the name to `server.allowed_hosts`",
                echoed(host)
            ));
        }
        let allowed = text(ORIGIN).and_then(|origin| {
            self.origins.iter().find(|known| known.eq_ignore_ascii_case(origin)).map(String::as_str)
        });
        if allowed.is_some() {
            return Ok(allowed);
        }
        // `same-site` is not enough: another port of this machine is the same site, but another program's
        // server.
        let own = |site: &&HeaderValue| matches!(site.as_bytes(), b"same-origin" | b"none");
        if path != UNCHECKED_PATH
            && let Some(site) = headers.get_all(FETCH_SITE).iter().find(|site| !own(site))
        {
            let site = site.to_str().unwrap_or("");
            return Err(format!(
                "web pages of another origin may not use this server: `Sec-Fetch-Site: {}`",
                echoed(site)
            ));
        }
        let Some(origin) = text(ORIGIN) else { return Ok(None) };
        // Anyone on the way can change a page that came without TLS.
        let plain = origin.strip_prefix("http://").filter(|_| !is_encrypted);
        let own = plain.or_else(|| origin.strip_prefix("https://"));
        if own.is_some_and(|authority| authority.eq_ignore_ascii_case(host)) {
            return Ok(None);
        }
        Err(format!("web pages of another origin may not use this server: `{}`", echoed(origin)))
    }
}

/// A host without its port, and an IPv6 address without its brackets. `None` if the text is not a host with or without a
/// port. The port may be any: a tunnel or a proxy in front listens on a port of its own.
fn host_of(authority: &str) -> Option<&str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (address, rest) = rest.split_once(']')?;
            address.parse::<Ipv6Addr>().ok()?;
            (address, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
        }
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    // `parse` alone would accept a sign.
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    port.is_none_or(is_port).then_some(host)
}

/// Passes on requests that call this server by one of its names.
pub(super) async fn check_host(
    State(http_state): State<Arc<HttpState>>,
    request: Request,
    next: Next,
) -> Response {
    let allowed = match &http_state.rules {
        None => None,
        Some(rules) => {
            let peer = request.extensions().get::<ConnectionPeer>().copied();
            let is_encrypted = peer.is_some_and(|peer| rules.is_encrypted(peer, request.headers()));
            match rules.check(request.uri().path(), request.headers(), is_encrypted) {
                Ok(allowed) => allowed.and_then(|origin| HeaderValue::from_str(origin).ok()),
                Err(why) => return with_policy(refusal::because(StatusCode::FORBIDDEN, why)),
            }
        }
    };
    let Some(origin) = allowed else { return with_policy(next.run(request).await) };
    // A browser asks first, without the key.
    let is_preflight =
        request.method() == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = if is_preflight { preflight() } else { next.run(request).await };
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("mcp-session-id"));
    headers.append(VARY, HeaderValue::from_static("origin"));
    response
}

/// What a page of a configured origin may send. Cookies are not among it: greenroom has none.
fn preflight() -> Response {
    let mut response = refusal::done();
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, PUT, DELETE"));
    headers.insert(
        ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static(
            "authorization, x-api-key, content-type, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name, last-event-id",
        ),
    );
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

fn with_policy(mut response: Response) -> Response {
    response.headers_mut().insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, origin: Option<&str>) -> bool {
        let rules = HostRules {
            address: "192.0.2.7".parse().ok(),
            hosts: vec!["browsers.example".into()],
            ..HostRules::default()
        };
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        rules.check("/mcp", &headers, false).is_ok()
    }

    /// With two `Host` or two `Origin` headers it is unclear which one counts, so the request is refused.
    #[test]
    fn duplicate_host_or_origin_is_refused() {
        let mut headers = HeaderMap::new();
        headers.append(HOST, "localhost".parse().unwrap());
        headers.append(ORIGIN, "http://localhost".parse().unwrap());
        assert_eq!(HostRules::default().check("/mcp", &headers, false), Ok(None));
        for (name, second) in [(HOST, "evil.example"), (ORIGIN, "http://evil.example")] {
            let mut headers = headers.clone();
            headers.append(&name, second.parse().unwrap());
            let refused = HostRules::default().check("/mcp", &headers, false).unwrap_err();
            assert!(
                refused.to_lowercase().contains(&format!("`{name}` is given more than once")),
                "{refused}"
            );
        }
    }

    /// The server accepts loopback names, its address and the configured names, with any port or none.
    #[test]
    fn configured_host_names_are_accepted() {
        for host in [
            "localhost",
            "LOCALHOST:1",
            "127.0.0.1:34501",
            "127.1.2.3",
            "[::1]:34501",
            "[::1]",
            "192.0.2.7:80",
            "browsers.example:443",
        ] {
            assert!(check(host, None), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example:34501",
            "192.0.2.8",
            "",
            "[::2]:1",
            "2130706433",
            "localhost:evil.example",
            "localhost:65536",
            "localhost:+80",
            "localhost:80:80",
            "localhost:80@evil.example",
            "[::1",
            "[::1]]",
            "[::1]80",
            "[127.0.0.1]:80",
            "::1",
        ] {
            assert!(!check(host, None), "{host}");
        }
    }

    /// A page of another origin is refused, whatever its `Host` says.
    #[test]
    fn other_origins_are_refused() {
        assert!(check("localhost:34501", Some("http://localhost:34501")));
        for origin in [
            "http://localhost:3000",
            "https://evil.example",
            "null",
            "http://localhost:34501.evil.example",
            "",
        ] {
            assert!(!check("localhost:34501", Some(origin)), "{origin}");
        }
        assert!(HostRules::default().check("/mcp", &HeaderMap::new(), false).is_err(), "no Host at all");
    }

    /// A browser's requests for a page of another origin are refused on every path but `/health`, with or without an
    /// `Origin`; addresses that a person types, the server's own pages, and programs may pass.
    #[test]
    fn cross_site_requests_are_refused() {
        let check = |path: &str, sites: &[&str]| {
            let mut headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("localhost:34501"))]);
            for site in sites {
                headers.append(FETCH_SITE, site.parse().unwrap());
            }
            HostRules::default().check(path, &headers, false).is_ok()
        };
        for path in ["/mcp", "/front", "/ready", "/metrics", "/api/calls", "/api/blobs/x", "/", "/health/"] {
            for sites in [&[][..], &["same-origin"], &["none"]] {
                assert!(check(path, sites), "{path} {sites:?}");
            }
            for sites in
                [&["cross-site"][..], &["same-site"], &[""], &["odd"], &["\u{e4}"], &["none", "cross-site"]]
            {
                assert!(!check(path, sites), "{path} {sites:?}");
            }
        }
        assert!(check(UNCHECKED_PATH, &["cross-site"]));
    }

    /// A configured origin passes from any site, an own one needs TLS where the connection has it, and a server on all
    /// addresses is known by each of them, but by no name.
    #[test]
    fn configured_origins_are_accepted() {
        let rules = HostRules {
            address: "0.0.0.0".parse().ok(),
            origins: vec!["https://app.example".to_owned()],
            ..HostRules::default()
        };
        let check = |host: &str, origin: &str, is_encrypted| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().unwrap());
            headers.insert(ORIGIN, origin.parse().unwrap());
            headers.insert(FETCH_SITE, "cross-site".parse().unwrap());
            let allowed = rules.check("/mcp", &headers, is_encrypted).ok().flatten().is_some();
            headers.insert(FETCH_SITE, "same-origin".parse().unwrap());
            (allowed, rules.check("/mcp", &headers, is_encrypted).is_ok())
        };
        assert_eq!(check("192.0.2.9:1", "https://app.example", true), (true, true));
        assert_eq!(check("evil.example", "https://app.example", true), (false, false));
        for origin in ["http://app.example", "https://app.example:8443", "https://app.example.evil", "null"] {
            assert_eq!(check("192.0.2.9:1", origin, true), (false, false), "{origin}");
        }
        assert_eq!(check("192.0.2.9:1", "https://192.0.2.9:1", true), (false, true));
        assert_eq!(check("192.0.2.9:1", "http://192.0.2.9:1", true), (false, false));
        assert_eq!(check("192.0.2.9:1", "http://192.0.2.9:1", false), (false, true));
    }

    /// `X-Forwarded-Proto` counts from a trusted proxy only.
    #[test]
    fn forwarded_headers_need_a_trusted_proxy() {
        let proxies = TrustedProxies::new(vec!["10.0.0.1/32".parse().unwrap()]);
        let rules = HostRules { proxies, ..HostRules::default() };
        let mut headers = HeaderMap::new();
        headers.insert(FORWARDED_PROTO, HeaderValue::from_static("https"));
        headers.insert(FORWARDED_FOR, HeaderValue::from_static("203.0.113.5"));
        let peer = |address: &str| ConnectionPeer { address: address.parse().ok(), is_encrypted: false };
        assert!(rules.is_encrypted(peer("10.0.0.1"), &headers));
        assert!(!rules.is_encrypted(peer("10.0.0.2"), &headers));
        assert_eq!(rules.client(peer("10.0.0.1"), &headers), "203.0.113.5".parse().ok());
        assert_eq!(rules.client(peer("10.0.0.2"), &headers), "10.0.0.2".parse().ok());
    }
}
