//! Further flags for a Chromium that greenroom starts. Refuses the flags with which greenroom keeps sessions apart and
//! sends pages through its proxy.

use serde_json::Value as Json;

use super::{
    list::items,
    value_type::{FlagShape, GivenValue, InvalidValue, ValueType},
};

/// The prefixes of flags that only greenroom may set, and why.
const OWN: &[(&str, &str)] = &[
    ("--remote-debugging", "greenroom needs this flag to control the browser"),
    ("--user-data-dir", "set `user_data_dir`"),
    ("--headless", "set `headless`"),
    ("--no-sandbox", "set `no_sandbox`"),
    ("--proxy", "set `proxy_server`"),
    ("--no-proxy-server", "pages would go around the proxy"),
    ("--host-resolver-rules", "pages would go around the proxy"),
    ("--host-rules", "pages would go around the proxy"),
    ("--winhttp-proxy-resolver", "pages would go around the proxy"),
    ("--enable-quic", "pages would go around the proxy"),
    ("--origin-to-force-quic-on", "pages would go around the proxy"),
    ("--webrtc-ip-handling-policy", "pages would go around the proxy"),
    ("--force-webrtc-ip-handling-policy", "pages would go around the proxy"),
    ("--blink-settings", "greenroom uses this flag to keep the clipboards of sessions apart"),
    ("--enable-logging", "greenroom reads the browser's output"),
    ("--log-level", "greenroom reads the browser's output"),
];

/// Flags, each with its value. As text they are separated by blanks.
pub(super) struct BrowserArgs;

impl ValueType for BrowserArgs {
    type Value = Vec<String>;

    fn parse(&self, given: GivenValue<'_>) -> Result<Vec<String>, InvalidValue> {
        let flags = items(given, |text| Ok(text.split_whitespace().map(ToOwned::to_owned).collect()))?;
        for flag in &flags {
            let of = |why: &str| InvalidValue(Some(format!("`{}`: {why}", flag.escape_debug())));
            let name = flag.strip_prefix("--").and_then(|rest| rest.split('=').next());
            let is_name = |name: &str| {
                name.starts_with(|c: char| c.is_ascii_alphanumeric())
                    && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            };
            if !name.is_some_and(is_name) || flag.contains(char::is_control) {
                return Err(of("this is not a flag"));
            }
            let lower = flag.to_ascii_lowercase();
            if let Some((_, why)) = OWN.iter().find(|(start, _)| lower.starts_with(start)) {
                return Err(of(why));
            }
        }
        Ok(flags)
    }

    fn show(&self, value: &Vec<String>) -> String {
        self.json(value).to_string()
    }

    fn json(&self, value: &Vec<String>) -> Json {
        Json::from(value.clone())
    }

    fn allowed(&self) -> String {
        "a list of flags such as `--disable-gpu` or `--lang=de`, none of greenroom's own".to_owned()
    }

    fn shape(&self) -> FlagShape {
        FlagShape::Many("FLAG".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::value_type::tests::{text, toml};

    /// Flags are accepted, as a list or as text; a page's address, and flags that greenroom sets itself, are refused.
    #[test]
    fn own_flags_of_greenroom_are_refused() {
        let expected = Ok(vec!["--disable-gpu".to_owned(), "--disable-features=A,B".to_owned()]);
        assert_eq!(text(&BrowserArgs, " --disable-gpu  --disable-features=A,B"), expected);
        assert_eq!(toml(&BrowserArgs, "['--disable-gpu', '--disable-features=A,B']"), expected);
        for (wrong, why) in [
            ("http://a.example/", "this is not a flag"),
            ("-x", "this is not a flag"),
            ("--", "this is not a flag"),
            ("--=x", "this is not a flag"),
            ("--no-sandbox", "set `no_sandbox`"),
            ("--Proxy-Server=http://a", "set `proxy_server`"),
            ("--proxy-bypass-list=*", "set `proxy_server`"),
            ("--remote-debugging-address=0.0.0.0", "to control the browser"),
            ("--host-resolver-rules=x", "around the proxy"),
        ] {
            let said = text(&BrowserArgs, wrong).unwrap_err().0.unwrap();
            assert!(said.contains(why), "{wrong}: {said}");
        }
    }
}
