//! How often an instance that fails is started again: so many times within five minutes, after 1, 2, 4 … seconds.
//! One that needs more than that has a fault that starting does not cure.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

/// Restarts further back than this are forgiven.
pub(super) const WINDOW: Duration = Duration::from_secs(300);

/// The pause before the first restart; each further one within the window doubles it.
const PAUSE: Duration = Duration::from_secs(1);

/// The longest pause. Only a budget far above the usual three comes near it.
const PAUSE_MAX: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Budget {
    restarts: VecDeque<Instant>,
}

impl Budget {
    /// How long to wait before the next restart; `None` when there have been enough.
    pub(super) fn spend(&mut self, max: usize, now: Instant) -> Option<Duration> {
        while self.restarts.front().is_some_and(|at| now.duration_since(*at) >= WINDOW) {
            self.restarts.pop_front();
        }
        let spent = self.restarts.len();
        if spent >= max {
            return None;
        }
        self.restarts.push_back(now);
        let doubled = PAUSE.saturating_mul(2_u32.saturating_pow(u32::try_from(spent).unwrap_or(u32::MAX)));
        Some(doubled.min(PAUSE_MAX))
    }

    /// Somebody looked after it: it begins anew.
    pub(super) fn renew(&mut self) {
        self.restarts.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three restarts after 1, 2 and 4 s, then none until the first is five minutes old; none at all with a budget of 0.
    #[tokio::test(start_paused = true)]
    async fn three_in_five_minutes() {
        let (mut budget, start) = (Budget::default(), Instant::now());
        let seconds = |budget: &mut Budget, at: u64| {
            budget.spend(3, start + Duration::from_secs(at)).map(|pause| pause.as_secs())
        };
        assert_eq!([0, 10, 20, 30].map(|at| seconds(&mut budget, at)), [Some(1), Some(2), Some(4), None]);
        assert_eq!((seconds(&mut budget, 299), seconds(&mut budget, 300)), (None, Some(4)));
        assert_eq!(seconds(&mut budget, 301), None);
        budget.renew();
        assert_eq!(seconds(&mut budget, 302), Some(1));
        assert_eq!(Budget::default().spend(0, start), None);
        let mut many = Budget::default();
        assert_eq!((0..20).filter_map(|_| many.spend(20, start)).max(), Some(PAUSE_MAX));
    }
}
