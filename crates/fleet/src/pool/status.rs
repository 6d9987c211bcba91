//! The status and the readiness of a pool.

use std::{sync::Arc, time::SystemTime};

use greenroom_core::{Owner, StartError};

use super::{
    Pool,
    instance_slot::{Goal, InstanceSlot},
};
use crate::{
    error::FleetError,
    pool_status::{Health, InstanceStatus, PoolStatus},
};

/// Whether a pool can take calls.
#[derive(Debug, Clone)]
pub enum Readiness {
    /// No instance has come up yet, or the pool is opening its first spare.
    Starting,
    Ready,
    /// Instances run, and none of them answered its last health check. Says why.
    Unresponsive(String),
    /// No instance runs and the last start failed; or no spare can be opened in those that run.
    Failed(StartError),
}

impl Pool {
    /// The pool's status, for this owner: it learns how many slots others lease, and not since when. Without an owner,
    /// for the operator.
    pub(crate) fn status(&self, viewer: Option<&Owner>) -> PoolStatus {
        let settings = self.instances.settings();
        let instance_slots: Vec<_> = self.instances.instance_slots().values().cloned().collect();
        let figures = self.instances.queue.figures();
        let shown = instance_slots
            .iter()
            .filter(|instance_slot| self.kind.lists(self.instances.is_there(instance_slot)));
        let instances: Vec<_> =
            shown.map(|instance_slot| self.instance_status(instance_slot, viewer)).collect();
        PoolStatus {
            name: self.name.to_string(),
            description: settings.description.clone(),
            is_default: settings.is_default,
            elastic: self.kind.idle_limit().is_some(),
            drained: !instance_slots.is_empty()
                && instance_slots
                    .iter()
                    .all(|instance_slot| instance_slot.orders.borrow().goal == Goal::Drain),
            instances,
            slots: figures.slots,
            leased_slots: figures.leased,
            spares: self.idle_seats.spares(|_| true),
            waiting: figures.waiting,
            unproxied: settings.unproxied,
        }
    }

    /// Whether a lazy instance waits for the first call that needs it.
    fn is_at_rest(&self, instance_slot: &InstanceSlot) -> bool {
        let is_lazy = {
            let state = instance_slot.lock();
            state.settings.lazy && state.health == Health::Starting
        };
        is_lazy && !self.instances.queue.with(|ledger| ledger.is_starting(instance_slot.id))
    }

    fn instance_status(&self, instance_slot: &InstanceSlot, viewer: Option<&Owner>) -> InstanceStatus {
        let (leased, slots) = self.instances.queue.with(|ledger| ledger.leased_in(instance_slot.id));
        let spares = self.idle_seats.spares(|id| id == instance_slot.id);
        let state = instance_slot.lock();
        let dead = state.instance.as_ref().and_then(|instance| instance.lost().borrow().clone());
        let mut check = state.check.clone();
        let health = match &dead {
            // The supervisor has not noticed the loss yet.
            Some(why) => {
                check.responsive = false;
                check.error = Some(why.to_string());
                Health::Failed
            }
            None => state.health,
        };
        let runs = health == Health::Healthy;
        // An instance that is gone has no leases, even if callers have not dropped them yet. A slot leased
        // just now counts, even if `begins` has not noted its time yet.
        let leased_slots = if runs { leased } else { 0 };
        let shown = state.leased.values().filter(|(_, owner)| viewer.is_none_or(|viewer| viewer == owner));
        let oldest = shown.map(|(since, _)| *since).min();
        let leased_since = oldest.or_else(|| viewer.is_none().then(SystemTime::now));
        InstanceStatus {
            id: instance_slot.id,
            alias: state.settings.alias.clone(),
            health,
            draining: state.draining,
            slots,
            leased_slots,
            spares,
            leased_since: leased_since.filter(|_| leased_slots > 0),
            browser: state.settings.browser.clone(),
            headless: state.settings.headless,
            process_id: state
                .instance
                .as_ref()
                .filter(|_| runs)
                .and_then(|instance| instance.process_ids().first().copied()),
            check,
            restarts: state.restarts,
        }
    }

    pub(crate) fn readiness(&self) -> Readiness {
        let instance_slots: Vec<_> = self.instances.instance_slots().values().cloned().collect();
        if self.instances.queue.with(|ledger| ledger.can_never_lease()) {
            let error = self.instances.no_healthy();
            let failed = StartError::new(error.to_string());
            return Readiness::Failed(match error {
                FleetError::NoHealthy { why: Some(why), .. } => failed.hint(why),
                _ => failed,
            });
        }
        let up: Vec<_> = instance_slots
            .iter()
            .filter(|instance_slot| instance_slot.instance().is_some() && instance_slot.is_up())
            .collect();
        let last_start = self.instances.last_start.borrow().clone();
        // A lazy instance counts as ready: the call that needs it starts it.
        let any_lazy = || {
            instance_slots
                .iter()
                .any(|instance_slot| self.supervisors.is_open() && self.is_at_rest(instance_slot))
        };
        if self.kind.keeps_running() && any_lazy() {
            return Readiness::Ready;
        }
        // An instance that is restarted for the next owner is back in a moment, and nothing is wrong with it.
        if instance_slots.iter().any(|instance_slot| instance_slot.lock().changes_owner) {
            return Readiness::Ready;
        }
        // New calls would wait in an instance that does not answer.
        if let Some(why) = silence(&up) {
            return Readiness::Unresponsive(why);
        }
        let any_up = !up.is_empty();
        if self.kind.keeps_running() {
            return if any_up { Readiness::Ready } else { Readiness::Starting };
        }
        // If no instance starts, no spare opens either: report the start's error first, because it says more.
        if let (Some(Err(error)), false) = (&last_start, any_up) {
            return Readiness::Failed(error.clone());
        }
        if let Some(error) = self.spares.open_error() {
            return Readiness::Failed(error);
        }
        // While the first spare is being opened, no seat has shown yet that seats can open, unless a caller has a
        // slot.
        if self.spares.is_first_opening() && self.instances.queue.figures().leased == 0 {
            return Readiness::Starting;
        }
        // The pool stopped an idle instance; the next call starts another.
        let nothing = !instance_slots.iter().any(|instance_slot| self.instances.is_there(instance_slot));
        match (any_up, last_start) {
            (true, _) => Readiness::Ready,
            (false, Some(Ok(()))) if nothing => Readiness::Ready,
            (false, _) => Readiness::Starting,
        }
    }
}

/// Why none of these instances answers, if there are any and none does.
fn silence(up: &[&Arc<InstanceSlot>]) -> Option<String> {
    let checks: Vec<_> = up.iter().map(|instance_slot| instance_slot.lock().check.clone()).collect();
    if checks.iter().any(|check| check.responsive) {
        return None;
    }
    checks.into_iter().find_map(|check| check.error)
}
