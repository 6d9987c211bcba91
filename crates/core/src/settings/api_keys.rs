//! API keys in the configuration: `name:key`, for containers and other places without a data folder that stays. Keys are
//! never shown, neither as values nor in problems, and no flag sets them: every user of a machine can read its command
//! lines.

use std::time::SystemTime;

use serde_json::Value as Json;

use super::{
    list::{items, split_at_commas},
    value_type::{FlagShape, GivenValue, InvalidValue, ValueType},
};
use crate::api_key::{ApiKey, ApiKeyName, ApiKeySecret, ApiScope, ApiScopes, InvalidApiKeyName};

/// A key that the configuration names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredApiKey {
    pub name: ApiKeyName,
    pub scopes: ApiScopes,
    pub secret: ApiKeySecret,
}

/// Several `name:key` or `name[scope+scope]:key`.
pub(super) struct ApiKeys;

impl ConfiguredApiKey {
    /// The key's entry. It has no time of its own, and does not expire.
    pub fn entry(&self) -> ApiKey {
        ApiKey::new(self.name.clone(), self.secret.hash(), self.scopes, SystemTime::UNIX_EPOCH)
    }
}

impl ValueType for ApiKeys {
    type Value = Vec<ConfiguredApiKey>;

    fn parse(&self, given: GivenValue<'_>) -> Result<Self::Value, InvalidValue> {
        let entries = items(given, |text| Ok(split_at_commas(text)))?;
        let mut keys: Vec<ConfiguredApiKey> = Vec::new();
        for (at, entry) in entries.iter().enumerate() {
            // An entry without a colon may be a key alone, so the message says only which entry it is.
            let invalid = |why: String| InvalidValue(Some(format!("entry {}: {why}", at + 1)));
            let Some((name, secret)) = entry.trim().split_once(':') else {
                return Err(invalid("it has no colon between name and key".to_owned()));
            };
            // The name is a URL, whose own colon came first.
            if secret.starts_with("//") {
                return Err(invalid(InvalidApiKeyName::Character.to_string()));
            }
            let (name, scopes) = match name.split_once('[') {
                None => (name, ApiScopes::default()),
                Some((name, scopes)) => {
                    let scopes =
                        scopes.strip_suffix(']').ok_or_else(|| invalid("`]` is missing".to_owned()))?;
                    let scopes: Result<ApiScopes, _> =
                        scopes.split('+').map(str::parse::<ApiScope>).collect();
                    (name, scopes.map_err(|error| invalid(error.to_string()))?)
                }
            };
            let name = ApiKeyName::new(name).map_err(|error| invalid(error.to_string()))?;
            let secret = ApiKeySecret::parse(secret)
                .map_err(|error| invalid(format!("the key of `{name}` cannot be used: {error}")))?;
            if keys.iter().any(|key| key.secret == secret) {
                return Err(invalid(format!("the key of `{name}` is also another entry's")));
            }
            keys.push(ConfiguredApiKey { name, scopes, secret });
        }
        Ok(keys)
    }

    fn show(&self, value: &Self::Value) -> String {
        self.json(value).to_string()
    }

    fn show_wrong(&self, _: GivenValue<'_>) -> String {
        HIDDEN.to_owned()
    }

    fn json(&self, value: &Self::Value) -> Json {
        let scopes = |key: &ConfiguredApiKey| key.scopes.to_string().replace(',', "+");
        value.iter().map(|key| Json::from(format!("{}[{}]:{HIDDEN}", key.name, scopes(key)))).collect()
    }

    fn allowed(&self) -> String {
        "a list of `name:key` or `name[scope+scope]:key`; a key has at least 16 characters and no comma"
            .to_owned()
    }

    fn shape(&self) -> FlagShape {
        FlagShape::None
    }
}

/// Stands for a key.
const HIDDEN: &str = "***";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::value_type::tests::{text, toml};

    /// Keys are read from a variable and from TOML, with the default scopes or their own, and never shown.
    #[test]
    fn configured_keys_are_read_and_masked() {
        let keys = text(&ApiKeys, "ann:0123456789abcdef, ops[admin+watch]:fedcba:9876543210").unwrap();
        assert_eq!(keys[0].name.as_str(), "ann");
        assert_eq!(keys[0].scopes, ApiScopes::default());
        assert_eq!(keys[1].secret.reveal(), "fedcba:9876543210");
        assert_eq!(keys[1].scopes.to_string(), "watch,admin");
        assert_eq!(ApiKeys.show(&keys), r#"["ann[browse+watch+control]:***","ops[watch+admin]:***"]"#);
        assert!(!format!("{keys:?}").contains("0123456789"));
        assert_eq!(toml(&ApiKeys, r#"["ann:0123456789abcdef"]"#).unwrap(), keys[..1]);
        assert_eq!(text(&ApiKeys, "").unwrap(), []);
    }

    /// A wrong entry is refused by its number, without the key in the message.
    #[test]
    fn wrong_configured_keys_are_refused() {
        for (wrong, says) in [
            ("0123456789abcdef", "entry 1: it has no colon"),
            ("ann:short-key", "entry 1: the key of `ann` cannot be used: it has fewer than 16"),
            ("local:0123456789abcdef", "no key can be named `local`"),
            ("https://issuer#sub:0123456789abcdef", "the name of a key has letters"),
            ("issuer#sub:0123456789abcdef", "the name of a key has letters"),
            ("ann[:0123456789abcdef", "`]` is missing"),
            ("ann[root]:0123456789abcdef", "no such scope: `root`"),
            ("ann[]:0123456789abcdef", "no such scope"),
            ("a:0123456789abcdef,b:0123456789abcdef", "entry 2: the key of `b` is also another entry's"),
            ("ann:grm_0123456789abcdef", "is not a whole key"),
        ] {
            let InvalidValue(why) = text(&ApiKeys, wrong).unwrap_err();
            let why = why.unwrap();
            assert!(why.contains(says), "{wrong}: {why}");
            assert!(!why.contains("0123456789abcdef") && !why.contains("short-key"), "{why}");
        }
    }
}
