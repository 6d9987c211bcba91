//! How a caller gets a seat: it acquires a slot of the pool, waiting for one if need be, and opens a seat there unless one
//! that suits it is open already.

use std::{sync::Arc, time::Duration};

use greenroom_core::{
    Agent, Instance, InstanceId, Owner, Queued, Seat,
    lease::{Changes, LeaseRefused, RestartOutlook, SlotRequest, WaiterId},
};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{DRAINING, Lease, Pool, lease::InLine};
use crate::{
    error::{FleetError, LeaseTimeout},
    queue::{LeaseAnswer, Refusal, SlotGuard},
    seat::{self, NoSeat},
};

/// How often, at most, a waiting caller learns its position. Often enough to see the queue move.
const QUEUED_EVERY: Duration = Duration::from_millis(250);

/// How many callers may wait for a slot of one pool. Each is a call that is kept in memory, some kilobytes. A caller at
/// the end of a line this long would not be served within any lease timeout, so it is refused at once.
const WAITING_MAX: usize = 4096;

/// How much longer than its timeout a caller waits for a slot that is about to come. A start takes 30 s at most, and a
/// few starts may have to wait for their turn.
const COMING: Duration = Duration::from_secs(90);

/// What a caller asks a pool for.
pub(crate) struct Request {
    /// Only this instance will do.
    pub(crate) key: Option<InstanceId>,
    /// The caller's number, for the strategy `sticky`.
    pub(crate) caller: u64,
    pub(crate) owner: Owner,
    pub(crate) agent: Arc<dyn Agent>,
    /// A call without a session, which may reuse the seat that the owner's last such call left.
    pub(crate) is_loose: bool,
}

/// An acquired slot, and what is in it.
pub(crate) struct Slot {
    lease: Lease,
    instance: Arc<dyn Instance>,
    found: Found,
}

/// What is in an acquired slot.
pub(super) enum Found {
    Nothing,
    /// An open seat that suits the caller.
    Seat(Box<dyn Seat>),
    /// An open seat that does not suit the caller: it is closed before another is opened.
    Leftover(Box<dyn Seat>),
}

impl Slot {
    /// Takes the seat that is open in the slot, or opens one.
    pub(crate) async fn open(
        self,
        agent: Arc<dyn Agent>,
        closing: &CancellationToken,
    ) -> Result<(Lease, Box<dyn Seat>), NoSeat> {
        match self.found {
            Found::Seat(seat) => return Ok((self.lease, seat)),
            Found::Leftover(seat) => drop(seat::close(seat).await),
            Found::Nothing => {}
        }
        let seat = self.lease.open_seat(self.instance.as_ref(), agent, closing).await?;
        Ok((self.lease, seat))
    }
}

impl Pool {
    /// Acquires a slot, waiting for one if need be.
    pub(crate) async fn acquire(&self, request: &Request) -> Result<Slot, FleetError> {
        self.supervisors.open();
        let acquire = Acquire { pool: self, request, began: Instant::now() };
        let outcome = acquire.slot().await;
        let watcher = &self.instances.watcher;
        let waited = acquire.began.elapsed();
        match &outcome {
            Ok(slot) => watcher.leased(&self.name, slot.lease.id(), waited),
            Err(why) => watcher.not_leased(&self.name, why, waited),
        }
        outcome
    }
}

/// A caller on its way to a slot.
struct Acquire<'a> {
    pool: &'a Pool,
    request: &'a Request,
    began: Instant,
}

