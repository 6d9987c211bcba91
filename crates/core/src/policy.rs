//! Which tools may be called. A call needs a [`Permit`], and only [`Policy::permit`] makes one.

use std::{collections::BTreeSet, sync::Arc};

use globset::{Glob, GlobSet, GlobSetBuilder};
use parking_lot::RwLock;

use crate::id::Owner;

/// The right to run one call: the call's owner and tool. The fields are private, so no other code makes a permit; the
/// fleet takes it by value, so a permit serves one call.
#[derive(Debug)]
pub struct Permit {
    owner: Owner,
    tool: String,
}

impl Permit {
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    pub fn tool(&self) -> &str {
        &self.tool
    }
}

/// Why a tool may not be called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyRefusal {
    #[error("tool \"{0}\" is switched off by `tools.deny`")]
    Denied(String),
    #[error("tool \"{0}\" is not among `tools.allow`")]
    NotAllowed(String),
    #[error("tool \"{0}\" is refused: it runs code in the engine's own process")]
    Unsafe(String),
}

/// `tools.allow`, `tools.deny` and `tools.unsafe`, compiled.
#[derive(Debug, Clone)]
pub struct Policy {
    allow: Option<GlobSet>,
    deny: GlobSet,
    /// Tools that run code in the engine's process. Engines that are added later add theirs.
    unsafe_tools: Arc<RwLock<BTreeSet<&'static str>>>,
    unsafe_allowed: bool,
}

impl Policy {
    /// An empty `allow` means all tools. Patterns are globs over tool names; the error names an invalid one.
    pub fn new(
        allow: &[String],
        deny: &[String],
        unsafe_tools: BTreeSet<&'static str>,
        unsafe_allowed: bool,
    ) -> Result<Self, globset::Error> {
        let allow = if allow.is_empty() { None } else { Some(compile(allow)?) };
        let unsafe_tools = Arc::new(RwLock::new(unsafe_tools));
        Ok(Self { allow, deny: compile(deny)?, unsafe_tools, unsafe_allowed })
    }

    /// Adds the tools of another engine that run code in its own process.
    pub fn also_unsafe(&self, tools: impl IntoIterator<Item = &'static str>) {
        self.unsafe_tools.write().extend(tools);
    }

    fn is_unsafe(&self, tool: &str) -> bool {
        self.unsafe_tools.read().contains(tool)
    }

    pub fn permit(&self, owner: &Owner, tool: &str) -> Result<Permit, PolicyRefusal> {
        if self.is_unsafe(tool) && !(self.unsafe_allowed && owner.is_local()) {
            return Err(PolicyRefusal::Unsafe(tool.to_owned()));
        }
        if self.deny.is_match(tool) {
            return Err(PolicyRefusal::Denied(tool.to_owned()));
        }
        if self.allow.as_ref().is_some_and(|allow| !allow.is_match(tool)) {
            return Err(PolicyRefusal::NotAllowed(tool.to_owned()));
        }
        Ok(Permit { owner: owner.clone(), tool: tool.to_owned() })
    }

    /// Whether this owner's tool list shows a tool.
    pub fn shows(&self, owner: &Owner, tool: &str) -> bool {
        self.permit(owner, tool).is_ok()
    }
}

fn compile(patterns: &[String]) -> Result<GlobSet, globset::Error> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(Glob::new(pattern)?);
    }
    set.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(allow: &[&str], deny: &[&str], unsafe_allowed: bool) -> Policy {
        let own = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        Policy::new(&own(allow), &own(deny), BTreeSet::from(["run_unsafe"]), unsafe_allowed).unwrap()
    }

    /// Deny beats allow, an empty allow list means all, globs match whole names.
    #[test]
    fn deny_overrides_allow() {
        let local = Owner::local();
        assert!(policy(&[], &[], false).shows(&local, "browser_click"));
        assert_eq!(
            policy(&["browser_*"], &["*_click"], false).permit(&local, "browser_click").unwrap_err(),
            PolicyRefusal::Denied("browser_click".into())
        );
        assert_eq!(
            policy(&["browser_nav*"], &[], false).permit(&local, "browser_click").unwrap_err(),
            PolicyRefusal::NotAllowed("browser_click".into())
        );
        assert!(Policy::new(&["a[".to_owned()], &[], BTreeSet::new(), false).is_err());
    }

    /// Tools that run code in the engine's process need the setting and the local owner, both.
    #[test]
    fn unsafe_tools_are_refused() {
        let refused = PolicyRefusal::Unsafe("run_unsafe".into());
        assert_eq!(policy(&[], &[], false).permit(&Owner::local(), "run_unsafe").unwrap_err(), refused);
        assert_eq!(policy(&[], &[], true).permit(&Owner::new("key"), "run_unsafe").unwrap_err(), refused);
        assert_eq!(
            policy(&[], &[], true).permit(&Owner::local(), "run_unsafe").unwrap().tool(),
            "run_unsafe"
        );
        let later = policy(&[], &[], false);
        assert!(later.shows(&Owner::local(), "other_unsafe"));
        later.also_unsafe(["other_unsafe"]);
        assert!(!later.shows(&Owner::local(), "other_unsafe"), "an engine that came later has it");
    }
}
