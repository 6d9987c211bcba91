//! API keys: who may use a server over the network, and for what.
//!
//! A key's name is the [`Owner`](crate::Owner) of everything that its holder makes. greenroom knows a key by the SHA-256 of its secret
//! ([`ApiKeyHash`]); it shows the secret once, when the key is made. The store keeps the entries, the gateway checks
//! requests against them, and `greenroom keys` changes them.

mod name;
mod scope;
mod secret;

use std::time::SystemTime;

pub use name::{ApiKeyName, InvalidApiKeyName, KEY_NAME_BYTES_MAX};
pub use scope::{ApiScope, ApiScopes, UnknownScope};
pub use secret::{
    ApiKeyHash, ApiKeySecret, InvalidSecret, PREFIX as SECRET_PREFIX, SECRET_BYTES_MAX, SECRET_BYTES_MIN,
};

/// One key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    pub name: ApiKeyName,
    pub hash: ApiKeyHash,
    pub scopes: ApiScopes,
    pub created: SystemTime,
    /// When the key got its current secret, if that is not the first one.
    pub rotated: Option<SystemTime>,
    /// From when on the key is not valid; `None` if it stays valid.
    pub expires: Option<SystemTime>,
    /// How many sessions its owner may have at once; `None` for the server's own limit.
    pub sessions_max: Option<usize>,
    pub revoked: Option<SystemTime>,
    /// The secret before the last rotation, if it stays valid for a while.
    pub previous: Option<PreviousSecret>,
}

/// A secret that another one has replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviousSecret {
    pub hash: ApiKeyHash,
    pub valid_until: SystemTime,
}

/// Whether a key may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiKeyState {
    Valid,
    Expired,
    Revoked,
}

impl ApiKeyState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

impl ApiKey {
    /// A key that is made now and stays valid.
    pub fn new(name: ApiKeyName, hash: ApiKeyHash, scopes: ApiScopes, created: SystemTime) -> Self {
        Self {
            name,
            hash,
            scopes,
            created,
            rotated: None,
            expires: None,
            sessions_max: None,
            revoked: None,
            previous: None,
        }
    }

    pub fn state(&self, now: SystemTime) -> ApiKeyState {
        if self.revoked.is_some() {
            ApiKeyState::Revoked
        } else if self.expires.is_some_and(|expires| expires <= now) {
            ApiKeyState::Expired
        } else {
            ApiKeyState::Valid
        }
    }

    /// The hashes by which the key is found now, each with the time from which on it is not.
    pub fn hashes(&self, now: SystemTime) -> Vec<(ApiKeyHash, Option<SystemTime>)> {
        if self.state(now) != ApiKeyState::Valid {
            return Vec::new();
        }
        let previous = self.previous.as_ref().filter(|previous| previous.valid_until > now);
        let until = |previous: &PreviousSecret| {
            let own = previous.valid_until;
            Some(self.expires.map_or(own, |expires| expires.min(own)))
        };
        let current = (self.hash, self.expires);
        std::iter::once(current).chain(previous.map(|previous| (previous.hash, until(previous)))).collect()
    }

    /// Gives the key a new secret. The old one stays valid until `grace`, if that is given. A revoked key is valid again:
    /// only an operator can do this, and the old secret, which may be known to others, is not.
    pub fn rotate(&mut self, hash: ApiKeyHash, now: SystemTime, grace: Option<SystemTime>) {
        let old = std::mem::replace(&mut self.hash, hash);
        let was_valid = self.state(now) == ApiKeyState::Valid;
        self.previous =
            grace.filter(|_| was_valid).map(|valid_until| PreviousSecret { hash: old, valid_until });
        self.rotated = Some(now);
        self.revoked = None;
    }

    /// The latest time that the entry mentions as past. A clock that shows an earlier one has been set back.
    pub fn last_change(&self) -> SystemTime {
        [Some(self.created), self.rotated, self.revoked].into_iter().flatten().max().unwrap_or(self.created)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn hash(text: &str) -> ApiKeyHash {
        ApiKeyHash::of(text)
    }

    fn key() -> ApiKey {
        ApiKey::new(ApiKeyName::new("ci").unwrap(), hash("one"), ApiScopes::default(), at(100))
    }

    /// A key is valid until its expiry, to the second, and never once it is revoked.
    #[test]
    fn keys_expire_and_are_revoked() {
        let mut key = key();
        assert_eq!(key.state(at(u64::from(u32::MAX))), ApiKeyState::Valid);
        key.expires = Some(at(200));
        assert_eq!(key.state(at(199)), ApiKeyState::Valid);
        assert_eq!(key.state(at(200)), ApiKeyState::Expired);
        assert_eq!(key.hashes(at(199)), [(hash("one"), Some(at(200)))]);
        assert_eq!(key.hashes(at(200)), []);
        key.revoked = Some(at(150));
        assert_eq!(key.state(at(151)), ApiKeyState::Revoked);
        assert_eq!(key.hashes(at(151)), []);
    }

    /// A rotated key has its new secret; the old one is valid for the grace time only, and never longer than the key.
    #[test]
    fn rotation_keeps_the_old_secret_only_if_asked() {
        let mut key = key();
        key.rotate(hash("two"), at(150), None);
        assert_eq!(key.hashes(at(150)), [(hash("two"), None)]);
        key.rotate(hash("three"), at(160), Some(at(170)));
        assert_eq!(key.hashes(at(169)), [(hash("three"), None), (hash("two"), Some(at(170)))]);
        assert_eq!(key.hashes(at(170)), [(hash("three"), None)]);
        key.expires = Some(at(165));
        assert_eq!(key.hashes(at(164))[1], (hash("two"), Some(at(165))));
        assert_eq!(key.last_change(), at(160));
    }

    /// A revoked key that is rotated is valid again, and its old secret is not, even with a grace time.
    #[test]
    fn rotation_never_revives_a_revoked_secret() {
        let mut key = key();
        key.revoked = Some(at(120));
        key.rotate(hash("two"), at(150), Some(at(1_000)));
        assert_eq!(key.hashes(at(151)), [(hash("two"), None)]);
    }
}
