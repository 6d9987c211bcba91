//! When a page that keeps a thread busy is stopped, and when it goes on. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// How long the page runs at least: some frames.
const RUN_MIN: Duration = Duration::from_millis(100);

/// The thread has this many times as long for the other pages as for this one.
const REST_PARTS: u32 = 3;

/// The page goes on after this time at the latest, even if the thread never rests: then another page keeps it busy.
const STOPPED_MAX: Duration = Duration::from_secs(4);

/// A page that leaves the thread alone for so long is an ordinary page again.
const CALM: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Stay,
    Stop,
    Continue,
    /// The page needs to be stopped no more.
    Release,
}

pub(super) struct Throttle {
    /// When the page last went on.
    ran: Instant,
    state: State,
}

enum State {
    Running,
    /// The thread still draws what the page gave it.
    Stopped {
        since: Instant,
    },
    /// The thread is free for others.
    Resting {
        until: Instant,
    },
}

impl Throttle {
    /// For a page that is stopped now.
    pub(super) fn new(now: Instant) -> Self {
        Self { ran: now, state: State::Stopped { since: now } }
    }

    /// What to do now. `is_resting`: the thread has nothing to draw; `was_busy`: it was, since the page last went on.
    pub(super) fn step(&mut self, now: Instant, is_resting: bool, was_busy: bool) -> Step {
        match self.state {
            State::Running if now.duration_since(self.ran) >= RUN_MIN && was_busy => {
                self.state = State::Stopped { since: now };
                Step::Stop
            }
            State::Running if now.duration_since(self.ran) >= CALM => Step::Release,
            State::Stopped { since } if is_resting => {
                let rest = (now.duration_since(self.ran) * REST_PARTS).min(STOPPED_MAX);
                self.state = State::Resting { until: (now + rest).min(since + STOPPED_MAX) };
                Step::Stay
            }
            State::Stopped { since } if now.duration_since(since) < STOPPED_MAX => Step::Stay,
            State::Resting { until } if now < until => Step::Stay,
            State::Running => Step::Stay,
            State::Stopped { .. } | State::Resting { .. } => {
                self.ran = now;
                self.state = State::Running;
                Step::Continue
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
    fn steps(ticks: u32, is_heavy: impl Fn(u32) -> bool, tail: u32) -> Vec<(u32, Step)> {
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
            if step != Step::Stay {
                steps.push((tick, step));
                is_running = step == Step::Continue;
            }
            if step == Step::Release {
                break;
            }
        }
        steps
    }

    /// A heavy page runs for a moment; then it is stopped three times as long as the thread draws for it.
    #[test]
    fn one_part_in_four() {
        let all = steps(100, |_| true, 2);
        assert_eq!(
            all[1..5],
            [(5, Step::Stop), (20, Step::Continue), (21, Step::Stop), (36, Step::Continue)]
        );
        assert!(all.iter().all(|(_, step)| *step != Step::Release));
        // The thread never rests, because of others.
        let all = steps(120, |_| true, 1_000);
        assert_eq!(all[2..4], [(45, Step::Continue), (46, Step::Stop)]);
    }

    /// A page that draws less is left alone.
    #[test]
    fn calm() {
        let all = steps(80, |tick| tick < 10, 1);
        assert_eq!(all.last(), Some(&(46, Step::Release)), "{all:?}");
    }
}
