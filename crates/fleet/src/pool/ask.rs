//! Asking a pool for a slot: waiting for one, and what comes of it.

use std::{sync::Arc, time::Duration};

use greenroom_core::{
    InstanceId, Queued,
    lease::{Changes, Hope, Refused, WaiterId, Want},
    port::human,
};
use tokio::time::{Instant, timeout_at};

use super::{DRAINING, Pool, Slot, Taker, lease::InLine};
use crate::{
    error::{FleetError, LeaseTimeout},
    queue::{self, Answer, Refusal},
};

/// How often a caller that waits hears where it stands, at most. Often enough to see the queue move.
const QUEUED_EVERY: Duration = Duration::from_millis(250);

/// How many callers may wait for a slot of one pool. Each is a call that is kept in memory, some kilobytes; who comes to a
/// line this long would not be served within any lease time-out, and should hear so at once.
const WAITING_MAX: usize = 4096;

/// How much longer than its time a caller waits for a slot that is on its way. A start takes 30 s at most, and a few may
/// have to wait for their turn.
const COMING: Duration = Duration::from_secs(90);

/// What somebody asks a pool for.
pub(crate) struct Request<'a> {
    /// This instance and no other.
    pub(crate) key: Option<InstanceId>,
    /// Who asks, for the strategy `sticky`.
    pub(crate) caller: u64,
    pub(crate) taker: Taker<'a>,
}

impl Pool {
    /// Takes a slot, waiting for one if need be.
    pub(crate) async fn lease(self: &Arc<Self>, request: Request<'_>) -> Result<Slot, FleetError> {
        let began = Instant::now();
        let outcome = self.seek_slot(&request, began).await;
        let waited = began.elapsed();
        match &outcome {
            Ok(slot) => self.instances.watcher.leased(&self.name, slot.lease.id, waited),
            Err(why) => self.instances.watcher.not_leased(&self.name, why, waited),
        }
        outcome
    }

