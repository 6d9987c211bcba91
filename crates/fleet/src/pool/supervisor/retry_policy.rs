//! How often and how soon a supervisor tries a failed instance again.
//!
//! greenroom restarts an instance of its own a limited number of times within five minutes, after 1, 2, 4 … seconds. An
//! instance that needs more than that has a fault that a restart does not cure, and stays failed.
//!
//! An attached browser comes back when its user starts it: greenroom tries for ever, in series with a rest between them. A
//! series is one attempt and a number of further ones, each after a pause that doubles.

use std::{collections::VecDeque, time::Duration};

use greenroom_core::Backoff;
use tokio::time::Instant;

use crate::pool::Retry;

/// Restarts longer ago than this do not count.
const WINDOW: Duration = Duration::from_secs(300);

/// The longest pause between two tries. Only settings with many more than the usual three restarts reach it.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// After this many connections in a row that did not hold, the supervisor rests before the next one. Each connection
/// starts an engine, and an unstable browser must not cause that several times a second.
const LOSSES_MAX: u32 = 3;

/// A connection that held for this long ends the row of short ones, even if the configured rest is longer.
const HELD: Duration = Duration::from_secs(60);

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// The instance could not start, or greenroom could not connect to the browser.
    Start,
    /// The instance was lost after running this long.
    Loss { held: Duration },
}

/// What the policy decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryDecision {
    /// Try again after a pause.
    Again(Duration),
    /// Tried often enough for now: rest for this long.
    Rest(Duration),
    /// Tried often enough: do not try again.
    Never,
    /// Start the instance when a caller needs it.
    OnDemand,
}

#[derive(Debug, Default)]
pub(super) struct RetryPolicy {
    /// When the instance was restarted, for the limit within [`WINDOW`].
    restarts: VecDeque<Instant>,
    /// Failed attempts of this series.
    failures: u32,
    /// Connections in a row that did not hold.
    losses: u32,
}

impl RetryPolicy {
    /// Decides after a failure; `max` further attempts are allowed.
    pub(super) fn decide(
        &mut self,
        failure: FailureKind,
        retry: Retry,
        max: usize,
        now: Instant,
    ) -> RetryDecision {
        match retry.cooldown {
            Some(cooldown) => self.decide_in_series(failure, retry.pause, cooldown, max),
            None => self.decide_in_window(retry.pause, max, now),
        }
    }

    fn decide_in_window(&mut self, pause: Duration, max: usize, now: Instant) -> RetryDecision {
        while self.restarts.front().is_some_and(|at| now.duration_since(*at) >= WINDOW) {
            self.restarts.pop_front();
        }
        let spent = self.restarts.len();
        if spent >= max {
            return RetryDecision::Never;
        }
        self.restarts.push_back(now);
        RetryDecision::Again(backoff(pause).pause(u32::try_from(spent).unwrap_or(u32::MAX)))
    }

    fn decide_in_series(
        &mut self,
        failure: FailureKind,
        pause: Duration,
        cooldown: Duration,
        max: usize,
    ) -> RetryDecision {
        let (count, max) = match failure {
            FailureKind::Start => (&mut self.failures, u32::try_from(max).unwrap_or(u32::MAX)),
            FailureKind::Loss { held } => {
                // The supervisor had reached the browser: a new series begins.
                self.failures = 0;
                self.losses = if held >= cooldown.min(HELD) { 0 } else { self.losses };
                (&mut self.losses, LOSSES_MAX)
            }
        };
        if *count >= max {
            self.reset();
            return RetryDecision::Rest(cooldown);
        }
        *count += 1;
        RetryDecision::Again(backoff(pause).pause(*count - 1))
    }

    /// Forgets all failures: a series is over, or an order asks for a new attempt.
    pub(super) fn reset(&mut self) {
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

    fn ms(pauses: &[u64]) -> Vec<RetryDecision> {
        pauses.iter().map(|ms| RetryDecision::Again(Duration::from_millis(*ms))).collect()
    }

    /// Three restarts after 1, 2 and 4 s, then none until the first is five minutes old; none at all where 0 are allowed.
    #[tokio::test(start_paused = true)]
    async fn three_restarts_are_allowed_in_five_minutes() {
        let mut policy = RetryPolicy::default();
        let start = Instant::now();
        let decide = |policy: &mut RetryPolicy, max, at: u64| {
            let now = start + Duration::from_secs(at);
            match policy.decide(FailureKind::Start, Retry::default(), max, now) {
                RetryDecision::Again(pause) => Some(pause.as_secs()),
                RetryDecision::Never => None,
                RetryDecision::Rest(_) | RetryDecision::OnDemand => panic!("it has no rest"),
            }
        };
        assert_eq!([0, 10, 20, 30].map(|at| decide(&mut policy, 3, at)), [Some(1), Some(2), Some(4), None]);
        assert_eq!((decide(&mut policy, 3, 299), decide(&mut policy, 3, 300)), (None, Some(4)));
        assert_eq!(decide(&mut policy, 3, 301), None);
        policy.reset();
        assert_eq!(decide(&mut policy, 3, 302), Some(1));
        assert_eq!(decide(&mut RetryPolicy::default(), 0, 0), None);
        let mut many = RetryPolicy::default();
        assert_eq!((0..20).filter_map(|_| decide(&mut many, 20, 0)).max(), Some(PAUSE_MAX.as_secs()));
    }

    /// A series is three further tries after 250, 500 and 1,000 ms and then a rest, again and again. If no further
    /// tries are allowed, the rest follows the first failure.
    #[tokio::test(start_paused = true)]
    async fn series_of_retries_repeat_after_a_rest() {
        let mut policy = RetryPolicy::default();
        let retry = Retry::attached(COOLDOWN);
        let mut decide = |max| policy.decide(FailureKind::Start, retry, max, Instant::now());
        for _ in 0..100 {
            let series: Vec<_> = (0..3).map(|_| decide(3)).collect();
            assert_eq!(series, ms(&[250, 500, 1_000]));
            assert_eq!(decide(3), RetryDecision::Rest(COOLDOWN));
            assert_eq!(decide(0), RetryDecision::Rest(COOLDOWN));
        }
    }

    /// The loss of a connection that held begins a new series at once, however often. After connections that did not
    /// hold the pause grows, and the fourth in a row comes after a rest.
    #[tokio::test(start_paused = true)]
    async fn pause_grows_after_short_connections() {
        let mut policy = RetryPolicy::default();
        let retry = Retry::attached(COOLDOWN);
        let mut decide = |failure| policy.decide(failure, retry, 3, Instant::now());
        let good = FailureKind::Loss { held: COOLDOWN };
        let bad = FailureKind::Loss { held: COOLDOWN / 2 };
        for _ in 0..10 {
            assert_eq!(vec![decide(good), decide(FailureKind::Start)], ms(&[250, 250]));
        }
        assert_eq!([bad, FailureKind::Start, bad].map(&mut decide).to_vec(), ms(&[500, 250, 1_000]));
        assert_eq!(decide(bad), RetryDecision::Rest(COOLDOWN));
        assert_eq!(vec![decide(bad)], ms(&[250]), "and again");
    }
}
