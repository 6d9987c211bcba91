//! How a caller gets a seat: it acquires a slot of the pool, waiting for one if need be, and opens a seat there unless
//! the slot has an open seat that suits the caller.

use std::{sync::Arc, time::Duration};

use greenroom_core::{
    Agent, Instance, InstanceId, Owner, Queued, Seat,
    lease::{Changes, LeaseRefused, RestartOutlook, Sharing, SlotRequest, WaiterId},
};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{DRAINING, Lease, Pool, lease::QueuedCaller};
use crate::{
    error::{FleetError, LeaseTimeout},
    queue::{LeaseAnswer, Refusal, SlotGuard},
    seat::{self, NoSeat},
};

/// The shortest time between two reports of a waiting caller's position. Short enough to see the queue move.
const QUEUED_EVERY: Duration = Duration::from_millis(250);

/// How many callers may wait for a slot of one pool. Each keeps a call of some kilobytes in memory. A caller at the end
/// of a line this long would get no slot within any lease timeout, so the pool refuses it at once.
const WAITING_MAX: usize = 4096;

/// How many callers of one owner may wait even if the line is full: an owner that fills the line must not keep others
/// out. Twice [`WAITING_MAX`] is the end for all.
const OWNER_WAITING_MIN: usize = 64;

/// How much longer than its timeout a caller waits for a slot that is about to come. A start takes 30 s at most, and a
/// few starts may have to wait for their turn.
const SLOT_COMING_GRACE: Duration = Duration::from_secs(90);

/// What a caller asks a pool for.
pub(crate) struct AcquireRequest {
    /// The only instance that the caller accepts, if it names one.
    pub(crate) key: Option<InstanceId>,
    /// The caller's number, for the strategy `sticky`.
    pub(crate) caller: u64,
    pub(crate) owner: Owner,
    pub(crate) agent: Arc<dyn Agent>,
    /// A call without a session, which may reuse the seat that the owner's last such call left.
    pub(crate) is_ephemeral: bool,
}

/// An acquired slot, and what is in it.
pub(crate) struct AcquiredSlot {
    lease: Lease,
    instance: Arc<dyn Instance>,
    found: SlotContents,
}

/// What is in an acquired slot.
pub(super) enum SlotContents {
    Nothing,
    /// An open seat that suits the caller.
    Seat(Box<dyn Seat>),
    /// An open seat that does not suit the caller: [`AcquiredSlot::open`] closes it before it opens another.
    Leftover(Box<dyn Seat>),
}

impl AcquiredSlot {
    /// Takes the seat that is open in the slot, or opens one.
    pub(crate) async fn open(
        self,
        agent: Arc<dyn Agent>,
        closing: &CancellationToken,
    ) -> Result<(Lease, Box<dyn Seat>), NoSeat> {
        match self.found {
            SlotContents::Seat(seat) => return Ok((self.lease, seat)),
            SlotContents::Leftover(seat) => drop(seat::close(seat).await),
            SlotContents::Nothing => {}
        }
        let seat = self.lease.open_seat(self.instance.as_ref(), agent, closing).await?;
        Ok((self.lease, seat))
    }
}

impl Pool {
    /// Acquires a slot, waiting for one if need be.
    pub(crate) async fn acquire(&self, request: &AcquireRequest) -> Result<AcquiredSlot, FleetError> {
        self.supervisors.open();
        let acquire = Acquire { pool: self, request, began: Instant::now() };
        let outcome = acquire.wait_for_slot().await;
        let watcher = &self.instances.watcher;
        let waited = acquire.began.elapsed();
        match &outcome {
            Ok(slot) => watcher.leased(&self.name, slot.lease.id(), waited),
            Err(why) => watcher.not_leased(&self.name, why, waited),
        }
        outcome
    }
}

/// One caller's attempt to get a slot.
struct Acquire<'a> {
    pool: &'a Pool,
    request: &'a AcquireRequest,
    began: Instant,
}

