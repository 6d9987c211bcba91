//! The network policy that an agent or a program asks for a session: narrower than its pool's, never wider.
//!
//! A session's policy is one more layer that a connection must pass, so that it could not widen the pool's anyhow. But an
//! agent that asks for more than it gets must learn so before it starts: [`SessionNetwork::narrow`] refuses such a request,
//! and names the rule.

use serde::{Deserialize, Serialize};

use super::{
    policy::NetworkPolicy,
    rule::{InvalidRule, NetworkRule},
    verdict::Blocked,
};
use crate::{excerpt::echoed, settings::NetworkPreset};

/// How many rules a session may have. Its policy stays in memory as long as a successor may need it.
pub const SESSION_RULES_MAX: usize = 64;

/// What a session may reach, as its agent asks for it. Absent parts permit what the pool permits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionNetwork {
    /// `guarded`: public addresses only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// What `guarded` permits besides public addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// The session reaches nothing but these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Vec<String>>,
    /// The session does not reach these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
}

/// Why a session cannot have the policy that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionNetworkError {
    #[error("`preset` is `{}`, but only `guarded` narrows what a session may reach", echoed(.0))]
    Preset(String),
    #[error("`{}` is no rule: {why}", echoed(.rule))]
    Rule { rule: String, why: InvalidRule },
    #[error("it has {0} rules, and {SESSION_RULES_MAX} is the most")]
    TooMany(usize),
    #[error(
        "`allow` is what `guarded` permits besides public addresses: set `preset` to `guarded`, or use `only`"
    )]
    AllowWithoutGuarded,
    #[error(
        "`allow` has `{0}`, which the network policy of the pool does not allow: a session can only narrow it"
    )]
    Wider(NetworkRule),
    #[error("`only` has `{rule}`, which the network policy of the pool refuses: {why}")]
    Unreachable { rule: NetworkRule, why: Blocked },
}

impl SessionNetwork {
    /// The session's layer over its pool's policy.
    pub fn narrow(&self, pool: &NetworkPolicy) -> Result<NetworkPolicy, SessionNetworkError> {
        let lists = [self.allow.as_deref(), self.only.as_deref(), Some(&self.deny[..])];
        let count = lists.iter().flatten().map(|list| list.len()).sum();
        if count > SESSION_RULES_MAX {
            return Err(SessionNetworkError::TooMany(count));
        }
        let policy = NetworkPolicy {
            preset: self.preset(pool)?,
            allow: self.allow.as_deref().map(parse).transpose()?.unwrap_or_default(),
            only: self.only.as_deref().map(parse).transpose()?,
            deny: parse(&self.deny)?,
        };
        // A pool that is open allows what its rules do not deny.
        let is_allowed = |rule: &NetworkRule| {
            pool.preset == NetworkPreset::Open || pool.allow.iter().any(|allowed| allowed.covers(rule))
        };
        if let Some(wider) = policy.allow.iter().find(|rule| !is_allowed(rule)) {
            return Err(SessionNetworkError::Wider(wider.clone()));
        }
        for rule in policy.only.iter().flatten() {
            if let Some(why) = pool.refuses_all_of(rule) {
                return Err(SessionNetworkError::Unreachable { rule: rule.clone(), why });
            }
        }
        Ok(policy)
    }

    fn preset(&self, pool: &NetworkPolicy) -> Result<NetworkPreset, SessionNetworkError> {
        match (self.preset.as_deref(), &self.allow) {
            (Some("guarded"), _) => Ok(NetworkPreset::Guarded),
            (Some(other), _) => Err(SessionNetworkError::Preset(other.to_owned())),
            // Without a preset, `allow` is a shorter list than the pool's.
            (None, Some(_)) if pool.preset == NetworkPreset::Guarded => Ok(NetworkPreset::Guarded),
            (None, Some(_)) => Err(SessionNetworkError::AllowWithoutGuarded),
            (None, None) => Ok(NetworkPreset::Open),
        }
    }

    /// How a session's policy was asked for.
    pub fn of_policy(policy: &NetworkPolicy) -> Self {
        let texts = |rules: &[NetworkRule]| rules.iter().map(ToString::to_string).collect();
        let is_guarded = policy.preset == NetworkPreset::Guarded;
        Self {
            preset: is_guarded.then(|| policy.preset.to_string()),
            allow: (!policy.allow.is_empty()).then(|| texts(&policy.allow)),
            only: policy.only.as_deref().map(texts),
            deny: texts(&policy.deny),
        }
    }
}

