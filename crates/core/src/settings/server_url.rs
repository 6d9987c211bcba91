//! Settings that name a server by its URL: a browser's debugger, or an MCP server. Both may carry a key in their query, as
//! hosted browsers require, and a debugger's also user and password. greenroom keeps these and never shows them.

use url::Url;

use super::value_type::{FlagShape, GivenForm, GivenValue, InvalidValue, ValueType};
use crate::web_address::{HIDDEN, shown};

/// Paths of a debugger's own pages, which people copy from their address bar. They mean the debugger.
const PAGES: [&str; 3] = ["/json/version", "/json/list", "/json"];

/// The URL of a server, in its normal form: scheme and host in lower case, no meaningless slash at the end.
pub(super) struct ServerUrl {
    schemes: &'static [&'static str],
    allowed: &'static str,
    /// Whether the server is a debugger: its URL may have a password, and the path of one of [`PAGES`].
    debugger: bool,
}

impl ServerUrl {
    pub(super) const DEBUGGER: Self = Self {
        schemes: &["http", "https", "ws", "wss"],
        allowed: "a debugger's address such as `http://127.0.0.1:9222` or `ws://127.0.0.1:9222/devtools/browser/<id>`",
        debugger: true,
    };

    pub(super) const MCP: Self = Self {
        schemes: &["http", "https"],
        allowed: "the address of an MCP server such as `http://127.0.0.1:3001/mcp`",
        debugger: false,
    };

    pub(super) fn read(&self, text: &str) -> Result<String, InvalidValue> {
        let because = |why: &str| InvalidValue(Some(why.to_owned()));
        // Refuse an address that `Url` would repair: the user probably meant another one.
        let written = text.split_once("://").filter(|(_, rest)| !rest.starts_with(['/', '\\']));
        if written.is_none() || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(InvalidValue(None));
        }
        let mut url = Url::parse(text).map_err(|error| InvalidValue(Some(error.to_string())))?;
        if !self.schemes.contains(&url.scheme()) {
            return Err(InvalidValue(None));
        }
        if !self.debugger && (!url.username().is_empty() || url.password().is_some()) {
            return Err(because("user and password cannot be sent to it"));
        }
        if url.fragment().is_some() {
            return Err(because("what follows `#` never reaches a server"));
        }
        if url.port() == Some(0) {
            return Err(because("no server listens on port 0"));
        }
        if self.debugger && url.query().is_none() {
            let path = url.path().trim_end_matches('/');
            let page = PAGES.into_iter().find_map(|page| path.strip_suffix(page));
            let path = page.filter(|_| url.scheme().starts_with("http")).unwrap_or(path).to_owned();
            url.set_path(&path);
        }
        let text = String::from(url);
        let bare = text.split_once("://").is_some_and(|(_, rest)| rest.find('/') == Some(rest.len() - 1));
        Ok(if bare { text.trim_end_matches('/').to_owned() } else { text })
    }
}

impl ValueType for ServerUrl {
    type Value = String;

    fn parse(&self, given: GivenValue<'_>) -> Result<String, InvalidValue> {
        self.read(given.text().ok_or(InvalidValue(None))?)
    }

    fn show(&self, value: &String) -> String {
        shown(value)
    }

    fn show_wrong(&self, given: GivenValue<'_>) -> String {
        let base = given.base;
        match given.written {
            GivenForm::Text(text) => GivenValue { written: GivenForm::Text(&shown(text)), base }.display(),
            GivenForm::Toml(toml::Value::String(text)) => toml::Value::String(shown(text)).to_string(),
            GivenForm::Toml(toml::Value::Table(_) | toml::Value::Array(_)) => HIDDEN.to_owned(),
            GivenForm::Toml(_) => given.display(),
        }
    }

    fn allowed(&self) -> String {
        self.allowed.to_owned()
    }

