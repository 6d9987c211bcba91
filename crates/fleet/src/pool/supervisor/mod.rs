//! The supervisors of a pool: one task per instance slot, for as long as the slot exists. A supervisor starts its
//! instance when the ledger asks for it, restarts it when it failed, and carries out orders. No other code starts or
//! stops instances. After a crash, [`Supervisor::lost`] and [`Supervisor::failed`] decide what comes next.
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

use self::retry_policy::{FailureKind, RetryDecision, RetryPolicy};
use super::{
    idle_seats::IdleSeats,
    instance_slot::{Goal, InstanceSlot, Orders},
    instances::Instances,
    kind::error_with_hint,
    lock,
    spares::Spares,
};
use crate::pool_status::Health;

pub(super) use self::reconnect::Reconnect;

/// Why an instance that was stopped by hand leases nothing.
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

/// The task of one instance slot, with what it remembers from one run of the instance to the next.
struct Supervisor {
    shared: Arc<Supervisors>,
    instances: Arc<Instances>,
    instance_slot: Arc<InstanceSlot>,
    orders: watch::Receiver<Orders>,
    retry_policy: RetryPolicy,
    /// How many orders to restart have been carried out.
    restarts: u64,
    /// Why [`Supervisor::revive`] could not bring the browser back before this attempt to connect.
    not_revived: Option<String>,
}

