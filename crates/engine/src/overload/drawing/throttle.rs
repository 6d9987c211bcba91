//! When a page that keeps a thread busy is stopped, and when it goes on. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// How long the page runs at least: some frames.
const RUN_MIN: Duration = Duration::from_millis(100);

/// The thread is free for other pages this many times as long as it draws for this one.
const IDLE_TO_DRAW_RATIO: u32 = 3;

/// The page goes on after this time at the latest, even if the thread is never idle: then another page keeps it busy.
const PAGE_STOPPED_MAX: Duration = Duration::from_secs(4);

/// A page that does not keep the thread busy for so long is no longer throttled.
const RELEASE_AFTER: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThrottleStep {
    Stay,
    Stop,
    Continue,
    /// The page need not be stopped any more.
    Release,
}

pub(super) struct Throttle {
    /// When the page last went on.
    resumed_at: Instant,
    state: ThrottleState,
}

enum ThrottleState {
    Running,
    /// The thread still draws what the page gave it.
    Stopped {
        since: Instant,
    },
    /// The thread is free for others.
    ThreadIdle {
        until: Instant,
    },
}

impl Throttle {
    /// For a page that is stopped now.
    pub(super) fn new(now: Instant) -> Self {
        Self { resumed_at: now, state: ThrottleState::Stopped { since: now } }
    }

    /// What to do now. `is_idle`: the thread has nothing to draw. `was_busy`: the thread was busy since the page
    /// last went on.
    pub(super) fn step(&mut self, now: Instant, is_idle: bool, was_busy: bool) -> ThrottleStep {
        match self.state {
            ThrottleState::Running if now.duration_since(self.resumed_at) >= RUN_MIN && was_busy => {
                self.state = ThrottleState::Stopped { since: now };
                ThrottleStep::Stop
            }
            ThrottleState::Running if now.duration_since(self.resumed_at) >= RELEASE_AFTER => {
                ThrottleStep::Release
            }
            ThrottleState::Stopped { since } if is_idle => {
                let idle_for =
                    (now.duration_since(self.resumed_at) * IDLE_TO_DRAW_RATIO).min(PAGE_STOPPED_MAX);
                self.state =
                    ThrottleState::ThreadIdle { until: (now + idle_for).min(since + PAGE_STOPPED_MAX) };
                ThrottleStep::Stay
            }
            ThrottleState::Stopped { since } if now.duration_since(since) < PAGE_STOPPED_MAX => {
                ThrottleStep::Stay
            }
            ThrottleState::ThreadIdle { until } if now < until => ThrottleStep::Stay,
            ThrottleState::Running => ThrottleStep::Stay,
            ThrottleState::Stopped { .. } | ThrottleState::ThreadIdle { .. } => {
                self.resumed_at = now;
                self.state = ThrottleState::Running;
                ThrottleStep::Continue
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(100);

    /// The steps of a page, each with the tenth of a second in which it happens. The thread is busy while the page runs, if it
    /// is a heavy one, and for so many tenths of a second after that.
    fn steps(ticks: u32, is_heavy: impl Fn(u32) -> bool, tail: u32) -> Vec<(u32, ThrottleStep)> {
        let start = Instant::now();
        let mut throttle = Throttle::new(start);
        let mut steps = Vec::new();
        let mut is_running = false;
        let mut busy_until = 0;
        for tick in 1..=ticks {
            if is_running && is_heavy(tick) {
                busy_until = tick + tail;
            }
            let step = throttle.step(start + TICK * tick, tick > busy_until, is_running && is_heavy(tick));
            if step != ThrottleStep::Stay {
                steps.push((tick, step));
                is_running = step == ThrottleStep::Continue;
            }
            if step == ThrottleStep::Release {
                break;
            }
        }
        steps
    }

    /// A heavy page runs for a moment; then it is stopped three times as long as the thread draws for it.
    #[test]
    fn heavy_page_runs_a_quarter_of_the_time() {
        let all = steps(100, |_| true, 2);
        assert_eq!(
            all[1..5],
            [
                (5, ThrottleStep::Stop),
                (20, ThrottleStep::Continue),
                (21, ThrottleStep::Stop),
                (36, ThrottleStep::Continue)
            ]
        );
        assert!(all.iter().all(|(_, step)| *step != ThrottleStep::Release));
        // Other pages keep the thread busy, so it is never idle.
        let all = steps(120, |_| true, 1_000);
        assert_eq!(all[2..4], [(45, ThrottleStep::Continue), (46, ThrottleStep::Stop)]);
    }

    /// A page that draws less is released.
    #[test]
    fn page_that_draws_less_is_released() {
        let all = steps(80, |tick| tick < 10, 1);
        assert_eq!(all.last(), Some(&(46, ThrottleStep::Release)), "{all:?}");
    }
}
