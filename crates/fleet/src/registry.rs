//! Which sessions there are, and why others ended. The registry is plain state behind the fleet's one lock. When a
//! session ends without its owner's request, the registry keeps the reason. The next session with that name takes
//! the reason, and its first answer carries it as a note.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use greenroom_core::{ConnectionId, Owner, SessionId, network::NetworkPolicy};
use tokio::sync::watch;

use crate::{
    bounded_map::BoundedMap,
    connection_names::ConnectionNames,
    pool::Pool,
    session::{EndReason, Placement, SessionHandle, SessionShared},
};

/// How many ended sessions the registry remembers for the notes of their successors, some 200 bytes each. An agent that
/// comes back after a thousand other sessions ended gets no note, only an empty page.
const ENDED_SESSIONS_MAX: usize = 1024;

/// How many network policies of ended sessions the registry remembers for their successors, some 10 KB each at most. Only
/// sessions that have one count. A successor of an older session has the policy of its pool alone.
const ENDED_POLICIES_MAX: usize = 1024;

/// A session's name in the registry. Ids live in their owner's namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum RegistryKey {
    Named(Owner, SessionId),
    Connection(Owner, ConnectionId),
    /// A call without a session: it has a slot for itself alone.
    Ephemeral(Owner, u64),
}

impl RegistryKey {
    pub(crate) fn owner(&self) -> &Owner {
        match self {
            Self::Named(owner, _) | Self::Connection(owner, _) | Self::Ephemeral(owner, _) => owner,
        }
    }

    /// The session's name for its owner.
    pub(crate) fn label(&self, connections: &ConnectionNames) -> String {
        match self {
            Self::Named(_, id) => format!("session \"{id}\""),
            Self::Connection(_, id) => connections.name(*id).to_string(),
            Self::Ephemeral(_, n) => format!("call {n}"),
        }
    }

    /// The session's name in the log.
    pub(crate) fn log_name(&self, connections: &ConnectionNames) -> String {
        match self {
            Self::Named(owner, id) => format!("{owner}/{id}"),
            Self::Connection(owner, id) => format!("{owner}/{}", connections.name(*id)),
            Self::Ephemeral(owner, n) => format!("{owner}/call {n}"),
        }
    }

    /// The session's name in records; `None` for a call without a session.
    pub(crate) fn name(&self) -> Option<Arc<str>> {
        match self {
            Self::Named(_, id) => Some(id.as_str().into()),
            Self::Connection(_, id) => Some(id.session_name().into()),
            Self::Ephemeral(..) => None,
        }
    }

    /// The number of the caller that asks for a slot: a hash of the session, or of the owner if there is no session.
    pub(crate) fn caller(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        match self {
            Self::Ephemeral(owner, _) => owner.hash(&mut hasher),
            other => other.hash(&mut hasher),
        }
        hasher.finish()
    }
}

/// A session that has ended: why, and where it lived.
struct EndedSession {
    end_reason: EndReason,
    /// Where the session lived, and where its successor lives unless the call names another pool or browser.
    placement: Placement,
}

#[derive(Default)]
pub(crate) struct Registry {
    pub(crate) sessions: HashMap<RegistryKey, SessionHandle>,
    ended_sessions: BoundedMap<RegistryKey, EndedSession, ENDED_SESSIONS_MAX>,
    /// The network policies of sessions that have ended, and that their owners have not closed.
    ended_policies: BoundedMap<RegistryKey, Arc<NetworkPolicy>, ENDED_POLICIES_MAX>,
    next_ephemeral: u64,
}

impl Registry {
    /// A key for one call without a session.
    pub(crate) fn ephemeral_key(&mut self, owner: &Owner) -> RegistryKey {
        self.next_ephemeral += 1;
        RegistryKey::Ephemeral(owner.clone(), self.next_ephemeral)
    }

