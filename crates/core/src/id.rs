//! Identifiers. Each is its own type, so that an owner cannot be passed where a session is meant.

use std::{fmt, sync::Arc, time::SystemTime};

use serde::Serialize;

use crate::uid;

/// The longest session id, in bytes. Long enough for any URL-like or composed id that an agent invents,
/// short enough that a table of ids stays readable and a hostile id costs nothing.
pub const SESSION_ID_BYTES_MAX: usize = 256;

/// Who a request belongs to: an API key's name, or `local` without authentication.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Owner(Arc<str>);

impl Owner {
    /// The owner of everything that comes over stdio.
    pub fn local() -> Self {
        Self(Arc::from("local"))
    }

    pub fn new(name: &str) -> Self {
        Self(Arc::from(name))
    }

    pub fn is_local(&self) -> bool {
        &*self.0 == "local"
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id that an agent gives its session: any non-empty string of at most [`SESSION_ID_BYTES_MAX`] bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct SessionId(Arc<str>);

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSessionId {
    #[error("sessionId is empty: give any text of 1 to {SESSION_ID_BYTES_MAX} bytes")]
    Empty,
    #[error("sessionId is too long: {0} bytes, at most {SESSION_ID_BYTES_MAX} are allowed")]
    TooLong(usize),
}

impl SessionId {
    pub fn new(text: &str) -> Result<Self, InvalidSessionId> {
        match text.len() {
            0 => Err(InvalidSessionId::Empty),
            bytes if bytes > SESSION_ID_BYTES_MAX => Err(InvalidSessionId::TooLong(bytes)),
            _ => Ok(Self(Arc::from(text))),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Identifies one session for good: unlike the id that an agent gives its session, a UUID is never used again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct SessionUid(Arc<str>);

impl SessionUid {
    /// A new UUID, made of the time and random bytes.
    pub fn new(at: SystemTime, random: [u8; 16]) -> Self {
        Self(uid::new(at, random))
    }

    pub fn parse(text: &str) -> Option<Self> {
        uid::parse(text).map(Self)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One transport connection of an agent. A connection is not a session, but has one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct ConnectionId(pub u64);

impl ConnectionId {
    /// A new id, made of 64 random bits. It keeps 48 of them, because people read it and JavaScript reads larger
    /// integers inexactly. Among a million connections two hardly ever get the same id.
    pub fn from_random(bits: u64) -> Self {
        Self(bits >> 16)
    }

    /// The name of the connection's own session in records and lists: `#7`. No agent may give a session such a name.
    pub fn session_name(self) -> String {
        format!("#{}", self.0)
    }

    /// Whether `name` is the name of a connection's own session.
    pub fn is_session_name(name: &str) -> bool {
        let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
        name.strip_prefix('#').is_some_and(is_number)
    }
}

/// An instance's number within its pool. A new instance may get the number of one that has left the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct InstanceId(pub u32);

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limits count an id's bytes, not its characters, and both limits are exact.
    #[test]
    fn session_ids_have_1_to_256_bytes() {
        assert_eq!(SessionId::new(""), Err(InvalidSessionId::Empty));
        assert!(SessionId::new(&"x".repeat(256)).is_ok());
        assert_eq!(SessionId::new(&"x".repeat(257)), Err(InvalidSessionId::TooLong(257)));
        assert_eq!(SessionId::new(&"ä".repeat(129)), Err(InvalidSessionId::TooLong(258)));
        assert!(SessionId::new(" \n").is_ok(), "any text is an id");
    }

    /// Only a number sign and a number, as greenroom writes it, names a connection's own session.
    #[test]
    fn connection_names_are_a_number_sign_and_a_number() {
        for name in [ConnectionId(7).session_name().as_str(), "#0", "#007", "#99999999999999999999999"] {
            assert!(ConnectionId::is_session_name(name), "{name}");
        }
        for name in ["", "#", "7", "#a", "#7a", "##7", " #7", "# 7", "#٧", "#general"] {
            assert!(!ConnectionId::is_session_name(name), "{name}");
        }
    }
}
