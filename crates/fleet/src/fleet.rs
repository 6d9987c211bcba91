//! The fleet: finds the session a call belongs to, or makes it.
//!
//! Looking a session up and queueing a call happen under one lock, and so does leaving the registry. A call
//! therefore reaches a session that will answer it, or makes a new one; it is never lost between the two.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::{Duration, SystemTime},
};

use greenroom_core::{Agent, Call, ConnectionId, Engine, InstanceId, Owner, Permit, SessionId, View};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    error::FleetError,
    pool::{Pool, PoolSettings, Readiness},
    registry::{Key, Registry},
    session::{Answer, Bulk, BulkAnswer, Ended, Flight, Handle, Job, Life, Note, QUEUE, Shared, panicked},
    status::PoolStatus,
    target::{Scaled, Target},
};

#[derive(Debug, Clone)]
pub struct FleetSettings {
    pub pool: PoolSettings,
    pub call_timeout: Duration,
    pub idle_timeout: Duration,
    pub max_lifetime: Option<Duration>,
}

/// Which session a call belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Whose {
    Named(SessionId),
    /// The connection's own session.
    Connection(ConnectionId),
    /// None: a lease for this call alone.
    NoOne,
}

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    Starting,
    Idle,
    Busy,
}

/// A session as its owner may see it.
#[derive(Debug, Clone)]
pub struct SessionStatus {
    /// `None` for a session that has no name: a connection's own.
    pub id: Option<SessionId>,
    pub connection: Option<ConnectionId>,
    pub pool: String,
    pub instance: Option<InstanceId>,
    pub state: SessionState,
    pub view: View,
    pub created: SystemTime,
    pub last_used: SystemTime,
    pub calls_in_flight: usize,
    /// `None` while a call is in flight: it cannot expire then.
    pub expires_in: Option<Duration>,
}

/// The fleet. Cheap to clone.
#[derive(Clone)]
pub struct Fleet(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) settings: FleetSettings,
    pub(crate) pool: Arc<Pool>,
    registry: Mutex<Registry>,
    pub(crate) closing: CancellationToken,
    tasks: TaskTracker,
}

impl Fleet {
    pub fn new(settings: FleetSettings, engine: Arc<dyn Engine>) -> Self {
        let pool = Pool::new(settings.pool.clone(), engine);
        Self(Arc::new(Inner {
            settings,
            pool,
            registry: Mutex::default(),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }))
    }

    /// Starts the first instance now instead of with the first call, and keeps spares from now on.
    pub fn start(&self) {
        self.0.pool.start_now();
    }

    /// Runs a call in its session, which is made if it does not exist. Dropping the future is a cancellation:
    /// a call that waits is never run, one that runs keeps its seat busy until the engine answers.
    pub async fn call(
        &self,
        permit: Permit,
        whose: Whose,
        _target: Target,
        call: Call,
        agent: Arc<dyn Agent>,
    ) -> Result<Answer, FleetError> {
        let (reply, answer) = oneshot::channel();
        let owner = permit.owner().clone();
        self.0.submit(&owner, whose, |flight| Job::Call { call, agent, reply, flight })?;
        answer.await.unwrap_or_else(|_| Err(self.0.why_unanswered()))
    }

    /// Makes a session and opens its browser. An id that is in use is an error.
    pub async fn create(
        &self,
        permit: Permit,
        id: SessionId,
        _target: Target,
        agent: Arc<dyn Agent>,
    ) -> Result<(), FleetError> {
        let owner = permit.owner().clone();
        let (reply, opened) = oneshot::channel();
        {
            let mut registry = self.0.lock();
            let key = Key::Named(owner, id.clone());
            if registry.sessions.contains_key(&key) {
                return Err(FleetError::Exists(id));
            }
            // Asked for by name, an empty browser is no surprise.
            registry.take_epitaph(&key);
            self.0.submit_to(&mut registry, &key, |flight| Job::Open { agent, reply, flight })?;
        }
        opened.await.unwrap_or_else(|_| Err(self.0.why_unanswered()))
    }

    /// Ends a session now, whatever it does, as its owner wants it. Returns when its browser is gone.
    pub async fn close(&self, owner: &Owner, whose: &Whose) -> Result<(), FleetError> {
        self.end(owner, whose, None).await
    }

