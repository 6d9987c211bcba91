//! Protocol revisions: those that begin with a handshake, 2024-11-05 to 2025-11-25, and the stateless one, 2026-07-28.

/// The revision without a handshake: every request names its client, capabilities and revision.
pub const STATELESS: &str = "2026-07-28";

/// Every revision that greenroom speaks, newest first.
pub const SPOKEN: [&str; 5] = [STATELESS, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// A protocol revision with a handshake, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Revision {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
}

impl Revision {
    pub const LATEST: Self = Self::V2025_11_25;
    const ALL: [Self; 4] = [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == text)
    }

    /// The revision to answer a client that asks for `text`: the same if greenroom speaks it, else the latest.
    pub fn negotiate(text: &str) -> Self {
        Self::parse(text).unwrap_or(Self::LATEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A known revision is granted, anything else is answered with the latest.
    #[test]
    fn unknown_revision_gets_the_latest() {
        assert_eq!(Revision::negotiate("2024-11-05"), Revision::V2024_11_05);
        assert_eq!(Revision::negotiate("2026-07-28"), Revision::LATEST);
        assert_eq!(Revision::negotiate(""), Revision::LATEST);
    }
}
