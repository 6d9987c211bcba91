//! Whether a browser keeps more cores busy than it may in the long run, and which of its pages uses most. Pure, like
//! [`super::judge`].
//!
//! A page that loads keeps several cores busy for a second or two, which hurts nobody. So unused time is not saved up, but
//! excess is: when a browser has used some seconds too much, greenroom lowers the priority of the page that used most since.
//! The kernel then slows that page down only while something else needs the processor. No page is ended for this.

use std::{collections::HashMap, time::Duration};

use greenroom_core::settings::Cores;
use tokio::time::Instant;

use super::usage::{ProcessId, Usage};

/// A browser may use as much more as its limit allows within this time.
const EXCESS_WITHIN: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct ProcessorLimit {
    cores_max: Option<Cores>,
    /// What each process had used at the last measurement.
    last: Option<(Instant, HashMap<ProcessId, Duration>)>,
    /// How much more than allowed the browser has used. It shrinks while the browser uses less.
    excess: Duration,
    /// What each process has used since there was no excess.
    used: HashMap<ProcessId, Duration>,
}

impl ProcessorLimit {
    pub(super) fn new(cores_max: Option<Cores>) -> Self {
        Self { cores_max, ..Self::default() }
    }

    /// Drops the last measurement. The caller could not measure for a while.
    pub(super) fn reset(&mut self) {
        self.last = None;
    }

    /// Notes what the processes have used, and for how long the kernel has throttled them since. Returns the renderer that
    /// has used most, once the browser has used too much.
    pub(super) fn record(&mut self, now: Instant, usage: &Usage, throttled: Duration) -> Option<ProcessId> {
        let cores_max = self.cores_max?;
        let times: HashMap<_, _> = usage.cpu_times.iter().copied().collect();
        let (then, before) = self.last.replace((now, times))?;
        let mut all = throttled;
        for (process, time) in &usage.cpu_times {
            let used = time.saturating_sub(before.get(process).copied().unwrap_or_default());
            all += used;
            *self.used.entry(*process).or_default() += used;
        }
        let allowed = cores_max.time_within(now.duration_since(then));
        self.excess = (self.excess + all).saturating_sub(allowed);
        if self.excess.is_zero() {
            self.used.clear();
        }
        if self.excess < cores_max.time_within(EXCESS_WITHIN) {
            return None;
        }
        self.excess = Duration::ZERO;
        let used = std::mem::take(&mut self.used);
        let renderers = usage.renderers.iter().map(|renderer| renderer.process);
        renderers.max_by_key(|process| used.get(process).copied().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::judge::tests::{HALF, process, usage},
        *,
    };

    /// Runs a browser for some samples. Each process uses this much of a core.
    fn run(limit: &mut ProcessorLimit, from: u32, samples: u32, percent: &[(u32, u32)]) -> Vec<(u32, u32)> {
        let start = Instant::now() + HALF * from;
        let mut slowed = Vec::new();
        for sample in 0..samples {
            let renderers: Vec<_> = percent.iter().map(|(pid, _)| (*pid, 0, 1)).collect();
            let mut usage = usage(&renderers, 1);
            let time = |percent: u32| HALF * (from + sample) * percent / 100;
            usage.cpu_times = percent.iter().map(|(pid, percent)| (process(*pid), time(*percent))).collect();
            let found = limit.record(start + HALF * sample, &usage, Duration::ZERO);
            slowed.extend(found.map(|process| (sample, process.pid)));
        }
        slowed
    }

    /// A browser that uses more than its limit for long: the page that used most is named, and again if it goes on. One
    /// that stays within the limit, or has none, is left alone.
    #[test]
    fn busiest_page_of_a_busy_browser_is_named() {
        let one = || ProcessorLimit::new(Some(Cores::ONE));
        // Two cores too many for ten seconds of the limit's one: five seconds.
        assert_eq!(run(&mut one(), 0, 25, &[(1, 50), (2, 250)]), [(10, 2), (20, 2)]);
        assert_eq!(run(&mut one(), 0, 1_000, &[(1, 30), (2, 70)]), []);
        assert_eq!(run(&mut ProcessorLimit::new(None), 0, 1_000, &[(1, 800)]), []);
        let mut small = ProcessorLimit::new(Cores::new(0.1));
        assert_eq!(run(&mut small, 0, 5, &[(1, 10), (2, 100)]), [(2, 2), (4, 2)]);
    }

    /// A burst is no excess, and is forgotten once the browser has used less for a while.
    #[test]
    fn bursts_are_allowed() {
        let mut limit = ProcessorLimit::new(Some(Cores::ONE));
        for _ in 0..20 {
            assert_eq!(run(&mut limit, 0, 7, &[(1, 300)]), []);
            limit.reset();
            assert_eq!(run(&mut limit, 0, 20, &[(1, 5)]), []);
            assert_eq!((limit.excess, limit.used.len()), (Duration::ZERO, 0));
            limit.reset();
        }
    }

    /// Where the kernel holds the browser to its limit, the time for which it throttles counts as excess.
    #[test]
    fn throttled_time_is_excess() {
        let mut limit = ProcessorLimit::new(Some(Cores::ONE));
        let start = Instant::now();
        let mut found = None;
        for sample in 0..60 {
            let mut usage = usage(&[(1, 0, 1), (2, 0, 1)], 1);
            let time = HALF * sample;
            usage.cpu_times = vec![(process(1), time / 10), (process(2), time * 9 / 10)];
            let named = limit.record(start + time, &usage, Duration::from_millis(250));
            found = found.or(named.map(|process| (sample, process.pid)));
        }
        assert_eq!(found, Some((40, 2)));
    }
}
