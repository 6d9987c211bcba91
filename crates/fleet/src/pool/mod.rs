//! A pool: instances of one engine, and the leases on their slots.
//!
//! The ledger decides, this shell carries it out: it starts instances ([`instance`] has their lives), hands slots
//! to those who wait, and keeps spares ([`spares`], [`keeper`]). A lease is given back by dropping it, whatever happens to its
//! holder; a waiter that leaves gives back what it may just have been handed.

mod instance;
mod keeper;
mod lease;
mod spares;
mod status;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use greenroom_core::{
    Agent, Engine, InstanceId, StartError,
    lease::{Asked, Figures, Grant, Ledger, Limits, WaiterId},
};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    instance::{Entry, Phase},
    keeper::Keeping,
    lease::{Place, Promise},
    spares::Spares,
};
use crate::error::{FleetError, LeaseTimeout};

pub(crate) use self::lease::{Lease, Seeking, Slot};
pub use self::status::Readiness;

#[derive(Debug, Clone)]
pub struct PoolSettings {
    pub name: String,
    pub limits: Limits,
    pub lease_timeout: Duration,
    /// An instance without leases is stopped after this.
    pub instance_idle: Duration,
    /// How many spares are kept, once the pool has been started.
    pub warm: usize,
    /// How long the successor of a spare that was handed out waits.
    pub spare_pause: Duration,
}

pub(crate) struct Pool {
    pub(crate) settings: PoolSettings,
    engine: Arc<dyn Engine>,
    state: Mutex<State>,
    keeping: Keeping,
    closing: CancellationToken,
    tasks: TaskTracker,
}

struct State {
    ledger: Ledger,
    instances: HashMap<InstanceId, Entry>,
    waiters: HashMap<WaiterId, oneshot::Sender<InstanceId>>,
    spares: Spares,
    /// How many look for a seat now.
    seeking: usize,
    /// How the start of an instance last ended.
    last_start: Option<Result<(), StartError>>,
}

/// What a request for a slot comes to.
enum Answer {
    Lent(Lease),
    /// A spare, as soon as its seat is open. Usually it is.
    Promised(Promise),
    Wait(Place),
}

