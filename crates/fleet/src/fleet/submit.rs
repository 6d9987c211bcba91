//! How a call reaches its session, and how a session leaves the registry.
//!
//! One lock covers looking a session up and queueing a call in it, and also a session's leaving the registry. A call
//! therefore reaches a session that will answer it, or makes a new one; no call is lost between the two.

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
    quota::CountedCall,
    registry::{Registry, RegistryKey},
    session::{
        CallInFlight, EndReason, Job, Note, Placement, QUEUE, SessionHandle, SessionShared, SessionTask,
        panicked,
    },
    target::CallTarget,
};

/// How records refer to a session that begins now.
fn session_ref(key: &RegistryKey, placement: &Placement) -> Option<SessionRef> {
    let uid = SessionUid::new(SystemTime::now(), Uuid::new_v4().into_bytes());
    Some(SessionRef { uid, name: key.name()?, pool: placement.pool.name.clone() })
}

impl Inner {
    pub(super) fn lock(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock()
    }

    /// A session's key in the registry, and the error for a session that is not there.
    pub(super) fn key_of(
        &self,
        owner: &Owner,
        session_key: &SessionKey,
    ) -> Result<(RegistryKey, FleetError), FleetError> {
        match session_key {
            SessionKey::Named(id) => {
                Ok((RegistryKey::Named(owner.clone(), id.clone()), FleetError::NoSession(id.clone())))
            }
            SessionKey::Connection(id) => {
                Ok((RegistryKey::Connection(owner.clone(), *id), FleetError::NoConnectionSession))
            }
            SessionKey::Ephemeral => Err(FleetError::NoConnectionSession),
        }
    }

    pub(super) fn submit(
        self: &Arc<Self>,
        owner: &Owner,
        session_key: SessionKey,
        target: &CallTarget,
        job: impl FnOnce(CallInFlight, CountedCall) -> Job,
    ) -> Result<(), FleetError> {
        self.check_open()?;
        let counted = self.admit_call(owner)?;
        let mut registry = self.lock();
        let key = match session_key {
            SessionKey::Named(id) => RegistryKey::Named(owner.clone(), id),
            SessionKey::Connection(id) => RegistryKey::Connection(owner.clone(), id),
            SessionKey::Ephemeral => registry.ephemeral_key(owner),
        };
        let placement = match registry.sessions.get(&key) {
            Some(handle) => {
                self.check_placement(&key, handle, target)?;
                handle.placement.clone()
            }
            // The successor of an ended session lives where that one did, unless the call names another pool or browser.
            None => {
                if !matches!(key, RegistryKey::Ephemeral(..)) {
                    self.check_session_limit(&registry, owner)?;
                }
                match self.last_placement(&registry, &key).filter(|_| *target == CallTarget::default()) {
                    Some(placement) => placement,
                    None => self.placement_for(owner, target)?,
                }
            }
        };
        if registry.policy(&key).is_some() {
            placement.pool.network_policy()?;
        }
        self.submit_to(&mut registry, &key, placement, |in_flight| job(in_flight, counted))
    }

    /// Counts a call of this owner, or says which of the owner's limits forbids it.
    pub(super) fn admit_call(&self, owner: &Owner) -> Result<CountedCall, FleetError> {
        self.call_counts.admit(owner, self.settings.quotas.limits(owner))
    }

    /// Whether this owner may have one more session.
    pub(super) fn check_session_limit(&self, registry: &Registry, owner: &Owner) -> Result<(), FleetError> {
        let Some(max) = self.settings.quotas.limits(owner).sessions else { return Ok(()) };
        let used = registry.sessions_of(owner);
        if used < max { Ok(()) } else { Err(FleetError::TooManySessions { used, max }) }
    }

    /// Whether the fleet still accepts calls. It carries out calls that it has accepted, in another session if need be.
    pub(super) fn check_open(&self) -> Result<(), FleetError> {
        let over = self.closing.is_cancelled() || self.draining.is_cancelled();
        if over { Err(FleetError::ShuttingDown) } else { Ok(()) }
    }

    /// Queues a job in a session, and makes the session at this placement if it does not exist.
    pub(super) fn submit_to(
        self: &Arc<Self>,
        registry: &mut Registry,
        key: &RegistryKey,
        placement: Placement,
        job: impl FnOnce(CallInFlight) -> Job,
    ) -> Result<(), FleetError> {
        if self.closing.is_cancelled() {
            return Err(FleetError::ShuttingDown);
        }
        if !registry.sessions.contains_key(key) {
            let handle = self.begin(registry, key, placement);
            registry.sessions.insert(key.clone(), handle);
        }
        let Some(handle) = registry.sessions.get(key) else { return Err(FleetError::ShuttingDown) };
        let in_flight = CallInFlight::new(&handle.shared, self.calls_in_flight.token());
        handle.jobs.try_send(job(in_flight)).map_err(|_| FleetError::QueueFull { max: QUEUE })
    }

