//! Passes events of the fleet on to the metrics and the store.

use std::{sync::Arc, time::Duration};

use greenroom_core::{InstanceId, Records, SessionUid, record::SessionState};
use greenroom_fleet::{FleetError, Watcher};

use crate::Metrics;

/// The fleet's watcher.
pub struct FleetWatcher {
    pub metrics: Arc<Metrics>,
    /// `None` if records are off.
    pub records: Option<Arc<dyn Records>>,
}

impl Watcher for FleetWatcher {
    fn leased(&self, pool: &str, instance: InstanceId, waited: Duration) {
        self.metrics.leased(pool, instance, waited);
    }

    fn not_leased(&self, pool: &str, why: &FleetError, waited: Duration) {
        self.metrics.not_leased(pool, why, waited);
    }

    fn restarted(&self, pool: &str, instance: InstanceId) {
        self.metrics.restarted(pool, instance);
    }

    fn tried_to_connect(&self, browser: u32, is_made: bool) {
        self.metrics.tried_to_connect(browser, is_made);
    }

    fn lost_call(&self, pool: &str, instance: InstanceId) {
        self.metrics.lost_call(pool, instance);
    }

    fn session_ended(&self, session: &SessionUid, lost: bool) {
        if let Some(records) = &self.records {
            records.session_ended(session, if lost { SessionState::Error } else { SessionState::Closed });
        }
    }
}