impl Acquire<'_> {
    async fn slot(&self) -> Result<Slot, FleetError> {
        let instances = &self.pool.instances;
        let key = self.request.key;
        let limit = instances.settings().lease_timeout;
        let mut waiter = None;
        loop {
            let place = key.map_or_else(|| instances.any_place(), |id| instances.place(id));
            let spare_suits =
                place.is_some_and(|place| place.engine().spare_suits(self.request.agent.as_ref()));
            let answer = match waiter {
                None => instances.queue.ask(SlotRequest {
                    key,
                    prefer: self.pool.idle_seats.prefer(self.request, spare_suits),
                    caller: Some(self.request.caller),
                }),
                Some(waiter) => instances.queue.request_again(waiter),
            };
            instances.start_wanted();
            let guard = match answer {
                LeaseAnswer::Leased(guard) => guard,
                LeaseAnswer::Refused(why) => return Err(self.why_refused(why)),
                LeaseAnswer::Waits(_) if instances.queue.with(|ledger| ledger.waiting()) > WAITING_MAX => {
                    let pool = instances.name.to_string();
                    let browser = instances.kind.browser();
                    return Err(FleetError::LineFull { pool, browser, max: WAITING_MAX });
                }
                LeaseAnswer::Waits(waiting) => {
                    waiter = Some(waiting.waiter);
                    let line = InLine { instances: instances.clone(), waiting };
                    let guard = self.wait(line, limit).await?;
                    instances.queue.with(|ledger| ledger.remember(self.request.caller, guard.lent()));
                    guard
                }
            };
            if let Some(slot) = self.take_up(guard, spare_suits) {
                return Ok(slot);
            }
            // The instance died just as the caller's turn came: refuse the caller, as those behind it are refused.
            if let (Some(id), Some(_)) = (key, waiter) {
                return Err(self.why_refused(Refusal::Refused(LeaseRefused::Failed(id))));
            }
        }
    }

    /// What is in a granted slot. `None` if its instance died a moment ago; the instance then leaves the pool now.
    fn take_up(&self, guard: SlotGuard, spare_suits: bool) -> Option<Slot> {
        let Pool { instances, idle_seats, spares, .. } = self.pool;
        let lent = guard.lent();
        let lease = Lease::new(instances, guard)?;
        let instance = lease.place.instance();
        // Check the lease after reading the instance, so that both are of the same life.
        if !lease.is_valid() {
            return None;
        }
        let Some(instance) = instance else {
            // The supervisor will see the loss too and decide what comes next; until then the instance lends nothing. If the
            // supervisor was faster, the instance may run again, and only the lease is void.
            instances.change(|ledger| match ledger.is_valid(lent) {
                true => ledger.lost(lent.instance, RestartOutlook::Soon),
                false => Changes::default(),
            });
            return None;
        };
        lease.begins();
        if spare_suits && idle_seats.has_spare(&lease) {
            spares.taken();
        }
        let found = idle_seats.take(&lease, self.request, spare_suits);
        Some(Slot { lease, instance, found })
    }

    async fn wait(&self, mut line: InLine, limit: Duration) -> Result<SlotGuard, FleetError> {
        let instances = &self.pool.instances;
        let agent = &self.request.agent;
        let waiter = line.waiting.waiter;
        let deadline = self.began + limit;
        let follows = agent.follows_queue();
        let mut said = None;
        loop {
            // A caller that only waits for an instance to start stands in no queue.
            let is_in_line = follows && !self.is_coming(waiter) && !instances.is_away();
            let position = if is_in_line { line.waiting.place() } else { None };
            if let Some((place, waiting)) = position.filter(|position| said != Some(*position)) {
                said = position;
                agent.queued(Queued { pool: &instances.name, place, waiting });
            }
            // Counting takes longer the more callers wait, and a caller far behind needs no exact position.
            let pause = position.map_or(QUEUED_EVERY, |(place, _)| {
                QUEUED_EVERY * (1 + u32::try_from(place / 16).unwrap_or(u32::MAX / 2))
            });
            let next = if follows { (Instant::now() + pause).min(deadline) } else { deadline };
            match timeout_at(next, &mut line.waiting).await {
                Ok(guard) => return guard.map_err(|why| self.why_refused(why)),
                Err(_) if Instant::now() < deadline => {}
                // The time is over, but a slot is about to come: an instance starts, or a seat is nearly closed. This does
                // not apply to an attached browser, which may never come.
                Err(_)
                    if self.is_coming(waiter)
                        && !instances.is_away()
                        && Instant::now() < deadline + COMING =>
                {
                    let mut starts = instances.last_start.subscribe();
                    tokio::select! {
                        guard = &mut line.waiting => return guard.map_err(|why| self.why_refused(why)),
                        Ok(()) = starts.changed(), if self.is_coming(waiter) => {}
                        () = sleep(QUEUED_EVERY) => {}
                    }
                }
                Err(_) => {
                    drop(line);
                    return Err(self.too_late(limit));
                }
            }
        }
    }

    fn is_coming(&self, waiter: WaiterId) -> bool {
        self.pool.instances.queue.with(|ledger| ledger.has_room_coming(waiter))
    }

    fn too_late(&self, waited: Duration) -> FleetError {
        let instances = &self.pool.instances;
        let key = self.request.key;
        if let Some(away) = instances.any_place().and_then(|place| instances.kind.away(&place, waited)) {
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
        LeaseTimeout { pool, browser, waited, leased, slots, waiting, silent, instance, holders }.into()
    }

    fn why_refused(&self, why: Refusal) -> FleetError {
        let instances = &self.pool.instances;
        let down = |instance, why: &str| {
            let pool = instances.name.to_string();
            let why = why.to_owned();
            FleetError::InstanceDown { pool, instance, why }
        };
        let refused = match why {
            Refusal::Closed => return instances.kind.why_closed(),
            Refusal::Start(error) => error.into(),
            Refusal::Refused(LeaseRefused::Hopeless) => instances.no_healthy(),
            Refusal::Refused(LeaseRefused::Gone(id)) => down(id, "it left the pool"),
            Refusal::Refused(LeaseRefused::Draining(id)) => down(id, DRAINING),
            Refusal::Refused(LeaseRefused::Failed(id)) => {
                let why = instances.place(id).and_then(|place| place.why());
                down(id, why.as_deref().unwrap_or("it has failed"))
            }
        };
        instances.down(None).unwrap_or(refused)
    }
}
