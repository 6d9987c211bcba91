//! The keys of an attached browser: its own, and the pool settings that apply to a running browser. A test below makes
//! the author of a new pool setting decide that, in the table of settings.

use crate::settings::{SETTINGS, key::Key, setting_macro::Setting};

/// The keys that only an attached browser has. A pool has a `url` too, with another meaning.
pub(in crate::settings) const NAMED: [&str; 5] = ["url", "label", "tags", "headers", "start_command"];

/// Whether a pool setting applies to a browser that already runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::settings) enum AppliesTo {
    Yes,
    /// Only in a context that greenroom makes: in the browser's own context the setting would reach the user's tabs.
    Isolated,
    /// Not at all, and why.
    No(&'static str),
}

/// The values of [`AppliesTo`] that the table of settings uses.
pub(in crate::settings) mod fits {
    use super::AppliesTo;

    pub const YES: Option<AppliesTo> = Some(AppliesTo::Yes);
    pub const ISOLATED: Option<AppliesTo> = Some(AppliesTo::Isolated);
    pub const RUNS: Option<AppliesTo> =
        no("it applies only when greenroom starts a browser; this one already runs");
    pub const ONE: Option<AppliesTo> = no("an attached browser is always exactly one instance");
    pub const CUSTOM: Option<AppliesTo> = no("it is the custom engine's, which attaches to no browser");

    pub const fn no(why: &'static str) -> Option<AppliesTo> {
        Some(AppliesTo::No(why))
    }
}

/// Whether the pool key `name` applies to a browser. `None` if pools have no such key.
pub(in crate::settings) fn applies_to(name: &str) -> Option<AppliesTo> {
    match Key::find(name)? {
        Key::Setting(setting) => setting.applies_to,
        Key::Instances => fits::ONE,
        Key::IsDefault => fits::no("calls choose a browser with `browserIndex`"),
        Key::Description => fits::no("`label` and `tags` say what it is"),
        Key::Alias => fits::no("its second name is its `label`"),
    }
}

/// The keys that a browser may have, its own first.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let of_pools = SETTINGS.iter().filter(|setting| setting.is_of_browsers()).map(Setting::name);
    NAMED.into_iter().chain(of_pools)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every pool setting says whether it applies to browsers, and no other setting does.
    #[test]
    fn every_pool_key_is_classified() {
        assert!(Key::all().all(|key| applies_to(key.name()).is_some()));
        assert!(SETTINGS.iter().all(|setting| setting.applies_to.is_some() == setting.is_of_pools()));
    }
}
