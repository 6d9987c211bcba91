//! The fleet: pools, and the sessions that live in them.
//!
//! [`submit`] queues calls in their sessions, [`placement`] decides where a session lives, [`listing`] lists sessions,
//! [`pool_commands`] and [`browser_commands`] list and change pools and attached browsers.

mod browser_commands;
mod listing;
mod placement;
mod pool_commands;
mod submit;

use std::{sync::Arc, time::Duration};

use greenroom_core::{
    Agent, Call, ConnectionId, Owner, Permit, SessionId, quota::Quotas, record::SessionRef,
};
use parking_lot::Mutex;
use tokio::{
    sync::{Semaphore, oneshot},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    attached_browsers::AttachedBrowsers,
    connection_names::ConnectionNames,
    error::FleetError,
    pool::{Pool, PoolSettings},
    quota::CallCounts,
    registry::{Registry, RegistryKey},
    session::{Bulk, BulkAnswers, CallAnswer, EndReason, Job, Note},
    target::{CallTarget, SessionOptions, Watcher},
};

pub use listing::{SessionActivity, SessionStatus};

#[derive(Debug, Clone)]
pub struct FleetSettings {
    /// The pools; one of them is the default pool. Empty if all browsers are attached.
    pub pools: Vec<PoolSettings>,
    /// How many instances may start at once. A start keeps a core busy.
    pub starts_max: usize,
    pub idle_timeout: Duration,
    pub max_lifetime: Option<Duration>,
    /// What each owner may use at once.
    pub quotas: Arc<dyn Quotas>,
}

/// Which session a call belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SessionKey {
    Named(SessionId),
    /// The connection's own session.
    Connection(ConnectionId),
    /// The call has no session: it gets a lease for itself alone.
    Ephemeral,
}

/// The fleet. Cheap to clone.
#[derive(Clone)]
pub struct Fleet(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) settings: FleetSettings,
    /// The default pool first.
    pools: Vec<Arc<Pool>>,
    pub(crate) browsers: AttachedBrowsers,
    registry: Mutex<Registry>,
    /// Display names of the connections that own sessions.
    pub(crate) connections: ConnectionNames,
    pub(crate) watcher: Arc<dyn Watcher>,
    /// Cancelled when the fleet accepts no more calls.
    draining: CancellationToken,
    pub(crate) closing: CancellationToken,
    /// Calls that wait or run.
    calls_in_flight: TaskTracker,
    /// The same by owner.
    call_counts: Arc<CallCounts>,
    tasks: TaskTracker,
}

impl Fleet {
    pub fn new(mut settings: FleetSettings, watcher: Arc<dyn Watcher>) -> Self {
        settings.pools.sort_by_key(|pool| !pool.is_default);
        let starts = Arc::new(Semaphore::new(settings.starts_max.max(1)));
        let made = |pool: &PoolSettings| Pool::new(pool.clone(), starts.clone(), watcher.clone(), None);
        let pools = settings.pools.iter().map(made).collect();
        Self(Arc::new(Inner {
            settings,
            pools,
            browsers: AttachedBrowsers::default(),
            registry: Mutex::default(),
            connections: ConnectionNames::default(),
            watcher,
            draining: CancellationToken::new(),
            closing: CancellationToken::new(),
            calls_in_flight: TaskTracker::new(),
            call_counts: Arc::default(),
            tasks: TaskTracker::new(),
        }))
    }

    /// The display names of this process's connections.
    pub fn connections(&self) -> &ConnectionNames {
        &self.0.connections
    }

    /// Starts the pools now instead of with the first call, and keeps spares from now on.
    pub fn start(&self) {
        self.0.pools.iter().for_each(|pool| pool.start_now());
    }

    /// Runs a call in its session, and makes the session if it does not exist. Dropping the future cancels the call: a
    /// waiting call never runs, a running call keeps its seat busy until the engine answers. Also returns notes for the
    /// session's agent.
    pub async fn call(
        &self,
        permit: Permit,
        session_key: SessionKey,
        target: CallTarget,
        call: Call,
        agent: Arc<dyn Agent>,
    ) -> Result<(CallAnswer, Vec<Note>), FleetError> {
        self.bulk(permit, session_key, target, Bulk::single(call), agent).await?.into_single()
    }

    /// Runs several calls one after the other under one lease, and no other caller's call between them. Dropping the
    /// future ends the series after the call that runs.
    pub async fn bulk(
        &self,
        permit: Permit,
        session_key: SessionKey,
        target: CallTarget,
        bulk: Bulk,
        agent: Arc<dyn Agent>,
    ) -> Result<BulkAnswers, FleetError> {
        let (reply, answers) = oneshot::channel();
        let job = |in_flight, counted| Job::new(bulk, agent, in_flight, counted, reply);
        self.0.submit(permit.owner(), session_key, &target, job)?;
        answers.await.unwrap_or_else(|_| Err(self.0.unanswered_error()))
    }

