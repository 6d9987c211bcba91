//! Settings of a server that other machines reach: its reverse proxies, and origins of pages.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value as Json;

use super::{
    list::{items, split_at_commas},
    value_type::{FlagShape, GivenValue, InvalidValue, ValueType},
    web::{is_host, is_port, split_port},
};
use crate::forwarded::TrustedProxies;

/// How many networks or origins a list may have. Each request compares them one by one.
const ENTRIES_MAX: usize = 100;

/// Networks and single addresses.
pub(super) struct ProxyNetworks;

impl ValueType for ProxyNetworks {
    type Value = TrustedProxies;

    fn parse(&self, given: GivenValue<'_>) -> Result<TrustedProxies, InvalidValue> {
        let entries = limited(items(given, |text| Ok(split_at_commas(text)))?)?;
        let network = |text: &String| {
            let address = || text.parse::<IpAddr>().ok().map(IpNet::from);
            let network = text.parse::<IpNet>().ok().or_else(address);
            network.ok_or_else(|| InvalidValue(Some(format!("`{}` is none", text.escape_debug()))))
        };
        Ok(TrustedProxies::new(entries.iter().map(network).collect::<Result<_, _>>()?))
    }

    fn show(&self, value: &TrustedProxies) -> String {
        self.json(value).to_string()
    }

    fn json(&self, value: &TrustedProxies) -> Json {
        value.networks().iter().map(|network| Json::from(network.to_string())).collect()
    }

    fn allowed(&self) -> String {
        "a list of addresses and networks such as `127.0.0.1` or `10.0.0.0/8`".to_owned()
    }

    fn shape(&self) -> FlagShape {
        FlagShape::Many("NETWORK".to_owned())
    }
}

/// The origin of a page or of a server: `https://app.example`, with a port if it is not the scheme's own. No patterns.
pub(super) struct WebOrigin;

impl ValueType for WebOrigin {
    type Value = String;

    fn parse(&self, given: GivenValue<'_>) -> Result<String, InvalidValue> {
        let text = given.text().ok_or(InvalidValue(None))?.to_ascii_lowercase();
        let text = text.strip_suffix('/').unwrap_or(&text);
        let place = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let (host, port) = split_port(place.ok_or(InvalidValue(None))?);
        match is_host(host) && port.is_none_or(is_port) {
            true => Ok(text.to_owned()),
            false => Err(InvalidValue(None)),
        }
    }

    fn show(&self, value: &String) -> String {
        value.clone()
    }

    fn allowed(&self) -> String {
        "an origin such as `https://app.example` or `http://localhost:3000`, without a path".to_owned()
    }

    fn shape(&self) -> FlagShape {
        FlagShape::One("ORIGIN".to_owned())
    }
}

fn limited(entries: Vec<String>) -> Result<Vec<String>, InvalidValue> {
    if entries.len() > ENTRIES_MAX {
        let why = format!("it has {} entries, and {ENTRIES_MAX} is the most", entries.len());
        return Err(InvalidValue(Some(why)));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::value_type::tests::text;

    /// Addresses and networks are read; names are not, since their meaning may change.
    #[test]
    fn proxies_are_networks() {
        let proxies = text(&ProxyNetworks, "127.0.0.1, 10.0.0.0/8,::1").unwrap();
        assert_eq!(ProxyNetworks.show(&proxies), r#"["127.0.0.1/32","10.0.0.0/8","::1/128"]"#);
        for wrong in ["proxy.example", "10.0.0.0/33", "10.0.0", "*"] {
            assert!(text(&ProxyNetworks, wrong).is_err(), "{wrong}");
        }
    }

    /// An origin has a scheme and a host, perhaps a port, and nothing else.
    #[test]
    fn origins_are_exact() {
        assert_eq!(text(&WebOrigin, "HTTPS://App.example/"), Ok("https://app.example".to_owned()));
        assert!(
            text(&WebOrigin, "http://localhost:3000").is_ok() && text(&WebOrigin, "https://[::1]:1").is_ok()
        );
        for wrong in [
            "",
            "*",
            "app.example",
            "https://",
            "https://*.example",
            "https://a/b",
            "ftp://a",
            "null",
            "https://a:b",
        ] {
            assert!(text(&WebOrigin, wrong).is_err(), "{wrong}");
        }
    }
}
