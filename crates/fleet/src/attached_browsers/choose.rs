//! Which attached browser a call means. If one browser is attached, a call must not name it; if several are, a call must
//! name one. The fleet never guesses.

use std::{collections::BTreeMap, sync::Arc};

use greenroom_core::{excerpt::echoed, plural};

use super::RegisteredBrowser;

/// Why no browser was chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotChosen {
    /// One browser is attached, and the call names it.
    #[error("browserIndex must NOT be specified when only one browser is connected")]
    OnlyOne,
    /// Several browsers are attached, and the call names none.
    #[error("browserIndex parameter is required when multiple browsers are connected")]
    Required { known: Vec<String> },
    #[error("no such browser: \"{}\"; {}", echoed(.name), plural::there(.known))]
    Unknown { name: String, known: Vec<String> },
    #[error("no browser is attached: browserIndex must NOT be specified")]
    NoneAttached,
    /// There is nothing to choose from, not even a pool.
    #[error("there is no browser: none is attached, and no pool is declared")]
    Nowhere,
    #[error("`browser_pool` and `browserIndex` name two places: give one of them")]
    Both,
}

pub(super) fn choose<'a>(
    entries: &'a BTreeMap<u32, Arc<RegisteredBrowser>>,
    given: Option<&str>,
) -> Result<&'a Arc<RegisteredBrowser>, NotChosen> {
    match (entries.len(), entries.values().next(), given) {
        (0, _, _) | (_, None, _) => Err(NotChosen::NoneAttached),
        (1, Some(_), Some(_)) => Err(NotChosen::OnlyOne),
        (1, Some(only), None) => Ok(only),
        (_, _, None) => Err(NotChosen::Required { known: known(entries) }),
        (_, _, Some(name)) => find(entries, name),
    }
}

pub(super) fn find<'a>(
    entries: &'a BTreeMap<u32, Arc<RegisteredBrowser>>,
    name: &str,
) -> Result<&'a Arc<RegisteredBrowser>, NotChosen> {
    let unknown = || NotChosen::Unknown { name: name.to_owned(), known: known(entries) };
    entries.values().find(|entry| entry.name().is(name)).ok_or_else(unknown)
}

/// Index and label of each browser.
fn known(entries: &BTreeMap<u32, Arc<RegisteredBrowser>>) -> Vec<String> {
    let name = |entry: &Arc<RegisteredBrowser>| match &entry.settings.label {
        Some(label) => format!("{} (\"{label}\")", entry.index),
        None => entry.index.to_string(),
    };
    entries.values().map(name).collect()
}
