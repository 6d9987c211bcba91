//! The name of an attached browser: the index that greenroom gave it, and the label that its operator may have given it.

use std::fmt;

/// The name of an attached browser, as messages show it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BrowserName {
    pub index: u32,
    pub label: Option<String>,
}

impl BrowserName {
    /// Whether `name` is this browser's index or label.
    pub(super) fn is(&self, name: &str) -> bool {
        self.label.as_deref() == Some(name) || self.index.to_string() == name
    }
}

impl fmt::Display for BrowserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "browser {}", self.index)?;
        match &self.label {
            Some(label) => write!(f, " (\"{label}\")"),
            None => Ok(()),
        }
    }
}

/// Whether this is a valid label. A number is not valid: the fleet could not tell it from an index.
pub(super) fn is_label(label: &str) -> bool {
    !label.trim().is_empty() && !label.trim().parse::<f64>().is_ok_and(f64::is_finite)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A label is any text that does not read as a number.
    #[test]
    fn label_is_any_text_but_a_number() {
        for label in ["work", "browser 2", "2nd", "infinity", "é", "-"] {
            assert!(is_label(label), "{label}");
        }
        for label in ["", " ", "1", "01", "+1", "-1", " 2 ", "1.5", "1e3"] {
            assert!(!is_label(label), "{label}");
        }
    }

    /// Only the exact digits match an index, and only the whole text matches a label.
    #[test]
    fn name_matches_exact_index_or_label() {
        let name = BrowserName { index: 2, label: Some("work".to_owned()) };
        assert_eq!(name.to_string(), "browser 2 (\"work\")");
        assert_eq!(["2", "work"].map(|given| name.is(given)), [true; 2]);
        assert_eq!(["02", "+2", "Work", "1", ""].map(|given| name.is(given)), [false; 5]);
    }
}