    /// Starts a session's task.
    fn begin(
        self: &Arc<Self>,
        registry: &mut Registry,
        key: &RegistryKey,
        placement: Placement,
    ) -> SessionHandle {
        let (jobs, queue) = mpsc::channel(QUEUE);
        let (ended_sender, ended) = watch::channel(false);
        let shared = Arc::new(SessionShared::new(session_ref(key, &placement), self.settings.max_lifetime));
        let stop = CancellationToken::new();
        let note = if placement.pool.settings().local_only { Note::Reopened } else { Note::Restarted };
        let network = registry.take_policy(key);
        let notes = registry.take_end(key).map(note).into_iter().collect();
        let task = SessionTask {
            fleet: self.clone(),
            placement: placement.clone(),
            key: key.clone(),
            shared: shared.clone(),
            jobs: queue,
            stop: stop.clone(),
            notes,
            network: network.clone(),
            abandoned: None,
            interrupted: None,
            ended: ended_sender,
        };
        self.tasks.spawn(task.run());
        SessionHandle { placement, jobs, shared, network, stop, ended }
    }

    /// The next job in the queue. If there is none, the session leaves the registry; the registry keeps the unsent note
    /// about the session's predecessor for its successor.
    pub(crate) fn next_or_forget(
        &self,
        key: &RegistryKey,
        shared: &Arc<SessionShared>,
        unsent_end_note: Option<EndReason>,
        jobs: &mut mpsc::Receiver<Job>,
    ) -> Option<Job> {
        let mut registry = self.lock();
        if let Ok(job) = jobs.try_recv() {
            return Some(job);
        }
        registry.remove(key, shared, unsent_end_note);
        None
    }

    /// Ends a session whose time is over, and returns whether it did. A job that was queued at the same moment keeps an
    /// idle session alive; past the session's lifetime the job goes to the successor.
    pub(crate) fn expire(
        self: &Arc<Self>,
        key: &RegistryKey,
        placement: &Placement,
        shared: &Arc<SessionShared>,
        jobs: &mut mpsc::Receiver<Job>,
    ) -> bool {
        let mut registry = self.lock();
        let (expiry, end_reason) = shared.expiry(&self.settings);
        let over =
            expiry <= Instant::now() && (jobs.is_empty() || matches!(end_reason, EndReason::Lifetime(_)));
        if over {
            self.hand_over(&mut registry, key, placement, shared, end_reason, jobs);
        }
        over
    }

    /// Takes a session whose seat was lost between calls out of the registry. Jobs that were queued at the same moment go to its
    /// successor.
    pub(crate) fn lost_while_idle(
        self: &Arc<Self>,
        key: &RegistryKey,
        placement: &Placement,
        shared: &Arc<SessionShared>,
        end_reason: EndReason,
        jobs: &mut mpsc::Receiver<Job>,
    ) {
        self.hand_over(&mut self.lock(), key, placement, shared, end_reason, jobs);
    }

    fn hand_over(
        self: &Arc<Self>,
        registry: &mut Registry,
        key: &RegistryKey,
        placement: &Placement,
        shared: &Arc<SessionShared>,
        end_reason: EndReason,
        jobs: &mut mpsc::Receiver<Job>,
    ) {
        tracing::info!(session = key.log_name(&self.connections), why = %end_reason, "session ended");
        let was_closed = !registry.remove(key, shared, Some(end_reason));
        jobs.close();
        while let Ok(job) = jobs.try_recv() {
            if was_closed {
                job.fail(self.why_closed(placement));
            } else {
                // `submit_to` fails only during a shutdown. Dropping the job then answers its caller with
                // that error.
                let _ = self.submit_to(registry, key, placement.clone(), |in_flight| job.moved(in_flight));
            }
        }
    }

    /// Takes an ended session out of the registry and returns the jobs that still wait for it.
    pub(crate) fn forget(
        &self,
        key: &RegistryKey,
        shared: &Arc<SessionShared>,
        end_reason: Option<EndReason>,
        jobs: &mut mpsc::Receiver<Job>,
    ) -> Vec<Job> {
        let mut registry = self.lock();
        registry.remove(key, shared, end_reason);
        jobs.close();
        std::iter::from_fn(|| jobs.try_recv().ok()).collect()
    }

    /// Why the fleet ordered a session at this placement to end.
    pub(crate) fn why_closed(&self, placement: &Placement) -> FleetError {
        match placement.pool.kind.why_removed() {
            _ if self.closing.is_cancelled() => FleetError::ShuttingDown,
            Some(removed) => removed,
            None => FleetError::Closed,
        }
    }

    /// Why a call was dropped without an answer.
    pub(super) fn unanswered_error(&self) -> FleetError {
        if self.closing.is_cancelled() { FleetError::ShuttingDown } else { FleetError::Lost(panicked()) }
    }
}
