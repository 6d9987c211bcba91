//! Looks whether an instance still answers, every so often, beside its calls and not through its queue.

use std::{sync::Arc, time::Duration};

use greenroom_core::{Instance, port::human};
use tokio::time::{Instant, sleep_until, timeout};

use super::{Pool, place::Place};

/// So many looks in a row without an answer, and the instance counts as failed. One may be missed by a machine that is
/// busy for a moment.
const MISSES_MAX: usize = 3;

/// Asks an instance for one sign of life, or says why there is none.
pub(super) async fn look(instance: &Arc<dyn Instance>, limit: Duration) -> Result<(), String> {
    match timeout(limit, instance.ping()).await {
        Ok(outcome) => outcome.map_err(|unwell| unwell.to_string()),
        Err(_) => {
            let who = instance.silent().map(|who| format!(": {who}")).unwrap_or_default();
            Err(format!("no answer within {}{who}", human(limit)))
        }
    }
}

impl Pool {
    /// Looks after an instance. Returns why, when it has not answered for too long.
    pub(super) async fn look_after(&self, place: &Arc<Place>, instance: &Arc<dyn Instance>) -> String {
        let mut misses = 0;
        let mut woke = self.woke.subscribe();
        let mut last = Instant::now();
        loop {
            let settings = place.settings();
            tokio::select! {
                () = sleep_until(last + settings.health_interval) => {}
                Ok(()) = woke.changed() => misses = 0,
                () = place.reset.notified() => continue,
            }
            let outcome = look(instance, settings.health_timeout).await;
            last = Instant::now();
            place.looked_at(outcome.clone());
            match outcome {
                Ok(()) => misses = 0,
                Err(why) => {
                    misses += 1;
                    tracing::warn!(pool = %self.name, instance = %place.id, why, misses, "no sign of life");
                    if misses >= MISSES_MAX {
                        return format!("it did not answer {misses} times in a row: {why}");
                    }
                }
            }
        }
    }

    /// The machine slept: what was missed meanwhile is nobody's fault, and everything is looked at now.
    pub(crate) fn woke(&self) {
        self.woke.send_modify(|count| *count += 1);
    }
}
