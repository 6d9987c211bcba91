//! Settings that say which addresses browsers may reach: rules, and the policy that results for a pool.

use serde_json::Value as Json;

use super::{
    choice::NetworkPreset,
    list::{items, split_at_commas},
    table::{Pool, Settings},
    value_type::{FlagShape, GivenValue, InvalidValue, ValueType},
};
use crate::network::{NetworkPolicy, NetworkRule};

/// How many rules a list may have. A verdict compares them one by one, some 10 ns each, so that a full list adds 10 µs to
/// a connection.
pub const NETWORK_RULES_MAX: usize = 1_000;

/// A list of rules.
pub(super) struct NetworkRules;

impl ValueType for NetworkRules {
    type Value = Vec<NetworkRule>;

    fn parse(&self, given: GivenValue<'_>) -> Result<Vec<NetworkRule>, InvalidValue> {
        let rules = items(given, |text| Ok(split_at_commas(text)))?;
        if rules.len() > NETWORK_RULES_MAX {
            let why = format!("it has {} rules, and {NETWORK_RULES_MAX} is the most", rules.len());
            return Err(InvalidValue(Some(why)));
        }
        let parsed = rules.iter().map(|rule| {
            let invalid = |error| InvalidValue(Some(format!("`{}`: {error}", rule.escape_debug())));
            rule.parse().map_err(invalid)
        });
        parsed.collect()
    }

    fn show(&self, value: &Vec<NetworkRule>) -> String {
        self.json(value).to_string()
    }

    fn json(&self, value: &Vec<NetworkRule>) -> Json {
        value.iter().map(|rule| Json::from(&**rule.text())).collect()
    }

    fn allowed(&self) -> String {
        "a list of hosts, host patterns and networks such as `intranet.example`, `*.example.com:443` or `10.0.0.0/8`"
            .to_owned()
    }

    fn shape(&self) -> FlagShape {
        FlagShape::Many("RULE".to_owned())
    }
}

impl Settings {
    /// The network policy of a pool: its own values where it has some, else those of `network`. The rules that deny add
    /// up, because a pool that adds one must not lose the others.
    pub fn network_policy(&self, pool: &Pool) -> NetworkPolicy {
        let own_deny = pool.network_deny.iter().flatten();
        NetworkPolicy {
            preset: pool.network_preset.unwrap_or_else(|| self.network_preset()),
            only: None,
            allow: pool.network_allow.as_ref().unwrap_or(&self.network.allow).clone(),
            deny: self.network.deny.iter().chain(own_deny).cloned().collect(),
        }
    }

    /// Whether requests over the network need an API key.
    pub fn has_keys(&self) -> bool {
        self.has_stored_keys || !self.server.api_keys.is_empty()
    }

    /// These settings for a process that serves its own user alone, over stdin and stdout: keys are none of its concern.
    pub fn without_keys(&self) -> Self {
        let mut settings = self.clone();
        settings.has_stored_keys = false;
        settings.server.api_keys.clear();
        settings
    }

    /// The preset of pools without their own: what `network.preset` is, or stands for if it is `auto`. A server that other machines can reach, or that serves several owners, guards
    /// its network.
    pub fn network_preset(&self) -> NetworkPreset {
        let is_shared = self.has_keys() || !self.server.listen.ip().is_loopback();
        let default = if is_shared { NetworkPreset::Guarded } else { NetworkPreset::Open };
        self.network.preset.unwrap_or(default)
    }

    /// Whether an upstream proxy of a pool gets names, which it resolves itself, instead of judged addresses.
    pub fn trusts_upstream(&self, pool: &Pool) -> bool {
        self.network.trust_upstream.unwrap_or_else(|| !self.network_policy(pool).judges_addresses())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn settings() -> Settings {
        Settings::defaults(PathBuf::from("/data"))
    }

    fn rules(rules: &[&str]) -> Vec<NetworkRule> {
        rules.iter().map(|rule| rule.parse().unwrap()).collect()
    }

    /// Without a setting the network is open on loopback, and guarded with keys and on any other address; a setting wins.
    #[test]
    fn reachable_servers_guard_their_network() {
        let mut settings = settings();
        let preset = |settings: &Settings| settings.network_policy(&settings.pool).preset;
        assert_eq!(preset(&settings), NetworkPreset::Open);
        assert!(settings.trusts_upstream(&settings.pool));
        settings.has_stored_keys = true;
        assert_eq!(preset(&settings), NetworkPreset::Guarded);
        assert_eq!(preset(&settings.without_keys()), NetworkPreset::Open);
        settings.has_stored_keys = false;
        settings.server.listen = "192.0.2.1:80".parse().unwrap();
        assert_eq!(preset(&settings), NetworkPreset::Guarded);
        assert!(!settings.trusts_upstream(&settings.pool));
        settings.network.preset = Some(NetworkPreset::Open);
        assert_eq!(preset(&settings), NetworkPreset::Open);
        settings.pool.network_preset = Some(NetworkPreset::Guarded);
        assert_eq!(preset(&settings), NetworkPreset::Guarded);
        settings.network.trust_upstream = Some(true);
        assert!(settings.trusts_upstream(&settings.pool));
    }

    /// A pool replaces the rules that allow and adds to those that deny.
    #[test]
    fn pools_add_to_denied_rules() {
        let mut settings = settings();
        settings.network.allow = rules(&["a"]);
        settings.network.deny = rules(&["b"]);
        let policy = settings.network_policy(&settings.pool);
        assert_eq!((policy.allow, policy.deny), (rules(&["a"]), rules(&["b"])));
        settings.pool.network_allow = Some(rules(&[]));
        settings.pool.network_deny = Some(rules(&["c"]));
        let policy = settings.network_policy(&settings.pool);
        assert_eq!((policy.allow, policy.deny), (rules(&[]), rules(&["b", "c"])));
    }
}
