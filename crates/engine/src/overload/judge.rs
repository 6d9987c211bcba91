//! Decides which renderer of a browser to end, from the resources that the browser's processes use. Pure: it has no access
//! to processes or clocks.
//!
//! A page keeps its browser busy by messages, which one thread of its renderer sends. So that thread's processor time shows
//! which page does it; a page whose scripts are busy but send nothing slows only itself, and is not ended. What the
//! browser keeps for its pages (blobs, say) is in the browser's own memory; while that grows, the judge attributes the
//! growth to the renderers that use new memory meanwhile: a page has to make what it sends. It attributes the memory of
//! the GPU process to no page: a page fills it with some bytes of commands. If that process takes most, the judge ends
//! it, and the browser starts another one.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    memory_attribution::MemoryAttribution,
    usage::{ProcessId, Renderer, Usage},
};

/// How much work a page may cause a browser while the browser owes an answer. A healthy browser answers within some
/// milliseconds of work, whatever its pages do.
const WORK_MAX: WorkLimit = WorkLimit { work: Duration::from_secs(1), within: Duration::from_secs(8) };

/// The same over a longer time: a page that sends in bursts and rests in between stays below [`WORK_MAX`], but keeps the
/// other sessions waiting again and again. A page that loads, or clears a large store, does so once or twice a minute.
const BURSTS_MAX: WorkLimit = WorkLimit { work: Duration::from_secs(3), within: Duration::from_secs(60) };

/// A message may cause work some time after it was sent.
const SEND_WINDOW: Duration = Duration::from_millis(1_500);

/// How much of the browser's work between two measurements is attributed to a renderer at most: this many times the processor
/// time that it spent on messages within [`SEND_WINDOW`]. Of the pages that keep a browser busy, a page that opens frames with
/// addresses of 2 MB causes most work for its sending: 15 times as much, of which three measurements take a share each. A page
/// that loads while the browser is busy for another reason, such as a large picture, stops sending as soon as it gets no
/// answers, so less than [`WORK_MAX`] of that work is attributed to it.
const WORK_PER_SEND_TIME_MAX: u32 = 5;

/// How long after one page no other page is ended. The browser first has to clean up after the page, and to return its
/// memory.
const PAUSE_AFTER_END: Duration = Duration::from_secs(3);

/// If memory of gone pages is what exceeds a browser's limit, a page with less than this part of the limit is not ended: that
/// would not help. Pages that exceed the limit together are ended however small each is.
const MEMORY_SHARE_DIVISOR: u64 = 8;

/// A GPU process that takes less than the pages together is ended only if it takes this part of the limit.
const GPU_SHARE_DIVISOR: u64 = 4;

/// How long after the end of a page the browser may take to return what it kept for that page. What then remains is what the
/// page has stored (IndexedDB, caches), which Chromium frees with the session alone.
const FREED_WITHIN: Duration = Duration::from_secs(10);

const KEPT_BUSY: &str = "greenroom ended it: it kept the whole browser too busy to answer";
pub(super) const KEPT_DRAWING: &str = "greenroom ended it: it kept the browser too busy to draw other pages";
pub(super) const TOOK_MEMORY: &str =
    "greenroom ended it: it took too much memory (sessions.memory_bytes_max)";

/// The most work that is allowed within a time.
struct WorkLimit {
    work: Duration,
    within: Duration,
}

/// A process to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    EndPage(PageVerdict),
    /// Gives up the sessions whose pages were ended for their memory since this time: they have left too much behind.
    LoseSessions {
        ended_since: Instant,
    },
    EndGpuProcess(ProcessId),
}

/// A renderer to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageVerdict {
    pub(super) process: ProcessId,
    /// For the agent that uses the tab.
    pub(super) why: &'static str,
}

/// Pages that were ended for their memory, while the browser keeps much of what they have left behind.
#[derive(Debug, Clone, Copy)]
struct MemoryEnds {
    /// When the first of them was ended.
    since: Instant,
    /// When a page or a session was last ended for its memory.
    last: Instant,
    /// Whether their sessions were ended, too.
    has_ended_sessions: bool,
}

