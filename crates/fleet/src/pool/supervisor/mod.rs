//! The supervisors of a pool: one task per place, for as long as the place exists. A supervisor starts its instance when
//! the ledger needs it, restarts it when it failed, and carries out orders. Other code only gives it orders. After a
//! crash, [`Supervisor::lost`] and [`Supervisor::failed`] decide what comes next.
//!
//! [`running`] has an instance from start to stop, [`health`] the checks meanwhile, [`retry_policy`] when to try a failed
//! instance again, [`reconnect`] the order to connect an attached browser now.

mod health;
mod reconnect;
mod retry_policy;
mod running;

use std::{sync::Arc, time::Duration};

use greenroom_core::{StartError, lease::RestartOutlook};
use parking_lot::Mutex;
use tokio::{
    sync::{Semaphore, watch},
    time::{Instant, sleep_until},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::retry_policy::{RetryPolicy, Trouble, Verdict};
use super::{
    idle_seats::IdleSeats,
    instance_slot::{Goal, Orders, Place},
    instances::Instances,
    kind::told,
    lock,
    spares::Spares,
};
use crate::status::Health;

pub(super) use self::reconnect::Reconnect;

/// Why an instance that was stopped by hand lends nothing.
const DRAINED: &str = "it was drained; restart it to have it back";

/// The supervisors of a pool, and what they share.
pub(super) struct Supervisors {
    instances: Arc<Instances>,
    idle_seats: Arc<IdleSeats>,
    spares: Arc<Spares>,
    /// How many instances may start at once, in all pools.
    starts: Arc<Semaphore>,
    /// Whether the supervisors run.
    opened: Mutex<bool>,
    /// Counts how often the machine woke up.
    woke: watch::Sender<u64>,
    closing: CancellationToken,
    tasks: TaskTracker,
}

/// The task of one place, with its memory from one life of the instance to the next.
struct Supervisor {
    shared: Arc<Supervisors>,
    instances: Arc<Instances>,
    place: Arc<Place>,
    orders: watch::Receiver<Orders>,
    retry_policy: RetryPolicy,
    /// How many orders to restart have been carried out.
    restarts: u64,
    /// Why the browser could not be brought back before this attempt.
    not_revived: Option<String>,
}

/// What a supervisor does next.
enum Next {
    /// Wait until the instance is needed.
    Cold,
    Start,
    /// Bring the browser back if it is gone, then start.
    Revive,
    /// Start again at this time.
    After(Instant),
    /// Wait for an order to start.
    Rest,
    Leave,
}

impl Supervisors {
    pub(super) fn new(
        instances: Arc<Instances>,
        idle_seats: Arc<IdleSeats>,
        spares: Arc<Spares>,
        starts: Arc<Semaphore>,
    ) -> Arc<Self> {
        Arc::new(Self {
            instances,
            idle_seats,
            spares,
            starts,
            opened: Mutex::new(false),
            woke: watch::Sender::new(0),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
        })
    }

    /// Lets the supervisors run, and starts the instances that start with the pool.
    pub(super) fn open(self: &Arc<Self>) {
        let mut opened = lock(&self.opened);
        if std::mem::replace(&mut *opened, true) || self.closing.is_cancelled() {
            return;
        }
        for place in self.instances.places().values() {
            self.supervise(place);
        }
    }

    pub(super) fn is_open(&self) -> bool {
        *lock(&self.opened)
    }

    /// Spawns the supervisor of a place, which starts the instance if it starts with the pool.
    pub(super) fn supervise(self: &Arc<Self>, place: &Arc<Place>) {
        let mut orders = place.orders.subscribe();
        // Treat orders sent before this task started as unseen.
        orders.mark_changed();
        let supervisor = Supervisor {
            shared: self.clone(),
            instances: self.instances.clone(),
            place: place.clone(),
            orders,
            retry_policy: RetryPolicy::default(),
            restarts: 0,
            not_revived: None,
        };
        self.tasks.spawn(supervisor.run());
        if self.instances.kind.starts_with_pool(place.settings().lazy) {
            self.instances.queue.with(|ledger| ledger.starting(place.id));
            place.wanted.notify_one();
        }
    }

    /// The machine slept: checks missed meanwhile do not count, and every instance is checked now.
    pub(super) fn woke(&self) {
        self.woke.send_modify(|count| *count += 1);
    }

    /// Stops every instance. Returns when nothing of them is left.
    pub(super) async fn shutdown(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Supervisor {
    async fn run(mut self) {
        let mut next = Next::Cold;
        while !self.shared.closing.is_cancelled() {
            next = match next {
                Next::Start => self.run_instance().await,
                Next::Revive => self.revive().await,
                Next::Leave if self.leave() => return,
                Next::Leave => self.stay(),
                Next::Cold | Next::Rest | Next::After(_) => {
                    let pause = if let Next::After(at) = next { Some(at) } else { None };
                    tokio::select! {
                        biased;
                        () = self.shared.closing.cancelled() => return,
                        changed = self.orders.changed() => match changed {
                            Ok(()) => self.obey().unwrap_or(next),
                            Err(_) => return,
                        },
                        () = self.place.reconnect.ordered() => Next::Revive,
                        // A wake-up left over from an earlier life arrives here too: then the instance must not start.
                        () = self.place.wanted.notified(), if pause.is_none() => {
                            let is_needed = self.instances.queue.with(|ledger| ledger.is_starting(self.place.id));
                            if is_needed { Next::Start } else { next }
                        }
                        () = sleep_until(pause.unwrap_or_else(Instant::now)), if pause.is_some() => {
                            self.count_restart();
                            self.starting()
                        }
                    }
                }
            };
        }
    }

    /// From now on callers wait for the instance.
    fn starting(&self) -> Next {
        self.instances.queue.with(|ledger| ledger.starting(self.place.id));
        Next::Start
    }

    /// The place was about to leave and is needed after all.
    fn stay(&self) -> Next {
        self.place.went(Health::Starting, None);
        self.starting()
    }

    /// The instance lends nothing more; callers that wait for it learn whether it comes back.
    fn gone(&self, hope: RestartOutlook) {
        self.instances.change(|ledger| ledger.lost(self.place.id, hope));
    }

    /// The instance was drained; the supervisor waits for an order.
    fn drained(&self) -> Next {
        self.place.went(Health::Failed, Some(DRAINED.to_owned()));
        self.gone(RestartOutlook::None);
        Next::Rest
    }

    /// Whether these orders contain a restart that has not been carried out.
    fn is_news(&self, order: Orders) -> bool {
        order.restarts > self.restarts
    }

    /// The current orders, and whether they contain a new restart, which counts as carried out from now on.
    fn take_orders(&mut self) -> (Goal, bool) {
        let order = *self.orders.borrow_and_update();
        let is_news = self.is_news(order);
        self.restarts = order.restarts;
        (order.goal, is_news)
    }

    /// What follows from the orders for an instance that does not run.
    fn obey(&mut self) -> Option<Next> {
        match self.take_orders() {
            (Goal::Leave, _) => Some(Next::Leave),
            (Goal::Drain, _) => Some(self.drained()),
            (Goal::Run, false) => None,
            (Goal::Run, true) if self.instances.kind.keeps_running() => {
                self.retry_policy.renew();
                Some(self.starting())
            }
            // The instance starts when a caller needs it.
            (Goal::Run, true) => {
                self.place.went(Health::Starting, None);
                self.gone(RestartOutlook::OnDemand);
                Some(Next::Cold)
            }
        }
    }

    /// Counts the start of an instance after a failure.
    fn count_restart(&self) {
        if self.instances.kind.counts_restarts() {
            self.place.lock().restarts += 1;
            self.instances.watcher.restarted(&self.instances.name, self.place.id);
        }
    }

    /// Decides what comes next for an instance that could not start.
    fn not_started(&mut self, error: &StartError) -> Next {
        let (pool, instance) = (&self.instances.name, self.place.id);
        if self.instances.kind.is_given_up() {
            tracing::debug!(%pool, %error, hint = error.hint, "still cannot connect");
        } else {
            tracing::warn!(%pool, %instance, %error, hint = error.hint, "cannot start");
        }
        let why = match self.not_revived.take() {
            Some(first) => format!("{first}; {}", told(error)),
            None => told(error),
        };
        let next = self.failed(Trouble::Start, &why, Some(error));
        self.place.reconnect.report(Some(why));
        next
    }

    /// Decides what comes next for an instance that was lost after running this long.
    fn lost(&mut self, held: Duration, why: &str) -> Next {
        tracing::warn!(pool = %self.instances.name, instance = %self.place.id, why, "instance lost");
        self.failed(Trouble::Loss { held }, why, None)
    }

    /// Decides what comes next for an instance that should run and does not: the retry policy says when to try again.
    fn failed(&mut self, trouble: Trouble, why: &str, not_started: Option<&StartError>) -> Next {
        let pool = &self.instances.name;
        let instance = self.place.id;
        let kind = &self.instances.kind;
        let settings = self.place.settings();
        let now = Instant::now();
        let verdict = match kind.keeps_running() {
            true => self.retry_policy.spend(trouble, settings.retry, settings.restarts, now),
            false => Verdict::OnDemand,
        };
        let (hope, again) = match verdict {
            Verdict::OnDemand => (RestartOutlook::OnDemand, None),
            Verdict::Again(pause) => {
                if !kind.is_given_up() {
                    tracing::warn!(%pool, %instance, ?pause, "trying again after a pause");
                }
                (RestartOutlook::Soon, Some(now + pause))
            }
            Verdict::Rest(rest) => {
                if !kind.is_given_up() {
                    tracing::warn!(%pool, every = ?rest, "connecting failed repeatedly; trying again at intervals");
                }
                (RestartOutlook::None, Some(now + rest))
            }
            Verdict::Never => {
                tracing::error!(%pool, %instance, "the instance failed too often; `greenroom pool restart` starts it again");
                (RestartOutlook::None, None)
            }
        };
        self.place.went(Health::Failed, Some(why.to_owned()));
        kind.update_link(|link| link.failed(why.to_owned(), again, hope == RestartOutlook::None));
        match not_started {
            Some(error) if hope == RestartOutlook::OnDemand => {
                self.instances.queue.start_failed(instance, error);
                self.instances.start_wanted();
                // The start may have been for a spare.
                self.shared.spares.failed(Duration::ZERO, Some(error.clone()));
            }
            _ => self.gone(hope),
        }
        self.wake_waiters();
        match again {
            Some(at) => Next::After(at),
            None if hope == RestartOutlook::OnDemand => Next::Cold,
            None => Next::Rest,
        }
    }

    /// A start is over, or an instance is gone: callers that wait for either look again, and so does the task for spares.
    fn wake_waiters(&self) {
        self.instances.room.notify_one();
        self.instances.last_start.send_modify(|_| ());
    }

    /// Takes the place out of the pool, unless it got the order to stay in the meantime.
    fn leave(&self) -> bool {
        {
            // Under the lock that orders and new numbers are given under.
            let mut places = self.instances.places();
            if self.place.orders.borrow().goal != Goal::Leave {
                return false;
            }
            self.instances.queue.change(|ledger| ledger.remove(self.place.id));
            places.remove(&self.place.id);
        }
        self.instances.start_wanted();
        true
    }
}
