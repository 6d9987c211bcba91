//! A pool: places for instances, and the leases on their slots.
//!
//! The queue decides who gets which slot, this shell carries out what follows from it: [`tend`] has the lives of
//! instances, [`health`] looks after them, [`kept`] has the open seats in free slots and [`keeper`] opens some ahead,
//! [`scale`] changes a pool while it runs.

mod budget;
mod health;
mod keeper;
mod kept;
mod lease;
mod place;
mod scale;
mod settings;
mod status;
mod tend;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use greenroom_core::{
    InstanceId, Queued, StartError,
    lease::{Changes, Hope, Ledger, Refused, WaiterId, Want},
};
use tokio::{
    sync::{Notify, Semaphore, watch},
    time::{Instant, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{keeper::Keeping, kept::Kept, lease::InLine, place::Place};
use crate::{
    error::{FleetError, LeaseTimeout},
    queue::{self, Answer, Queue, Refusal},
    status::Health,
    target::Watcher,
};

pub(crate) use self::{
    kept::Taker,
    lease::{Found, Lease, Seeking, Slot},
};
pub use self::{
    settings::{InstanceSettings, PoolSettings, Size},
    status::Readiness,
};

/// How often a caller that waits hears where it stands, at most. Often enough to see the queue move.
const QUEUED_EVERY: Duration = Duration::from_millis(250);

/// How much rarer that gets with each who waits. A look costs some 20 ns for each; so all looks together cost no more
/// than a few hundredths of a core where a thousand wait.
const PER_WAITER: Duration = Duration::from_millis(1);

/// What is said of an instance that lends nothing more but still has leases out.
const DRAINING: &str = "it is being drained";

pub(crate) struct Pool {
    pub(crate) name: Arc<str>,
    settings: Mutex<Arc<PoolSettings>>,
    queue: Arc<Queue>,
    places: Mutex<BTreeMap<InstanceId, Arc<Place>>>,
    kept: Mutex<Kept>,
    keeping: Keeping,
    /// How many look for a seat now.
    seeking: AtomicUsize,
    /// How the start of an instance last ended.
    last_start: Mutex<Option<Result<(), StartError>>>,
    /// The pool has been started: what is not lazy runs.
    opened: Mutex<bool>,
    /// An instance has started, or failed to.
    start_over: Notify,
    /// Counts how often the machine woke up.
    woke: watch::Sender<u64>,
    /// How many instances may be started at a time, in all pools.
    starts: Arc<Semaphore>,
    watcher: Arc<dyn Watcher>,
    closing: CancellationToken,
    tasks: TaskTracker,
}

/// What somebody asks a pool for.
pub(crate) struct Request<'a> {
    /// This instance and no other.
    pub(crate) key: Option<InstanceId>,
    /// Who asks, for the strategy `sticky`.
    pub(crate) caller: u64,
    pub(crate) taker: Taker<'a>,
}

impl Pool {
    pub(crate) fn new(
        settings: PoolSettings,
        starts: Arc<Semaphore>,
        watcher: Arc<dyn Watcher>,
    ) -> Arc<Self> {
        let count = match settings.size {
            Size::Elastic { instances_max, .. } => instances_max,
            Size::Fixed(count) => count,
        };
        let mut ledger = Ledger::new(settings.strategy);
        let mut places = BTreeMap::new();
        for number in 0..u32::try_from(count).unwrap_or(u32::MAX) {
            let made = (settings.instance)(InstanceId(number));
            // Cold until the pool is started.
            let Some(id) = ledger.add(made.slots, true) else { break };
            places.insert(id, Place::new(id, made));
        }
        Arc::new(Self {
            name: settings.name.as_str().into(),
            settings: Mutex::new(Arc::new(settings)),
            queue: Queue::new(ledger),
            places: Mutex::new(places),
            kept: Mutex::default(),
            keeping: Keeping::default(),
            seeking: AtomicUsize::new(0),
            last_start: Mutex::default(),
            opened: Mutex::new(false),
            start_over: Notify::new(),
            woke: watch::Sender::new(0),
            starts,
            watcher,
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
        })
    }

    pub(crate) fn settings(&self) -> Arc<PoolSettings> {
        lock(&self.settings).clone()
    }

    fn places(&self) -> MutexGuard<'_, BTreeMap<InstanceId, Arc<Place>>> {
        lock(&self.places)
    }

    fn place(&self, id: InstanceId) -> Option<Arc<Place>> {
        self.places().get(&id).cloned()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }

    fn last_start(&self, error: Option<&StartError>) {
        *lock(&self.last_start) = Some(error.map_or(Ok(()), |error| Err(error.clone())));
    }

    /// The instance that is called so, by number or alias.
    pub(crate) fn resolve(&self, name: &str) -> Result<InstanceId, FleetError> {
        let places = self.places();
        if let Some(place) = places.values().find(|place| place.is_called(name)) {
            return Ok(place.id);
        }
        let known = places
            .values()
            .flat_map(|place| [Some(place.id.to_string()), place.settings().alias].into_iter().flatten());
        Err(FleetError::NoInstance {
            pool: self.name.to_string(),
            name: name.to_owned(),
            known: known.collect(),
        })
    }

    /// The deadline of a call on this instance.
    pub(crate) fn call_timeout(&self, id: InstanceId) -> Duration {
        self.place(id).map_or(Duration::MAX, |place| place.settings().call_timeout)
    }

    /// Lets the tasks of the places run. Nothing is started by that.
    fn open(self: &Arc<Self>) {
        let mut opened = lock(&self.opened);
        if std::mem::replace(&mut *opened, true) || self.closing.is_cancelled() {
            return;
        }
        for place in self.places().values() {
            self.attend(place);
        }
    }

    fn is_open(&self) -> bool {
        *lock(&self.opened)
    }

    /// Has a place tended, and its instance started unless it is lazy or comes and goes.
    fn attend(self: &Arc<Self>, place: &Arc<Place>) {
        self.tasks.spawn(self.clone().tend(place.clone()));
        if !self.settings().is_elastic() && !place.settings().lazy {
            self.queue.with(|ledger| ledger.starting(place.id));
            place.wanted.notify_one();
        }
    }

    /// Starts every instance that is not lazy, of an elastic pool the first, and from now on keeps as many spares as the
    /// settings want.
    pub(crate) fn start_now(self: &Arc<Self>) {
        self.open();
        let settings = self.settings();
        if settings.is_elastic() {
            // What is wanted for a spare starts an instance, whether or not it comes to one.
            if self.queue.figures().instances == 0 {
                drop(self.queue.spare(|_, _| true));
            }
            self.start_wanted();
        }
        self.keep_spares(settings.warm);
    }

    /// To be held by whoever looks for a seat, until it has one.
    pub(crate) fn seek(self: &Arc<Self>) -> Seeking {
        self.seeking.fetch_add(1, Ordering::Relaxed);
        Seeking(self.clone())
    }

    /// Somebody got a seat.
    pub(crate) fn seated(&self) {
        self.keeping.seated();
    }

    /// Takes a slot, waiting for one if need be.
    pub(crate) async fn lease(self: &Arc<Self>, request: Request<'_>) -> Result<Slot, FleetError> {
        let began = Instant::now();
        let outcome = self.seek_slot(&request, began).await;
        let waited = began.elapsed();
        match &outcome {
            Ok(slot) => self.watcher.leased(&self.name, slot.lease.id, waited),
            Err(why) => self.watcher.not_leased(&self.name, why, waited),
        }
        outcome
    }

    async fn seek_slot(self: &Arc<Self>, request: &Request<'_>, began: Instant) -> Result<Slot, FleetError> {
        self.open();
        let settings = self.settings();
        let mut waiter = None;
        loop {
            let spare_suits = request
                .key
                .or(self.any_place())
                .and_then(|id| self.place(id))
                .is_some_and(|place| place.settings().engine.spare_suits(request.taker.agent));
            let answer = match waiter {
                None => self.queue.ask(Want {
                    key: request.key,
                    prefer: self.prefer(&request.taker, spare_suits),
                    caller: Some(request.caller),
                }),
                Some(waiter) => self.queue.ask_again(waiter),
            };
            self.start_wanted();
            let lease = match answer {
                Answer::Lent(lease) => lease,
                Answer::Refused(why) => return Err(self.why_refused(why)),
                Answer::Waits(waiting) => {
                    waiter = Some(waiting.waiter);
                    let line = InLine { pool: self.clone(), waiting };
                    let lease = self.wait(line, request, began, settings.lease_timeout).await?;
                    self.queue.with(|ledger| ledger.remember(request.caller, lease.lent()));
                    lease
                }
            };
            if let Some(slot) = self.take_up(lease, request, spare_suits) {
                return Ok(slot);
            }
            // Its turn came with the very death of what it waited for: it hears so, as those behind it do.
            if let (Some(id), Some(_)) = (request.key, waiter) {
                return Err(self.why_refused(Refusal::Refused(Refused::Failed(id))));
            }
        }
    }

    fn any_place(&self) -> Option<InstanceId> {
        self.places().keys().next().copied()
    }

    /// What there is in a slot that was lent. `None`, if its instance died a moment ago: then it is out of the pool now.
    fn take_up(
        self: &Arc<Self>,
        lease: queue::Lease,
        request: &Request<'_>,
        spare_suits: bool,
    ) -> Option<Slot> {
        let place = self.place(lease.instance())?;
        let instance = place.instance();
        // Looked at after the instance was: so it is the one that the lease is about.
        if !lease.is_valid() {
            return None;
        }
        let Some(instance) = instance else {
            // Its task will see it too, and say what becomes of it; until then it lends nothing. Not if the task was
            // faster, and the instance may live again: then the lease is void.
            let lent = lease.lent();
            self.change(|ledger| match ledger.is_valid(lent) {
                true => ledger.lost(place.id, Hope::Soon),
                false => Changes::default(),
            });
            return None;
        };
        let lease = Lease::new(self.clone(), place.clone(), lease);
        lease.begins();
        let found = self.find(&lease, &request.taker, spare_suits);
        Some(Slot { lease, instance, found })
    }

    async fn wait(
        self: &Arc<Self>,
        mut line: InLine,
        request: &Request<'_>,
        began: Instant,
        limit: Duration,
    ) -> Result<queue::Lease, FleetError> {
        let (waiter, deadline) = (line.waiting.waiter, began + limit);
        let mut said = None;
        loop {
            // Whoever only waits for an instance to start stands in no queue.
            let place = line.waiting.place();
            // Finding one's place takes longer the more wait: a thousand look once a second, not four times.
            let pause = place.map_or(QUEUED_EVERY, |(_, all)| {
                QUEUED_EVERY.max(PER_WAITER.saturating_mul(u32::try_from(all).unwrap_or(u32::MAX)))
            });
            let place = place.filter(|_| !self.is_coming(waiter));
            if let Some((place, all)) = place.filter(|place| said != Some(*place)) {
                said = Some((place, all));
                request.taker.agent.queued(Queued { pool: &self.name, place, waiting: all });
            }
            let next = (Instant::now() + pause).min(deadline);
            match timeout_at(next, &mut line.waiting).await {
                Ok(Ok(lease)) => return Ok(lease),
                Ok(Err(why)) => return Err(self.why_refused(why)),
                Err(_) if Instant::now() < deadline => {}
                // Time is over, but a slot is on its way: an instance starts, or the house is nearly done with one.
                Err(_) if self.is_coming(waiter) => {
                    let over = self.start_over.notified();
                    tokio::select! {
                        lease = &mut line.waiting => return lease.map_err(|why| self.why_refused(why)),
                        () = over, if self.is_coming(waiter) => {}
                        () = tokio::time::sleep(QUEUED_EVERY) => {}
                    }
                }
                Err(_) => {
                    drop(line);
                    return Err(self.too_late(request.key, limit));
                }
            }
        }
    }

    fn is_coming(&self, waiter: WaiterId) -> bool {
        self.queue.with(|ledger| ledger.is_coming(waiter))
    }

    fn too_late(&self, key: Option<InstanceId>, waited: Duration) -> FleetError {
        let figures = self.queue.figures();
        let (leased, slots) = match key {
            Some(id) => self.queue.with(|ledger| ledger.lent(id)),
            None => (figures.leased, figures.slots),
        };
        let (pool, waiting) = (self.name.to_string(), figures.waiting);
        LeaseTimeout { pool, waited, leased, slots, waiting, instance: key, holders: Vec::new() }.into()
    }

    fn why_refused(&self, why: Refusal) -> FleetError {
        let pool = self.name.to_string();
        let down = |instance, why: &str| FleetError::InstanceDown {
            pool: self.name.to_string(),
            instance,
            why: why.to_owned(),
        };
        match why {
            Refusal::Closed => FleetError::ShuttingDown,
            Refusal::Start(error) => error.into(),
            Refusal::Refused(Refused::Hopeless) => {
                FleetError::NoHealthy { pool, is_default: self.settings().is_default, why: self.trouble() }
            }
            Refusal::Refused(Refused::Gone(id)) => down(id, "it left the pool"),
            Refusal::Refused(Refused::Draining(id)) => down(id, DRAINING),
            Refusal::Refused(Refused::Failed(id)) => {
                let why = self.place(id).and_then(|place| place.why());
                down(id, why.as_deref().unwrap_or("it has failed"))
            }
        }
    }

    /// Why an instance lends nothing, of the first one that does not.
    fn trouble(&self) -> Option<String> {
        self.places().values().find_map(|place| {
            let is_draining = place.lock().draining;
            place.why().or_else(|| is_draining.then(|| DRAINING.to_owned()))
        })
    }

    /// Changes the ledger and carries out what follows from it.
    fn change(&self, change: impl FnOnce(&mut Ledger) -> Changes) {
        self.queue.change(change);
        self.start_wanted();
    }

    /// Has the instances started that are needed now.
    fn start_wanted(&self) {
        while let Some(id) = self.queue.with(Ledger::take_start) {
            if let Some(place) = self.place(id) {
                place.wanted.notify_one();
            }
        }
    }

    /// Stops every instance, its seats first. Returns when nothing of them is left.
    pub(crate) async fn shutdown(self: &Arc<Self>) {
        self.give_up_seats();
        self.queue.close();
        self.keeping.tasks.close();
        self.keeping.tasks.wait().await;
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        for place in self.places().values() {
            place.went(Health::Failed, None);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