impl Pool {
    pub(crate) fn new(settings: PoolSettings, engine: Arc<dyn Engine>) -> Arc<Self> {
        let state = State {
            ledger: Ledger::new(settings.limits),
            instances: HashMap::new(),
            waiters: HashMap::new(),
            spares: Spares::default(),
            seeking: 0,
            last_start: None,
        };
        Arc::new(Self {
            settings,
            engine,
            state: Mutex::new(state),
            keeping: Keeping::default(),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn figures(&self) -> Figures {
        self.lock().ledger.figures()
    }

    /// Whether a spare is as good for this agent as a seat opened for it.
    pub(crate) fn spare_suits(&self, agent: &dyn Agent) -> bool {
        self.engine.spare_suits(agent)
    }

    /// To be held by whoever looks for a seat, until it has one.
    pub(crate) fn seek(self: &Arc<Self>) -> Seeking {
        self.lock().seeking += 1;
        Seeking(self.clone())
    }

    /// Somebody got a seat: what kept spares from being opened is over.
    pub(crate) fn seated(&self) {
        self.lock().spares.trouble = None;
    }

    /// Takes a slot, with a spare's seat if there is one and it suits, waiting for a slot if need be. `when_full`
    /// is called once before waiting and may free one.
    pub(crate) async fn lease(
        self: &Arc<Self>,
        spare_suits: bool,
        when_full: impl FnOnce(),
    ) -> Result<Slot, FleetError> {
        let mut place = loop {
            match self.ask(spare_suits)? {
                Answer::Lent(lease) => return Ok(Slot { lease, seat: None }),
                // One that is gone is looked for once only: no spare is made while somebody seeks.
                Answer::Promised(promise) => {
                    if let Some(slot) = promise.kept().await {
                        return Ok(slot);
                    }
                }
                Answer::Wait(place) => break place,
            }
        };
        when_full();
        match timeout(self.settings.lease_timeout, &mut place.granted).await {
            Ok(Ok(id)) => Ok(Slot { lease: Lease { pool: self.clone(), id }, seat: None }),
            Ok(Err(_)) => Err(FleetError::ShuttingDown),
            Err(_) => {
                drop(place);
                let Figures { leased, slots, waiting, .. } = self.figures();
                let (pool, waited) = (self.settings.name.clone(), self.settings.lease_timeout);
                Err(LeaseTimeout {
                    pool,
                    waited,
                    leased,
                    slots,
                    waiting,
                    instance: None,
                    holders: Vec::new(),
                }
                .into())
            }
        }
    }

    fn ask(self: &Arc<Self>, spare_suits: bool) -> Result<Answer, FleetError> {
        let mut state = self.lock();
        if self.closing.is_cancelled() {
            return Err(FleetError::ShuttingDown);
        }
        state.remove_dead();
        let promise = |coming| Ok(Answer::Promised(Promise { pool: self.clone(), coming }));
        let others_wait = state.ledger.is_waited_for();
        if spare_suits
            && !others_wait
            && let Some(coming) = state.claim_soonest()
        {
            return promise(coming);
        }
        let id = match state.ledger.ask() {
            Asked::Lent(id) => id,
            Asked::Start(id) => {
                self.start(&mut state, id);
                id
            }
            Asked::Wait(waiter) => {
                // A spare's slot is anybody's, also of one whom its seat does not suit.
                if !others_wait && let Some(coming) = state.claim_any() {
                    state.ledger.forget(waiter);
                    return promise(coming);
                }
                let (sender, granted) = oneshot::channel();
                state.waiters.insert(waiter, sender);
                return Ok(Answer::Wait(Place { pool: self.clone(), waiter, granted }));
            }
        };
        state.note_idleness(id);
        Ok(Answer::Lent(Lease { pool: self.clone(), id }))
    }

    fn give_back(self: &Arc<Self>, id: InstanceId) {
        {
            let mut state = self.lock();
            state.remove_dead();
            let grant = state.ledger.give_back(id);
            self.carry_out(&mut state, grant);
            state.note_idleness(id);
        }
        self.keeping.wake.notify_one();
    }

    /// Hands out a grant, and whatever follows from one that nobody took.
    fn carry_out(self: &Arc<Self>, state: &mut State, mut grant: Option<Grant>) {
        while let Some(Grant { waiter, instance, start }) = grant {
            if start {
                self.start(state, instance);
            }
            let taken = state.waiters.remove(&waiter).is_some_and(|waiter| waiter.send(instance).is_ok());
            grant = if taken { state.ledger.serve() } else { state.ledger.give_back(instance) };
            state.note_idleness(instance);
        }
    }

    fn remove(self: &Arc<Self>, id: InstanceId) {
        {
            let mut state = self.lock();
            state.ledger.remove(id);
            state.instances.remove(&id);
            if !self.closing.is_cancelled() {
                let grant = state.ledger.serve();
                self.carry_out(&mut state, grant);
            }
        }
        self.keeping.wake.notify_one();
    }

    /// Stops every instance, its spares first. Returns when nothing of them is left.
    pub(crate) async fn shutdown(&self) {
        self.give_up_spares();
        self.keeping.tasks.close();
        self.keeping.tasks.wait().await;
        self.closing.cancel();
        self.lock().waiters.clear();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl State {
    /// Takes out the instances that are dead though their tasks have not come to it yet: a dead one is never
    /// lent.
    fn remove_dead(&mut self) {
        let dead: Vec<_> = self.instances.extract_if(|_, entry| entry.is_dead()).map(|(id, _)| id).collect();
        for id in dead {
            self.ledger.remove(id);
        }
    }

    /// After anything was lent or given back: an instance's idle time begins when only spares are left, and ends
    /// with the first slot that is lent.
    fn note_idleness(&self, id: InstanceId) {
        let idle = self.ledger.is_idle(id, self.spares.in_instance(id));
        if let Some(entry) = self.instances.get(&id) {
            entry.idle.send_if_modified(|since| {
                let news = since.is_some() != idle;
                if news {
                    *since = idle.then(Instant::now);
                }
                news
            });
        }
    }
}
