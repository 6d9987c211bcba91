//! Which sessions there are, which loose ones rest on the shelf, and what became of those that ended. Plain state;
//! the fleet holds it behind its one lock.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::Arc,
};

use greenroom_core::{ConnectionId, Owner, SessionId};

use crate::session::{Ended, Handle, Shared};

/// How many ended sessions are remembered, so that their successors can say so. One costs some 200 bytes; an
/// agent that comes back after a thousand others ended learns from its empty page instead.
const EPITAPHS_MAX: usize = 1024;

/// A session's name in the registry. Ids live in their owner's namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Named(Owner, SessionId),
    Connection(Owner, ConnectionId),
    /// A slot lent for one call; between calls it waits for its owner's next one.
    Loose(Owner, u64),
}

impl Key {
    pub(crate) fn owner(&self) -> &Owner {
        match self {
            Self::Named(owner, _) | Self::Connection(owner, _) | Self::Loose(owner, _) => owner,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(owner, id) => write!(f, "{owner}/{id}"),
            Self::Connection(owner, id) => write!(f, "{owner}/connection {}", id.0),
            Self::Loose(owner, n) => write!(f, "{owner}/call {n}"),
        }
    }
}

#[derive(Default)]
pub(crate) struct Registry {
    pub(crate) sessions: HashMap<Key, Handle>,
    /// Loose sessions without a call, earliest returned first.
    pub(crate) shelf: VecDeque<Key>,
    epitaphs: HashMap<Key, Ended>,
    /// Keys of `epitaphs` in order, oldest first.
    epitaph_order: VecDeque<Key>,
    next_loose: u64,
}

impl Registry {
    /// The owner's loose session that was returned first, or a new one.
    pub(crate) fn take_loose(&mut self, owner: &Owner) -> Key {
        if let Some(at) = self.shelf.iter().position(|key| key.owner() == owner)
            && let Some(key) = self.shelf.remove(at)
        {
            return key;
        }
        self.next_loose += 1;
        Key::Loose(owner.clone(), self.next_loose)
    }

    /// Removes this very session and writes its epitaph in the same breath, so that no successor can begin
    /// without it. A session that was closed is out already: its successor stays, and hears nothing.
    pub(crate) fn remove(&mut self, key: &Key, shared: &Arc<Shared>, epitaph: Option<Ended>) -> bool {
        if !self.sessions.get(key).is_some_and(|handle| Arc::ptr_eq(&handle.shared, shared)) {
            return false;
        }
        self.sessions.remove(key);
        if let Key::Loose(..) = key {
            self.shelf.retain(|other| other != key);
        }
        if let Some(epitaph) = epitaph {
            self.bury(key, epitaph);
        }
        true
    }

    /// Remembers how a session ended that is out of the registry, for its successor to say.
    pub(crate) fn bury(&mut self, key: &Key, ended: Ended) {
        // A call without a session has no history to be told of.
        if let Key::Loose(..) = key {
            return;
        }
        if self.epitaphs.insert(key.clone(), ended).is_none() {
            self.epitaph_order.push_back(key.clone());
        }
        if self.epitaphs.len() > EPITAPHS_MAX
            && let Some(oldest) = self.epitaph_order.pop_front()
        {
            self.epitaphs.remove(&oldest);
        }
    }

    pub(crate) fn take_epitaph(&mut self, key: &Key) -> Option<Ended> {
        let epitaph = self.epitaphs.remove(key)?;
        self.epitaph_order.retain(|other| other != key);
        Some(epitaph)
    }
}