#[derive(Default)]
pub(super) struct Judge {
    /// The browser's work since the last measurement, while it owed an answer.
    unanswered_work: Duration,
    /// How much of this work is attributed to which renderer, by measurement, within [`BURSTS_MAX`].
    work: VecDeque<(Instant, HashMap<ProcessId, Duration>)>,
    /// What the renderers had used at each measurement within [`SEND_WINDOW`], oldest first.
    samples: VecDeque<(Instant, HashMap<ProcessId, Renderer>)>,
    last_usage: Usage,
    /// How much of the browser's own memory is attributed to each renderer.
    browser_memory: MemoryAttribution,
    /// The memory of the browser's own process at the first measurement: it keeps that for no page.
    empty_browser_memory: Option<u64>,
    pause_until: Option<Instant>,
    memory_ends: Option<MemoryEnds>,
    /// Whether it was logged that too much memory is in use, but no page can be ended for it.
    has_warned: bool,
}

impl Judge {
    /// The browser did this much work while it owed an answer.
    pub(super) fn add_unanswered_work(&mut self, work: Duration) {
        self.unanswered_work += work;
    }

    /// Drops all measurements. The caller could not measure for a while, so earlier ones say nothing.
    pub(super) fn reset(&mut self) {
        self.unanswered_work = Duration::ZERO;
        self.work.clear();
        self.samples.clear();
    }