    /// Ends a session as [`Fleet::close`] does, but not at its owner's wish: the next call with its id is told.
    pub async fn evict(&self, owner: &Owner, whose: &Whose) -> Result<(), FleetError> {
        self.end(owner, whose, Some(Ended::Evicted)).await
    }

    async fn end(&self, owner: &Owner, whose: &Whose, epitaph: Option<Ended>) -> Result<(), FleetError> {
        let (key, missing) = self.0.key_of(owner, whose)?;
        let why = epitaph.as_ref().map(ToString::to_string);
        let mut ended = {
            let mut registry = self.0.lock();
            registry.take_epitaph(&key);
            // Out of the registry at once: a call that comes now makes a new session.
            let handle = registry.sessions.remove(&key).ok_or(missing)?;
            if let Some(epitaph) = epitaph {
                registry.bury(&key, epitaph);
            }
            handle.stop.cancel();
            handle.ended
        };
        tracing::info!(session = %key, why, "session closed");
        let _ = ended.wait_for(|ended| *ended).await;
        Ok(())
    }

    /// Starts a session's idle time and lifetime anew. Returns when it would end now.
    pub fn renew(&self, owner: &Owner, whose: &Whose) -> Result<Duration, FleetError> {
        let (key, missing) = self.0.key_of(owner, whose)?;
        let registry = self.0.lock();
        let handle = registry.sessions.get(&key).ok_or(missing)?;
        let settings = &self.0.settings;
        handle.shared.used();
        handle.shared.update(|state| {
            state.lifetime_ends = settings.max_lifetime.map(|lifetime| Instant::now() + lifetime);
        });
        handle.shared.renewed.notify_one();
        Ok(settings
            .max_lifetime
            .map_or(settings.idle_timeout, |lifetime| lifetime.min(settings.idle_timeout)))
    }

    /// The owner's sessions, oldest first. Slots that wait for a call without a session are none.
    pub fn list(&self, owner: &Owner) -> Vec<SessionStatus> {
        let registry = self.0.lock();
        let mut list: Vec<_> = registry
            .sessions
            .iter()
            .filter(|(key, _)| key.owner() == owner && !matches!(key, Key::Loose(..)))
            .map(|(key, handle)| self.0.status(key, handle))
            .collect();
        list.sort_by_key(|status| status.created);
        list
    }

    /// Everybody's sessions, oldest first: for whoever runs greenroom, never for an agent.
    pub fn list_all(&self) -> Vec<(Owner, SessionStatus)> {
        let registry = self.0.lock();
        let mut list: Vec<_> = registry
            .sessions
            .iter()
            .filter(|(key, _)| !matches!(key, Key::Loose(..)))
            .map(|(key, handle)| (key.owner().clone(), self.0.status(key, handle)))
            .collect();
        list.sort_by_key(|(_, status)| status.created);
        list
    }

    /// Whether this session exists.
    pub fn holds(&self, owner: &Owner, whose: &Whose) -> bool {
        self.0.key_of(owner, whose).is_ok_and(|(key, _)| self.0.lock().sessions.contains_key(&key))
    }

    pub async fn bulk(
        &self,
        _permit: Permit,
        _whose: Whose,
        _target: Target,
        _bulk: Bulk,
        _agent: Arc<dyn Agent>,
    ) -> Result<BulkAnswer, FleetError> {
        Err(FleetError::ShuttingDown)
    }

    pub fn pools(&self) -> Vec<PoolStatus> {
        vec![self.0.pool.status()]
    }

    pub fn pool(&self, name: &str) -> Result<PoolStatus, FleetError> {
        let known = self.pool_names();
        if known.iter().any(|known| known == name) {
            return Ok(self.0.pool.status());
        }
        Err(FleetError::NoPool { name: name.to_owned(), known })
    }

    pub fn pool_names(&self) -> Vec<String> {
        vec![self.0.settings.pool.name.clone()]
    }

    pub fn default_pool(&self) -> &str {
        &self.0.settings.pool.name
    }

    pub fn scale(&self, pool: &str, _instances: usize) -> Result<Scaled, FleetError> {
        Err(FleetError::NotFixed { pool: pool.to_owned() })
    }

