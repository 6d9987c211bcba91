//! A pool: instance slots, and the leases on the slots of their instances.
//!
//! [`Pool`] puts the parts together. [`instances`] has the instance slots and the queue, which decides which caller
//! gets which slot; [`supervisor`] has a task for each instance slot, which starts, watches and stops its instance;
//! [`idle_seats`] has the open seats in free slots, and [`spares`] opens some ahead; [`kind`] has what differs between
//! pools. [`acquire`] takes a slot for a caller, [`scale`] changes a pool while it runs.

mod acquire;
mod attached;
mod idle_seats;
mod instance_slot;
mod instances;
mod kind;
mod lease;
mod lost_seats;
mod scale;
mod settings;
mod spares;
mod status;
mod supervisor;

use std::{sync::Arc, time::Duration};

use greenroom_core::{InstanceId, Lost, Owner, Seat, StartError, network::NetworkPolicy};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Semaphore;

use self::{
    attached::ConnectionState,
    idle_seats::{IdleSeats, KeptFor},
    instances::Instances,
    kind::{PoolKind, error_with_hint},
    lost_seats::LostSeats,
    spares::Spares,
    supervisor::Supervisors,
};
use crate::{error::FleetError, pool_status::Health, seat::NoSeat, target::Watcher};

pub(crate) use self::{
    acquire::{AcquireRequest, AcquiredSlot},
    attached::BrowserConnection,
    lease::Lease,
    spares::CallerRegistration,
};
pub use self::{
    settings::{InstanceSettings, PoolSettings, PoolSize, Retry},
    status::Readiness,
};

/// Why an instance that is being drained leases nothing.
const DRAINING: &str = "it is being drained";

pub(crate) struct Pool {
    pub(crate) name: Arc<str>,
    pub(crate) kind: Arc<PoolKind>,
    idle_seats: Arc<IdleSeats>,
    instances: Arc<Instances>,
    spares: Arc<Spares>,
    supervisors: Arc<Supervisors>,
}

impl Pool {
    pub(crate) fn new(
        settings: PoolSettings,
        starts: Arc<Semaphore>,
        watcher: Arc<dyn Watcher>,
        attached: Option<BrowserConnection>,
    ) -> Arc<Self> {
        let kind = Arc::new(PoolKind::new(&settings, attached));
        let instances = Instances::new(settings, kind.clone(), watcher);
        let idle_seats = IdleSeats::new(instances.clone());
        let spares = Spares::new(instances.clone(), idle_seats.clone());
        let supervisors = Supervisors::new(instances.clone(), idle_seats.clone(), spares.clone(), starts);
        Arc::new(Self { name: instances.name.clone(), kind, idle_seats, instances, spares, supervisors })
    }

    pub(crate) fn settings(&self) -> Arc<PoolSettings> {
        self.instances.settings()
    }

    /// What the pool's browsers may reach; an error where sessions can have no policy of their own.
    pub(crate) fn network_policy(&self) -> Result<Arc<NetworkPolicy>, FleetError> {
        let browser = || self.kind.browser();
        let none = || FleetError::NoNetworkPolicy { pool: self.name.to_string(), browser: browser() };
        self.settings().network.clone().ok_or_else(none)
    }

    /// The instance that a caller is bound to if it gives this number or alias.
    pub(crate) fn bound_instance(&self, name: &str) -> Result<Option<InstanceId>, FleetError> {
        Ok(self.kind.binds_to(self.instances.resolve(name)?))
    }

    /// Handles the loss of a seat of this instance during a call.
    pub(crate) async fn lost_call(&self, id: InstanceId, why: &Lost) {
        self.instances.watcher.lost_call(&self.name, id);
        // Either one page hangs or the whole instance does. The check finds out, so that no session opens in
        // an instance that hangs.
        if let Lost::Hung(_) = why {
            self.instances.check_quickly(id).await;
        }
    }

