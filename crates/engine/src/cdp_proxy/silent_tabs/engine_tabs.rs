//! Which tabs are an engine's own: tabs that greenroom opened for it, that it made, that are in contexts it made, and tabs
//! that any of these opened.

use std::collections::VecDeque;

use crate::cdp_proxy::message::TargetInfo;
use parking_lot::{Mutex, MutexGuard};

#[derive(Default)]
pub(crate) struct EngineTabs(Mutex<TabList>);

/// How many of each are remembered. A session has a few; tabs that it left behind are long closed when they are forgotten.
const REMEMBERED_MAX: usize = 1_024;

#[derive(Default)]
struct TabList {
    tabs: VecDeque<String>,
    contexts: VecDeque<String>,
}

fn remember(list: &mut VecDeque<String>, id: &str) {
    if !list.iter().any(|known| known == id) {
        list.push_back(id.to_owned());
    }
    if list.len() > REMEMBERED_MAX {
        list.pop_front();
    }
}

impl EngineTabs {
    fn lock(&self) -> MutexGuard<'_, TabList> {
        self.0.lock()
    }

    pub(in crate::cdp_proxy) fn add_tab(&self, tab: &str) {
        remember(&mut self.lock().tabs, tab);
    }

    pub(super) fn add_context(&self, context: &str) {
        remember(&mut self.lock().contexts, context);
    }

    /// Adds a tab that has just appeared, if its opener or context is the engine's.
    pub(super) fn add_if_own(&self, tab: &TargetInfo) {
        let mut known = self.lock();
        let context = tab.browser_context_id.as_ref();
        let opener = tab.opener_id.as_ref();
        if context.is_some_and(|context| known.contexts.iter().any(|known| known == context))
            || opener.is_some_and(|opener| known.tabs.iter().any(|known| known == opener))
        {
            remember(&mut known.tabs, &tab.target_id);
        }
    }

    pub(super) fn contains(&self, tab: &str) -> bool {
        self.lock().tabs.iter().any(|known| known == tab)
    }

    pub(super) fn forget(&self, tab: &str) {
        self.lock().tabs.retain(|known| known != tab);
    }
}
