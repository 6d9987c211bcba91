//! A pool: instances of one engine, and the leases on their slots.
//!
//! The ledger decides, this shell carries it out: it starts instances, watches them, retires idle ones, and
//! hands slots to those who wait. A lease is given back by dropping it, whatever happens to its holder; a
//! waiter that leaves gives back what it may just have been handed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use greenroom_core::{
    Engine, Instance, InstanceId, StartError,
    lease::{Asked, Figures, Grant, Ledger, Limits, WaiterId},
};
use tokio::{
    sync::{oneshot, watch},
    time::{Instant, sleep_until, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::error::{FleetError, LeaseTimeout};

/// How long an instance may take to start before it counts as failed. A cold disk and two busy cores have been
/// seen to need 10 s; three times that is not a slow start but a hung one.
const START: Duration = Duration::from_secs(30);

/// How long an instance may take to end politely before it is killed.
const STOP_GRACE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub struct PoolSettings {
    pub name: String,
    pub limits: Limits,
    pub lease_timeout: Duration,
    /// An instance without leases is stopped after this.
    pub instance_idle: Duration,
}

pub(crate) struct Pool {
    pub(crate) settings: PoolSettings,
    engine: Arc<dyn Engine>,
    state: Mutex<State>,
    closing: CancellationToken,
    tasks: TaskTracker,
}

struct State {
    ledger: Ledger,
    instances: HashMap<InstanceId, Entry>,
    waiters: HashMap<WaiterId, oneshot::Sender<InstanceId>>,
}

struct Entry {
    phase: watch::Receiver<Phase>,
    /// Since when no slot is lent; `None` while one is.
    idle: watch::Sender<Option<Instant>>,
}

#[derive(Clone)]
enum Phase {
    Starting,
    Ready(Arc<dyn Instance>),
    Failed(StartError),
}

/// The exclusive right to a slot. Dropping it gives the slot back.
pub(crate) struct Lease {
    pool: Arc<Pool>,
    pub(crate) id: InstanceId,
}

impl Lease {
    /// The instance, once it is ready. `None` if it left the pool after the slot was lent; another one may do.
    pub(crate) async fn instance(&self) -> Result<Option<Arc<dyn Instance>>, StartError> {
        let phase = self.pool.lock().instances.get(&self.id).map(|entry| entry.phase.clone());
        let Some(mut phase) = phase else { return Ok(None) };
        match phase.wait_for(|phase| !matches!(phase, Phase::Starting)).await.as_deref() {
            Ok(Phase::Ready(instance)) => Ok(Some(instance.clone())),
            Ok(Phase::Failed(error)) => Err(error.clone()),
            Ok(Phase::Starting) | Err(_) => Ok(None),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.give_back(self.id);
    }
}

/// An instance's membership in the pool, held by its task. Dropping it takes the instance out, also when the
/// task panics; those who wait may get a new one.
struct Member {
    pool: Arc<Pool>,
    id: InstanceId,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.pool.remove(self.id);
    }
}

/// A place in the queue. Dropping it leaves the queue and returns what was granted but not taken.
struct Place {
    pool: Arc<Pool>,
    waiter: WaiterId,
    granted: oneshot::Receiver<InstanceId>,
}

impl Drop for Place {
    fn drop(&mut self) {
        {
            let mut state = self.pool.lock();
            state.waiters.remove(&self.waiter);
            state.ledger.forget(self.waiter);
        }
        if let Ok(id) = self.granted.try_recv() {
            self.pool.give_back(id);
        }
    }
}

impl Pool {
    pub(crate) fn new(settings: PoolSettings, engine: Arc<dyn Engine>) -> Arc<Self> {
        let ledger = Ledger::new(settings.limits);
        let state = State { ledger, instances: HashMap::new(), waiters: HashMap::new() };
        Arc::new(Self {
            settings,
            engine,
            state: Mutex::new(state),
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

    /// Takes a slot, waiting for one if need be. `when_full` is called once before waiting and may free one.
    pub(crate) async fn lease(self: &Arc<Self>, when_full: impl FnOnce()) -> Result<Lease, FleetError> {
        let mut place = {
            let mut state = self.lock();
            if self.closing.is_cancelled() {
                return Err(FleetError::ShuttingDown);
            }
            state.remove_dead();
            match state.ledger.ask() {
                Asked::Lent(id) => {
                    state.lent(id);
                    return Ok(Lease { pool: self.clone(), id });
                }
                Asked::Start(id) => {
                    self.start(&mut state, id);
                    return Ok(Lease { pool: self.clone(), id });
                }
                Asked::Wait(waiter) => {
                    let (sender, granted) = oneshot::channel();
                    state.waiters.insert(waiter, sender);
                    Place { pool: self.clone(), waiter, granted }
                }
            }
        };
        when_full();
        match timeout(self.settings.lease_timeout, &mut place.granted).await {
            Ok(Ok(id)) => Ok(Lease { pool: self.clone(), id }),
            Ok(Err(_)) => Err(FleetError::ShuttingDown),
            Err(_) => {
                drop(place);
                let Figures { leased, slots, waiting, .. } = self.figures();
                let (pool, waited) = (self.settings.name.clone(), self.settings.lease_timeout);
                Err(LeaseTimeout { pool, waited, leased, slots, waiting }.into())
            }
        }
    }

    fn give_back(self: &Arc<Self>, id: InstanceId) {
        let mut state = self.lock();
        state.remove_dead();
        let grant = state.ledger.give_back(id);
        self.carry_out(&mut state, grant);
        if state.ledger.is_idle(id)
            && let Some(entry) = state.instances.get(&id)
        {
            entry.idle.send_replace(Some(Instant::now()));
        }
    }

    /// Hands out a grant, and whatever follows from one that nobody took.
    fn carry_out(self: &Arc<Self>, state: &mut State, mut grant: Option<Grant>) {
        while let Some(Grant { waiter, instance, start }) = grant {
            if start {
                self.start(state, instance);
            }
            state.lent(instance);
            let taken = state.waiters.remove(&waiter).is_some_and(|waiter| waiter.send(instance).is_ok());
            grant = if taken { state.ledger.serve() } else { state.ledger.give_back(instance) };
        }
    }

    fn start(self: &Arc<Self>, state: &mut State, id: InstanceId) {
        let (phase, starting) = watch::channel(Phase::Starting);
        let (idle, idle_since) = watch::channel(None);
        state.instances.insert(id, Entry { phase: starting, idle });
        self.tasks.spawn(self.clone().live(id, phase, idle_since));
    }

    /// The life of an instance, from start to stop.
    async fn live(
        self: Arc<Self>,
        id: InstanceId,
        phase: watch::Sender<Phase>,
        mut idle_since: watch::Receiver<Option<Instant>>,
    ) {
        let member = Member { pool: self.clone(), id };
        let started = tokio::select! {
            started = timeout(START, self.engine.start(id)) => started,
            () = self.closing.cancelled() => Ok(Err(StartError::new("greenroom is shutting down"))),
        };
        let started = started.unwrap_or_else(|_| Err(StartError::new("the instance did not start in time")));
        let instance = match started {
            Ok(instance) => instance,
            Err(error) => {
                tracing::warn!(pool = self.settings.name, instance = %id, %error, "cannot start");
                // Out of the pool first: whoever hears of the failure and tries again must not meet it again.
                drop(member);
                phase.send_replace(Phase::Failed(error));
                return;
            }
        };
        tracing::info!(pool = self.settings.name, instance = %id, "ready");
        phase.send_replace(Phase::Ready(instance.clone()));
        let mut lost = instance.lost();
        loop {
            let idle = *idle_since.borrow_and_update();
            let expiry = idle.map(|since| since + self.settings.instance_idle);
            tokio::select! {
                biased;
                Ok(lost) = lost.wait_for(Option::is_some) => {
                    let why = lost.as_ref().map(ToString::to_string).unwrap_or_default();
                    tracing::warn!(pool = self.settings.name, instance = %id, why, "lost");
                    break;
                }
                () = self.closing.cancelled() => break,
                changed = idle_since.changed() => if changed.is_err() {
                    // Somebody else saw that the instance is dead, and took it out of the pool.
                    break;
                },
                () = sleep_until(expiry.unwrap_or_else(Instant::now)), if expiry.is_some() => {
                    if self.lock().ledger.retire(id) {
                        tracing::info!(pool = self.settings.name, instance = %id, "idle, stopping");
                        break;
                    }
                }
            }
        }
        drop(member);
        instance.stop(STOP_GRACE).await;
    }

    fn remove(self: &Arc<Self>, id: InstanceId) {
        let mut state = self.lock();
        state.ledger.remove(id);
        state.instances.remove(&id);
        if !self.closing.is_cancelled() {
            let grant = state.ledger.serve();
            self.carry_out(&mut state, grant);
        }
    }

    /// Stops every instance. Returns when nothing of them is left.
    pub(crate) async fn shutdown(&self) {
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
        let is_dead = |entry: &Entry| match &*entry.phase.borrow() {
            Phase::Ready(instance) => instance.lost().borrow().is_some(),
            Phase::Starting | Phase::Failed(_) => false,
        };
        let dead: Vec<_> = self.instances.extract_if(|_, entry| is_dead(entry)).map(|(id, _)| id).collect();
        for id in dead {
            self.ledger.remove(id);
        }
    }

    fn lent(&self, id: InstanceId) {
        if let Some(entry) = self.instances.get(&id) {
            entry.idle.send_replace(None);
        }
    }
}
