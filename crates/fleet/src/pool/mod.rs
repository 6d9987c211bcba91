//! A pool: places for instances, and the leases on their slots.
//!
//! The queue decides who gets which slot, this shell carries out what follows from it: [`tend`] has the lives of
//! instances, [`ask`] takes a slot for whoever wants one, [`health`] looks after instances, [`kept`] has the open seats in free slots and [`keeper`] opens some ahead,
//! [`scale`] changes a pool while it runs. A pool may be an attached browser; [`attached`] says what is different then.

mod ask;
mod attached;
mod budget;
mod health;
mod keeper;
mod kept;
mod kind;
mod lease;
mod link;
mod live;
mod lost_seats;
mod place;
mod reconnect;
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
    InstanceId, StartError,
    lease::{Changes, Ledger},
};
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{keeper::Keeping, kept::Kept, kind::Kind, link::Link, lost_seats::LostSeats, place::Place};
use crate::{error::FleetError, queue::Queue, seat::NoSeat, status::Health, target::Watcher};

pub(crate) use self::{
    ask::Request,
    attached::Attached,
    kept::Taker,
    lease::{Found, Lease, Seeking, Slot},
};
pub use self::{
    settings::{InstanceSettings, PoolSettings, Retry, Size},
    status::Readiness,
};

/// What is said of an instance that lends nothing more but still has leases out.
const DRAINING: &str = "it is being drained";

pub(crate) struct Pool {
    pub(crate) name: Arc<str>,
    pub(crate) kind: Kind,
    /// Its size is what the configuration last said, not what the pool was scaled to by hand.
    settings: Mutex<Arc<PoolSettings>>,
    queue: Arc<Queue>,
    places: Mutex<BTreeMap<InstanceId, Arc<Place>>>,
    kept: Mutex<Kept>,
    lost_seats: Mutex<LostSeats>,
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

impl Pool {
    pub(crate) fn new(
        settings: PoolSettings,
        starts: Arc<Semaphore>,
        watcher: Arc<dyn Watcher>,
        attached: Option<Attached>,
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
            kind: Kind::new(&settings, attached),
            settings: Mutex::new(Arc::new(settings)),
            queue: Queue::new(ledger),
            places: Mutex::new(places),
            kept: Mutex::default(),
            lost_seats: Mutex::default(),
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

    /// The instance that a caller is bound to who gives this number or alias.
    pub(crate) fn bound_instance(&self, name: &str) -> Result<Option<InstanceId>, FleetError> {
        Ok(self.kind.binds_to(self.resolve(name)?))
    }

    /// The instance that is called so, by number or alias.
    fn resolve(&self, name: &str) -> Result<InstanceId, FleetError> {
        let places = self.places();
        if let Some(place) = places.values().find(|place| place.is_called(name)) {
            return Ok(place.id);
        }
        let known = places
            .values()
            .flat_map(|place| [Some(place.id.to_string()), place.settings().alias].into_iter().flatten());
        Err(FleetError::NoInstance {
            pool: self.name.to_string(),
            browser: self.kind.browser(),
            name: name.to_owned(),
            known: known.collect(),
        })
    }

    /// A browser of this instance was lost under a call.
    pub(crate) fn lost_call(&self, id: InstanceId) {
        self.watcher.lost_call(&self.name, id);
    }

    /// Whether this instance may yet lend a slot.
    pub(crate) fn may_lend(&self, id: InstanceId) -> bool {
        self.queue.with(|ledger| ledger.refusal(Some(id)).is_none())
    }

    /// The deadline of a call on this instance.
    pub(crate) fn call_timeout(&self, id: InstanceId) -> Duration {
        self.places().get(&id).map_or(Duration::MAX, |place| place.lock().settings.call_timeout)
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

    /// Has a place tended, and its instance started if it starts with the pool.
    fn attend(self: &Arc<Self>, place: &Arc<Place>) {
        self.tasks.spawn(self.clone().tend(place.clone()));
        if self.kind.starts_with_pool(place.settings().lazy) {
            self.queue.with(|ledger| ledger.starting(place.id));
            place.wanted.notify_one();
        }
    }

    /// Starts the instances that start with the pool, or the first one, and from now on keeps as many spares as the
    /// settings want.
    pub(crate) fn start_now(self: &Arc<Self>) {
        self.open();
        // What is wanted for a spare starts an instance, whether or not it comes to one.
        if self.kind.starts_first() && self.queue.figures().instances == 0 {
            drop(self.queue.spare(|_, _| true));
        }
        self.start_wanted();
        self.keep_spares(self.kind.spares(self.settings().warm));
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

    /// Lends nothing any more; those who wait hear so.
    pub(crate) fn lend_no_more(&self) {
        self.queue.close();
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
        self.kind.update_link(Link::is_over);
    }

    /// How the connection to an attached browser is.
    pub(crate) fn link(&self) -> Link {
        self.kind.link(self.any_place().as_ref())
    }

    /// An attached browser cannot be had now. Says why, as far as the caller does not know better.
    pub(crate) fn down(&self, why: Option<String>) -> FleetError {
        self.kind.down(self.any_place().as_ref(), why).unwrap_or(FleetError::ShuttingDown)
    }

    /// Why a call has no seat in an instance that it had a slot of.
    pub(crate) fn no_seat(&self, why: NoSeat) -> FleetError {
        self.kind.no_seat(self.any_place().as_ref(), why)
    }

    /// Takes the pool of an attached browser out of the fleet: it lends nothing more, and those who wait hear so.
    pub(crate) fn remove(&self) {
        self.kind.remove();
        self.queue.close();
    }

    /// Why it lends nothing any more.
    fn why_closed(&self) -> FleetError {
        self.kind.why_removed().unwrap_or(FleetError::ShuttingDown)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
