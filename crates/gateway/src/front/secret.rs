//! Secrets by which a client proves that it is the one that was here before: a front that joins again, an HTTP client
//! that goes on. Numbers of connections are shown in lists, records and logs; these are never shown anywhere.
//!
//! The server looks secrets up by their SHA-256, so the time of a lookup says nothing about any of them.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// What a secret may have. Ours have 64 letters; fewer than 32 cannot hold 128 random bits in hexadecimal digits.
const BYTES: std::ops::RangeInclusive<usize> = 32..=256;

/// 244 random bits, unless somebody else chose it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

/// What a secret is known by.
pub(super) type Digest = [u8; 32];

impl Secret {
    pub fn random() -> Self {
        Self(format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple()))
    }

    /// For whoever sends it to the other end.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }

    pub(super) fn digest(&self) -> Digest {
        digest(&self.0)
    }

    /// Whether it is too short to be one, or longer than anybody needs.
    pub(super) fn is_unusable(&self) -> bool {
        !BYTES.contains(&self.0.len())
    }
}

/// What a text is known by that somebody says is a secret.
pub(super) fn digest(text: &str) -> Digest {
    Sha256::digest(text.as_bytes()).into()
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Secrets are long, differ, and show nothing of themselves where values are printed.
    #[test]
    fn secrets_are_not_shown() {
        let (one, other) = (Secret::random(), Secret::random());
        assert!(one.reveal() != other.reveal() && one.digest() != other.digest());
        assert!(one.reveal().len() == 64 && !one.is_unusable());
        assert_eq!(format!("{one:?}"), "Secret(..)");
        assert!(Secret("short".into()).is_unusable() && Secret("x".repeat(257)).is_unusable());
    }
}
