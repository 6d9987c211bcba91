//! What a port has refused: for the answer of the call that caused it, for the page that the browser shows, and for the
//! audit log.

use std::collections::VecDeque;

use greenroom_core::{
    network::{Blocked, rule::canonical_host},
    port::{Refusals, RefusedConnection},
};

/// How many different refusals a port remembers for the pages of its browser. A page asks right after its own refusal,
/// so only as many matter as a context loads documents at once.
const RECENT_MAX: usize = 64;

#[derive(Default)]
pub(crate) struct RefusalLog {
    unread: Refusals,
    recent: VecDeque<RefusedConnection>,
}

impl RefusalLog {
    /// Adds a refusal. Returns whether it is new among the latest ones.
    pub(crate) fn add(&mut self, refusal: &RefusedConnection) -> bool {
        self.unread.add(refusal.clone());
        let known = self.recent.len();
        self.recent.retain(|known| known != refusal);
        let is_new = self.recent.len() == known;
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(refusal.clone());
        is_new
    }

    pub(crate) fn take(&mut self) -> Refusals {
        std::mem::take(&mut self.unread)
    }

    pub(crate) fn reason(&self, host: &str, port: u16) -> Option<Blocked> {
        let host = canonical_host(host);
        let is_it =
            |refusal: &&RefusedConnection| refusal.port == port && canonical_host(&refusal.host) == host;
        self.recent.iter().rev().find(is_it).map(|refusal| refusal.reason.clone())
    }
}
