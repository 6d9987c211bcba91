//! The secrets of a call or a session, and the search for them in a text: in every spelling, all in one pass.

use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use greenroom_core::raw::encode;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// Replaces a secret.
pub(crate) const REDACTED: &str = "[redacted]";

/// The shortest secret that is searched for in answers. Shorter ones occur everywhere.
const SECRET_BYTES_MIN: usize = 4;

/// How many secrets a session or a call may have, and how long all their spellings may be together: more than any form
/// has, and more than the logins, cards, keys and codes of several days of use. One automaton searches for all of them
/// in one pass over a text; it takes some 12 bytes for each of their bytes, and at most some 15 ms to build.
pub(crate) const SECRETS_MAX: usize = 192;
pub(crate) const SPELLED_BYTES_MAX: usize = 256 << 10;

/// Secrets that are searched for in every text before it is recorded.
#[derive(Debug, Default)]
pub(crate) struct SecretValues {
    /// Without duplicates.
    values: Vec<String>,
    /// The length of all their spellings.
    spelled_bytes: usize,
    /// Whether there are more than [`SECRETS_MAX`], or their spellings are longer than [`SPELLED_BYTES_MAX`]: then no
    /// text is recorded, as any part of a text may be a secret.
    is_too_many: bool,
    /// Finds them; built when it is first needed.
    finder: OnceLock<Option<AhoCorasick>>,
}

impl Clone for SecretValues {
    /// Without the finder, which takes far more memory: it lives only as long as the call that needed it.
    fn clone(&self) -> Self {
        let Self { values, spelled_bytes, is_too_many, finder: _ } = self;
        let values = values.clone();
        let finder = OnceLock::new();
        Self { values, spelled_bytes: *spelled_bytes, is_too_many: *is_too_many, finder }
    }
}

impl PartialEq for SecretValues {
    fn eq(&self, other: &Self) -> bool {
        (&self.values, self.is_too_many) == (&other.values, other.is_too_many)
    }
}

impl SecretValues {
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty() && !self.is_too_many
    }

    pub(crate) fn are_too_many(&self) -> bool {
        self.is_too_many
    }

    /// Adds a secret, unless it is too short to be searched for.
    pub(crate) fn add(&mut self, secret: String) {
        if self.is_too_many || secret.len() < SECRET_BYTES_MIN || self.values.contains(&secret) {
            return;
        }
        self.finder = OnceLock::new();
        // Do not compute the spellings of a secret that is too long by itself.
        let is_long = secret.len() > SPELLED_BYTES_MAX;
        let spelled: usize = if is_long { 0 } else { spellings(&secret).iter().map(String::len).sum() };
        if is_long || self.values.len() == SECRETS_MAX || self.spelled_bytes + spelled > SPELLED_BYTES_MAX {
            self.values = Vec::new();
            self.is_too_many = true;
        } else {
            self.spelled_bytes += spelled;
            self.values.push(secret);
        }
    }

    pub(crate) fn add_all(&mut self, others: &Self) {
        others.values.iter().for_each(|other| self.add(other.clone()));
        if others.is_too_many {
            self.values = Vec::new();
            self.is_too_many = true;
        }
    }

    /// Replaces the secrets in a text; all of the text if there are too many. `None` if it contains none.
    pub(crate) fn scrub(&self, text: &str) -> Option<String> {
        if self.is_too_many {
            return Some(REDACTED.to_owned());
        }
        if self.values.is_empty() {
            return None;
        }
        let finder = self.finder.get_or_init(|| {
            // If several secrets begin at one place, the longest is replaced, so that no part of it stays.
            let spellings = self.values.iter().flat_map(|secret| spellings(secret));
            // Other kinds take a kilobyte for each byte of a secret, and minutes for a secret that repeats a letter.
            let kind = Some(AhoCorasickKind::ContiguousNFA);
            AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).kind(kind).build(spellings).ok()
        });
        let Some(finder) = finder else { return Some(REDACTED.to_owned()) };
        let mut scrubbed = String::new();
        let mut copied = 0;
        for found in finder.find_iter(text) {
            scrubbed.push_str(text.get(copied..found.start())?);
            scrubbed.push_str(REDACTED);
            copied = found.end();
        }
        if copied == 0 {
            return None;
        }
        scrubbed.push_str(text.get(copied..)?);
        Some(scrubbed)
    }
}

/// The spellings of a secret in a text: as it is, in quotes as in code and snapshots, each of these in JSON, in URLs.
fn spellings(secret: &str) -> Vec<String> {
    let in_quotes = |text: &str| {
        let quoted = encode(text);
        let quoted = quoted.get();
        quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned()
    };
    let double = in_quotes(secret);
    let single = double.replace("\\\"", "\"").replace('\'', "\\'");
    let mut all: Vec<_> = [secret.to_owned(), double, single].into_iter().collect();
    all.extend(all.clone().iter().map(|text| in_quotes(text)));
    // In URLs, as forms send it.
    let in_url = utf8_percent_encode(secret, NON_ALPHANUMERIC).to_string();
    all.push(in_url.replace("%20", "+"));
    all.push(in_url);
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(secrets: &[&str]) -> SecretValues {
        let mut values = SecretValues::default();
        secrets.iter().for_each(|secret| values.add((*secret).to_owned()));
        values
    }

    /// Secrets that repeat one letter, or contain every letter, are found like any other; the automaton stays small.
    #[test]
    fn repetitive_secrets_are_found() {
        let all: String = (1..=255_u8).map(char::from).cycle().take(4_000).collect();
        for secret in ["\u{1}".repeat(4_000), "\"".repeat(6_000), all] {
            let secrets = values(&[&secret]);
            assert_eq!(secrets.scrub(&format!("a {secret} b")).as_deref(), Some("a [redacted] b"));
            let finder = secrets.finder.get().unwrap().as_ref().unwrap();
            assert!(finder.memory_usage() < 32 * SPELLED_BYTES_MAX, "{} bytes", finder.memory_usage());
            assert!(secrets.clone().finder.get().is_none(), "a session does not keep it");
        }
    }

    /// No part stays of a secret that begins with another one.
    #[test]
    fn longest_secret_is_removed_first() {
        let mut secrets = values(&[]);
        secrets.add_all(&values(&["hunter2", "hunter2 and more"]));
        assert_eq!(secrets.scrub("hunter2 and more, hunter2").unwrap(), "[redacted], [redacted]");
    }

    /// A secret is also removed from an answer that repeats it, however it is spelled there; short ones are not
    /// searched for.
    #[test]
    fn answers_are_scrubbed() {
        let mut secrets = SecretValues::default();
        secrets.add("hun\"ter2".to_owned());
        secrets.add("a".to_owned());
        assert_eq!(
            secrets.scrub(r#"fill('hun\"ter2') hun"ter2 a"#).unwrap(),
            "fill('[redacted]') [redacted] a"
        );
        assert_eq!(secrets.scrub("nothing"), None);
        let secret = values(&["hunter 2&"]);
        assert_eq!(secret.scrub("http://a/?p=hunter+2%26").unwrap(), "http://a/?p=[redacted]");
        let secrets = values(&[r#"it's "q" \"#]);
        let code = [r#"fill('it\'s "q" \\')"#, r#"fill("it's \"q\" \\")"#, r#"it's "q" \"#];
        for text in code {
            let kept = encode(&[text]);
            let scrubbed = secrets.scrub(kept.get()).unwrap();
            let read: Vec<String> = serde_json::from_str(&scrubbed).unwrap();
            assert!(read[0].contains(REDACTED) && !read[0].contains("it"), "{read:?}");
        }
    }
}
