//! What an attached browser is called: by the index that greenroom gave it, and by the label that its operator may have.

use std::fmt;

/// An attached browser in messages.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BrowserName {
    pub index: u32,
    pub label: Option<String>,
}

impl BrowserName {
    /// Whether a call means this browser by that.
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

/// Whether a browser may be called so: a number would be taken for an index.
pub(super) fn is_label(label: &str) -> bool {
    !label.trim().is_empty() && !label.trim().parse::<f64>().is_ok_and(f64::is_finite)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A label is any text that nobody takes for a number.
    #[test]
    fn labels() {
        for label in ["work", "browser 2", "2nd", "infinity", "é", "-"] {
            assert!(is_label(label), "{label}");
        }
        for label in ["", " ", "1", "01", "+1", "-1", " 2 ", "1.5", "1e3"] {
            assert!(!is_label(label), "{label}");
        }
    }

    /// An index is meant by its digits alone; a label by all of it.
    #[test]
    fn names() {
        let name = BrowserName { index: 2, label: Some("work".to_owned()) };
        assert_eq!(name.to_string(), "browser 2 (\"work\")");
        assert_eq!(["2", "work"].map(|given| name.is(given)), [true; 2]);
        assert_eq!(["02", "+2", "Work", "1", ""].map(|given| name.is(given)), [false; 5]);
    }
}
