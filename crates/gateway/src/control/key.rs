//! A session's name in a URL. Unlike an id it is unambiguous in the whole process: it names the session's owner, and
//! says whether the session is a named one or a connection's own.
//!
//! `local:prices` is the session `prices` of the owner `local`, `local#1` the own session of its connection 1. The
//! owner is percent-encoded so that it contains neither mark; the rest after the first mark is the id. In a URL the
//! whole key is percent-encoded once more, as any text in a path is.

use std::{fmt, str::FromStr};

use greenroom_core::{ConnectionId, Owner, SessionId};
use greenroom_fleet::{SessionKey, SessionStatus};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// The characters to encode in an owner's name: both marks, and the sign that encodes them.
const OWNER: &AsciiSet = &CONTROLS.add(b':').add(b'#').add(b'%');

/// A session of any owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnedSessionKey {
    Named(Owner, SessionId),
    Connection(Owner, ConnectionId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no session has such a key")]
pub struct InvalidSessionKey;

impl OwnedSessionKey {
    /// The key of a listed session. A session without an id is a connection's own.
    pub(super) fn from_status(owner: &Owner, status: &SessionStatus) -> Option<Self> {
        match (&status.id, status.connection) {
            (Some(id), _) => Some(Self::Named(owner.clone(), id.clone())),
            (None, Some(connection)) => Some(Self::Connection(owner.clone(), connection)),
            (None, None) => None,
        }
    }

    pub(super) fn split(&self) -> (&Owner, SessionKey) {
        match self {
            Self::Named(owner, id) => (owner, SessionKey::Named(id.clone())),
            Self::Connection(owner, id) => (owner, SessionKey::Connection(*id)),
        }
    }
}

impl fmt::Display for OwnedSessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encoded = |owner: &Owner| utf8_percent_encode(&owner.to_string(), OWNER).to_string();
        match self {
            Self::Named(owner, id) => write!(f, "{}:{id}", encoded(owner)),
            Self::Connection(owner, id) => write!(f, "{}#{}", encoded(owner), id.0),
        }
    }
}

impl FromStr for OwnedSessionKey {
    type Err = InvalidSessionKey;

    fn from_str(text: &str) -> Result<Self, InvalidSessionKey> {
        let at = text.find([':', '#']).ok_or(InvalidSessionKey)?;
        let (owner, rest) = text.split_at(at);
        let owner = Owner::new(&percent_decode_str(owner).decode_utf8().map_err(|_| InvalidSessionKey)?);
        match rest.split_at(1) {
            (":", id) => Ok(Self::Named(owner, SessionId::new(id).map_err(|_| InvalidSessionKey)?)),
            (_, number) => {
                Ok(Self::Connection(owner, ConnectionId(number.parse().map_err(|_| InvalidSessionKey)?)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(owner: &str, id: &str) -> OwnedSessionKey {
        OwnedSessionKey::Named(Owner::new(owner), SessionId::new(id).unwrap())
    }

    /// Keys are readable, no two sessions have the same key whatever owner and id are, and each key parses back.
    #[test]
    fn keys_are_unambiguous() {
        assert_eq!(named("local", "prices").to_string(), "local:prices");
        assert_eq!(OwnedSessionKey::Connection(Owner::local(), ConnectionId(1)).to_string(), "local#1");
        let keys = [
            named("a", "b:c"),
            named("a:b", "c"),
            named("a#1", "c"),
            named("a%3Ab", "c"),
            named("a", "#1"),
            named("a", "1"),
            named("a", "x/y ?&=\"'\n\u{1b}ä 🍵"),
            named("ä/b", " "),
            OwnedSessionKey::Connection(Owner::new("a"), ConnectionId(1)),
            OwnedSessionKey::Connection(Owner::new("a:1"), ConnectionId(u64::MAX)),
        ];
        for (n, key) in keys.iter().enumerate() {
            let text = key.to_string();
            assert_eq!(text.parse().as_ref(), Ok(key), "{text}");
            assert!(keys.iter().skip(n + 1).all(|other| other.to_string() != text), "{text}");
        }
    }

    /// A text that is no key names no session.
    #[test]
    fn invalid_keys_are_refused() {
        for text in ["", "prices", "local:", "local#", "local#x", "local#-1", "%ff:a"] {
            assert_eq!(text.parse::<OwnedSessionKey>(), Err(InvalidSessionKey), "{text}");
        }
        assert_eq!(format!("local:{}", "x".repeat(257)).parse::<OwnedSessionKey>(), Err(InvalidSessionKey));
    }
}
