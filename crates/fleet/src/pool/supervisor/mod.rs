//! The supervisors of a pool: one task per place, for as long as there is the place. A supervisor starts its instance
//! when the ledger needs it, starts it again when it failed, and obeys orders. Other code only gives it orders. After a
//! crash, [`Supervisor::lost`] and [`Supervisor::failed`] decide what comes next.
//!
//! [`running`] has an instance from start to stop, [`health`] the checks meanwhile, [`retry_policy`] when a failed
//! instance is tried again, [`reconnect`] the order to connect an attached browser now.

mod health;
mod reconnect;
mod retry_policy;
mod running;

use std::{sync::Arc, time::Duration};

use greenroom_core::{StartError, lease::Hope};
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

/// What is said of an instance that was stopped by hand.
const DRAINED: &str = "it was drained; restart it to have it back";

/// The supervisors of a pool, and what they share.
pub(super) struct Supervisors {
    instances: Arc<Instances>,
    idle_seats: Arc<IdleSeats>,
    spares: Arc<Spares>,
    /// How many instances may be started at a time, in all pools.
    starts: Arc<Semaphore>,
    /// The supervisors run.
    opened: Mutex<bool>,
    /// Counts how often the machine woke up.
    woke: watch::Sender<u64>,
    closing: CancellationToken,
    tasks: TaskTracker,
}

/// The task of one place, with what it remembers from one life of its instance to the next.
struct Supervisor {
    shared: Arc<Supervisors>,
    instances: Arc<Instances>,
    place: Arc<Place>,
    orders: watch::Receiver<Orders>,
    retry_policy: RetryPolicy,
    /// How many of the orders to start anew have been carried out.
    restarts: u64,
    /// Why the browser could not be brought back before this try.
    not_revived: Option<String>,
}

/// What a supervisor does next.
enum Next {
    /// Wait until the instance is needed.
    Cold,
    Start,
    /// Bring the browser back if it is gone, then start.
    Revive,
    /// Start again then.
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

    /// Lets the supervisors run, and those instances start that start with the pool.
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

    /// Runs the supervisor of a place, and has the instance started if it starts with the pool.
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

    /// The machine slept: what was missed meanwhile is no instance's fault, and everything is looked at now.
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
                        // What was left over from an earlier life wakes it up, too: then it is not to start.
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

    /// The instance lends nothing any more; callers that wait for it hear whether it comes back.
    fn gone(&self, hope: Hope) {
        self.instances.change(|ledger| ledger.lost(self.place.id, hope));
    }

    /// It was drained, and waits for an order.
    fn drained(&self) -> Next {
        self.place.went(Health::Failed, Some(DRAINED.to_owned()));
        self.gone(Hope::None);
        Next::Rest
    }

    /// Whether the order to start anew is one that has not been carried out.
    fn is_news(&self, order: Orders) -> bool {
        order.restarts > self.restarts
    }

    /// The orders as they are now, and whether they say to start anew. From now on that counts as carried out.
    fn take_orders(&mut self) -> (Goal, bool) {
        let order = *self.orders.borrow_and_update();
        let is_news = self.is_news(order);
        self.restarts = order.restarts;
        (order.goal, is_news)
    }

    /// What an instance that does not run makes of its orders.
    fn obey(&mut self) -> Option<Next> {
        match self.take_orders() {
            (Goal::Leave, _) => Some(Next::Leave),
            (Goal::Drain, _) => Some(self.drained()),
            (Goal::Run, false) => None,
            (Goal::Run, true) if self.instances.kind.keeps_running() => {
                self.retry_policy.renew();
                Some(self.starting())
            }
            // It is started when a caller needs it.
            (Goal::Run, true) => {
                self.place.went(Health::Starting, None);
                self.gone(Hope::OnDemand);
                Some(Next::Cold)
            }
        }
    }

    /// The instance is started again after a failure.
    fn count_restart(&self) {
        if self.instances.kind.counts_restarts() {
            self.place.lock().restarts += 1;
            self.instances.watcher.restarted(&self.instances.name, self.place.id);
        }
    }

    /// What becomes of an instance that could not be started.
    fn not_started(&mut self, error: &StartError) -> Next {
        let (pool, instance) = (&self.instances.name, self.place.id);
        if self.instances.kind.is_given_up() {
            tracing::debug!(%pool, %error, hint = error.hint, "still cannot be connected to");
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

    /// What becomes of an instance that was lost after it had been there for so long.
    fn lost(&mut self, held: Duration, why: &str) -> Next {
        tracing::warn!(pool = %self.instances.name, instance = %self.place.id, why, "lost");
        self.failed(Trouble::Loss { held }, why, None)
    }

    /// What becomes of an instance that does not run, though it should: the retry policy says when it is tried again.
    fn failed(&mut self, trouble: Trouble, why: &str, not_started: Option<&StartError>) -> Next {
        let (pool, instance, kind) = (&self.instances.name, self.place.id, &self.instances.kind);
        let (settings, now) = (self.place.settings(), Instant::now());
        let verdict = match kind.keeps_running() {
            true => self.retry_policy.spend(trouble, settings.retry, settings.restarts, now),
            false => Verdict::OnDemand,
        };
        let (hope, again) = match verdict {
            Verdict::OnDemand => (Hope::OnDemand, None),
            Verdict::Again(pause) => {
                if !kind.is_given_up() {
                    tracing::warn!(%pool, %instance, ?pause, "trying again");
                }
                (Hope::Soon, Some(now + pause))
            }
            Verdict::Rest(rest) => {
                if !kind.is_given_up() {
                    tracing::warn!(%pool, every = ?rest, "tried often enough; from now on it is tried now and then");
                }
                (Hope::None, Some(now + rest))
            }
            Verdict::Never => {
                tracing::error!(%pool, %instance, "failed too often; it stays so until it is restarted by hand");
                (Hope::None, None)
            }
        };
        self.place.went(Health::Failed, Some(why.to_owned()));
        kind.update_link(|link| link.failed(why.to_owned(), again, hope == Hope::None));
        match not_started {
            Some(error) if hope == Hope::OnDemand => {
                self.instances.queue.start_failed(instance, error);
                self.instances.start_wanted();
                // It may have been for a spare that it was to start.
                self.shared.spares.failed(Duration::ZERO, Some(error.clone()));
            }
            _ => self.gone(hope),
        }
        self.tell_those_who_wait();
        match again {
            Some(at) => Next::After(at),
            None if hope == Hope::OnDemand => Next::Cold,
            None => Next::Rest,
        }
    }

    /// A start is over, or an instance gone: callers that wait for either look again, and so does the task for spares.
    fn tell_those_who_wait(&self) {
        self.instances.room.notify_one();
        self.instances.last_start.send_modify(|_| ());
    }

    /// Takes the place out of the pool, unless it was told to stay in the meantime.
    fn leave(&self) -> bool {
        {
            // Under one lock with those who give orders and numbers.
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
