//! Which tabs are an engine's own: those that greenroom opened for it, those it makes, those in contexts that it made, and
//! those that these open.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::message::TargetInfo;

#[derive(Default)]
pub(super) struct Own(Mutex<Known>);

#[derive(Default)]
struct Known {
    tabs: HashSet<String>,
    contexts: HashSet<String>,
}

impl Own {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add_tab(&self, tab: &str) {
        self.lock().tabs.insert(tab.to_owned());
    }

    pub(super) fn add_context(&self, context: &str) {
        self.lock().contexts.insert(context.to_owned());
    }

    /// One that has just come, by where it came from.
    pub(super) fn meet(&self, tab: &TargetInfo) {
        let mut known = self.lock();
        let context = tab.browser_context_id.as_ref();
        let opener = tab.opener_id.as_ref();
        if context.is_some_and(|context| known.contexts.contains(context))
            || opener.is_some_and(|opener| known.tabs.contains(opener))
        {
            known.tabs.insert(tab.target_id.clone());
        }
    }

    pub(super) fn has(&self, tab: &str) -> bool {
        self.lock().tabs.contains(tab)
    }

    pub(super) fn forget(&self, tab: &str) {
        self.lock().tabs.remove(tab);
    }
}
