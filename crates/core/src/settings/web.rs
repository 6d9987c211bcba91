//! Settings that name places on the web: origins that pages may load from, and the proxy on the way there. A proxy's
//! password is kept and never shown, neither as a value nor in a problem.

use serde_json::Value as Json;

use super::{
    list::{items, split_at_commas},
    value_type::{FlagShape, GivenForm, GivenValue, InvalidValue, ValueType},
};

/// Origins, as the engine takes them: `https://example.com`, with a port or `:*`, or a host alone for every scheme. As
/// text they may be separated by semicolons too, as in the engine's own option.
pub(super) struct Origins;

impl ValueType for Origins {
    type Value = Vec<String>;

    fn parse(&self, given: GivenValue<'_>) -> Result<Vec<String>, InvalidValue> {
        let origins = items(given, |text| Ok(split_at_commas(&text.replace(';', ","))))?;
        match origins.iter().find(|origin| !is_origin(origin)) {
            Some(wrong) => Err(InvalidValue(Some(format!("`{}` is none", wrong.escape_debug())))),
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

    fn shape(&self) -> FlagShape {
        FlagShape::Many("ORIGIN".to_owned())
    }
}

/// Whether the text is a valid origin. The engine accepts any text and then matches nothing, so this must refuse paths
/// and typing mistakes.
fn is_origin(text: &str) -> bool {
    let host = match text.split_once("://") {
        Some(("http" | "https" | "ws" | "wss", host)) => host,
        Some(_) => return false,
        None => text,
    };
    let (host, port) = split_port(host);
    is_host(host.strip_prefix("*.").unwrap_or(host)) && port.is_none_or(|port| port == "*" || is_port(port))
}

/// `http://[user:password@]host:port`: the only kind of proxy to which the egress proxy can pass traffic on. User and
/// password are percent-encoded, as strictly as the egress proxy reads them.
pub(super) struct ProxyUrl;

impl ValueType for ProxyUrl {
    type Value = String;

    fn parse(&self, given: GivenValue<'_>) -> Result<String, InvalidValue> {
        let text = given.text().ok_or(InvalidValue(None))?;
        let (scheme, rest) = text.split_once("://").ok_or(InvalidValue(None))?;
        if !scheme.eq_ignore_ascii_case("http") {
            return Err(InvalidValue(None));
        }
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let place = match rest.rsplit_once('@') {
            Some((credentials, place)) => {
                check_credentials(credentials)?;
                place
            }
            None => rest,
        };
        match split_port(place) {
            (host, Some(port)) if is_host(host) && is_port(port) => Ok(format!("http://{rest}")),
            _ => Err(InvalidValue(None)),
        }
    }

    fn show(&self, value: &String) -> String {
        without_password(value)
    }

    fn show_wrong(&self, given: GivenValue<'_>) -> String {
        let base = given.base;
        match given.written {
            GivenForm::Text(text) => {
                GivenValue { written: GivenForm::Text(&without_password(text)), base }.display()
            }
            GivenForm::Toml(toml::Value::String(text)) => {
                toml::Value::String(without_password(text)).to_string()
            }
            // Playwright's own form is a table, with the password in it.
            GivenForm::Toml(toml::Value::Table(_) | toml::Value::Array(_)) => HIDDEN.to_owned(),
            GivenForm::Toml(_) => given.display(),
        }
    }

    fn allowed(&self) -> String {
        "a proxy such as `http://proxy.example:3128` or `http://user:password@proxy.example:3128`, with its port"
            .to_owned()
    }

    fn shape(&self) -> FlagShape {
        FlagShape::One("URL".to_owned())
    }
}

/// Stands for a secret.
const HIDDEN: &str = "***";

/// Checks `user[:password]`. Refuses a character that would end the address early, and an invalid escape: the proxy
/// would read other credentials than the user meant.
fn check_credentials(text: &str) -> Result<(), InvalidValue> {
    let user = text.split(':').next().unwrap_or_default();
    if user.is_empty() || user.to_ascii_lowercase().contains("%3a") {
        return Err(InvalidValue(Some("the user must not be empty or contain a colon".to_owned())));
    }
    let is_escape = |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    let is_encoded = text.split('%').skip(1).all(is_escape);
    if !is_encoded || text.contains(['@', '/', '?', '#']) || text.contains(char::is_control) {
        let why = "user and password are percent-encoded: `%25` for `%`, `%40` for `@`, `%2F` for `/`";
        return Err(InvalidValue(Some(why.to_owned())));
    }
    Ok(())
}

/// A proxy's address, valid or not, with `***` for its password. Where a part is invalid, the password may be anywhere,
/// and only the scheme is left.
fn without_password(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let is_scheme = scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    let start = if scheme.is_empty() || !is_scheme { "" } else { &text[..scheme.len() + "://".len()] };
    let (credentials, place) =
        rest.rsplit_once('@').map_or((None, rest), |(credentials, place)| (Some(credentials), place));
    let (host, port) = split_port(place.strip_suffix('/').unwrap_or(place));
    let is_place = is_host(host) && port.is_none_or(|port| port.chars().all(|c| c.is_ascii_digit()));
    if !is_scheme || !is_place {
        return format!("{start}{HIDDEN}");
    }
    let (user, password) = match credentials.map(|credentials| credentials.split_once(':')) {
        None => return text.to_owned(),
        Some(Some((user, _))) => (user, format!(":{HIDDEN}")),
        Some(None) => (credentials.unwrap_or_default(), String::new()),
    };
    if user.contains(['@', '/', '?', '#']) {
        return format!("{start}{HIDDEN}");
    }
    format!("{start}{user}{password}@{place}")
}

/// The host, and the port after its last colon. The colons of a v6 address stand in brackets.
pub(super) fn split_port(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    }
}

pub(super) fn is_host(text: &str) -> bool {
    if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return inner.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let label = |label: &str| {
        !label.is_empty() && label.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
    };
    text.strip_suffix('.').unwrap_or(text).split('.').all(label)
}

pub(super) fn is_port(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_digit()) && text.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::value_type::tests::{text, toml};

