//! How a call comes to its session, and how a session leaves.
//!
//! Looking a session up and queueing a call happen under one lock, and so does leaving the registry. A call
//! therefore reaches a session that will answer it, or makes a new one; it is never lost between the two.

use std::{
    sync::{Arc, MutexGuard, PoisonError},
    time::SystemTime,
};

use greenroom_core::{Owner, SessionUid, record::SessionRef};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Inner, Whose};
use crate::{
    browsers::NotChosen,
    error::FleetError,
    pool::Pool,
    registry::{Key, Registry},
    session::{Ended, Flight, Handle, Home, Job, Life, Note, QUEUE, Shared, panicked},
    target::Target,
};

/// What records call a session that begins now.
fn session_ref(key: &Key, home: &Home) -> Option<SessionRef> {
    let uid = SessionUid::new(SystemTime::now(), Uuid::new_v4().into_bytes());
    Some(SessionRef { uid, name: key.name()?, pool: home.pool.name.clone() })
}

impl Inner {
    pub(super) fn lock(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The registry's key, and what to say when it is not there.
    pub(super) fn key_of(&self, owner: &Owner, whose: &Whose) -> Result<(Key, FleetError), FleetError> {
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

    pub(super) fn submit(
        self: &Arc<Self>,
        owner: &Owner,
        whose: Whose,
        target: &Target,
        job: impl FnOnce(Flight) -> Job,
    ) -> Result<(), FleetError> {
        self.check_open()?;
        let mut registry = self.lock();
        let key = match whose {
            Whose::Named(id) => Key::Named(owner.clone(), id),
            Whose::Connection(id) => Key::Connection(owner.clone(), id),
            Whose::NoOne => registry.loose(owner),
        };
        let home = match registry.sessions.get(&key) {
            Some(handle) => {
                self.check_home(&key, handle, target)?;
                handle.home.clone()
            }
            // One that ended lives on where it did, unless its agent says otherwise.
            None => match registry.last_home(&key).filter(|_| *target == Target::default()) {
                Some(home) => home.still_there(),
                None => self.home(owner, target)?,
            },
        };
        self.submit_to(&mut registry, &key, home, job)
    }

    /// Whether calls are still taken on. Those that were are carried out, in another session if need be.
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
        let notes = registry.take_epitaph(key).map(Note::Restarted).into_iter().collect();
        let life = Life {
            fleet: self.clone(),
            home: home.clone(),
            key: key.clone(),
            shared: shared.clone(),
            jobs: queue,
            stop: stop.clone(),
            notes,
            ended: ended_sender,
        };
        self.tasks.spawn(life.run());
        Handle { home, jobs, shared, stop, ended }
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
        let home = registry.sessions.get(key).map(|handle| handle.home.clone());
        let was_closed = !registry.remove(key, shared, Some(ended));
        jobs.close();
        while let Ok(job) = jobs.try_recv() {
            match &home {
                // It fails only in a shutdown, which is what a dropped call says.
                Some(home) if !was_closed => {
                    let _ = self.submit_to(registry, key, home.clone(), |flight| job.moved(flight));
                }
                _ => job.fail(self.why_closed()),
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

    pub(crate) fn why_closed(&self) -> FleetError {
        if self.closing.is_cancelled() { FleetError::ShuttingDown } else { FleetError::Closed }
    }

    /// Why a call was dropped without an answer.
    pub(super) fn why_unanswered(&self) -> FleetError {
        if self.closing.is_cancelled() { FleetError::ShuttingDown } else { FleetError::Lost(panicked()) }
    }

    /// Where a new session of this owner is to live.
    pub(super) fn home(&self, owner: &Owner, target: &Target) -> Result<Home, FleetError> {
        let pool = self.pool_for(target)?;
        if pool.settings().local_only && !owner.is_local() {
            return Err(FleetError::NotYours { pool: pool.name.to_string() });
        }
        let key = target.instance.as_deref().map(|name| pool.resolve(name)).transpose()?;
        Ok(Home { pool, key })
    }

    /// A session stays where it is: whoever names another place hears where that is.
    pub(super) fn check_home(&self, key: &Key, handle: &Handle, target: &Target) -> Result<(), FleetError> {
        let Home { pool, key: bound } = &handle.home;
        let lives_in = handle.shared.state().instance.or(*bound);
        let elsewhere = || FleetError::Elsewhere {
            session: key.label(),
            pool: pool.name.to_string(),
            instance: lives_in,
        };
        if let Some(name) = &target.pool
            && self.pool(Some(name))?.name != pool.name
        {
            return Err(elsewhere());
        }
        if target.browser.is_some() && self.pool_for(target)?.name != pool.name {
            return Err(elsewhere());
        }
        match target.instance.as_deref() {
            Some(name) if Some(pool.resolve(name)?) != lives_in => Err(elsewhere()),
            _ => Ok(()),
        }
    }

    /// The pool that a call with this target begins in: the one it names, its browser's, or the default one.
    pub(super) fn pool_for(&self, target: &Target) -> Result<Arc<Pool>, FleetError> {
        match (&target.pool, &target.browser) {
            (Some(_), Some(_)) => Err(NotChosen::Both.into()),
            (Some(name), None) => self.pool(Some(name)).cloned(),
            (None, None) if self.browsers.is_empty() => self.pool(None).cloned(),
            (None, given) => Ok(self.browsers.choose(given.as_deref())?.pool.clone()),
        }
    }

    /// Every pool, those of attached browsers too.
    pub(super) fn all_pools(&self) -> Vec<Arc<Pool>> {
        self.pools.iter().cloned().chain(self.browsers.pools()).collect()
    }

    /// The pool of this name; the default one, if none is named.
    pub(super) fn pool(&self, name: Option<&str>) -> Result<&Arc<Pool>, FleetError> {
        let found = match name {
            Some(name) => self.pools.iter().find(|pool| &*pool.name == name),
            None => self.pools.first(),
        };
        found.ok_or_else(|| FleetError::NoPool {
            name: name.unwrap_or_default().to_owned(),
            known: self.pools.iter().map(|pool| pool.name.to_string()).collect(),
        })
    }

    /// Adds to a lease that came too late who holds what was waited for, as far as its owner may know.
    pub(crate) fn with_holders(&self, error: FleetError, home: &Home, owner: &Owner) -> FleetError {
        let FleetError::Lease(mut late) = error else { return error };
        let registry = self.lock();
        let holding = registry.sessions.iter().filter(|(_, handle)| {
            let instance = handle.shared.state().instance;
            handle.home.pool.name == home.pool.name
                && instance.is_some()
                && home.key.is_none_or(|key| instance == Some(key))
        });
        let (own, others): (Vec<_>, Vec<_>) = holding.partition(|(key, _)| key.owner() == owner);
        late.holders = own.iter().map(|(key, _)| key.label()).collect();
        late.holders.sort();
        if !others.is_empty() {
            late.holders.push(format!("{} of other owners", others.len()));
        }
        late.into()
    }
}