    /// Notes what the processes use now. Stopped renderers send nothing: the browser still works for what they sent before,
    /// so the time window stays where it was.
    pub(super) fn record_usage(&mut self, now: Instant, usage: Usage, are_stopped: bool) {
        while self.work.front().is_some_and(|(at, _)| now.duration_since(*at) > BURSTS_MAX.within) {
            self.work.pop_front();
        }
        // The newest of the old measurements is where the time window begins.
        while !are_stopped
            && self.samples.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= SEND_WINDOW)
        {
            self.samples.pop_front();
        }
        self.attribute_work(now, &usage);
        self.attribute_memory(&usage);
        if !are_stopped {
            let renderers = usage.renderers.iter().map(|renderer| (renderer.process, *renderer)).collect();
            self.samples.push_back((now, renderers));
        }
        self.last_usage = usage;
    }

    /// Attributes the browser's work to the renderers that sent messages, as far as these explain it.
    fn attribute_work(&mut self, now: Instant, usage: &Usage) {
        let unanswered_work = std::mem::take(&mut self.unanswered_work);
        let Some((_, before)) = self.samples.front().filter(|_| !unanswered_work.is_zero()) else { return };
        let send_time = |renderer: &Renderer| send_time_since(before, renderer);
        let all: Duration = usage.renderers.iter().map(send_time).sum();
        let work = |renderer: &Renderer| {
            let share = Duration::from_micros(proportion(
                micros(unanswered_work),
                micros(send_time(renderer)),
                micros(all),
            ));
            (renderer.process, share.min(send_time(renderer) * WORK_PER_SEND_TIME_MAX))
        };
        self.work.push_back((now, usage.renderers.iter().map(work).collect()));
    }

    /// Attributes the growth of the browser's own memory to the renderers that used new memory meanwhile, and growth beyond
    /// that to those that sent messages: a page can have the browser allocate what it does not fill itself.
    fn attribute_memory(&mut self, usage: &Usage) {
        self.browser_memory
            .retain(|process| usage.renderers.iter().any(|renderer| renderer.process == process));
        self.empty_browser_memory.get_or_insert(usage.other_memory);
        let old = self.last_usage.other_memory;
        let new = usage.other_memory;
        if new <= old {
            return self.browser_memory.subtract(old - new);
        }
        let Some((_, before)) = self.samples.front() else { return };
        let allocated = |renderer: &Renderer| {
            let before = before.get(&renderer.process).map_or(0, |before| before.bytes_ever_touched);
            renderer.bytes_ever_touched.saturating_sub(before)
        };
        let send_time = |renderer: &Renderer| micros(send_time_since(before, renderer));
        let all_allocated: u64 = usage.renderers.iter().map(allocated).sum();
        let all_send_time: u64 = usage.renderers.iter().map(send_time).sum();
        let explained = |renderer: &Renderer| {
            proportion(new - old, allocated(renderer), all_allocated).min(allocated(renderer))
        };
        let unexplained = new - old - usage.renderers.iter().map(explained).sum::<u64>();
        for renderer in &usage.renderers {
            let kept = explained(renderer) + proportion(unexplained, send_time(renderer), all_send_time);
            self.browser_memory.add(renderer.process, kept);
        }
    }

    /// The process to end now, if there is one. All processes of the browser together may take this much memory.
    pub(super) fn decide(&mut self, now: Instant, memory_bytes_max: u64) -> Option<Decision> {
        if self.pause_until.is_some_and(|until| now < until) {
            return None;
        }
        let decision = self
            .page_over_any_work_limit(now)
            .map(Decision::EndPage)
            .or_else(|| self.process_over_memory_limit(now, memory_bytes_max))?;
        self.pause_until = Some(now + PAUSE_AFTER_END);
        self.reset();
        Some(decision)
    }

    fn page_over_any_work_limit(&self, now: Instant) -> Option<PageVerdict> {
        [WORK_MAX, BURSTS_MAX].iter().find_map(|limit| self.page_over_work_limit(limit, now))
    }

    /// The renderer that caused most work within this time, if that was too much.
    fn page_over_work_limit(&self, limit: &WorkLimit, now: Instant) -> Option<PageVerdict> {
        let counts = |at: &Instant| now.duration_since(*at) <= limit.within;
        let work = |process: &ProcessId| -> Duration {
            let work = self.work.iter().filter(|(at, _)| counts(at));
            work.filter_map(|(_, work)| work.get(process)).sum()
        };
        let processes = self.last_usage.renderers.iter().map(|renderer| renderer.process);
        let (most, process) =
            processes.map(|process| (work(&process), process)).max_by_key(|(work, _)| *work)?;
        (most >= limit.work).then_some(PageVerdict { process, why: KEPT_BUSY })
    }

    fn process_over_memory_limit(&mut self, now: Instant, memory_bytes_max: u64) -> Option<Decision> {
        let taken =
            |renderer: &Renderer| renderer.memory + self.browser_memory.attributed_to(renderer.process);
        let (gpu, of_gpu) = self.last_usage.gpu.unzip();
        let of_gpu = of_gpu.unwrap_or_default();
        let all = self.last_usage.memory();
        let min = memory_bytes_max / MEMORY_SHARE_DIVISOR;
        let of_gone_pages = self.browser_memory.of_gone_renderers();
        if of_gone_pages < min {
            self.memory_ends = self.memory_ends.filter(|ends| now.duration_since(ends.last) < FREED_WITHIN);
        }
        if all <= memory_bytes_max {
            self.has_warned = false;
            return None;
        }
        let of_pages: u64 = self.last_usage.renderers.iter().map(taken).sum();
        let most = self.last_usage.renderers.iter().map(|renderer| (taken(renderer), renderer.process));
        let most = most.max_by_key(|(taken, _)| *taken);
        // A GPU process that draws many small pages is larger than each of them, but its end would not help for long.
        let is_large = of_gpu >= memory_bytes_max / GPU_SHARE_DIVISOR && all - of_gpu <= memory_bytes_max;
        let helps = is_large || of_gpu >= of_pages;
        if let Some(gpu) = gpu.filter(|_| helps && of_gpu >= most.map_or(min, |(taken, _)| taken.max(min))) {
            return Some(Decision::EndGpuProcess(gpu));
        }
        let is_excess_of_gone_pages = all.saturating_sub(of_gone_pages) <= memory_bytes_max;
        if let Some(ends) = self.memory_ends.as_mut().filter(|_| is_excess_of_gone_pages) {
            if now.duration_since(ends.last) < FREED_WITHIN {
                return None;
            }
            if !ends.has_ended_sessions {
                ends.has_ended_sessions = true;
                ends.last = now;
                return Some(Decision::LoseSessions { ended_since: ends.since });
            }
        }
        // What else the browser has gained may be of gone pages.
        let of_empty_browser =
            self.empty_browser_memory.unwrap_or_default().min(self.last_usage.other_memory);
        let is_excess_of_pages = of_pages + of_gpu + of_empty_browser > memory_bytes_max;
        if let Some((_, process)) = most.filter(|(taken, _)| is_excess_of_pages || *taken >= min) {
            let earlier = self.memory_ends.filter(|ends| !ends.has_ended_sessions);
            let since = earlier.map_or(now, |ends| ends.since);
            self.memory_ends = Some(MemoryEnds { since, last: now, has_ended_sessions: false });
            return Some(Decision::EndPage(PageVerdict { process, why: TOOK_MEMORY }));
        }
        if !self.has_warned {
            tracing::warn!(
                bytes = all,
                max = memory_bytes_max,
                "a browser takes too much memory, but no single page a large part of it"
            );
        }
        self.has_warned = true;
        None
    }
}

