//! What a pool looks like from outside: whether it can take calls, and how full it is.

use greenroom_core::{StartError, lease::Figures};

use super::Pool;
use crate::status::{Check, Health, InstanceStatus, PoolStatus};

/// Whether a pool can take calls.
#[derive(Debug, Clone)]
pub enum Readiness {
    /// No instance has come up yet, or its first spare is being opened.
    Starting,
    Ready,
    /// Nothing runs, and the last try failed; or no spare can be opened in what runs.
    Failed(StartError),
}

impl Pool {
    pub(crate) fn status(&self) -> PoolStatus {
        let state = self.lock();
        let Figures { leased, slots, waiting, .. } = state.ledger.figures();
        let instances: Vec<_> = state
            .ledger
            .lent()
            .map(|(id, leased)| InstanceStatus {
                id,
                alias: None,
                health: match state.instances.get(&id).is_some_and(|entry| entry.is_ready()) {
                    true => Health::Healthy,
                    false => Health::Starting,
                },
                draining: false,
                slots: self.settings.limits.slots,
                leased_slots: leased - state.spares.ready_in(id),
                spares: state.spares.ready_in(id),
                leased_since: None,
                browser: String::new(),
                headless: true,
                process_id: None,
                check: Check::default(),
                restarts: 0,
            })
            .collect();
        let spares = instances.iter().map(|instance| instance.spares).sum();
        PoolStatus {
            name: self.settings.name.clone(),
            description: String::new(),
            is_default: true,
            elastic: true,
            instances,
            slots,
            leased_slots: leased - spares,
            spares,
            waiting,
        }
    }

    pub(crate) fn readiness(&self) -> Readiness {
        let state = self.lock();
        // Why no instance starts says more than that no spare can be opened in it.
        if let (Some(Err(error)), true) =
            (&state.last_start, state.instances.values().all(|entry| !entry.is_ready()))
        {
            return Readiness::Failed(error.clone());
        }
        if let Some(error) = &state.spares.trouble {
            return Readiness::Failed(error.clone());
        }
        // A session that was faster shows that a seat can be opened, too.
        let all_spares = state.ledger.figures().leased == state.spares.len();
        if state.spares.is_first_opening() && all_spares {
            return Readiness::Starting;
        }
        if state.instances.values().any(|entry| entry.is_ready() && !entry.is_dead()) {
            return Readiness::Ready;
        }
        match &state.last_start {
            Some(Err(error)) => Readiness::Failed(error.clone()),
            // It ran, and was stopped for want of work; the next call starts another.
            Some(Ok(())) if state.instances.is_empty() => Readiness::Ready,
            Some(Ok(())) | None => Readiness::Starting,
        }
    }
}