/// What a supervisor does next.
enum NextStep {
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
        for instance_slot in self.instances.instance_slots().values() {
            self.supervise(instance_slot);
        }
    }

    pub(super) fn is_open(&self) -> bool {
        *lock(&self.opened)
    }

    /// Spawns the supervisor of an instance slot, which starts the instance if it starts with the pool.
    pub(super) fn supervise(self: &Arc<Self>, instance_slot: &Arc<InstanceSlot>) {
        let mut orders = instance_slot.orders.subscribe();
        // Treat orders sent before this task started as unseen.
        orders.mark_changed();
        let supervisor = Supervisor {
            shared: self.clone(),
            instances: self.instances.clone(),
            instance_slot: instance_slot.clone(),
            orders,
            retry_policy: RetryPolicy::default(),
            restarts: 0,
            not_revived: None,
        };
        self.tasks.spawn(supervisor.run());
        if self.instances.kind.starts_with_pool(instance_slot.settings().lazy) {
            self.instances.queue.with(|ledger| ledger.starting(instance_slot.id));
            instance_slot.wanted.notify_one();
        }
    }

    /// Notes that the machine slept: checks missed meanwhile do not count, and every instance is checked now.
    pub(super) fn check_after_sleep(&self) {
        self.woke.send_modify(|count| *count += 1);
    }

    /// Stops every instance. Returns when all have ended.
    pub(super) async fn shutdown(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Supervisor {
    async fn run(mut self) {
        let mut next = NextStep::Cold;
        while !self.shared.closing.is_cancelled() {
            next = match next {
                NextStep::Start => self.run_instance().await,
                NextStep::Revive => self.revive().await,
                NextStep::Leave if self.leave() => return,
                NextStep::Leave => self.start_again(),
                NextStep::Cold | NextStep::Rest | NextStep::After(_) => {
                    let pause = if let NextStep::After(at) = next { Some(at) } else { None };
                    tokio::select! {
                        biased;
                        () = self.shared.closing.cancelled() => return,
                        changed = self.orders.changed() => match changed {
                            Ok(()) => self.apply_orders().unwrap_or(next),
                            Err(_) => return,
                        },
                        () = self.instance_slot.reconnect.ordered() => NextStep::Revive,
                        // A notification from an earlier run may be left over. The ledger has then not asked for
                        // the instance, and it must not start.
                        () = self.instance_slot.wanted.notified(), if pause.is_none() => {
                            let is_needed = self.instances.queue.with(|ledger| ledger.is_starting(self.instance_slot.id));
                            if is_needed { NextStep::Start } else { next }
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

    /// Tells the ledger that the instance starts, so that callers wait for it.
    fn starting(&self) -> NextStep {
        self.instances.queue.with(|ledger| ledger.starting(self.instance_slot.id));
        NextStep::Start
    }

    /// Starts the instance at once: an order asks for a restart, or the slot was to leave and is needed after all.
    fn start_again(&self) -> NextStep {
        self.instance_slot.mark_gone(Health::Starting, None);
        self.starting()
    }

    /// Tells the ledger that the instance is lost, so that it leases none of its slots. Callers that wait for the
    /// instance learn whether it comes back.
    fn report_loss(&self, outlook: RestartOutlook) {
        self.instances.change(|ledger| ledger.lost(self.instance_slot.id, outlook));
    }

    /// Marks the instance as drained. The supervisor then waits for an order.
    fn drained(&self) -> NextStep {
        self.instance_slot.mark_gone(Health::Failed, Some(DRAINED.to_owned()));
        self.report_loss(RestartOutlook::None);
        NextStep::Rest
    }

    /// Whether these orders contain a restart that has not been carried out.
    fn has_new_restart(&self, order: Orders) -> bool {
        order.restarts > self.restarts
    }

    /// The current orders, and whether they contain a new restart, which counts as carried out from now on.
    fn take_orders(&mut self) -> (Goal, bool) {
        let order = *self.orders.borrow_and_update();
        let has_new_restart = self.has_new_restart(order);
        self.restarts = order.restarts;
        (order.goal, has_new_restart)
    }

    /// The next step that the orders ask for while the instance does not run; `None` if they change nothing.
    fn apply_orders(&mut self) -> Option<NextStep> {
        match self.take_orders() {
            (Goal::Leave, _) => Some(NextStep::Leave),
            (Goal::Drain, _) => Some(self.drained()),
            (Goal::Run, false) => None,
            (Goal::Run, true) if self.instances.kind.keeps_running() => {
                self.retry_policy.reset();
                Some(self.starting())
            }
            // The instance starts when a caller needs it.
            (Goal::Run, true) => {
                self.instance_slot.mark_gone(Health::Starting, None);
                self.report_loss(RestartOutlook::OnDemand);
                Some(NextStep::Cold)
            }
        }
    }

    /// Counts the start of an instance after a failure.
    fn count_restart(&self) {
        if self.instances.kind.counts_restarts() {
            self.instance_slot.lock().restarts += 1;
            self.instances.watcher.restarted(&self.instances.name, self.instance_slot.id);
        }
    }

    /// Decides what comes next for an instance that could not start.
    fn not_started(&mut self, error: &StartError) -> NextStep {
        let pool = &self.instances.name;
        let instance = self.instance_slot.id;
        if self.instances.kind.is_given_up() {
            tracing::debug!(%pool, %error, hint = error.hint, "still cannot connect");
        } else {
            tracing::warn!(%pool, %instance, %error, hint = error.hint, "cannot start");
        }
        let why = match self.not_revived.take() {
            Some(first) => format!("{first}; {}", error_with_hint(error)),
            None => error_with_hint(error),
        };
        let next = self.failed(FailureKind::Start, &why, Some(error));
        self.instance_slot.reconnect.report(Some(why));
        next
    }

    /// Decides what comes next for an instance that was lost after running this long.
    fn lost(&mut self, held: Duration, why: &str) -> NextStep {
        tracing::warn!(pool = %self.instances.name, instance = %self.instance_slot.id, why, "instance lost");
        self.failed(FailureKind::Loss { held }, why, None)
    }

    /// Decides what comes next for an instance that should run and does not: the retry policy says when to try again.
    fn failed(&mut self, failure: FailureKind, why: &str, not_started: Option<&StartError>) -> NextStep {
        let pool = &self.instances.name;
        let instance = self.instance_slot.id;
        let kind = &self.instances.kind;
        let settings = self.instance_slot.settings();
        let now = Instant::now();
        let decision = match kind.keeps_running() {
            true => self.retry_policy.decide(failure, settings.retry, settings.restarts, now),
            false => RetryDecision::OnDemand,
        };
        let (outlook, again) = match decision {
            RetryDecision::OnDemand => (RestartOutlook::OnDemand, None),
            RetryDecision::Again(pause) => {
                if !kind.is_given_up() {
                    tracing::warn!(%pool, %instance, ?pause, "trying again after a pause");
                }
                (RestartOutlook::Soon, Some(now + pause))
            }
            RetryDecision::Rest(rest) => {
                if !kind.is_given_up() {
                    tracing::warn!(%pool, every = ?rest, "connecting failed repeatedly; trying again at intervals");
                }
                (RestartOutlook::None, Some(now + rest))
            }
            RetryDecision::Never => {
                tracing::error!(%pool, %instance, "the instance failed too often; `greenroom pool restart` starts it again");
                (RestartOutlook::None, None)
            }
        };
        self.instance_slot.mark_gone(Health::Failed, Some(why.to_owned()));
        kind.update_connection(|connection| {
            connection.mark_failed(why.to_owned(), again, outlook == RestartOutlook::None);
        });
        match not_started {
            Some(error) if outlook == RestartOutlook::OnDemand => {
                self.instances.queue.start_failed(instance, error);
                self.instances.start_wanted();
                // The start may have been for a spare.
                self.shared.spares.failed(Duration::ZERO, Some(error.clone()));
            }
            _ => self.report_loss(outlook),
        }
        self.wake_waiters();
        match again {
            Some(at) => NextStep::After(at),
            None if outlook == RestartOutlook::OnDemand => NextStep::Cold,
            None => NextStep::Rest,
        }
    }

    /// Wakes the callers that wait for a start, and the task for spares: a start has ended, or an instance is gone.
    fn wake_waiters(&self) {
        self.instances.room.notify_one();
        self.instances.last_start.send_modify(|_| ());
    }

    /// Takes the instance slot out of the pool, unless `scale` has ordered it to stay in the meantime.
    fn leave(&self) -> bool {
        {
            // `scale` orders slots to leave or stay under the same lock, so no order can come between the check
            // and the removal.
            let mut instance_slots = self.instances.instance_slots();
            if self.instance_slot.orders.borrow().goal != Goal::Leave {
                return false;
            }
            self.instances.queue.change(|ledger| ledger.remove(self.instance_slot.id));
            instance_slots.remove(&self.instance_slot.id);
        }
        self.instances.start_wanted();
        true
    }
}
