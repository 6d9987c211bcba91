//! Checks at intervals whether an instance still answers, in parallel with its calls and not through their queue. An
//! instance that did not answer is withheld: it leases no slot until it has answered. Only the misses counted here end an
//! instance; a call or a seat that takes too long only causes another check.

use std::{sync::Arc, time::Duration};

use greenroom_core::{Instance, InstanceId, lease::Changes, port::human};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};

use crate::pool::{instance_slot::InstanceSlot, instances::Instances};

/// After this many missed checks in a row the instance counts as failed. A machine that is busy for a moment may cause
/// one miss.
const MISSES_MAX: usize = 3;

/// How long an instance may take to answer a check after a late call or seat. The caller of the late call waits
/// meanwhile. A healthy instance answers within milliseconds, on a busy machine within tenths of a second.
const QUICK_CHECK_WITHIN: Duration = Duration::from_secs(1);

/// How often a withheld instance is checked. A caller that waits for a slot should not wait much longer than the
/// instance needs to recover. These checks do not count as misses.
const WITHHELD_EVERY: Duration = Duration::from_secs(1);

/// Sends the instance one ping. Returns why it did not answer, if it did not.
async fn ping(instance: &Arc<dyn Instance>, limit: Duration) -> Result<(), String> {
    match timeout(limit, instance.ping()).await {
        Ok(outcome) => outcome.map_err(|unwell| unwell.to_string()),
        Err(_) => {
            let who = instance.silent().map(|who| format!(": {who}")).unwrap_or_default();
            Err(format!("no answer within {}{who}", human(limit)))
        }
    }
}

/// Checks an instance at intervals until it has missed too many checks. Returns why it missed the last one.
pub(super) async fn health_check_loop(
    instances: &Instances,
    instance_slot: &InstanceSlot,
    instance: &Arc<dyn Instance>,
    mut woke: watch::Receiver<u64>,
) -> String {
    let mut misses = 0;
    let mut last = Instant::now();
    loop {
        let settings = instance_slot.settings();
        let due = last + settings.health_interval;
        let is_withheld = instances.queue.with(|ledger| ledger.is_withheld(instance_slot.id));
        let next = if is_withheld { due.min(Instant::now() + WITHHELD_EVERY) } else { due };
        let counts = tokio::select! {
            () = sleep_until(next) => Instant::now() >= due,
            Ok(()) = woke.changed() => {
                misses = 0;
                true
            }
            () = instance_slot.reset.notified() => continue,
        };
        let outcome = instances.check(instance_slot, instance, settings.health_timeout).await;
        if counts {
            last = Instant::now();
        }
        match outcome {
            Ok(()) => misses = 0,
            Err(why) if !counts => {
                tracing::debug!(pool = %instances.name, instance = %instance_slot.id, why, "health check still fails");
            }
            Err(why) => {
                misses += 1;
                tracing::warn!(pool = %instances.name, instance = %instance_slot.id, why, misses, "health check failed");
                if misses >= MISSES_MAX {
                    return format!("it did not answer {misses} times in a row: {why}");
                }
            }
        }
    }
}

impl Instances {
    /// Checks an instance briefly, because one of its calls or seats was late. Withholds it if it does not answer.
    pub(crate) async fn check_quickly(&self, id: InstanceId) {
        let Some(instance_slot) = self.instance_slot(id) else { return };
        let Some(instance) = instance_slot.instance() else { return };
        if let Err(why) = self.check(&instance_slot, &instance, QUICK_CHECK_WITHIN).await {
            tracing::warn!(pool = %self.name, instance = %id, why, "health check failed; the instance gets no new sessions until it answers");
        }
        instance_slot.reset.notify_one();
    }

    /// Checks an instance. Withholds it if it does not answer, lets it lease again if it does. Does neither if another
    /// instance has replaced it meanwhile.
    pub(super) async fn check(
        &self,
        instance_slot: &InstanceSlot,
        instance: &Arc<dyn Instance>,
        limit: Duration,
    ) -> Result<(), String> {
        let outcome = ping(instance, limit).await;
        if !instance_slot.instance().is_some_and(|now| Arc::ptr_eq(&now, instance)) {
            return outcome;
        }
        let answers = outcome.is_ok();
        if answers && self.queue.with(|ledger| ledger.is_withheld(instance_slot.id)) {
            tracing::warn!(pool = %self.name, instance = %instance_slot.id, "health check passed; the instance gets new sessions again");
        }
        instance_slot.record_check(outcome.clone());
        self.change(|ledger| match answers {
            true => ledger.responds_again(instance_slot.id),
            false => {
                ledger.withhold(instance_slot.id);
                Changes::default()
            }
        });
        if answers {
            self.room.notify_one();
        }
        outcome
    }
}
