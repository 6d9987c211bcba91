//! Which requests are let in at all.
//!
//! A web page can make a browser send requests to a server on the user's own machine. Two headers give it away: `Host`,
//! which says by what name the page knows the server (a name of its own that it had resolved to 127.0.0.1), and
//! `Origin`, which says where the page came from. Programs send no `Origin`.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{
        HeaderMap, StatusCode,
        header::{HOST, ORIGIN},
    },
    middleware::Next,
    response::Response,
};

use super::{Door, refusal};

/// By which names this server may be called.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// The address that is listened on.
    pub address: Option<IpAddr>,
    /// Further names, without ports: those of a proxy in front.
    pub hosts: Vec<String>,
}

impl Rules {
    fn knows(&self, authority: &str) -> bool {
        let host = host_of(authority);
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
        let loopback =
            address.is_some_and(|address| address.is_loopback()) || host.eq_ignore_ascii_case("localhost");
        loopback
            || (address.is_some() && address == self.address)
            || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    }

    fn judge(&self, headers: &HeaderMap) -> Result<(), String> {
        let text =
            |name| headers.get(name).map(|value: &axum::http::HeaderValue| value.to_str().unwrap_or(""));
        let host = text(HOST).ok_or("the header `Host` is missing")?;
        if !self.knows(host) {
            return Err(format!(
                "this server does not go by the name `{host}`\n\nhint: use its address, or add the name to `server.allowed_hosts`"
            ));
        }
        let Some(origin) = text(ORIGIN) else { return Ok(()) };
        let own = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        if own.is_some_and(|authority| authority.eq_ignore_ascii_case(host)) {
            return Ok(());
        }
        Err(format!("web pages of another origin may not use this server: `{origin}`"))
    }
}

/// A host without its port.
fn host_of(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        // The colons of an address in brackets are its own.
        Some((host, port)) if !port.contains(']') => host,
        _ => authority,
    }
}

/// Lets in who calls this server by its name.
pub(super) async fn names(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    match door.rules.as_ref().map(|rules| rules.judge(request.headers())) {
        Some(Err(why)) => refusal::because(StatusCode::FORBIDDEN, why),
        _ => next.run(request).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(host: &str, origin: Option<&str>) -> bool {
        let rules = Rules { address: "192.0.2.7".parse().ok(), hosts: vec!["browsers.example".into()] };
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        rules.judge(&headers).is_ok()
    }

    /// The server is known by loopback names, its address and the names it was given, with any port or none.
    #[test]
    fn names_of_the_server() {
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
            assert!(judge(host, None), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:34501", "192.0.2.8", "", "[::2]:1", "2130706433"]
        {
            assert!(!judge(host, None), "{host}");
        }
    }

    /// A page of another origin is refused, whatever it calls itself.
    #[test]
    fn origins() {
        assert!(judge("localhost:34501", Some("http://localhost:34501")));
        for origin in [
            "http://localhost:3000",
            "https://evil.example",
            "null",
            "http://localhost:34501.evil.example",
            "",
        ] {
            assert!(!judge("localhost:34501", Some(origin)), "{origin}");
        }
        assert!(Rules::default().judge(&HeaderMap::new()).is_err(), "no Host at all");
    }
}
