//! When a session expires: after its idle timeout without a call, or at the end of its maximum lifetime; and the warning
//! before its lifetime ends. The session's task asks here before each wait; the fleet renews a session here.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::{EndReason, SessionShared};
use crate::fleet::FleetSettings;

/// A session warns its agent when less than a tenth of its lifetime is left, but not earlier than a minute before the
/// end.
const EXPIRY_WARNING_PART: u32 = 10;
const EXPIRY_WARNING_MAX: Duration = Duration::from_secs(60);

impl SessionShared {
    /// When the session ends if nothing happens, and for which reason.
    pub(crate) fn expiry(&self, settings: &FleetSettings) -> (Instant, EndReason) {
        let state = self.state();
        let idle = (state.last_used_at + settings.idle_timeout, EndReason::Idle(settings.idle_timeout));
        match state.lifetime_ends {
            Some(ends) if ends < idle.0 => {
                (ends, EndReason::Lifetime(settings.max_lifetime.unwrap_or_default()))
            }
            _ => idle,
        }
    }

    pub(crate) fn used(&self) {
        self.update(|state| {
            state.last_used = SystemTime::now();
            state.last_used_at = Instant::now();
        });
    }

    /// Restarts the idle time and the lifetime. Returns how long the session has from now on.
    pub(crate) fn renew(&self, settings: &FleetSettings) -> Duration {
        self.used();
        self.update(|state| {
            state.lifetime_ends = settings.max_lifetime.map(|lifetime| Instant::now() + lifetime);
        });
        self.renewed.notify_one();
        settings.max_lifetime.map_or(settings.idle_timeout, |lifetime| lifetime.min(settings.idle_timeout))
    }

    /// How much of the maximum lifetime is left, if it is so little that the session warns its agent.
    pub(super) fn expiring_in(&self, settings: &FleetSettings) -> Option<Duration> {
        let lifetime = settings.max_lifetime?;
        let left = self.state().lifetime_ends?.saturating_duration_since(Instant::now());
        (left <= (lifetime / EXPIRY_WARNING_PART).min(EXPIRY_WARNING_MAX)).then_some(left)
    }
}