impl Acquire<'_> {
    async fn wait_for_slot(&self) -> Result<AcquiredSlot, FleetError> {
        let instances = &self.pool.instances;
        let key = self.request.key;
        let limit = instances.settings().lease_timeout;
        let mut waiter_id = None;
        loop {
            let instance_slot =
                key.map_or_else(|| instances.first_instance_slot(), |id| instances.instance_slot(id));
            let spare_suits = instance_slot
                .is_some_and(|instance_slot| instance_slot.engine().spare_suits(self.request.agent.as_ref()));
            let answer = match waiter_id.clone() {
                None => instances.queue.request(SlotRequest {
                    owner: self.request.owner.clone(),
                    key,
                    prefer: self.pool.idle_seats.prefer(self.request, spare_suits),
                    caller: Some(self.request.caller),
                }),
                Some(waiter_id) => instances.queue.request_again(waiter_id),
            };
            instances.start_wanted();
            let guard = match answer {
                LeaseAnswer::Leased(guard) => guard,
                LeaseAnswer::Refused(why) => return Err(self.refusal_error(why)),
                LeaseAnswer::Waits(_) if self.is_line_full() => {
                    let pool = instances.name.to_string();
                    let browser = instances.kind.browser();
                    return Err(FleetError::LineFull { pool, browser, max: WAITING_MAX });
                }
                LeaseAnswer::Waits(slot_waiter) => {
                    waiter_id = Some(slot_waiter.id.clone());
                    let queued = QueuedCaller { instances: instances.clone(), waiter: slot_waiter };
                    let guard = self.wait(queued, limit).await?;
                    instances.queue.with(|ledger| ledger.remember(self.request.caller, guard.lease_id()));
                    guard
                }
            };
            if let Some(slot) = self.open_granted(guard, spare_suits) {
                return Ok(slot);
            }
            // The instance died just as the caller's turn came: refuse the caller, like the callers behind it.
            if let (Some(id), Some(_)) = (key, &waiter_id) {
                return Err(self.refusal_error(Refusal::Refused(LeaseRefused::Failed(id))));
            }
        }
    }

    /// Finds what is in a granted slot. `None` if its instance has just died; the ledger then leases no more
    /// of its slots.
    fn open_granted(&self, guard: SlotGuard, spare_suits: bool) -> Option<AcquiredSlot> {
        let Pool { instances, idle_seats, spares, .. } = self.pool;
        let lease_id = guard.lease_id();
        let lease = Lease::new(instances, guard)?;
        let instance = lease.instance_slot.instance();
        // Check the lease after reading the instance: a valid lease then belongs to the instance that was read,
        // and not to one that ran before.
        if !lease.is_valid() {
            return None;
        }
        let Some(instance) = instance else {
            // The supervisor will see the loss too and decide what comes next; until then the instance leases nothing.
            // If the supervisor was faster, the instance may run again, and only the lease is void.
            instances.change(|ledger| match ledger.is_valid(lease_id) {
                true => ledger.lost(lease_id.instance, RestartOutlook::Soon),
                false => Changes::default(),
            });
            return None;
        };
        lease.begins(&self.request.owner);
        if spare_suits && idle_seats.has_spare(&lease) {
            spares.taken();
        }
        let found = idle_seats.take(&lease, self.request, spare_suits);
        Some(AcquiredSlot { lease, instance, found })
    }

    async fn wait(&self, mut queued: QueuedCaller, limit: Duration) -> Result<SlotGuard, FleetError> {
        let instances = &self.pool.instances;
        let agent = &self.request.agent;
        let waiter_id = &queued.waiter.id.clone();
        let deadline = self.began + limit;
        let follows = agent.follows_queue();
        let mut reported = None;
        loop {
            // A caller that waits only for an instance to start has no queue position to report.
            let is_in_line = follows && !self.is_coming(waiter_id) && !instances.is_disconnected();
            let position = if is_in_line { queued.waiter.queue_position() } else { None };
            if let Some((queue_position, waiting)) = position.filter(|position| reported != Some(*position)) {
                reported = position;
                agent.queued(Queued { pool: &instances.name, position: queue_position, waiting });
            }
            // Counting positions takes longer the more callers wait, and a caller far behind needs no exact one.
            let pause = position.map_or(QUEUED_EVERY, |(queue_position, _)| {
                QUEUED_EVERY * (1 + u32::try_from(queue_position / 16).unwrap_or(u32::MAX / 2))
            });
            let next = if follows { (Instant::now() + pause).min(deadline) } else { deadline };
            match timeout_at(next, &mut queued.waiter).await {
                Ok(guard) => return guard.map_err(|why| self.refusal_error(why)),
                Err(_) if Instant::now() < deadline => {}
                // The time is over, but a slot is about to come free: an instance starts, or a seat is nearly closed.
                // This does not apply to an attached browser, which may never come.
                Err(_)
                    if self.is_coming(waiter_id)
                        && !instances.is_disconnected()
                        && Instant::now() < deadline + SLOT_COMING_GRACE =>
                {
                    let mut starts = instances.last_start.subscribe();
                    tokio::select! {
                        guard = &mut queued.waiter => return guard.map_err(|why| self.refusal_error(why)),
                        Ok(()) = starts.changed(), if self.is_coming(waiter_id) => {}
                        () = sleep(QUEUED_EVERY) => {}
                    }
                }
                Err(_) => {
                    drop(queued);
                    return Err(self.timed_out(limit));
                }
            }
        }
    }

    /// Whether too many callers wait, this one included.
    fn is_line_full(&self) -> bool {
        self.pool.instances.queue.with(|ledger| {
            let waiting = ledger.waiting();
            waiting > 2 * WAITING_MAX
                || waiting > WAITING_MAX && ledger.waiting_of(&self.request.owner) > OWNER_WAITING_MIN
        })
    }

    fn is_coming(&self, waiter_id: &WaiterId) -> bool {
        self.pool.instances.queue.with(|ledger| ledger.has_room_coming(waiter_id))
    }

    fn timed_out(&self, waited: Duration) -> FleetError {
        let instances = &self.pool.instances;
        let key = self.request.key;
        if let Some(away) = instances
            .first_instance_slot()
            .and_then(|instance_slot| instances.kind.disconnected_error(&instance_slot, waited))
        {
            return away;
        }
        let figures = instances.queue.figures();
        let (leased, slots) = match key {
            Some(id) => instances.queue.with(|ledger| ledger.leased_in(id)),
            None => (figures.leased, figures.slots),
        };
        let pool = instances.name.to_string();
        let browser = instances.kind.browser();
        let is_asked_for = |id: &InstanceId| key.is_none_or(|key| key == *id);
        let silent = instances.queue.with(|ledger| ledger.withheld().filter(is_asked_for).count());
        let waiting = figures.waiting;
        let instance = key;
        let holders = Vec::new();
        let is_owners_apart = instances.settings().sharing == Sharing::OneOwner;
        LeaseTimeout {
            pool,
            browser,
            waited,
            leased,
            slots,
            waiting,
            silent,
            is_owners_apart,
            instance,
            holders,
        }
        .into()
    }

    fn refusal_error(&self, why: Refusal) -> FleetError {
        let instances = &self.pool.instances;
        let down = |instance, why: &str| {
            let pool = instances.name.to_string();
            let why = why.to_owned();
            FleetError::InstanceDown { pool, instance, why }
        };
        let refused = match why {
            Refusal::Closed => return instances.kind.why_closed(),
            Refusal::Start(error) => error.into(),
            Refusal::Refused(LeaseRefused::NoInstanceLeases) => instances.no_healthy(),
            Refusal::Refused(LeaseRefused::Gone(id)) => down(id, "it left the pool"),
            Refusal::Refused(LeaseRefused::Draining(id)) => down(id, DRAINING),
            Refusal::Refused(LeaseRefused::Failed(id)) => {
                let why =
                    instances.instance_slot(id).and_then(|instance_slot| instance_slot.failure_reason());
                down(id, why.as_deref().unwrap_or("it has failed"))
            }
        };
        instances.down(None).unwrap_or(refused)
    }
}
