//! A line of waiters that want the same: a slot of any instance, or of one instance. The line keeps each owner's waiters
//! apart, so that the ledger can serve owners in turn.

use std::collections::{BTreeMap, BTreeSet};

use super::WaiterId;
use crate::id::Owner;

#[derive(Debug, Default)]
pub(super) struct Line {
    /// The waiters of each owner that has any, the longest waiting first.
    by_owner: BTreeMap<Owner, BTreeSet<WaiterId>>,
    len: usize,
}

impl Line {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn insert(&mut self, waiter: WaiterId) {
        let own = self.by_owner.entry(waiter.owner.clone()).or_default();
        self.len += usize::from(own.insert(waiter));
    }

    /// Takes a waiter out. Returns whether it was in the line.
    pub(super) fn remove(&mut self, waiter: &WaiterId) -> bool {
        let Some(own) = self.by_owner.get_mut(&waiter.owner) else { return false };
        let was_in_line = own.remove(waiter);
        if own.is_empty() {
            self.by_owner.remove(&waiter.owner);
        }
        self.len -= usize::from(was_in_line);
        was_in_line
    }

    /// Takes every waiter out, the longest waiting first.
    pub(super) fn take_all(&mut self) -> BTreeSet<WaiterId> {
        std::mem::take(self).by_owner.into_values().flatten().collect()
    }

    /// The longest waiting of each owner.
    pub(super) fn heads(&self) -> impl Iterator<Item = &WaiterId> {
        self.by_owner.values().filter_map(BTreeSet::first)
    }

    /// The longest waiting of each owner, and how many of that owner wait.
    pub(super) fn heads_and_counts(&self) -> impl Iterator<Item = (&WaiterId, usize)> {
        self.by_owner.values().filter_map(|own| Some((own.first()?, own.len())))
    }

    pub(super) fn contains(&self, waiter: &WaiterId) -> bool {
        self.by_owner.get(&waiter.owner).is_some_and(|own| own.contains(waiter))
    }

    /// How many waiters this owner has in the line.
    pub(super) fn len_of(&self, owner: &Owner) -> usize {
        self.by_owner.get(owner).map_or(0, BTreeSet::len)
    }

    /// How many of the owner's waiters have waited longer than this one of theirs.
    pub(super) fn ahead_of(&self, waiter: &WaiterId) -> usize {
        self.by_owner.get(&waiter.owner).map_or(0, |own| own.range(..waiter).count())
    }
}