    async fn seek_slot(self: &Arc<Self>, request: &Request<'_>, began: Instant) -> Result<Slot, FleetError> {
        self.supervisors.open();
        let settings = self.instances.settings();
        let mut waiter = None;
        loop {
            let spare_suits = request
                .key
                .map_or_else(|| self.instances.any_place(), |id| self.instances.place(id))
                .is_some_and(|place| place.engine().spare_suits(request.taker.agent));
            let answer = match waiter {
                None => self.instances.queue.ask(Want {
                    key: request.key,
                    prefer: self.idle_seats.prefer(&request.taker, spare_suits),
                    caller: Some(request.caller),
                }),
                Some(waiter) => self.instances.queue.ask_again(waiter),
            };
            self.instances.start_wanted();
            let lease = match answer {
                Answer::Lent(lease) => lease,
                Answer::Refused(why) => return Err(self.why_refused(why)),
                Answer::Waits(_) if self.instances.queue.with(|ledger| ledger.waiting()) > WAITING_MAX => {
                    let (pool, browser) = (self.name.to_string(), self.kind.browser());
                    return Err(FleetError::LineFull { pool, browser, max: WAITING_MAX });
                }
                Answer::Waits(waiting) => {
                    waiter = Some(waiting.waiter);
                    let line = InLine { instances: self.instances.clone(), waiting };
                    let lease = self.wait(line, request, began, settings.lease_timeout).await?;
                    self.instances.queue.with(|ledger| ledger.remember(request.caller, lease.lent()));
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

    /// What there is in a slot that was lent. `None`, if its instance died a moment ago: then it is out of the pool now.
    fn take_up(
        self: &Arc<Self>,
        lease: queue::Lease,
        request: &Request<'_>,
        spare_suits: bool,
    ) -> Option<Slot> {
        let lent = lease.lent();
        let lease = self.instances.lease(lease)?;
        let instance = lease.place.instance();
        // Looked at after the instance was: so it is the one that the lease is about.
        if !lease.is_valid() {
            return None;
        }
        let Some(instance) = instance else {
            // Its task will see it too, and say what becomes of it; until then it lends nothing. Not if the task was
            // faster, and the instance may live again: then the lease is void.
            self.instances.change(|ledger| match ledger.is_valid(lent) {
                true => ledger.lost(lease.id, Hope::Soon),
                false => Changes::default(),
            });
            return None;
        };
        lease.begins();
        if spare_suits && self.idle_seats.has_spare(&lease) {
            self.spares.taken();
        }
        let found = self.idle_seats.take(&lease, &request.taker, spare_suits);
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
        let follows = request.taker.agent.follows_queue();
        let mut said = None;
        loop {
            // Whoever only waits for an instance to start stands in no queue.
            let is_in_line = follows && !self.is_coming(waiter) && !self.is_away();
            let place = if is_in_line { line.waiting.place() } else { None };
            if let Some((place, all)) = place.filter(|place| said != Some(*place)) {
                said = Some((place, all));
                request.taker.agent.queued(Queued { pool: &self.name, place, waiting: all });
            }
            // Counting takes longer the more there are, and whoever stands far behind need not know so exactly.
            let pause = place.map_or(QUEUED_EVERY, |(place, _)| {
                QUEUED_EVERY * (1 + u32::try_from(place / 16).unwrap_or(u32::MAX / 2))
            });
            let next = if follows { (Instant::now() + pause).min(deadline) } else { deadline };
            match timeout_at(next, &mut line.waiting).await {
                Ok(Ok(lease)) => return Ok(lease),
                Ok(Err(why)) => return Err(self.why_refused(why)),
                Err(_) if Instant::now() < deadline => {}
                // Time is over, but a slot is on its way: an instance starts, or the house is nearly done with one. Not
                // where somebody else's browser is waited for, which may never come.
                Err(_) if self.is_coming(waiter) && !self.is_away() && Instant::now() < deadline + COMING => {
                    let mut starts = self.instances.last_start.subscribe();
                    tokio::select! {
                        lease = &mut line.waiting => return lease.map_err(|why| self.why_refused(why)),
                        Ok(()) = starts.changed(), if self.is_coming(waiter) => {}
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
        self.instances.queue.with(|ledger| ledger.is_coming(waiter))
    }

    /// Whether it is an attached browser that is not connected.
    fn is_away(&self) -> bool {
        self.kind.is_away(self.instances.any_place().as_ref())
    }

    fn too_late(&self, key: Option<InstanceId>, waited: Duration) -> FleetError {
        if self.is_away() {
            let yet = || format!("no connection within {}", human(waited));
            return self.down(self.link().last_error.or_else(|| Some(yet())));
        }
        let figures = self.instances.queue.figures();
        let (leased, slots) = match key {
            Some(id) => self.instances.queue.with(|ledger| ledger.lent(id)),
            None => (figures.leased, figures.slots),
        };
        let (pool, browser, waiting) = (self.name.to_string(), self.kind.browser(), figures.waiting);
        let silent = self
            .instances
            .queue
            .with(|ledger| ledger.withheld().filter(|id| key.is_none_or(|key| key == *id)).count());
        let (instance, holders) = (key, Vec::new());
        LeaseTimeout { pool, browser, waited, leased, slots, waiting, silent, instance, holders }.into()
    }

    fn why_refused(&self, why: Refusal) -> FleetError {
        let (pool, is_closed) = (self.name.to_string(), matches!(why, Refusal::Closed));
        if let Some(down) = self.kind.down(self.instances.any_place().as_ref(), None).filter(|_| !is_closed) {
            return down;
        }
        let down = |instance, why: &str| FleetError::InstanceDown {
            pool: self.name.to_string(),
            instance,
            why: why.to_owned(),
        };
        match why {
            Refusal::Closed => self.kind.why_closed(),
            Refusal::Start(error) => error.into(),
            Refusal::Refused(Refused::Hopeless) => FleetError::NoHealthy {
                pool,
                is_default: self.instances.settings().is_default,
                why: self.instances.trouble(),
            },
            Refusal::Refused(Refused::Gone(id)) => down(id, "it left the pool"),
            Refusal::Refused(Refused::Draining(id)) => down(id, DRAINING),
            Refusal::Refused(Refused::Failed(id)) => {
                let why = self.instances.place(id).and_then(|place| place.why());
                down(id, why.as_deref().unwrap_or("it has failed"))
            }
        }
    }
}
