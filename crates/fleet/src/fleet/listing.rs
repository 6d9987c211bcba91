//! Lists of sessions, for their owners and for the operator.

use std::{
    sync::atomic::Ordering,
    time::{Duration, SystemTime},
};

use greenroom_core::{
    ConnectionId, InstanceId, Owner, SessionId, SessionUid, View, network::SessionNetwork, record::SessionRef,
};
use tokio::time::Instant;

use super::{Fleet, Inner, SessionKey};
use crate::{registry::RegistryKey, session::SessionHandle};

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionActivity {
    Starting,
    Idle,
    Busy,
}

/// A session as its owner may see it.
#[derive(Debug, Clone)]
pub struct SessionStatus {
    /// `None` for a connection's own session, which has no name.
    pub id: Option<SessionId>,
    pub connection: Option<ConnectionId>,
    /// The UUID that records use.
    pub uid: Option<SessionUid>,
    pub pool: String,
    pub instance: Option<InstanceId>,
    pub state: SessionActivity,
    pub view: View,
    pub created: SystemTime,
    pub last_used: SystemTime,
    pub calls_in_flight: usize,
    /// `None` while a call is in flight: the session cannot expire then.
    pub expires_in: Option<Duration>,
    /// What the session may reach, if that is less than its pool permits.
    pub network: Option<SessionNetwork>,
}

impl SessionStatus {
    /// What names the session among those of its owner.
    pub fn key(&self) -> Option<SessionKey> {
        let named = self.id.clone().map(SessionKey::Named);
        named.or_else(|| self.connection.map(SessionKey::Connection))
    }
}

impl Fleet {
    /// The owner's sessions, oldest first, without calls that have no session.
    pub fn list(&self, owner: &Owner) -> Vec<SessionStatus> {
        let registry = self.0.lock();
        let mut list: Vec<_> = registry
            .sessions
            .iter()
            .filter(|(key, _)| key.owner() == owner && !matches!(key, RegistryKey::Ephemeral(..)))
            .map(|(key, handle)| self.0.status(key, handle))
            .collect();
        list.sort_by_key(|status| status.created);
        list
    }

    /// The sessions of all owners, oldest first: for the operator of greenroom, never for an agent.
    pub fn list_all(&self) -> Vec<(Owner, SessionStatus)> {
        let registry = self.0.lock();
        let mut list: Vec<_> = registry
            .sessions
            .iter()
            .filter(|(key, _)| !matches!(key, RegistryKey::Ephemeral(..)))
            .map(|(key, handle)| (key.owner().clone(), self.0.status(key, handle)))
            .collect();
        list.sort_by_key(|(_, status)| status.created);
        list
    }

    /// The owner's session with this UUID in records, if it exists.
    pub fn by_uid(&self, owner: &Owner, uid: &SessionUid) -> Option<SessionKey> {
        let registry = self.0.lock();
        let is_it = |handle: &SessionHandle| {
            handle.shared.session.as_ref().is_some_and(|session| session.uid == *uid)
        };
        let mut own = registry.sessions.iter().filter(|(key, _)| key.owner() == owner);
        own.find(|(_, handle)| is_it(handle)).and_then(|(key, _)| match key {
            RegistryKey::Named(_, id) => Some(SessionKey::Named(id.clone())),
            RegistryKey::Connection(_, id) => Some(SessionKey::Connection(*id)),
            RegistryKey::Ephemeral(..) => None,
        })
    }

    /// How records refer to this session, if it exists.
    pub fn session_ref(&self, owner: &Owner, session_key: &SessionKey) -> Option<SessionRef> {
        let (key, _) = self.0.key_of(owner, session_key).ok()?;
        self.0.lock().sessions.get(&key)?.shared.session.clone()
    }

    /// The pool that this session lives in, if it exists.
    pub fn session_pool(&self, owner: &Owner, session_key: &SessionKey) -> Option<String> {
        let (key, _) = self.0.key_of(owner, session_key).ok()?;
        self.0.lock().sessions.get(&key).map(|handle| handle.placement.pool.name.to_string())
    }
}

impl Inner {
    fn status(&self, key: &RegistryKey, handle: &SessionHandle) -> SessionStatus {
        let shared = handle.shared.state();
        let calls_in_flight = handle.shared.in_flight.load(Ordering::Relaxed);
        let (expiry, _) = handle.shared.expiry(&self.settings);
        SessionStatus {
            id: if let RegistryKey::Named(_, id) = key { Some(id.clone()) } else { None },
            connection: if let RegistryKey::Connection(_, id) = key { Some(*id) } else { None },
            uid: handle.shared.session.as_ref().map(|session| session.uid.clone()),
            pool: handle.placement.pool.name.to_string(),
            instance: shared.instance,
            state: match (shared.instance, calls_in_flight) {
                (None, _) => SessionActivity::Starting,
                (Some(_), 0) => SessionActivity::Idle,
                (Some(_), _) => SessionActivity::Busy,
            },
            view: shared.view.map(|view| view.borrow().clone()).unwrap_or_default(),
            created: handle.shared.created,
            last_used: shared.last_used,
            calls_in_flight,
            expires_in: (calls_in_flight == 0).then(|| expiry.saturating_duration_since(Instant::now())),
            network: handle.network.as_deref().map(SessionNetwork::of_policy),
        }
    }
}