    /// The error for a call that had a slot but got no seat.
    pub(crate) fn no_seat(&self, why: NoSeat) -> FleetError {
        let is_late = matches!(why, NoSeat::Late(_));
        let error = StartError::from(why);
        let own = |error| if is_late { FleetError::Late(error) } else { error.into() };
        self.instances.down(Some(error_with_hint(&error))).unwrap_or_else(|| own(error))
    }

    /// The state of the connection to an attached browser. `None` for other pools.
    pub(crate) fn connection(&self) -> Option<ConnectionState> {
        self.instances.connection()
    }

    /// The error for an attached browser that greenroom cannot reach, with the last known reason. `None` for other
    /// pools.
    pub(crate) fn down(&self) -> Option<FleetError> {
        self.instances.down(None)
    }

    /// Keeps a seat for its owner's next call without a session, for at most this long, and gives its slot back.
    /// Returns a seat that cannot be kept ([`IdleSeats::keep`]); the answer of the next call then carries a note about
    /// it.
    pub(crate) fn keep_for(
        &self,
        owner: &Owner,
        longest: Duration,
        lease: Lease,
        seat: Box<dyn Seat>,
    ) -> Option<(Lease, Box<dyn Seat>)> {
        let (lease, seat) = self.idle_seats.keep(lease, seat, KeptFor::Owner(owner.clone(), longest))?;
        self.lost_seats().not_kept(owner.clone(), &lease, seat.as_ref());
        Some((lease, seat))
    }

    pub(crate) fn lost_seats(&self) -> &LostSeats {
        &self.idle_seats.lost_seats
    }

    /// Keeps no more seats in free slots, and begins to close those kept now.
    pub(crate) fn close_idle_seats(&self) {
        self.idle_seats.close();
    }

    /// Whether this instance may still lease a slot.
    pub(crate) fn may_lease_from(&self, id: InstanceId) -> bool {
        self.instances.queue.with(|ledger| ledger.refusal(Some(id)).is_none())
    }

    /// The deadline of a call on this instance.
    pub(crate) fn call_timeout(&self, id: InstanceId) -> Duration {
        self.instances
            .instance_slot(id)
            .map_or(Duration::MAX, |instance_slot| instance_slot.lock().settings.call_timeout)
    }

    /// Starts the instances that start with the pool, or the first one, and then keeps as many spares as the settings
    /// want.
    pub(crate) fn start_now(&self) {
        self.supervisors.open();
        if self.kind.starts_first() {
            self.instances.start_first();
        }
        self.instances.start_wanted();
        self.spares.keep(self.kind.spares(self.settings().warm));
    }

    /// Registers a caller that looks for a seat. The caller drops the result once it has one.
    pub(crate) fn register_caller(&self) -> CallerRegistration {
        self.spares.register_caller()
    }

    /// Connects to an attached browser now. Returns when the outcome is known.
    pub(crate) async fn reconnect(&self) -> Result<(), FleetError> {
        self.supervisors.reconnect().await
    }

    /// Checks the health of every instance now, because the machine slept and woke up.
    pub(crate) fn check_after_sleep(&self) {
        self.supervisors.check_after_sleep();
    }

    /// Removes the pool of an attached browser from the fleet: it leases nothing more and refuses waiting callers.
    pub(crate) fn remove(&self) {
        self.kind.remove();
        self.close_queue();
    }

    /// Leases nothing more and refuses waiting callers.
    pub(crate) fn close_queue(&self) {
        self.instances.queue.close();
    }

    /// Closes every seat, then stops every instance. Returns when all have ended.
    pub(crate) async fn shutdown(&self) {
        self.close_idle_seats();
        self.close_queue();
        self.idle_seats.closed().await;
        self.supervisors.shutdown().await;
        for instance_slot in self.instances.instance_slots().values() {
            instance_slot.mark_gone(Health::Failed, None);
        }
        self.kind.update_connection(ConnectionState::mark_closed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