    /// Makes a session, opens its browser, and returns the session's reference in records. An id in use is an error, and so
    /// is a network policy that is wider than the pool's.
    pub async fn create(
        &self,
        permit: Permit,
        id: SessionId,
        target: CallTarget,
        options: SessionOptions,
        agent: Arc<dyn Agent>,
    ) -> Result<Option<SessionRef>, FleetError> {
        self.0.check_open()?;
        let (reply, opened) = oneshot::channel();
        let session = {
            // This lock keeps other tasks from removing the pool that the target names before the session has
            // begun in it.
            let mut registry = self.0.lock();
            let placement = self.0.placement_for(permit.owner(), &target)?;
            let key = RegistryKey::Named(permit.owner().clone(), id.clone());
            if registry.sessions.contains_key(&key) {
                return Err(FleetError::Exists(id));
            }
            let network = match &options.network {
                Some(asked) => Some(Arc::new(asked.narrow(&*placement.pool.network_policy()?)?)),
                None => None,
            };
            self.0.check_session_limit(&registry, permit.owner())?;
            let counted = self.0.admit_call(permit.owner())?;
            // The agent asks for a new session, so it needs no note about why the browser is empty.
            registry.take_end(&key);
            registry.set_policy(&key, network);
            let job = |in_flight| Job::new(Bulk::empty(), agent, in_flight, counted, reply);
            self.0.submit_to(&mut registry, &key, placement, job)?;
            registry.sessions.get(&key).and_then(|handle| handle.shared.session.clone())
        };
        opened.await.unwrap_or_else(|_| Err(self.0.unanswered_error()))?;
        Ok(session)
    }

    /// Ends a session now for its owner, whatever the session is doing. Returns when its seat is closed.
    pub async fn close(&self, owner: &Owner, session_key: &SessionKey) -> Result<(), FleetError> {
        self.end(owner, session_key, None).await
    }

    /// Ends a session as [`Fleet::close`] does, but without its owner's request: the next call with its id carries a note.
    pub async fn evict(&self, owner: &Owner, session_key: &SessionKey) -> Result<(), FleetError> {
        self.end(owner, session_key, Some(EndReason::Evicted)).await
    }

    async fn end(
        &self,
        owner: &Owner,
        session_key: &SessionKey,
        end_reason: Option<EndReason>,
    ) -> Result<(), FleetError> {
        let (key, missing) = self.0.key_of(owner, session_key)?;
        let why = end_reason.as_ref().map(ToString::to_string);
        let mut ended = {
            let mut registry = self.0.lock();
            registry.take_end(&key);
            registry.set_policy(&key, None);
            // Leave the registry at once: a call that arrives now makes a new session.
            let handle = registry.sessions.remove(&key).ok_or(missing)?;
            if let Some(end_reason) = end_reason {
                registry.keep_policy(&key, &handle);
                registry.record_end(&key, end_reason, handle.placement.clone());
            }
            handle.stop.cancel();
            handle.ended
        };
        tracing::info!(session = key.log_name(&self.0.connections), why, "session closed");
        let _ = ended.wait_for(|ended| *ended).await;
        Ok(())
    }

    /// Restarts a session's idle time and lifetime. Returns how long the session then has.
    pub fn renew(&self, owner: &Owner, session_key: &SessionKey) -> Result<Duration, FleetError> {
        let (key, missing) = self.0.key_of(owner, session_key)?;
        let registry = self.0.lock();
        let handle = registry.sessions.get(&key).ok_or(missing)?;
        Ok(handle.shared.renew(&self.0.settings))
    }

    /// Accepts no more calls, and waits up to `within` for the accepted ones. Returns whether all have ended.
    pub async fn drain_calls(&self, within: Duration) -> bool {
        self.0.draining.cancel();
        // Refuse callers that still wait for a browser: they would hold up the calls that run.
        self.0.all_pools().iter().for_each(|pool| pool.close_queue());
        self.0.calls_in_flight.close();
        timeout(within, self.0.calls_in_flight.wait()).await.is_ok()
    }

    /// Ends every session, pending ones too, and every instance. Returns when nothing is left.
    pub async fn shutdown(&self) {
        self.0.closing.cancel();
        self.0.browsers.close();
        self.0.all_pools().iter().for_each(|pool| pool.close_idle_seats());
        for handle in self.0.lock().sessions.values() {
            handle.stop.cancel();
        }
        self.0.tasks.close();
        self.0.tasks.wait().await;
        let mut ending = tokio::task::JoinSet::new();
        for pool in self.0.all_pools() {
            ending.spawn(async move { pool.shutdown().await });
        }
        while ending.join_next().await.is_some() {}
    }
}
