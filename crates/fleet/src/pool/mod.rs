//! A pool: places for instances, and the leases on their slots.
//!
//! The queue decides who gets which slot, this shell carries out what follows from it: [`tend`] has the lives of
//! instances, [`ask`] takes a slot for whoever wants one, [`health`] looks after instances, [`idle_seats`] has the open seats in free slots and [`spares`] opens some ahead,
//! [`scale`] changes a pool while it runs. A pool may be an attached browser; [`attached`] says what is different then.

mod ask;
mod attached;
mod budget;
mod health;
mod idle_seats;
mod instances;
mod kind;
mod lease;
mod link;
mod live;
mod lost_seats;
mod place;
mod reconnect;
mod scale;
mod settings;
mod spares;
mod status;
mod tend;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use greenroom_core::InstanceId;
use tokio::sync::{Semaphore, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    idle_seats::IdleSeats, instances::Instances, kind::Kind, link::Link, place::Place, spares::Spares,
};
use crate::{error::FleetError, seat::NoSeat, status::Health, target::Watcher};

pub(crate) use self::{
    ask::Request,
    attached::Attached,
    idle_seats::Taker,
    lease::{Found, Lease, Slot},
    spares::Seeking,
};
pub use self::{
    settings::{InstanceSettings, PoolSettings, Retry, Size},
    status::Readiness,
};

/// What is said of an instance that lends nothing more but still has leases out.
const DRAINING: &str = "it is being drained";

pub(crate) struct Pool {
    pub(crate) name: Arc<str>,
    pub(crate) kind: Arc<Kind>,
    instances: Arc<Instances>,
    pub(crate) idle_seats: Arc<IdleSeats>,
    spares: Arc<Spares>,
    /// The pool has been started: what is not lazy runs.
    opened: Mutex<bool>,
    /// Counts how often the machine woke up.
    woke: watch::Sender<u64>,
    /// How many instances may be started at a time, in all pools.
    starts: Arc<Semaphore>,
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
        let kind = Arc::new(Kind::new(&settings, attached));
        let instances = Instances::new(settings, kind.clone(), watcher);
        let idle_seats = IdleSeats::new(instances.clone());
        Arc::new(Self {
            name: instances.name.clone(),
            kind,
            spares: Spares::new(instances.clone(), idle_seats.clone()),
            idle_seats,
            instances,
            opened: Mutex::new(false),
            woke: watch::Sender::new(0),
            starts,
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
        })
    }

    pub(crate) fn settings(&self) -> Arc<PoolSettings> {
        self.instances.settings()
    }

    /// The instance that a caller is bound to who gives this number or alias.
    pub(crate) fn bound_instance(&self, name: &str) -> Result<Option<InstanceId>, FleetError> {
        Ok(self.kind.binds_to(self.instances.resolve(name)?))
    }

    /// Asks an instance whether it still answers, because a call or a seat of it was late.
    pub(crate) async fn doubt(&self, id: InstanceId) {
        self.instances.doubt(id).await;
    }

    /// A browser of this instance was lost under a call.
    pub(crate) fn lost_call(&self, id: InstanceId) {
        self.instances.watcher.lost_call(&self.name, id);
    }

    /// Whether this instance may yet lend a slot.
    pub(crate) fn may_lend(&self, id: InstanceId) -> bool {
        self.instances.queue.with(|ledger| ledger.refusal(Some(id)).is_none())
    }

    /// The deadline of a call on this instance.
    pub(crate) fn call_timeout(&self, id: InstanceId) -> Duration {
        self.instances.places().get(&id).map_or(Duration::MAX, |place| place.lock().settings.call_timeout)
    }

    /// Lets the tasks of the places run. Nothing is started by that.
    fn open(self: &Arc<Self>) {
        let mut opened = lock(&self.opened);
        if std::mem::replace(&mut *opened, true) || self.closing.is_cancelled() {
            return;
        }
        for place in self.instances.places().values() {
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
            self.instances.queue.with(|ledger| ledger.starting(place.id));
            place.wanted.notify_one();
        }
    }

    /// Starts the instances that start with the pool, or the first one, and from now on keeps as many spares as the
    /// settings want.
    pub(crate) fn start_now(self: &Arc<Self>) {
        self.open();
        if self.kind.starts_first() {
            self.instances.start_first();
        }
        self.instances.start_wanted();
        self.spares.keep(self.kind.spares(self.instances.settings().warm));
    }

    /// To be held by whoever looks for a seat, until it has one.
    pub(crate) fn seek(&self) -> Seeking {
        self.spares.seek()
    }

    /// Somebody got a seat.
    pub(crate) fn seated(&self) {
        self.spares.seated();
    }

    /// Lends nothing any more; those who wait hear so.
    pub(crate) fn lend_no_more(&self) {
        self.instances.queue.close();
    }

    /// Stops every instance, its seats first. Returns when nothing of them is left.
    pub(crate) async fn shutdown(self: &Arc<Self>) {
        self.idle_seats.close();
        self.instances.queue.close();
        self.idle_seats.closed().await;
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        for place in self.instances.places().values() {
            place.went(Health::Failed, None);
        }
        self.kind.update_link(Link::is_over);
    }

    /// How the connection to an attached browser is.
    pub(crate) fn link(&self) -> Link {
        self.kind.link(self.instances.any_place().as_ref())
    }

    /// An attached browser cannot be had now. Says why, as far as the caller does not know better.
    pub(crate) fn down(&self, why: Option<String>) -> FleetError {
        self.kind.down(self.instances.any_place().as_ref(), why).unwrap_or(FleetError::ShuttingDown)
    }

    /// Why a call has no seat in an instance that it had a slot of.
    pub(crate) fn no_seat(&self, why: NoSeat) -> FleetError {
        self.kind.no_seat(self.instances.any_place().as_ref(), why)
    }

    /// Takes the pool of an attached browser out of the fleet: it lends nothing more, and those who wait hear so.
    pub(crate) fn remove(&self) {
        self.kind.remove();
        self.instances.queue.close();
    }

    /// Why it lends nothing any more.
    fn why_closed(&self) -> FleetError {
        self.kind.why_removed().unwrap_or(FleetError::ShuttingDown)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
