//! Settings that name places on the web: origins that pages may load from, and the proxy on the way there.

use serde_json::Value as Json;

use super::{
    kind::{Given, Kind, Shape, Wrong},
    list::{items, split_at_commas},
};

/// Origins, as the engine takes them: `https://example.com`, with a port or `:*`, or a host alone for every scheme. As
/// text they may be separated by semicolons too, which is how the engine's own option has them.
pub(super) struct Origins;

impl Kind for Origins {
    type Value = Vec<String>;

    fn parse(&self, given: Given<'_>) -> Result<Vec<String>, Wrong> {
        let origins = items(given, |text| Ok(split_at_commas(&text.replace(';', ","))))?;
        match origins.iter().find(|origin| !is_origin(origin)) {
            Some(wrong) => Err(Wrong(Some(format!("`{}` is none", wrong.escape_debug())))),
            None => Ok(origins),
        }
    }

    fn show(&self, value: &Vec<String>) -> String {
        self.json(value).to_string()
    }

    fn json(&self, value: &Vec<String>) -> Json {
        Json::from(value.clone())
    }

    fn allowed(&self) -> String {
        "a list of origins such as `https://example.com`, `http://localhost:*` or `example.com`".to_owned()
    }

    fn shape(&self) -> Shape {
        Shape::Many("ORIGIN".to_owned())
    }
}

/// The engine takes anything here and then matches nothing, so a path or a typing mistake must not pass.
fn is_origin(text: &str) -> bool {
    let host = match text.split_once("://") {
        Some(("http" | "https" | "ws" | "wss", host)) => host,
        Some(_) => return false,
        None => text,
    };
    let (host, port) = split_port(host);
    is_host(host.strip_prefix("*.").unwrap_or(host)) && port.is_none_or(|port| port == "*" || is_port(port))
}

/// `http://host:port`: the one kind of proxy that greenroom's own can pass traffic on to.
pub(super) struct ProxyUrl;

impl Kind for ProxyUrl {
    type Value = String;

    fn parse(&self, given: Given<'_>) -> Result<String, Wrong> {
        let text = given.text().ok_or(Wrong(None))?;
        let place = text.strip_prefix("http://").ok_or(Wrong(None))?;
        let place = place.strip_suffix('/').unwrap_or(place);
        if place.contains('@') {
            return Err(Wrong(Some("names and passwords are not passed on".to_owned())));
        }
        match split_port(place) {
            (host, Some(port)) if is_host(host) && is_port(port) => Ok(format!("http://{place}")),
            _ => Err(Wrong(None)),
        }
    }

    fn show(&self, value: &String) -> String {
        value.clone()
    }

    fn allowed(&self) -> String {
        "a proxy such as `http://proxy.example:3128`, with its port".to_owned()
    }

    fn shape(&self) -> Shape {
        Shape::One("URL".to_owned())
    }
}

/// The host, and the port after its last colon. The colons of a v6 address stand in brackets.
fn split_port(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    }
}

fn is_host(text: &str) -> bool {
    if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return inner.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let label = |label: &str| {
        !label.is_empty() && label.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
    };
    text.strip_suffix('.').unwrap_or(text).split('.').all(label)
}

fn is_port(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_digit()) && text.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::kind::tests::{text, toml};

    /// Origins and hosts are taken in both separations; paths, other schemes and typing mistakes are named.
    #[test]
    fn origins() {
        let read = text(&Origins, "https://example.com;http://localhost:*, example.com:8080").unwrap();
        assert_eq!(read, ["https://example.com", "http://localhost:*", "example.com:8080"]);
        assert_eq!(toml(&Origins, r#"["wss://[::1]:1", "*.example.com"]"#).unwrap().len(), 2);
        assert_eq!(text(&Origins, ""), Ok(Vec::new()));
        for wrong in ["https://a.example/path", "ftp://a.example", "https:/a", "a b", "https://", "a:99999"] {
            let why = text(&Origins, &format!("ok.example;{wrong}")).unwrap_err().0.unwrap();
            assert_eq!(why, format!("`{wrong}` is none"));
        }
    }

    /// A proxy is a host with a port over plain HTTP, and nothing else.
    #[test]
    fn proxies() {
        assert_eq!(text(&ProxyUrl, "http://proxy.example:3128"), Ok("http://proxy.example:3128".to_owned()));
        assert_eq!(text(&ProxyUrl, "http://[::1]:8080/"), Ok("http://[::1]:8080".to_owned()));
        assert!(text(&ProxyUrl, "http://me:secret@proxy:1").unwrap_err().0.unwrap().contains("passwords"));
        for wrong in [
            "",
            "proxy:1",
            "https://proxy:1",
            "socks5://proxy:1",
            "http://proxy",
            "http://:1",
            "http://proxy:0",
            "http://proxy:+1",
            "http://proxy:1/x",
            "http://::1:1",
        ] {
            assert_eq!(text(&ProxyUrl, wrong), Err(Wrong(None)), "{wrong}");
        }
    }
}
