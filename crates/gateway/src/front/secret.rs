//! Secrets by which a known client proves who it is: a front that joins again, or an HTTP client that sends its next
//! request. Connection numbers appear in lists, records and logs; secrets never do.
//!
//! The server looks secrets up by their SHA-256, so the time of a lookup reveals nothing about them.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// The length of a secret. Ours have 64 characters; fewer than 32 cannot hold 128 random bits in hexadecimal digits.
const BYTES: std::ops::RangeInclusive<usize> = 32..=256;

/// 244 random bits, unless another program chose it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

/// The key under which the server finds a secret.
pub(super) type Digest = [u8; 32];

impl Secret {
    pub fn random() -> Self {
        Self(format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple()))
    }

    /// The secret itself, to send it to the other end.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }

    pub(super) fn digest(&self) -> Digest {
        digest(&self.0)
    }

    /// Whether the secret is too short, or longer than any front needs.
    pub(super) fn is_unusable(&self) -> bool {
        !BYTES.contains(&self.0.len())
    }
}

/// The digest of a text that a client sends as its secret.
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

    /// Secrets are long, differ, and do not appear where values are printed.
    #[test]
    fn secrets_are_not_printed() {
        let one = Secret::random();
        let other = Secret::random();
        assert!(one.reveal() != other.reveal() && one.digest() != other.digest());
        assert!(one.reveal().len() == 64 && !one.is_unusable());
        assert_eq!(format!("{one:?}"), "Secret(..)");
        assert!(Secret("short".into()).is_unusable() && Secret("x".repeat(257)).is_unusable());
    }
}
