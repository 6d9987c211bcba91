//! The name of a key, which is the owner of its requests.

use std::fmt;

use crate::id::Owner;

/// The longest name, in bytes: it appears in lists, records and log lines.
pub const KEY_NAME_BYTES_MAX: usize = 64;

/// The name of a key. No name is `local`, which is the owner of requests without a key; no name contains `#`, which
/// separates issuer and subject in the owners of OAuth tokens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiKeyName(Owner);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidApiKeyName {
    #[error("the name of a key has 1 to {KEY_NAME_BYTES_MAX} characters")]
    Length,
    #[error(
        "the name of a key has letters, digits and `.`, `_`, `-`, `@`, `+`, and begins with a letter or digit"
    )]
    Character,
    #[error("no key can be named `local`: that is the owner of requests without a key")]
    Local,
}

impl ApiKeyName {
    pub fn new(text: &str) -> Result<Self, InvalidApiKeyName> {
        if text.is_empty() || text.len() > KEY_NAME_BYTES_MAX {
            return Err(InvalidApiKeyName::Length);
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@' | '+');
        if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) || !text.chars().all(allowed) {
            return Err(InvalidApiKeyName::Character);
        }
        // In any case of letters: people would take `Local` for the same.
        if text.eq_ignore_ascii_case(Owner::local().as_str()) {
            return Err(InvalidApiKeyName::Local);
        }
        Ok(Self(Owner::new(text)))
    }

    /// The owner of requests with this key.
    pub fn owner(&self) -> &Owner {
        &self.0
    }

    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for ApiKeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name is neither another kind of owner's nor one that breaks a list, a log line or a header.
    #[test]
    fn names_of_keys_are_checked() {
        for fine in ["a", "ci", "ann@example.com", "team-7_b.c+d", &"x".repeat(KEY_NAME_BYTES_MAX)] {
            assert_eq!(ApiKeyName::new(fine).unwrap().as_str(), fine);
        }
        for (wrong, why) in [
            ("", InvalidApiKeyName::Length),
            (&*"x".repeat(KEY_NAME_BYTES_MAX + 1), InvalidApiKeyName::Length),
            ("local", InvalidApiKeyName::Local),
            ("LOCAL", InvalidApiKeyName::Local),
            ("https://issuer#sub", InvalidApiKeyName::Character),
            ("issuer#sub", InvalidApiKeyName::Character),
            ("a:b", InvalidApiKeyName::Character),
            ("a,b", InvalidApiKeyName::Character),
            ("a b", InvalidApiKeyName::Character),
            ("a\r\nb", InvalidApiKeyName::Character),
            ("-a", InvalidApiKeyName::Character),
            ("../a", InvalidApiKeyName::Character),
            ("\u{e4}", InvalidApiKeyName::Character),
        ] {
            assert_eq!(ApiKeyName::new(wrong), Err(why), "{wrong:?}");
        }
    }
}
