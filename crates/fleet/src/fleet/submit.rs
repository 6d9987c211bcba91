//! How a call reaches its session, and how a session leaves the registry.
//!
//! Looking a session up and queueing a call happen under one lock, and so does leaving the registry. A call
//! therefore reaches a session that will answer it, or makes a new one; it is never lost between the two.

use std::{sync::Arc, time::SystemTime};

use greenroom_core::{Owner, SessionUid, record::SessionRef};
use parking_lot::MutexGuard;
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Inner, SessionKey};
use crate::{
    error::FleetError,
    registry::{Key, Registry},
    session::{Ended, Flight, Handle, Home, Job, Note, QUEUE, SessionTask, Shared, panicked},
    target::Target,
};

/// How records refer to a session that begins now.
fn session_ref(key: &Key, home: &Home) -> Option<SessionRef> {
    let uid = SessionUid::new(SystemTime::now(), Uuid::new_v4().into_bytes());
    Some(SessionRef { uid, name: key.name()?, pool: home.pool.name.clone() })
}

impl Inner {
    pub(super) fn lock(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock()
    }

    /// The registry's key, and the error for when it is not there.
    pub(super) fn key_of(&self, owner: &Owner, whose: &SessionKey) -> Result<(Key, FleetError), FleetError> {
        match whose {
            SessionKey::Named(id) => {
                Ok((Key::Named(owner.clone(), id.clone()), FleetError::NoSession(id.clone())))
            }
            SessionKey::Connection(id) => {
                Ok((Key::Connection(owner.clone(), *id), FleetError::NoConnectionSession))
            }
            SessionKey::Ephemeral => Err(FleetError::NoConnectionSession),
        }
    }

    pub(super) fn submit(
        self: &Arc<Self>,
        owner: &Owner,
        whose: SessionKey,
        target: &Target,
        job: impl FnOnce(Flight) -> Job,
    ) -> Result<(), FleetError> {
        self.check_open()?;
        let mut registry = self.lock();
        let key = match whose {
            SessionKey::Named(id) => Key::Named(owner.clone(), id),
            SessionKey::Connection(id) => Key::Connection(owner.clone(), id),
            SessionKey::Ephemeral => registry.loose(owner),
        };
        let home = match registry.sessions.get(&key) {
            Some(handle) => {
                self.check_home(&key, handle, target)?;
                handle.home.clone()
            }
            // The successor of an ended session lives where that one did, unless the call names another place.
            None => match self.last_home(&registry, &key).filter(|_| *target == Target::default()) {
                Some(home) => home,
                None => self.home(owner, target)?,
            },
        };
        self.submit_to(&mut registry, &key, home, job)
    }

    /// Whether the fleet still accepts calls. Calls accepted before are carried out, in another session if need be.
    pub(super) fn check_open(&self) -> Result<(), FleetError> {
        let over = self.closing.is_cancelled() || self.draining.is_cancelled();
        if over { Err(FleetError::ShuttingDown) } else { Ok(()) }
    }

    /// Queues a job in a session, which is made at this home if it does not exist.
    pub(super) fn submit_to(
        self: &Arc<Self>,
        registry: &mut Registry,
        key: &Key,
        home: Home,
        job: impl FnOnce(Flight) -> Job,
    ) -> Result<(), FleetError> {
        if self.closing.is_cancelled() {
            return Err(FleetError::ShuttingDown);
        }
        if !registry.sessions.contains_key(key) {
            let handle = self.begin(registry, key, home);
            registry.sessions.insert(key.clone(), handle);
        }
        let Some(handle) = registry.sessions.get(key) else { return Err(FleetError::ShuttingDown) };
        let flight = Flight::new(&handle.shared, self.flights.token());
        handle.jobs.try_send(job(flight)).map_err(|_| FleetError::QueueFull { max: QUEUE })
    }

    /// Starts a session's task.
    fn begin(self: &Arc<Self>, registry: &mut Registry, key: &Key, home: Home) -> Handle {
        let (jobs, queue) = mpsc::channel(QUEUE);
        let (ended_sender, ended) = watch::channel(false);
        let shared = Arc::new(Shared::new(session_ref(key, &home), self.settings.max_lifetime));
        let stop = CancellationToken::new();
        let note = if home.pool.settings().local_only { Note::Reopened } else { Note::Restarted };
        let notes = registry.take_end(key).map(note).into_iter().collect();
        let life = SessionTask {
            fleet: self.clone(),
            home: home.clone(),
            key: key.clone(),
            shared: shared.clone(),
            jobs: queue,
            stop: stop.clone(),
            notes,
            abandoned: None,
            ended: ended_sender,
        };
        self.tasks.spawn(life.run());
        Handle { home, jobs, shared, stop, ended }
    }

    /// The next call in the queue. If there is none, the session leaves the registry, which keeps the unsent notes about its
    /// predecessor for its successor.
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

    /// Ends a session whose time is over, and returns whether it did. A call that was queued at the same moment keeps an
    /// idle session alive; past the session's lifetime the call goes to the successor.
    pub(crate) fn expire(
        self: &Arc<Self>,
        key: &Key,
        home: &Home,
        shared: &Arc<Shared>,
        jobs: &mut mpsc::Receiver<Job>,
    ) -> bool {
        let mut registry = self.lock();
        let (expiry, ended) = shared.expiry(&self.settings);
        let over = expiry <= Instant::now() && (jobs.is_empty() || matches!(ended, Ended::Lifetime(_)));
        if over {
            self.hand_over(&mut registry, key, home, shared, ended, jobs);
        }
        over
    }

    /// Takes a session that died between calls out of the registry. Calls that were queued at the same moment go to its
    /// successor.
    pub(crate) fn died_between_calls(
        self: &Arc<Self>,
        key: &Key,
        home: &Home,
        shared: &Arc<Shared>,
        ended: Ended,
        jobs: &mut mpsc::Receiver<Job>,
    ) {
        self.hand_over(&mut self.lock(), key, home, shared, ended, jobs);
    }

    fn hand_over(
        self: &Arc<Self>,
        registry: &mut Registry,
        key: &Key,
        home: &Home,
        shared: &Arc<Shared>,
        ended: Ended,
        jobs: &mut mpsc::Receiver<Job>,
    ) {
        tracing::info!(session = key.shown(&self.connections), why = %ended, "session ended");
        let was_closed = !registry.remove(key, shared, Some(ended));
        jobs.close();
        while let Ok(job) = jobs.try_recv() {
            if was_closed {
                job.fail(self.why_closed(home));
            } else {
                // This fails only in a shutdown; the dropped job then answers its caller so.
                let _ = self.submit_to(registry, key, home.clone(), |flight| job.moved(flight));
            }
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

    /// Why a session that lived there was ordered to end.
    pub(crate) fn why_closed(&self, home: &Home) -> FleetError {
        match home.pool.kind.why_removed() {
            _ if self.closing.is_cancelled() => FleetError::ShuttingDown,
            Some(removed) => removed,
            None => FleetError::Closed,
        }
    }

    /// Why a call was dropped without an answer.
    pub(super) fn why_unanswered(&self) -> FleetError {
        if self.closing.is_cancelled() { FleetError::ShuttingDown } else { FleetError::Lost(panicked()) }
    }
}