/// The processor time that a renderer has spent on messages since an earlier measurement.
fn send_time_since(before: &HashMap<ProcessId, Renderer>, renderer: &Renderer) -> Duration {
    let before = before.get(&renderer.process).map_or(Duration::ZERO, |before| before.io_thread_time);
    renderer.io_thread_time.saturating_sub(before)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// `whole * part / all`.
fn proportion(whole: u64, part: u64, all: u64) -> u64 {
    let proportion = u128::from(whole) * u128::from(part) / u128::from(all.max(1));
    u64::try_from(proportion).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const MAX: u64 = 1_000 * MIB;
    const HALF: Duration = Duration::from_millis(500);

    fn process(pid: u32) -> ProcessId {
        ProcessId { pid, started: 1 }
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Renderers with their usage: for messages, in milliseconds, or, in MiB, of new memory; their memory in MiB; the
    /// browser's memory in MiB.
    fn usage(renderers: &[(u32, u64, u64)], other_memory: u64) -> Usage {
        let renderer = |&(pid, used, memory): &(u32, u64, u64)| Renderer {
            process: process(pid),
            io_thread_time: ms(used),
            memory: memory * MIB,
            bytes_ever_touched: used * MIB,
            compositor_time: Duration::ZERO,
        };
        let renderers = renderers.iter().map(renderer).collect();
        Usage { renderers, gpu: None, other_memory: other_memory * MIB }
    }

    /// The page that is ended now.
    fn page_to_end(judge: &mut Judge, now: Instant) -> Option<PageVerdict> {
        match judge.decide(now, MAX) {
            Some(Decision::EndPage(verdict)) => Some(verdict),
            Some(other) => panic!("{other:?}"),
            None => None,
        }
    }

    /// If a browser works and does not answer, the renderer that sent most meanwhile is ended: not one that sent more long
    /// ago, none if none sent much, and no second one before the browser had time to clean up.
    #[test]
    fn busiest_sender_is_ended() {
        let mut judge = Judge::default();
        let start = Instant::now();
        let seen = |sample: u64| usage(&[(1, 900, 10), (2, 60 * sample, 10), (3, 2 * sample, 10)], 10);
        let mut ended = Vec::new();
        for sample in 0..8 {
            let now = start + HALF * u32::try_from(sample).unwrap();
            judge.add_unanswered_work(ms(400));
            judge.record_usage(now, seen(sample), false);
            ended.extend(page_to_end(&mut judge, now).map(|verdict| (sample, verdict)));
        }
        assert_eq!(ended, [(3, PageVerdict { process: process(2), why: KEPT_BUSY })]);
        // The page is gone; the browser cleans up, and the others go on.
        for sample in 8..40 {
            let now = start + HALF * u32::try_from(sample).unwrap();
            judge.add_unanswered_work(ms(500));
            judge.record_usage(now, usage(&[(1, 900, 10), (3, 2 * sample, 10)], 10), false);
            assert_eq!(page_to_end(&mut judge, now), None, "sample {sample}");
        }
    }

    /// No page is ended if a browser answers late without working (stopped, or waiting for a processor), if it works and
    /// answers, or if it was too busy only for a moment, however much its pages send.
    #[test]
    fn responsive_browser_keeps_its_pages() {
        for (work, every) in [(0, 1), (80, 1), (900, 17)] {
            let mut judge = Judge::default();
            let start = Instant::now();
            for sample in 0..60 {
                let now = start + HALF * u32::try_from(sample).unwrap();
                if sample % every == 0 {
                    judge.add_unanswered_work(ms(work));
                }
                judge.record_usage(now, usage(&[(1, 200 * sample, 10), (2, 300 * sample, 10)], 10), false);
                assert_eq!(page_to_end(&mut judge, now), None, "{work} ms of work, sample {sample}");
            }
        }
    }

    /// A page floods the browser for a moment, then rests for longer than the short account remembers: the long account ends
    /// it. A page that does so once in a while stays.
    #[test]
    fn repeated_bursts_end_a_page() {
        for (every, burst_to_end) in [(18, Some(3)), (60, None)] {
            let mut judge = Judge::default();
            let start = Instant::now();
            let mut sent = 0;
            let mut ended = None;
            for sample in 0..240 {
                let now = start + HALF * sample;
                if sample % every == 1 {
                    judge.add_unanswered_work(ms(800));
                    sent += 400;
                }
                judge.record_usage(now, usage(&[(1, 5, 10), (2, sent, 10)], 10), false);
                ended = ended.or_else(|| Some((sample / every, page_to_end(&mut judge, now)?.process)));
            }
            assert_eq!(ended, burst_to_end.map(|burst| (burst, process(2))), "every {every} samples");
        }
    }

    /// Renderers are stopped while the browser works off what they sent: its work is still attributed to them.
    #[test]
    fn work_counts_while_renderers_are_stopped() {
        for are_stopped in [true, false] {
            let mut judge = Judge::default();
            let start = Instant::now();
            judge.record_usage(start, usage(&[(1, 0, 10), (2, 0, 10)], 10), false);
            let mut ended = Vec::new();
            for sample in 1..20 {
                let now = start + HALF * sample;
                judge.add_unanswered_work(ms(450));
                judge.record_usage(now, usage(&[(1, 5, 10), (2, 60, 10)], 10), are_stopped);
                ended.extend(page_to_end(&mut judge, now).map(|verdict| verdict.process));
            }
            assert_eq!(ended.first(), are_stopped.then(|| process(2)).as_ref());
        }
    }

    /// After a reset, earlier measurements do not count.
    #[test]
    fn reset_drops_earlier_measurements() {
        let mut judge = Judge::default();
        let start = Instant::now();
        judge.record_usage(start, usage(&[(1, 0, 10)], 10), false);
        judge.add_unanswered_work(ms(5_000));
        judge.reset();
        judge.record_usage(start + HALF, usage(&[(1, 5_000, 10)], 10), false);
        assert_eq!(page_to_end(&mut judge, start + HALF), None);
    }

    /// Too much memory ends the page that takes most: in its own process, or in the browser's by the memory attributed to
    /// it.
    #[test]
    fn largest_page_is_ended() {
        let why = TOOK_MEMORY;
        for (large, end) in [
            // The page's own memory.
            (usage(&[(1, 10, 100), (2, 10, 900), (3, 400, 10)], 90), Some(2)),
            // The browser's memory, for a page that is small itself.
            (usage(&[(1, 12, 200), (2, 10, 50), (3, 900, 10)], 800), Some(3)),
            // Within the limit.
            (usage(&[(1, 10, 100), (2, 10, 400), (3, 400, 10)], 400), None),
        ] {
            let mut judge = Judge::default();
            let start = Instant::now();
            judge.record_usage(start, usage(&[(1, 10, 10), (2, 10, 10), (3, 10, 10)], 50), false);
            judge.record_usage(start + HALF, large, false);
            let end = end.map(|pid| PageVerdict { process: process(pid), why });
            assert_eq!(page_to_end(&mut judge, start + HALF), end);
        }
    }

    /// Memory that grows in the browser though no page uses new memory: the page that sends messages meanwhile ends.
    #[test]
    fn unexplained_memory_is_attributed_to_senders() {
        let mut judge = Judge::default();
        let start = Instant::now();
        let seen = |sent: u64, other: u64| {
            let mut usage = usage(&[(1, 0, 50), (2, 0, 50)], other);
            usage.renderers[0].io_thread_time = ms(1);
            usage.renderers[1].io_thread_time = ms(sent);
            usage
        };
        judge.record_usage(start, seen(1, 50), false);
        judge.record_usage(start + HALF, seen(30, 1_500), false);
        assert_eq!(page_to_end(&mut judge, start + HALF).map(|verdict| verdict.process), Some(process(2)));
    }

    /// The memory of a browser rises and falls while one of its pages works. However long that takes, the page does not
    /// count as the one that took what a page before it has left in the browser.
    #[test]
    fn rising_and_falling_memory_ends_no_page() {
        let mut judge = Judge::default();
        let start = Instant::now();
        judge.record_usage(start, usage(&[(1, 0, 50), (2, 0, 50)], 50), false);
        judge.record_usage(start + HALF, usage(&[(1, 0, 50), (2, 900, 50)], 950), false);
        for sample in 2..600 {
            let now = start + HALF * sample;
            let risen = u64::from(sample % 2) * 8;
            judge.record_usage(now, usage(&[(1, 8 * u64::from(sample), 50)], 950 + risen), false);
            assert_eq!(page_to_end(&mut judge, now), None, "sample {sample}");
        }
    }

    /// Memory that stays in the browser after its page was ended costs the sessions of ended pages after a while, and no
    /// neighbour. If that does not help either, a neighbour is ended only if it is large itself.
    #[test]
    fn memory_of_gone_pages_ends_their_sessions() {
        for neighbour in [50, 500] {
            let mut judge = Judge::default();
            let start = Instant::now();
            judge.record_usage(start, usage(&[(1, 10, neighbour), (2, 10, 50)], 50), false);
            judge.record_usage(start + HALF, usage(&[(1, 10, neighbour), (2, 900, 50)], 1_500), false);
            let ended_since = start + HALF;
            assert_eq!(
                page_to_end(&mut judge, ended_since).map(|verdict| verdict.process),
                Some(process(2)),
                "{neighbour}"
            );
            let mut decisions = Vec::new();
            for sample in 2..60 {
                let now = start + HALF * sample;
                judge.record_usage(now, usage(&[(1, 10 + u64::from(sample), neighbour)], 1_500), false);
                decisions.extend(judge.decide(now, MAX).map(|decision| (now - ended_since, decision)));
            }
            let sessions = (FREED_WITHIN, Decision::LoseSessions { ended_since });
            let large = Decision::EndPage(PageVerdict { process: process(1), why: TOOK_MEMORY });
            let expected = match neighbour {
                50 => vec![sessions],
                _ => vec![sessions, (2 * FREED_WITHIN, large)],
            };
            assert_eq!(decisions[..expected.len()], expected, "{neighbour}");
            assert!(neighbour > 50 || decisions.len() == 1, "{decisions:?}");
        }
    }

    /// A page whose memory the browser returns costs no session, now or when another page takes too much later.
    #[test]
    fn returned_memory_ends_no_session() {
        let mut judge = Judge::default();
        let start = Instant::now();
        judge.record_usage(start, usage(&[(1, 10, 50), (2, 10, 1_500)], 50), false);
        assert_eq!(page_to_end(&mut judge, start).map(|verdict| verdict.process), Some(process(2)));
        for sample in 1..100 {
            let now = start + HALF * sample;
            judge.record_usage(now, usage(&[(1, 10, 50)], 50), false);
            assert_eq!(judge.decide(now, MAX), None, "sample {sample}");
        }
        let now = start + HALF * 100;
        judge.record_usage(now, usage(&[(1, 10, 50), (3, 10, 1_500)], 50), false);
        assert_eq!(page_to_end(&mut judge, now).map(|verdict| verdict.process), Some(process(3)));
    }

    /// Many pages that are small each take too much together: the largest is ended, then the next, until the rest is within
    /// the limit. The GPU process, which draws all of them, is not ended.
    #[test]
    fn many_small_pages_are_ended() {
        let mut judge = Judge::default();
        let start = Instant::now();
        let mut pages: Vec<(u32, u64, u64)> =
            (1..=22).map(|pid| (pid + 100, 10, 50 + u64::from(pid % 2))).collect();
        let mut ended = Vec::new();
        for sample in 0..100 {
            let now = start + HALF * sample;
            let gpu = Some((process(9), 130 * MIB));
            judge.record_usage(now, Usage { gpu, ..usage(&pages, 10) }, false);
            if let Some(PageVerdict { process, why }) = page_to_end(&mut judge, now) {
                assert_eq!(why, TOOK_MEMORY);
                pages.retain(|(pid, ..)| *pid != process.pid);
                ended.push((sample, process.pid % 2));
            }
        }
        assert_eq!(ended, [(0, 1), (6, 1), (12, 1), (18, 1), (24, 1)]);
        let left: u64 = pages.iter().map(|(.., memory)| memory).sum();
        assert!(left + 10 + 130 <= 1_000, "{left}");
    }

    /// The GPU process takes most: it is ended, and no page, whatever the pages send. A page that takes more is ended first.
    #[test]
    fn large_gpu_process_is_ended() {
        let gpu = process(9);
        for (memory, of_page, expected) in [
            (1_500, 50, Some(Decision::EndGpuProcess(gpu))),
            (600, 700, Some(Decision::EndPage(PageVerdict { process: process(2), why: TOOK_MEMORY }))),
            (500, 50, None),
        ] {
            let mut judge = Judge::default();
            let start = Instant::now();
            let seen = |sent: u64, of_gpu: u64| Usage {
                gpu: Some((gpu, of_gpu * MIB)),
                ..usage(&[(1, sent, 50), (2, 0, of_page)], 50)
            };
            judge.record_usage(start, seen(1, 50), false);
            judge.record_usage(start + HALF, seen(300, memory), false);
            assert_eq!(judge.decide(start + HALF, MAX), expected);
        }
    }
}
