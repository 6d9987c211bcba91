//! What a key may be used for.

use std::{fmt, str::FromStr};

/// One permission of a key. None includes another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ApiScope {
    /// Use browsers: MCP, and calls over REST.
    Browse,
    /// Look at the owner's sessions, records and pictures.
    Watch,
    /// Close the owner's sessions.
    Control,
    /// Change pools and attached browsers, and read the server's figures.
    Admin,
}

impl ApiScope {
    pub const ALL: [Self; 4] = [Self::Browse, Self::Watch, Self::Control, Self::Admin];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Browse => "browse",
            Self::Watch => "watch",
            Self::Control => "control",
            Self::Admin => "admin",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for ApiScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no such scope: `{0}`; there are browse, watch, control and admin")]
pub struct UnknownScope(String);

impl FromStr for ApiScope {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        let known = Self::ALL.into_iter().find(|scope| scope.as_str() == text);
        known.ok_or_else(|| UnknownScope(text.chars().take(32).collect()))
    }
}

/// The permissions of a key. The default is everything that concerns the owner's own browsers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ApiScopes(u8);

impl Default for ApiScopes {
    fn default() -> Self {
        [ApiScope::Browse, ApiScope::Watch, ApiScope::Control].into_iter().collect()
    }
}

impl ApiScopes {
    /// Every permission: what a request without a key has, where none is needed.
    pub fn all() -> Self {
        ApiScope::ALL.into_iter().collect()
    }

    pub fn has(self, scope: ApiScope) -> bool {
        self.0 & scope.bit() != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether every permission of `other` is one of these.
    pub fn includes(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub fn iter(self) -> impl Iterator<Item = ApiScope> {
        ApiScope::ALL.into_iter().filter(move |scope| self.has(*scope))
    }
}

impl FromIterator<ApiScope> for ApiScopes {
    fn from_iter<I: IntoIterator<Item = ApiScope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

impl fmt::Display for ApiScopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(ApiScope::as_str).collect();
        f.write_str(&names.join(","))
    }
}

impl fmt::Debug for ApiScopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scopes read back as they are written, and none of them includes another.
    #[test]
    fn scopes_are_independent() {
        for scope in ApiScope::ALL {
            assert_eq!(scope.as_str().parse(), Ok(scope));
            let alone: ApiScopes = [scope].into_iter().collect();
            assert_eq!(alone.iter().collect::<Vec<_>>(), [scope]);
            assert!(ApiScopes::all().includes(alone));
        }
        assert!("Admin".parse::<ApiScope>().is_err() && "".parse::<ApiScope>().is_err());
        assert_eq!(ApiScopes::default().to_string(), "browse,watch,control");
        assert!(!ApiScopes::default().has(ApiScope::Admin));
        assert!(!ApiScopes::default().includes(ApiScopes::all()));
    }
}
