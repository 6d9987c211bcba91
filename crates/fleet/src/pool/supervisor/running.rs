//! An instance from start to stop: its supervisor starts it, watches it while it runs, and stops it when it is lost,
//! ordered to stop or not needed. The supervisor's loop decides what comes after.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use greenroom_core::{BoxFuture, Instance, Lost, StartError, lease::RestartOutlook};
use tokio::time::{Instant, sleep_until, timeout};

use super::{NextStep, Supervisor, health::health_check_loop, reconnect::RECONNECT_WITHIN};
use crate::{
    pool::{attached::ConnectionState, instance_slot::Goal},
    pool_status::Health,
};

/// How long an instance may take to start before it counts as failed. A cold disk and two busy cores have been
/// seen to need 10 s; three times that is not a slow start but a hung one.
const START: Duration = Duration::from_secs(30);

/// How long an instance may take to end by itself before the engine kills its processes.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// How long stopping may take in all. The engine kills the processes after [`STOP_GRACE`], so a stop that takes longer
/// than this is a fault, and the supervisor no longer waits for it.
const STOP: Duration = Duration::from_secs(15);

/// Why an instance that ran does not run any more.
enum RunEnd {
    Lost(String),
    Idle,
    /// It was ordered to stop, and its leases are back.
    Drained,
    /// Another owner waits for it, and the leases of the owner that it has served are back.
    Cleared,
    Closing,
}

impl Supervisor {
    /// Runs the instance, from start to stop. Orders that come while it stops are for the next run.
    pub(super) async fn run_instance(&mut self) -> NextStep {
        let instances = self.instances.clone();
        let instance_slot = self.instance_slot.clone();
        let settings = (instances.settings().instance)(instance_slot.id);
        instances.queue.with(|ledger| ledger.resize(instance_slot.id, settings.slots));
        instance_slot.mark_starting(settings);
        instances.kind.update_connection(ConnectionState::mark_connecting);
        let started = match self.start().await {
            ControlFlow::Break(next) => return next,
            ControlFlow::Continue(started) => started,
        };
        let outcome = started.as_ref().map(|_| ()).map_err(Clone::clone);
        instances.last_start.send_replace(Some(outcome));
        instances.kind.report_connection_attempt(started.is_ok());
        let instance = match started {
            Ok(instance) => instance,
            Err(error) => return self.not_started(&error),
        };
        tracing::info!(pool = %instances.name, instance = %instance_slot.id, "ready");
        let up_since = Instant::now();
        let end = if self.orders.borrow().goal == Goal::Run {
            instance_slot.mark_running(instance.clone());
            instances.kind.update_connection(ConnectionState::mark_connected);
            instances.change(|ledger| ledger.started(instance_slot.id));
            instance_slot.reconnect.report(None);
            self.not_revived = None;
            self.wake_waiters();
            self.watch(&instance).await
        } else {
            // The order to stop came during the start: the instance leases nothing.
            RunEnd::Drained
        };
        instances.kind.report_connection_end();
        let (goal, is_restart) = self.take_orders();
        let why_lost = if let RunEnd::Lost(why) = &end { Some(why.clone()) } else { None };
        // Take the instance out of the pool first: no caller may get a slot of an instance that is about to stop.
        let next = match (end, goal) {
            (RunEnd::Closing, _) => NextStep::Rest,
            (RunEnd::Lost(why), Goal::Run) if !is_restart => self.lost(up_since.elapsed(), &why),
            (RunEnd::Idle, Goal::Run) if !is_restart => {
                tracing::info!(pool = %instances.name, instance = %instance_slot.id, "the instance is idle; stopping it");
                instance_slot.mark_gone(Health::Starting, None);
                NextStep::Cold
            }
            (RunEnd::Cleared, Goal::Run) if !is_restart => {
                tracing::info!(pool = %instances.name, instance = %instance_slot.id, "another owner gets the instance; restarting it");
                let next = self.start_again();
                instance_slot.lock().changes_owner = true;
                next
            }
            (RunEnd::Lost(why), Goal::Leave) => {
                instance_slot.mark_gone(Health::Failed, Some(why));
                self.report_loss(RestartOutlook::None);
                NextStep::Leave
            }
            (RunEnd::Drained | RunEnd::Cleared | RunEnd::Idle, Goal::Leave) => NextStep::Leave,
            (RunEnd::Lost(_) | RunEnd::Drained | RunEnd::Cleared | RunEnd::Idle, Goal::Drain) => {
                self.drained()
            }
            // An order asks for a restart, whether or not the leases are back.
            (RunEnd::Lost(_) | RunEnd::Drained | RunEnd::Cleared | RunEnd::Idle, Goal::Run) => {
                self.retry_policy.reset();
                self.start_again()
            }
        };
        self.shared.idle_seats.close_in(|id| id == instance_slot.id, why_lost.as_deref()).await;
        instances.room.notify_one();
        if timeout(STOP, instance.stop(STOP_GRACE)).await.is_err() {
            tracing::error!(pool = %instances.name, instance = %instance_slot.id, "the instance did not stop in time; its supervisor goes on without it");
        }
        next
    }