    pub fn restart(&self, _pool: &str, _instance: Option<&str>) -> Result<Vec<InstanceId>, FleetError> {
        Ok(Vec::new())
    }

    pub fn drain(&self, _pool: &str, _instance: Option<&str>) -> Result<Vec<InstanceId>, FleetError> {
        Ok(Vec::new())
    }

    /// Whether the fleet can take calls.
    pub fn readiness(&self) -> Readiness {
        self.0.pool.readiness()
    }

    /// Ends every session, pending ones too, and every instance. Returns when nothing is left.
    pub async fn shutdown(&self) {
        self.0.closing.cancel();
        self.0.pool.give_up_spares();
        for handle in self.0.lock().sessions.values() {
            handle.stop.cancel();
        }
        self.0.tasks.close();
        self.0.tasks.wait().await;
        self.0.pool.shutdown().await;
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The registry's key, and what to say when it is not there.
    fn key_of(&self, owner: &Owner, whose: &Whose) -> Result<(Key, FleetError), FleetError> {
        match whose {
            Whose::Named(id) => {
                Ok((Key::Named(owner.clone(), id.clone()), FleetError::NoSession(id.clone())))
            }
            Whose::Connection(id) => {
                Ok((Key::Connection(owner.clone(), *id), FleetError::NoConnectionSession))
            }
            Whose::NoOne => Err(FleetError::NoConnectionSession),
        }
    }

    fn submit(
        self: &Arc<Self>,
        owner: &Owner,
        whose: Whose,
        job: impl FnOnce(Flight) -> Job,
    ) -> Result<(), FleetError> {
        let mut registry = self.lock();
        let key = match whose {
            Whose::Named(id) => Key::Named(owner.clone(), id),
            Whose::Connection(id) => Key::Connection(owner.clone(), id),
            Whose::NoOne => registry.take_loose(owner),
        };
        self.submit_to(&mut registry, &key, job)
    }

    fn submit_to(
        self: &Arc<Self>,
        registry: &mut Registry,
        key: &Key,
        job: impl FnOnce(Flight) -> Job,
    ) -> Result<(), FleetError> {
        if self.closing.is_cancelled() {
            return Err(FleetError::ShuttingDown);
        }
        if !registry.sessions.contains_key(key) {
            let handle = self.begin(registry, key);
            registry.sessions.insert(key.clone(), handle);
        }
        let Some(handle) = registry.sessions.get(key) else { return Err(FleetError::ShuttingDown) };
        let flight = Flight::new(&handle.shared);
        handle.jobs.try_send(job(flight)).map_err(|_| FleetError::QueueFull { max: QUEUE })
    }

    /// Starts a session's task.
    fn begin(self: &Arc<Self>, registry: &mut Registry, key: &Key) -> Handle {
        let (jobs, queue) = mpsc::channel(QUEUE);
        let (ended_sender, ended) = watch::channel(false);
        let shared = Arc::new(Shared::new(self.settings.max_lifetime));
        let stop = CancellationToken::new();
        let notes = registry.take_epitaph(key).map(Note::Restarted).into_iter().collect();
        let life = Life {
            fleet: self.clone(),
            key: key.clone(),
            shared: shared.clone(),
            jobs: queue,
            stop: stop.clone(),
            notes,
            ended: ended_sender,
        };
        self.tasks.spawn(life.run());
        Handle { jobs, shared, stop, ended }
    }

    /// The next call in the queue; with none, the session leaves the registry, and what it had to say of its
    /// predecessor is kept for its successor.
    pub(crate) fn next_or_forget(
        &self,
        key: &Key,
        shared: &Arc<Shared>,
        unsaid: Option<Ended>,
        jobs: &mut mpsc::Receiver<Job>,
    ) -> Option<Job> {
        let mut registry = self.lock();
        if let Ok(job) = jobs.try_recv() {
            return Some(job);
        }
        registry.remove(key, shared, unsaid);
        None
    }

    /// Ends a session whose time is over, and says whether it was. A call that was queued in this very moment
    /// keeps an idle session; past its lifetime it goes to the successor.
    pub(crate) fn expire(
        self: &Arc<Self>,
        key: &Key,
        shared: &Arc<Shared>,
        jobs: &mut mpsc::Receiver<Job>,
    ) -> bool {
        let mut registry = self.lock();
        let (expiry, ended) = shared.expiry(&self.settings);
        let over = expiry <= Instant::now() && (jobs.is_empty() || matches!(ended, Ended::Lifetime(_)));
        if over {
            self.hand_over(&mut registry, key, shared, ended, jobs);
        }
        over
    }

    /// Takes a session that died between calls out of the registry. Calls that were queued in this very moment
    /// go to its successor.
    pub(crate) fn died_between_calls(
        self: &Arc<Self>,
        key: &Key,
        shared: &Arc<Shared>,
        ended: Ended,
        jobs: &mut mpsc::Receiver<Job>,
    ) {
        self.hand_over(&mut self.lock(), key, shared, ended, jobs);
    }

    fn hand_over(
        self: &Arc<Self>,
        registry: &mut Registry,
        key: &Key,
        shared: &Arc<Shared>,
        ended: Ended,
        jobs: &mut mpsc::Receiver<Job>,
    ) {
        tracing::info!(session = %key, why = %ended, "session ended");
        let was_closed = !registry.remove(key, shared, Some(ended));
        jobs.close();
        while let Ok(job) = jobs.try_recv() {
            if was_closed {
                job.fail(self.why_closed());
                continue;
            }
            // It fails only in a shutdown, which is what a dropped call says.
            let _ = self.submit_to(registry, key, |flight| job.moved(flight));
        }
    }

    /// Takes an ended session out of the registry and returns the calls that still waited for it.
    pub(crate) fn forget(
        &self,
        key: &Key,
        shared: &Arc<Shared>,
        epitaph: Option<Ended>,
        jobs: &mut mpsc::Receiver<Job>,
    ) -> Vec<Job> {
        let mut registry = self.lock();
        registry.remove(key, shared, epitaph);
        jobs.close();
        std::iter::from_fn(|| jobs.try_recv().ok()).collect()
    }

    /// After a call of a loose session: it goes to the shelf, unless somebody waits for its slot.
    pub(crate) fn should_yield(&self, key: &Key, shared: &Arc<Shared>) -> bool {
        let Key::Loose(..) = key else { return false };
        let mut registry = self.lock();
        if self.pool.figures().waiting > 0 {
            registry.remove(key, shared, None);
            return true;
        }
        registry.shelf.push_back(key.clone());
        false
    }

    /// Frees the slot of the loose session that has rested longest.
    pub(crate) fn reclaim(&self) {
        let mut registry = self.lock();
        while let Some(key) = registry.shelf.pop_front() {
            if let Some(handle) = registry.sessions.remove(&key) {
                handle.stop.cancel();
                return;
            }
        }
    }

    pub(crate) fn why_closed(&self) -> FleetError {
        if self.closing.is_cancelled() { FleetError::ShuttingDown } else { FleetError::Closed }
    }

    /// Why a call was dropped without an answer.
    fn why_unanswered(&self) -> FleetError {
        if self.closing.is_cancelled() { FleetError::ShuttingDown } else { FleetError::Lost(panicked()) }
    }

    fn status(&self, key: &Key, handle: &Handle) -> SessionStatus {
        let shared = handle.shared.state();
        let calls_in_flight = handle.shared.in_flight.load(Ordering::Relaxed);
        let (expiry, _) = handle.shared.expiry(&self.settings);
        SessionStatus {
            id: if let Key::Named(_, id) = key { Some(id.clone()) } else { None },
            connection: if let Key::Connection(_, id) = key { Some(*id) } else { None },
            pool: self.settings.pool.name.clone(),
            instance: shared.instance,
            state: match (shared.instance, calls_in_flight) {
                (None, _) => SessionState::Starting,
                (Some(_), 0) => SessionState::Idle,
                (Some(_), _) => SessionState::Busy,
            },
            view: shared.view.map(|view| view.borrow().clone()).unwrap_or_default(),
            created: handle.shared.created,
            last_used: shared.last_used,
            calls_in_flight,
            expires_in: (calls_in_flight == 0).then(|| expiry.saturating_duration_since(Instant::now())),
        }
    }
}