    /// Origins and hosts are taken in both separations; paths, other schemes and typing mistakes are named.
    #[test]
    fn origins_are_split_and_checked() {
        let read = text(&Origins, "https://example.com;http://localhost:*, example.com:8080").unwrap();
        assert_eq!(read, ["https://example.com", "http://localhost:*", "example.com:8080"]);
        assert_eq!(toml(&Origins, r#"["wss://[::1]:1", "*.example.com"]"#).unwrap().len(), 2);
        assert_eq!(text(&Origins, ""), Ok(Vec::new()));
        for wrong in ["https://a.example/path", "ftp://a.example", "https:/a", "a b", "https://", "a:99999"] {
            let why = text(&Origins, &format!("ok.example;{wrong}")).unwrap_err().0.unwrap();
            assert_eq!(why, format!("`{wrong}` is none"));
        }
    }

    /// A proxy is a host with a port over plain HTTP, with or without credentials, and nothing else.
    #[test]
    fn proxy_url_needs_http_host_and_port() {
        assert_eq!(text(&ProxyUrl, "http://proxy.example:3128"), Ok("http://proxy.example:3128".to_owned()));
        assert_eq!(text(&ProxyUrl, "http://[::1]:8080/"), Ok("http://[::1]:8080".to_owned()));
        for right in ["me:secret", "me", "me:", "CORP%5Cann:p%40s%3As%2f%25%C3%A9", "ann:a:b"] {
            let right = format!("http://{right}@proxy:1");
            assert_eq!(text(&ProxyUrl, &right), Ok(right));
        }
        assert_eq!(text(&ProxyUrl, "HTTP://me:x@proxy:1/"), Ok("http://me:x@proxy:1".to_owned()));
        for (wrong, why) in [
            ("ann:50%off", "encoded"),
            ("ann:50%", "encoded"),
            ("ann:%é", "encoded"),
            ("ann:p@ss", "encoded"),
            ("ann:p/ss", "encoded"),
            ("ann:p?ss", "encoded"),
            ("", "user"),
            (":secret", "user"),
            ("a%3Ab:secret", "user"),
        ] {
            let wrong = text(&ProxyUrl, &format!("http://{wrong}@proxy:1")).unwrap_err().0.unwrap();
            assert!(wrong.contains(why), "{wrong}");
        }
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
            "http://me:secret@proxy",
            "http://me:secret@:1",
        ] {
            assert_eq!(text(&ProxyUrl, wrong), Err(InvalidValue(None)), "{wrong}");
        }
    }

    /// No password is shown, of a valid value or of an invalid one, whatever is wrong with it; the rest is shown, as far
    /// as it certainly holds no password.
    #[test]
    fn passwords_are_not_shown() {
        for (value, shown) in [
            ("http://proxy:1", "http://proxy:1"),
            ("http://ann@proxy:1", "http://ann@proxy:1"),
            ("http://ann:secret@[::1]:1", "http://ann:***@[::1]:1"),
            ("https://ann:secret@proxy:1", "https://ann:***@proxy:1"),
            ("http://ann:sec@ret@proxy:1", "http://ann:***@proxy:1"),
            ("http://ann:sec/ret%@proxy:1/", "http://ann:***@proxy:1/"),
            ("http://ann:secret@proxy", "http://ann:***@proxy"),
            ("ann:secret@proxy:1", "ann:***@proxy:1"),
            ("http:/ann:secret@proxy:1", "http:***@proxy:1"),
            ("http://proxy:1@ann:secret", "http://***"),
            ("http://proxy:1:ann:secret", "http://***"),
            ("http://ann:secret", "http://***"),
            ("http://x/secret@proxy:1", "http://***"),
            ("ann:secret://x@proxy:1", "***"),
            ("socks5://x:1", "socks5://x:1"),
        ] {
            let written = GivenForm::Text(value);
            assert_eq!(ProxyUrl.show_wrong(GivenValue { written, base: std::path::Path::new("/") }), shown);
            assert_eq!(ProxyUrl.show(&value.to_owned()), shown);
        }
    }
}
