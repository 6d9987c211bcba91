//! How often an instance that fails is tried again, and how soon.
//!
//! One of greenroom's own is started again so many times within five minutes, after 1, 2, 4 … seconds. One that needs
//! more than that has a fault that starting does not cure, and stays failed.
//!
//! A browser that somebody else runs comes back when that somebody wants it: it is tried for ever, in series with a rest
//! between them. A series is one try and so many more after a pause that doubles.

use std::{collections::VecDeque, time::Duration};

use greenroom_core::Backoff;
use tokio::time::Instant;

use crate::pool::Retry;

/// Restarts further back than this are forgiven.
const WINDOW: Duration = Duration::from_secs(300);

/// The longest pause. Only a number of restarts far above the usual three comes near it.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// So many connections in a row that did not hold, and the next one waits for a rest. Each costs an engine's start, which a
/// browser that comes and goes must not cause several times a second.
const LOSSES_MAX: u32 = 3;

/// A connection that held for so long was a good one, also where the rest is longer.
const HELD: Duration = Duration::from_secs(60);

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It could not be started, or connected to.
    Start,
    /// It was lost, after it had been there for so long.
    Loss { held: Duration },
}

/// What is done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is tried again after a pause.
    Again(Duration),
    /// It has been tried often enough for now, and is left alone for so long.
    Rest(Duration),
    /// It has been tried often enough.
    Never,
    /// It is started when a caller needs it.
    OnDemand,
}

#[derive(Debug, Default)]
pub(super) struct RetryPolicy {
    /// When it was started again, where that counts by time.
    restarts: VecDeque<Instant>,
    /// Tries of this series that failed, where that counts by series; and connections in a row that did not hold.
    failures: u32,
    losses: u32,
}

impl RetryPolicy {
    /// What follows from a failure, with so many further tries.
    pub(super) fn spend(&mut self, trouble: Trouble, retry: Retry, max: usize, now: Instant) -> Verdict {
        match retry.cooldown {
            Some(cooldown) => self.spend_in_series(trouble, retry.pause, cooldown, max),
            None => self.spend_in_window(retry.pause, max, now),
        }
    }

    fn spend_in_window(&mut self, pause: Duration, max: usize, now: Instant) -> Verdict {
        while self.restarts.front().is_some_and(|at| now.duration_since(*at) >= WINDOW) {
            self.restarts.pop_front();
        }
        let spent = self.restarts.len();
        if spent >= max {
            return Verdict::Never;
        }
        self.restarts.push_back(now);
        Verdict::Again(backoff(pause).pause(u32::try_from(spent).unwrap_or(u32::MAX)))
    }

    fn spend_in_series(
        &mut self,
        trouble: Trouble,
        pause: Duration,
        cooldown: Duration,
        max: usize,
    ) -> Verdict {
        let (count, max) = match trouble {
            Trouble::Start => (&mut self.failures, u32::try_from(max).unwrap_or(u32::MAX)),
            Trouble::Loss { held } => {
                // It had been reached: a new series begins.
                self.failures = 0;
                self.losses = if held >= cooldown.min(HELD) { 0 } else { self.losses };
                (&mut self.losses, LOSSES_MAX)
            }
        };
        if *count >= max {
            self.renew();
            return Verdict::Rest(cooldown);
        }
        *count += 1;
        Verdict::Again(backoff(pause).pause(*count - 1))
    }

    /// Somebody looked after it: it begins anew.
    pub(super) fn renew(&mut self) {
        *self = Self::default();
    }
}

fn backoff(first: Duration) -> Backoff {
    Backoff { first, max: PAUSE_MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COOLDOWN: Duration = Duration::from_secs(60);

    fn ms(pauses: &[u64]) -> Vec<Verdict> {
        pauses.iter().map(|ms| Verdict::Again(Duration::from_millis(*ms))).collect()
    }

    /// Three restarts after 1, 2 and 4 s, then none until the first is five minutes old; none at all where 0 are allowed.
    #[tokio::test(start_paused = true)]
    async fn three_in_five_minutes() {
        let (mut policy, start) = (RetryPolicy::default(), Instant::now());
        let spend = |policy: &mut RetryPolicy, max, at: u64| {
            let now = start + Duration::from_secs(at);
            match policy.spend(Trouble::Start, Retry::default(), max, now) {
                Verdict::Again(pause) => Some(pause.as_secs()),
                Verdict::Never => None,
                Verdict::Rest(_) | Verdict::OnDemand => panic!("it has no rest"),
            }
        };
        assert_eq!([0, 10, 20, 30].map(|at| spend(&mut policy, 3, at)), [Some(1), Some(2), Some(4), None]);
        assert_eq!((spend(&mut policy, 3, 299), spend(&mut policy, 3, 300)), (None, Some(4)));
        assert_eq!(spend(&mut policy, 3, 301), None);
        policy.renew();
        assert_eq!(spend(&mut policy, 3, 302), Some(1));
        assert_eq!(spend(&mut RetryPolicy::default(), 0, 0), None);
        let mut many = RetryPolicy::default();
        assert_eq!((0..20).filter_map(|_| spend(&mut many, 20, 0)).max(), Some(PAUSE_MAX.as_secs()));
    }

    /// A series is three further tries after 250, 500 and 1,000 ms and then a rest, again and again; with no further
    /// tries the first failure is followed by the rest.
    #[tokio::test(start_paused = true)]
    async fn series_for_ever() {
        let (mut policy, retry) = (RetryPolicy::default(), Retry::attached(COOLDOWN));
        let mut spend = |max| policy.spend(Trouble::Start, retry, max, Instant::now());
        for _ in 0..100 {
            let series: Vec<_> = (0..3).map(|_| spend(3)).collect();
            assert_eq!(series, ms(&[250, 500, 1_000]));
            assert_eq!(spend(3), Verdict::Rest(COOLDOWN));
            assert_eq!(spend(0), Verdict::Rest(COOLDOWN));
        }
    }

    /// A connection that held and is lost begins a new series at once, however often; those that do not hold are made
    /// again later and later, and the fourth in a row after a rest.
    #[tokio::test(start_paused = true)]
    async fn losses() {
        let (mut policy, retry) = (RetryPolicy::default(), Retry::attached(COOLDOWN));
        let mut spend = |trouble| policy.spend(trouble, retry, 3, Instant::now());
        let (good, bad) = (Trouble::Loss { held: COOLDOWN }, Trouble::Loss { held: COOLDOWN / 2 });
        for _ in 0..10 {
            assert_eq!(vec![spend(good), spend(Trouble::Start)], ms(&[250, 250]));
        }
        assert_eq!([bad, Trouble::Start, bad].map(&mut spend).to_vec(), ms(&[500, 250, 1_000]));
        assert_eq!(spend(bad), Verdict::Rest(COOLDOWN));
        assert_eq!(vec![spend(bad)], ms(&[250]), "and again");
    }
}