    /// How many sessions this owner has. Calls without a session do not count.
    pub(crate) fn sessions_of(&self, owner: &Owner) -> usize {
        let counts = |key: &&RegistryKey| key.owner() == owner && !matches!(key, RegistryKey::Ephemeral(..));
        self.sessions.keys().filter(counts).count()
    }

    /// Removes exactly this session and keeps the reason of its end under the same lock, so that no successor can
    /// begin without the note. A closed session is already out: its successor stays and gets no note, and this returns
    /// `false`.
    pub(crate) fn remove(
        &mut self,
        key: &RegistryKey,
        shared: &Arc<SessionShared>,
        end_reason: Option<EndReason>,
    ) -> bool {
        if !self.sessions.get(key).is_some_and(|handle| Arc::ptr_eq(&handle.shared, shared)) {
            return false;
        }
        if let Some(handle) = self.sessions.remove(key) {
            // Also without a reason: if the session did not open, its owner may try again by calling a tool.
            self.keep_policy(key, &handle);
            if let Some(end_reason) = end_reason {
                self.record_end(key, end_reason, handle.placement);
            }
        }
        true
    }

    /// Keeps the network policy of a session that has left the registry, for its successor.
    pub(crate) fn keep_policy(&mut self, key: &RegistryKey, handle: &SessionHandle) {
        if let Some(network) = &handle.network {
            self.ended_policies.insert(key.clone(), network.clone());
        }
    }

    /// The network policy that a session of this name has, or would have.
    pub(crate) fn policy(&self, key: &RegistryKey) -> Option<&Arc<NetworkPolicy>> {
        match self.sessions.get(key) {
            Some(handle) => handle.network.as_ref(),
            None => self.ended_policies.get(key),
        }
    }

    /// The next session of this name has this policy, and not that of an earlier one.
    pub(crate) fn set_policy(&mut self, key: &RegistryKey, network: Option<Arc<NetworkPolicy>>) {
        match network {
            Some(network) => self.ended_policies.insert(key.clone(), network),
            None => drop(self.ended_policies.remove(key)),
        }
    }

    pub(crate) fn take_policy(&mut self, key: &RegistryKey) -> Option<Arc<NetworkPolicy>> {
        self.ended_policies.remove(key)
    }

    /// Keeps the reason why a session ended, for the note to its successor. The session has left the
    /// registry.
    pub(crate) fn record_end(&mut self, key: &RegistryKey, end_reason: EndReason, placement: Placement) {
        // A call without a session has no successor.
        if !matches!(key, RegistryKey::Ephemeral(..)) {
            self.ended_sessions.insert(key.clone(), EndedSession { end_reason, placement });
        }
    }

    /// Orders every session in this browser to end and removes it from the registry: the next call with its id begins a
    /// new session, with a note. Returns receivers that resolve when each session has ended.
    pub(crate) fn end_all_in(
        &mut self,
        pool: &Arc<Pool>,
        connections: &ConnectionNames,
    ) -> Vec<watch::Receiver<bool>> {
        let lives_there = |handle: &SessionHandle| Arc::ptr_eq(&handle.placement.pool, pool);
        let ending: Vec<_> = self.sessions.extract_if(|_, handle| lives_there(handle)).collect();
        let mut ended = Vec::with_capacity(ending.len());
        for (key, handle) in ending {
            tracing::info!(session = key.log_name(connections), "session ends with its browser");
            self.keep_policy(&key, &handle);
            if let Some(browser) = pool.kind.browser() {
                self.record_end(&key, EndReason::Removed(browser), handle.placement);
            }
            handle.stop.cancel();
            ended.push(handle.ended);
        }
        ended
    }

    pub(crate) fn take_end(&mut self, key: &RegistryKey) -> Option<EndReason> {
        self.ended_sessions.remove(key).map(|session| session.end_reason)
    }

    /// Where an ended session lived.
    pub(crate) fn last_placement(&self, key: &RegistryKey) -> Option<&Placement> {
        self.ended_sessions.get(key).map(|session| &session.placement)
    }
}