    fn shape(&self) -> FlagShape {
        FlagShape::One("URL".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::value_type::tests::{text, toml};

    /// Debuggers have one form each: without a slash at the end, without the page that was copied, in lower case.
    #[test]
    fn debugger_urls_are_normalized() {
        for (written, read) in [
            ("http://127.0.0.1:9222", "http://127.0.0.1:9222"),
            ("http://127.0.0.1:9222/", "http://127.0.0.1:9222"),
            ("HTTP://LocalHost:9222//", "http://localhost:9222"),
            ("http://127.0.0.1:9222/json/version", "http://127.0.0.1:9222"),
            ("http://127.0.0.1:9222/json/", "http://127.0.0.1:9222"),
            ("https://browsers.example/one/", "https://browsers.example/one"),
            ("https://browsers.example:443", "https://browsers.example"),
            ("http://[::1]:9222", "http://[::1]:9222"),
            ("http://0x7f000001:9222", "http://127.0.0.1:9222"),
            ("ws://127.0.0.1:9222/devtools/browser/aB-c", "ws://127.0.0.1:9222/devtools/browser/aB-c"),
            ("ws://127.0.0.1:9222", "ws://127.0.0.1:9222"),
            ("https://ann:p%40w@h/", "https://ann:p%40w@h"),
            ("ws://127.0.0.1:9222/json", "ws://127.0.0.1:9222/json"),
            ("wss://hosted.example?token=s3cret", "wss://hosted.example/?token=s3cret"),
        ] {
            assert_eq!(text(&ServerUrl::DEBUGGER, written), Ok(read.to_owned()), "{written}");
            assert_eq!(text(&ServerUrl::DEBUGGER, read), Ok(read.to_owned()), "its form is its own");
        }
        assert_eq!(toml(&ServerUrl::DEBUGGER, "'http://h:1/'"), Ok("http://h:1".to_owned()));
        for wrong in [
            "",
            "127.0.0.1:9222",
            "localhost:9222",
            "http://",
            "http:///x",
            "ftp://h:1",
            "file:///x",
            "http:h",
        ] {
            assert!(text(&ServerUrl::DEBUGGER, wrong).is_err(), "{wrong}");
        }
        for (wrong, why) in [
            ("http://h:99999", "port"),
            ("http://h:0", "port 0"),
            ("http://h:1/#x", "#"),
            ("http://a..b:1 ", ""),
        ] {
            let said = text(&ServerUrl::DEBUGGER, wrong).unwrap_err().0.unwrap_or_default();
            assert!(said.contains(why), "{wrong}: {said}");
        }
        assert!(toml(&ServerUrl::DEBUGGER, "9222").is_err());
    }

    /// An MCP server's path is its own, and its scheme is HTTP.
    #[test]
    fn mcp_server_urls_keep_their_path() {
        assert_eq!(text(&ServerUrl::MCP, "http://h:1/mcp/"), Ok("http://h:1/mcp/".to_owned()));
        assert_eq!(text(&ServerUrl::MCP, "https://h/json?k=v"), Ok("https://h/json?k=v".to_owned()));
        assert_eq!(text(&ServerUrl::MCP, "ws://h:1/mcp"), Err(InvalidValue(None)));
        assert!(text(&ServerUrl::MCP, "http://ann:pw@h:1/mcp").is_err());
    }

    /// Neither a shown value nor an error repeats a key or a password.
    #[test]
    fn url_secrets_are_hidden() {
        let given = |written| GivenValue { written, base: std::path::Path::new("/") };
        let key = "wss://ann:s3cret@h/p?token=s3cret".to_owned();
        assert_eq!(ServerUrl::DEBUGGER.show(&key), "wss://***@h/p?***");
        assert_eq!(ServerUrl::DEBUGGER.show_wrong(given(GivenForm::Text(&key))), "wss://***@h/p?***");
        let value = toml::Value::String(key.clone());
        assert_eq!(ServerUrl::DEBUGGER.show_wrong(given(GivenForm::Toml(&value))), "\"wss://***@h/p?***\"");
        let table: toml::Table = "value = { url = 's3cret' }".parse().unwrap();
        assert_eq!(ServerUrl::MCP.show_wrong(given(GivenForm::Toml(&table["value"]))), "***");
    }
}
