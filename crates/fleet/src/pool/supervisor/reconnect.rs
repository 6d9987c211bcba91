//! The order to connect to an attached browser now, whatever the last attempt came to: how the supervisor carries it
//! out, and how the callers that gave it learn the outcome.
//!
//! If the browser is connected and answers, the supervisor changes nothing. Otherwise it first revives the browser: the
//! engine starts it if it is gone and its operator configured how. Without an order greenroom never starts a browser it
//! attaches to. Simultaneous orders share one attempt.

use std::{sync::Arc, time::Duration};

use greenroom_core::port::human;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use super::{NextStep, Supervisor, Supervisors};
use crate::{
    error::FleetError,
    pool::{attached::ConnectionState, kind::error_with_hint},
};

/// How long reviving a browser may take. The engine itself checks whether the browser answers (up to 15 s if it is
/// silent), runs the start command and waits for it (30 s). Its errors say more than this limit's, so this limit is
/// longer.
const REVIVE: Duration = Duration::from_secs(50);

/// How long the caller that gave the order waits in all: the supervisor stops the earlier instance (20 s), revives the
/// browser ([`REVIVE`]) and connects to it (30 s), each with its own limit.
pub(super) const RECONNECT_WITHIN: Duration = Duration::from_secs(110);

/// Orders to connect now, and their outcomes. Orders are numbered.
#[derive(Default)]
pub(in crate::pool) struct Reconnect(watch::Sender<ReconnectState>);

#[derive(Default)]
struct ReconnectState {
    ordered: u64,
    /// The supervisor carries out orders up to this number.
    taken: u64,
    /// Orders up to this number are done; `error` is the last one's.
    done: u64,
    error: Option<String>,
}

impl Reconnect {
    /// Gives the order, or joins one that is not yet carried out. Returns its number.
    fn order(&self) -> u64 {
        let mut number = 0;
        self.0.send_modify(|state| {
            state.ordered = state.ordered.max(state.done + 1);
            number = state.ordered;
        });
        number
    }

    /// Resolves when there is an order that the supervisor has not begun to carry out.
    pub(super) async fn ordered(&self) {
        // `self` owns the sender, so this does not fail.
        let _ = self.0.subscribe().wait_for(|state| state.ordered > state.taken).await;
    }

    /// Begins to carry out all orders given so far.
    fn take(&self) {
        self.0.send_modify(|state| state.taken = state.ordered);
    }

    /// Reports the outcome of the orders being carried out. Without an order this does nothing.
    pub(super) fn report(&self, error: Option<String>) {
        self.0.send_if_modified(|state| {
            let has_order = state.taken > state.done;
            if has_order {
                state.done = state.taken;
                state.error = error;
            }
            has_order
        });
    }

    /// Waits for an order's outcome; returns its error, if any.
    async fn done(&self, order: u64) -> Option<String> {
        let mut states = self.0.subscribe();
        states.wait_for(|state| state.done >= order).await.ok()?.error.clone()
    }
}

impl Supervisors {
    /// Connects to the browser now. Returns when the outcome is known.
    pub(in crate::pool) async fn reconnect(self: &Arc<Self>) -> Result<(), FleetError> {
        self.open();
        let why_closed = || self.instances.kind.why_closed();
        let down = |why| self.instances.down(Some(why)).unwrap_or_else(why_closed);
        let Some(instance_slot) = self.instances.first_instance_slot() else { return Err(why_closed()) };
        let order = instance_slot.reconnect.order();
        let outcome = tokio::select! {
            outcome = timeout(RECONNECT_WITHIN, instance_slot.reconnect.done(order)) => outcome,
            () = self.closing.cancelled() => return Err(why_closed()),
        };
        let late = || Some(format!("not connected within {}", human(RECONNECT_WITHIN)));
        outcome.unwrap_or_else(|_| late()).map_or(Ok(()), |why| Err(down(why)))
    }
}

impl Supervisor {
    /// Reports the order as carried out, because the browser is connected and has answered.
    pub(super) fn stays_connected(&mut self) {
        self.retry_policy.reset();
        self.instance_slot.reconnect.take();
        self.instance_slot.reconnect.report(None);
    }

    /// Carries out the order for a browser that is not connected: revives it, if possible, and then connects.
    pub(super) async fn revive(&mut self) -> NextStep {
        self.instance_slot.reconnect.take();
        self.retry_policy.reset();
        let start = self.starting();
        self.instances.kind.update_connection(ConnectionState::mark_connecting);
        let began = Instant::now();
        let engine = self.instance_slot.engine();
        let pool = &self.instances.name;
        // The adapter runs in a task of its own, so that its panic ends that task only.
        let mut reviving = tokio::spawn(async move { timeout(REVIVE, engine.revive()).await });
        let revived = tokio::select! {
            revived = &mut reviving => revived,
            () = self.shared.closing.cancelled() => {
                reviving.abort();
                return NextStep::Rest;
            }
        };
        self.not_revived = match revived {
            Ok(Ok(Ok(is_started))) => {
                if is_started {
                    tracing::info!(%pool, took = ?began.elapsed(), "the browser was started");
                }
                None
            }
            Ok(Ok(Err(error))) => Some(error_with_hint(&error)),
            Ok(Err(_)) => Some(format!("the browser could not be started within {}", human(REVIVE))),
            Err(_) => Some("the engine's adapter panicked".to_owned()),
        };
        if let Some(why) = &self.not_revived {
            tracing::warn!(%pool, why, "the browser could not be started");
        }
        start
    }
}