    /// Starts the instance, when a permit of `starts` is free. Breaks off when the pool closes, and at an order to
    /// reconnect, which a user may give because this start hangs.
    async fn start(&self) -> ControlFlow<NextStep, Result<Arc<dyn Instance>, StartError>> {
        let closing = &self.shared.closing;
        let _turn = tokio::select! {
            turn = self.shared.starts.acquire() => turn,
            () = closing.cancelled() => return ControlFlow::Break(NextStep::Rest),
        };
        let engine = self.instance_slot.engine();
        let id = self.instance_slot.id;
        // The adapter runs in a task of its own, so that its panic ends that task only.
        let mut starting = tokio::spawn(async move { timeout(START, engine.start(id)).await });
        let started = tokio::select! {
            started = &mut starting => started,
            () = self.instance_slot.reconnect.ordered() => {
                starting.abort();
                match starting.await {
                    // The instance came up at the same moment: use it.
                    Ok(Ok(Ok(instance))) => return ControlFlow::Continue(Ok(instance)),
                    _ => return ControlFlow::Break(NextStep::Revive),
                }
            }
            () = closing.cancelled() => {
                starting.abort();
                // The instance may have come up at the same moment.
                if let Ok(Ok(Ok(instance))) = starting.await {
                    instance.stop(STOP_GRACE).await;
                }
                return ControlFlow::Break(NextStep::Rest);
            }
        };
        ControlFlow::Continue(match started {
            Ok(Ok(started)) => started,
            Ok(Err(_)) => Err(self.instances.kind.start_timed_out(START)),
            Err(_) => Err(StartError::new("the engine's adapter panicked")),
        })
    }

    /// Returns when the instance is to stop.
    async fn watch(&mut self, instance: &Arc<dyn Instance>) -> RunEnd {
        let instances = self.instances.clone();
        let instance_slot = self.instance_slot.clone();
        let mut lost = instance.lost();
        let mut health =
            Box::pin(health_check_loop(&instances, &instance_slot, instance, self.shared.woke.subscribe()));
        let idle = instances.kind.idle_limit();
        let mut retire_at = idle.map(|idle| Instant::now() + idle);
        let mut draining = false;
        let mut probe: Option<BoxFuture<'_, Result<(), String>>> = None;
        loop {
            if draining && instances.queue.with(|ledger| ledger.taken(instance_slot.id)) == 0 {
                return RunEnd::Drained;
            }
            if instances.queue.with(|ledger| ledger.recycle(instance_slot.id)) {
                return RunEnd::Cleared;
            }
            tokio::select! {
                biased;
                Ok(lost) = lost.wait_for(Option::is_some) => {
                    return RunEnd::Lost(lost.as_ref().map(ToString::to_string).unwrap_or_default());
                }
                () = self.shared.closing.cancelled() => return RunEnd::Closing,
                why = &mut health => {
                    // Mark it lost first, so that its sessions report this reason and not the stop that follows.
                    instance.mark_lost(Lost::HealthCheckFailed(why.as_str().into()));
                    return RunEnd::Lost(why);
                }
                () = instance_slot.reconnect.ordered(), if probe.is_none() => {
                    let limit = instance_slot.settings().health_timeout.min(RECONNECT_WITHIN);
                    probe = Some(Box::pin(instances.check(&instance_slot, instance, limit)));
                }
                answer = probe_result(&mut probe), if probe.is_some() => {
                    probe = None;
                    match answer {
                        Ok(()) => self.stays_connected(),
                        Err(why) => {
                            instance.mark_lost(Lost::HealthCheckFailed(why.as_str().into()));
                            return RunEnd::Lost(why);
                        }
                    }
                }
                changed = self.orders.changed() => {
                    if changed.is_err() {
                        return RunEnd::Closing;
                    }
                    let order = *self.orders.borrow_and_update();
                    draining = order.goal != Goal::Run || self.has_new_restart(order);
                    instance_slot.lock().draining = draining;
                    match draining {
                        true => instances.change(|ledger| ledger.drain(instance_slot.id, order.goal == Goal::Run)),
                        // The instance slot was to leave, and is needed after all.
                        false => instances.change(|ledger| ledger.reopen(instance_slot.id)),
                    }
                }
                () = instance_slot.emptied.notified() => {}
                () = sleep_until(retire_at.unwrap_or_else(Instant::now)), if retire_at.is_some() => {
                    let due = idle.map(|idle| instance_slot.lock().idle_since + idle);
                    match due {
                        Some(due) if due > Instant::now() => retire_at = Some(due),
                        _ if self.retire() => return RunEnd::Idle,
                        _ => retire_at = idle.map(|idle| Instant::now() + idle),
                    }
                }
            }
        }
    }

    /// Takes an instance that has no lease and no seat kept for an owner out of use, and returns whether it did. It
    /// does not if the other instances have no room for the wanted spares: the pool would start a new instance for
    /// those at once.
    fn retire(&self) -> bool {
        let id = self.instance_slot.id;
        if self.shared.idle_seats.has_owner_in(id) {
            return false;
        }
        let wanted = self.shared.spares.wanted();
        self.instances.queue.with(|ledger| {
            let elsewhere = ledger.room() - ledger.room_in(id);
            elsewhere >= wanted && ledger.retire(id)
        })
    }
}

/// Resolves with the result of the probe that is under way; never, if there is none.
async fn probe_result<T>(question: &mut Option<BoxFuture<'_, T>>) -> T {
    match question {
        Some(question) => question.await,
        None => std::future::pending().await,
    }
}