fn parse(rules: &[String]) -> Result<Vec<NetworkRule>, SessionNetworkError> {
    let parsed = rules
        .iter()
        .map(|rule| rule.parse().map_err(|why| SessionNetworkError::Rule { rule: rule.clone(), why }));
    parsed.collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::network::{
        DialTarget, PolicyLayers,
        corpus_tests::{NoAddresses, NoPorts},
        verdict::{check_name, check_target},
    };

    fn policy(preset: NetworkPreset, allow: &[&str], deny: &[&str]) -> NetworkPolicy {
        let rules = |rules: &[&str]| rules.iter().map(|rule| rule.parse().unwrap()).collect();
        NetworkPolicy { preset, allow: rules(allow), deny: rules(deny), only: None }
    }

    fn request(text: &str) -> SessionNetwork {
        serde_json::from_str(text).unwrap()
    }

    fn verdict(layers: &PolicyLayers, host: &str, address: &str, port: u16) -> Result<(), Blocked> {
        let target = DialTarget { host: host.to_owned(), address: address.parse().unwrap(), port };
        check_name(host, port, layers)?;
        check_target(&target, &NoPorts, &NoAddresses, layers)
    }

    /// What a session asked for is refused or permitted, and the refusal says that it is the session's.
    #[test]
    fn sessions_narrow_what_their_pool_permits() {
        let open = NetworkPolicy::OPEN;
        let guarded = policy(NetworkPreset::Guarded, &["127.0.0.0/8", "*.intra.example"], &["bad.example"]);
        let (public, loopback) = (("a.example", "93.184.216.34"), ("localhost", "127.0.0.1"));
        for (pool, asked, (host, address), expected) in [
            (&open, r#"{}"#, loopback, Ok(())),
            (&open, r#"{"preset":"guarded"}"#, public, Ok(())),
            (&open, r#"{"preset":"guarded"}"#, loopback, Err("it has a loopback address")),
            (&open, r#"{"preset":"guarded","allow":["localhost:80"]}"#, loopback, Ok(())),
            (&open, r#"{"deny":["localhost"]}"#, loopback, Err("the rule `localhost` denies it")),
            (&open, r#"{"only":["*.example"]}"#, public, Ok(())),
            (&open, r#"{"only":["*.example"]}"#, loopback, Err("its rules do not name it")),
            (&open, r#"{"only":["127.0.0.0/8"]}"#, loopback, Ok(())),
            (&open, r#"{"only":["127.0.0.0/8"]}"#, public, Err("its rules do not name it")),
            (&open, r#"{"only":[]}"#, public, Err("its rules do not name it")),
            (&open, r#"{"only":["*"],"deny":["a.example"]}"#, public, Err("the rule `a.example` denies it")),
            (&guarded, r#"{}"#, loopback, Ok(())),
            (&guarded, r#"{"deny":["x.example"]}"#, loopback, Ok(())),
            (&guarded, r#"{"preset":"guarded"}"#, loopback, Err("it has a loopback address")),
            (&guarded, r#"{"allow":["127.0.0.1:80"]}"#, loopback, Ok(())),
            (&guarded, r#"{"allow":["127.0.0.1:81"]}"#, loopback, Err("it has a loopback address")),
            (&guarded, r#"{"allow":["x.intra.example"]}"#, public, Ok(())),
        ] {
            let layer = request(asked).narrow(pool).unwrap_or_else(|error| panic!("{asked}: {error}"));
            let layers = PolicyLayers::from(pool.clone()).narrowed(Arc::new(layer));
            let judged = verdict(&layers, host, address, 80);
            match (&judged, expected) {
                (Ok(()), Ok(())) => {}
                (Err(blocked @ Blocked::Session(_)), Err(why)) => {
                    assert!(blocked.to_string().contains(why), "{asked}: {blocked}");
                }
                other => panic!("{asked} {host}: {other:?}"),
            }
        }
    }

    /// A name that cannot be one of the few that a session may reach is refused before anything resolves it.
    #[test]
    fn other_names_are_not_resolved() {
        let layers = |asked| {
            let layer = request(asked).narrow(&NetworkPolicy::OPEN).unwrap();
            PolicyLayers::from(NetworkPolicy::OPEN).narrowed(Arc::new(layer))
        };
        assert!(check_name("b.example", 80, &layers(r#"{"only":["a.example"]}"#)).is_err());
        assert!(check_name("a.example", 80, &layers(r#"{"only":["a.example"]}"#)).is_ok());
        assert!(check_name("b.example", 80, &layers(r#"{"only":["a.example","10.0.0.0/8"]}"#)).is_ok());
    }

    /// A request that asks for more than the pool permits, or that cannot be read, is refused by name.
    #[test]
    fn wider_policies_are_refused() {
        let guarded = policy(NetworkPreset::Guarded, &["127.0.0.1", "*.intra.example:443"], &["bad.example"]);
        let many = format!(r#"{{"deny":[{}"x"]}}"#, "\"x\",".repeat(SESSION_RULES_MAX));
        for (pool, asked, expected) in [
            (&guarded, r#"{"preset":"open"}"#, "`preset` is `open`, but only `guarded` narrows"),
            (&guarded, r#"{"allow":["127.0.0.0/8"]}"#, "`allow` has `127.0.0.0/8`, which"),
            (&guarded, r#"{"allow":["*.intra.example"]}"#, "`allow` has `*.intra.example`, which"),
            (&guarded, r#"{"preset":"guarded","allow":["*"]}"#, "`allow` has `*`, which"),
            (&guarded, r#"{"only":["10.0.0.0/8"]}"#, "`only` has `10.0.0.0/8`, which"),
            (&guarded, r#"{"only":["169.254.169.254"]}"#, "cloud metadata services"),
            (&guarded, r#"{"only":["bad.example"]}"#, "the rule `bad.example` denies it"),
            (&NetworkPolicy::OPEN, r#"{"allow":["x"]}"#, "set `preset` to `guarded`, or use `only`"),
            (&NetworkPolicy::OPEN, r#"{"deny":["http://x"]}"#, "`http://x` is no rule: a rule is a host"),
            (&NetworkPolicy::OPEN, &many, "it has 65 rules, and 64 is the most"),
        ] {
            let error = request(asked).narrow(pool).unwrap_err().to_string();
            assert!(error.contains(expected), "{asked}: {error}");
        }
        for accepted in [
            r#"{"only":["127.0.0.1:3000","example.com","0.0.0.0/0"]}"#,
            r#"{"allow":["127.0.0.1:3000","a.intra.example:443"]}"#,
        ] {
            let layer = request(accepted).narrow(&guarded).unwrap();
            assert_eq!(request(accepted).narrow(&guarded), Ok(layer));
        }
        assert!(serde_json::from_str::<SessionNetwork>(r#"{"denny":["x"]}"#).is_err());
    }

    /// A policy is shown as it was asked for.
    #[test]
    fn policies_are_shown_as_requests() {
        for asked in [r#"{"preset":"guarded","allow":["a"],"deny":["b","10.0.0.0/8:80"]}"#, r#"{"only":[]}"#]
        {
            let layer = request(asked).narrow(&NetworkPolicy::OPEN).unwrap();
            assert_eq!(serde_json::to_string(&SessionNetwork::of_policy(&layer)).unwrap(), asked);
        }
    }

    const HOSTS: [&str; 4] = ["a.example", "b.example", "a.intra", "localhost"];
    const ADDRESSES: [&str; 6] =
        ["93.184.216.34", "127.0.0.1", "10.1.2.3", "::1", "::ffff:10.1.2.3", "2600::1"];
    const RULES: [&str; 12] = [
        "a.example",
        "*.example",
        "*.example:80",
        "*",
        "*:443",
        "localhost",
        "127.0.0.0/8",
        "127.0.0.1:80",
        "10.0.0.0/8",
        "10.1.2.3",
        "::1",
        "0.0.0.0/0",
    ];

    fn some_rules() -> impl Strategy<Value = Vec<String>> {
        proptest::collection::vec(proptest::sample::select(&RULES[..]).prop_map(ToOwned::to_owned), 0..4)
    }

    fn some_policy() -> impl Strategy<Value = NetworkPolicy> {
        (any::<bool>(), some_rules(), some_rules()).prop_map(|(open, allow, deny)| NetworkPolicy {
            preset: if open { NetworkPreset::Open } else { NetworkPreset::Guarded },
            allow: parse(&allow).unwrap(),
            deny: parse(&deny).unwrap(),
            only: None,
        })
    }

    fn some_request() -> impl Strategy<Value = SessionNetwork> {
        let list = || proptest::option::of(some_rules());
        (any::<bool>(), list(), list(), some_rules()).prop_map(|(guarded, allow, only, deny)| {
            SessionNetwork { preset: guarded.then(|| "guarded".to_owned()), allow, only, deny }
        })
    }

    proptest! {
        /// Whatever a session's policy permits, its pool's policy permits; and what the session allows besides public
        /// addresses, the pool allows too.
        #[test]
        fn sessions_never_widen(pool in some_policy(), asked in some_request(), port in 80_u16..82) {
            let Ok(layer) = asked.narrow(&pool) else { return Ok(()) };
            let of_pool = PolicyLayers::from(pool.clone());
            let of_session = of_pool.narrowed(Arc::new(layer.clone()));
            for host in HOSTS {
                for address in ADDRESSES {
                    let permitted = verdict(&of_session, host, address, port).is_ok();
                    let target = DialTarget {
                        host: host.to_owned(), address: address.parse().unwrap(), port,
                    };
                    if permitted {
                        prop_assert_eq!(verdict(&of_pool, host, address, port), Ok(()));
                    }
                    if pool.preset == NetworkPreset::Guarded
                        && layer.allow.iter().any(|rule| rule.matches(&target)) {
                        prop_assert!(pool.allow.iter().any(|rule| rule.matches(&target)));
                    }
                }
            }
        }
    }
}
