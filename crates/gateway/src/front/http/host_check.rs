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
        HeaderMap, HeaderName, HeaderValue, StatusCode,
        header::{HOST, ORIGIN},
    },
    middleware::Next,
    response::Response,
};
use greenroom_core::excerpt::echoed;

use super::{HttpState, refusal};

/// The browser's statement of how the requesting page is related to this server.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

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
}

impl HostRules {
    fn knows(&self, authority: &str) -> bool {
        let Some(host) = host_of(authority) else { return false };
        let address = host.parse::<IpAddr>().ok();
        let loopback =
            address.is_some_and(|address| address.is_loopback()) || host.eq_ignore_ascii_case("localhost");
        loopback
            || (address.is_some() && address == self.address)
            || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    }

    fn check(&self, path: &str, headers: &HeaderMap) -> Result<(), String> {
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
        let Some(origin) = text(ORIGIN) else { return Ok(()) };
        let own = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        if own.is_some_and(|authority| authority.eq_ignore_ascii_case(host)) {
            return Ok(());
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
    let checked = http_state.rules.as_ref().map(|rules| rules.check(request.uri().path(), request.headers()));
    let mut response = match checked {
        Some(Err(why)) => refusal::because(StatusCode::FORBIDDEN, why),
        _ => next.run(request).await,
    };
    response.headers_mut().insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, origin: Option<&str>) -> bool {
        let rules = HostRules { address: "192.0.2.7".parse().ok(), hosts: vec!["browsers.example".into()] };
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        rules.check("/mcp", &headers).is_ok()
    }

    /// With two `Host` or two `Origin` headers it is unclear which one counts, so the request is refused.
    #[test]
    fn duplicate_host_or_origin_is_refused() {
        let mut headers = HeaderMap::new();
        headers.append(HOST, "localhost".parse().unwrap());
        headers.append(ORIGIN, "http://localhost".parse().unwrap());
        assert_eq!(HostRules::default().check("/mcp", &headers), Ok(()));
        for (name, second) in [(HOST, "evil.example"), (ORIGIN, "http://evil.example")] {
            let mut headers = headers.clone();
            headers.append(&name, second.parse().unwrap());
            let refused = HostRules::default().check("/mcp", &headers).unwrap_err();
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
        assert!(HostRules::default().check("/mcp", &HeaderMap::new()).is_err(), "no Host at all");
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
            HostRules::default().check(path, &headers).is_ok()
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
}
