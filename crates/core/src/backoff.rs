//! Pauses between failed attempts: each is twice as long as the one before it, up to a limit.

use std::time::Duration;

/// The first pause, and the longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    pub first: Duration,
    pub max: Duration,
}

impl Backoff {
    /// The pause before the next attempt, after this many earlier pauses.
    pub fn pause(self, earlier: u32) -> Duration {
        self.first.saturating_mul(2_u32.saturating_pow(earlier)).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each pause is twice the one before it, and none is longer than the limit, however many there were.
    #[test]
    fn pauses_double_up_to_the_limit() {
        let backoff = Backoff { first: Duration::from_secs(1), max: Duration::from_secs(5) };
        assert_eq!([0, 1, 2, 3, 40, u32::MAX].map(|n| backoff.pause(n).as_secs()), [1, 2, 4, 5, 5, 5]);
        assert_eq!(Backoff { max: Duration::ZERO, ..backoff }.pause(0), Duration::ZERO);
    }
}
