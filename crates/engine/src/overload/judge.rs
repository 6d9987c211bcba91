//! Decides which processes of a browser to end, from the resources that the browser's processes use. Pure: it has no access
//! to processes or clocks.
//!
//! A page keeps its browser busy by messages, which one thread of its renderer sends. So that thread's processor time shows
//! which page does it; a page whose scripts are busy but send nothing slows only itself, and is not ended. [`MemoryJudge`]
//! decides on memory. A browser with too many processes loses its newest pages: nothing shows which page has opened the
//! others, and a session whose pages end again and again is lost.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    memory_judge::MemoryJudge,
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

/// A single long message costs its sender's thread nothing, since the two processes share the memory, but the browser works
/// for seconds to pass it on to a debugger's client. For a message of 200 MB a browser gained 480 to 640 MB while it was at
/// work. The largest picture has 128 MiB, of which a browser may have two copies. The CDP proxy counts shorter messages itself.
const LONG_MESSAGE_GROWTH: u64 = 384 << 20;

/// The sender of a long message has used at least this much new memory meanwhile: it makes the message.
const LONG_MESSAGE_BYTES: u64 = 256 << 20;

/// How much of the browser's work is attributed to the sender of a long message: one second for each 100 MB that the browser
/// has gained for it. Chromium took about 0.2 s.
const LONG_MESSAGE_BYTES_PER_MICRO: u64 = 100;

/// How long after one page no other page is ended. The browser first has to clean up after the page, and to return its
/// memory.
const PAUSE_AFTER_END: Duration = Duration::from_secs(3);

/// If a browser has too many processes, so many pages are ended that this part of the limit is free: the next page that
/// opens may be of another session, and must not be the next to end.
const FREE_PROCESSES_DIVISOR: usize = 4;

const KEPT_BUSY: &str = "greenroom ended it: it kept the whole browser too busy to answer";
pub(super) const KEPT_DRAWING: &str = "greenroom ended it: it kept the browser too busy to draw other pages";
pub(super) const OPENED_PROCESSES: &str =
    "greenroom ended it: the browser has too many processes (pool.processes_max)";

/// The most work that is allowed within a time.
struct WorkLimit {
    work: Duration,
    within: Duration,
}

/// What to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    EndPage(PageVerdict),
    /// Ends all of these pages for one reason.
    EndPages {
        processes: Vec<ProcessId>,
        why: &'static str,
    },
    /// Gives up the sessions whose pages were ended for their memory since this time: they have left too much behind.
    LoseSessions {
        ended_since: Instant,
    },
    EndGpuProcess(ProcessId),
    /// Gives up the browser: it exceeds a limit, and no page can be blamed for that.
    EndBrowser {
        why: String,
    },
}

/// The limits of a browser at the moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct UsageLimits {
    /// For all processes together.
    pub(super) memory_bytes_max: u64,
    pub(super) processes_max: usize,
}

/// A renderer to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageVerdict {
    pub(super) process: ProcessId,
    /// For the agent that uses the tab.
    pub(super) why: &'static str,
}

/// What a renderer had used at a measurement.
pub(super) struct RendererSample {
    renderer: Renderer,
    /// How much of the browser's own memory was attributed to it.
    browser_memory: u64,
}

#[derive(Default)]
pub(super) struct Judge {
    /// The browser's work since the last measurement, while it owed an answer.
    unanswered_work: Duration,
    /// How much of this work is attributed to which renderer, by measurement, within [`BURSTS_MAX`].
    work: VecDeque<(Instant, HashMap<ProcessId, Duration>)>,
    /// What the renderers had used at each measurement within [`SEND_WINDOW`], oldest first.
    samples: VecDeque<(Instant, HashMap<ProcessId, RendererSample>)>,
    last_usage: Usage,
    memory: MemoryJudge,
    pause_until: Option<Instant>,
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
        let before = self.samples.front().map(|(_, before)| before);
        self.memory.attribute(before, &self.last_usage, &usage);
        self.attribute_work(now, &usage);
        if !are_stopped {
            let sample = |renderer: &Renderer| {
                let browser_memory = self.memory.attributed_to(renderer.process);
                (renderer.process, RendererSample { renderer: *renderer, browser_memory })
            };
            let renderers = usage.renderers.iter().map(sample).collect();
            self.samples.push_back((now, renderers));
        }
        self.last_usage = usage;
    }

    /// Attributes the browser's work to the renderers that sent messages, as far as these explain it.
    fn attribute_work(&mut self, now: Instant, usage: &Usage) {
        let unanswered_work = std::mem::take(&mut self.unanswered_work);
        let Some((_, before)) = self.samples.front().filter(|_| !unanswered_work.is_zero()) else { return };
        let explained = |renderer: &Renderer| {
            let of_messages = send_time_since(before, renderer) * WORK_PER_SEND_TIME_MAX;
            of_messages + self.long_message_work(before, renderer)
        };
        let all: Duration = usage.renderers.iter().map(explained).sum();
        let work = |renderer: &Renderer| {
            let explained = explained(renderer);
            let share =
                Duration::from_micros(proportion(micros(unanswered_work), micros(explained), micros(all)));
            (renderer.process, share.min(explained))
        };
        self.work.push_back((now, usage.renderers.iter().map(work).collect()));
    }

    /// The work that a long message of this renderer explains.
    fn long_message_work(
        &self,
        before: &HashMap<ProcessId, RendererSample>,
        renderer: &Renderer,
    ) -> Duration {
        let browser_memory_before = before.get(&renderer.process).map_or(0, |before| before.browser_memory);
        let growth = self.memory.attributed_to(renderer.process).saturating_sub(browser_memory_before);
        if growth < LONG_MESSAGE_GROWTH || bytes_touched_since(before, renderer) < LONG_MESSAGE_BYTES {
            return Duration::ZERO;
        }
        Duration::from_micros(growth / LONG_MESSAGE_BYTES_PER_MICRO)
    }

    /// What to end now, if anything.
    pub(super) fn decide(&mut self, now: Instant, limits: UsageLimits) -> Option<Decision> {
        if self.pause_until.is_some_and(|until| now < until) {
            return None;
        }
        let decision = self
            .page_over_any_work_limit(now)
            .map(Decision::EndPage)
            .or_else(|| self.memory.decide(now, &self.last_usage, limits.memory_bytes_max))
            .or_else(|| self.over_process_limit(limits.processes_max))?;
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

    /// The newest pages of a browser that has too many processes.
    fn over_process_limit(&self, processes_max: usize) -> Option<Decision> {
        let Usage { processes, renderers, .. } = &self.last_usage;
        if *processes <= processes_max {
            return None;
        }
        let surplus = processes - (processes_max - processes_max / FREE_PROCESSES_DIVISOR);
        let mut newest_first: Vec<_> = renderers.iter().map(|renderer| renderer.process).collect();
        newest_first.sort_by_key(|process| std::cmp::Reverse((process.started, process.pid)));
        newest_first.truncate(surplus);
        if newest_first.is_empty() {
            let why = format!(
                "it has {processes} processes, and none of them is a page's; {processes_max} are allowed (pool.processes_max)"
            );
            return Some(Decision::EndBrowser { why });
        }
        Some(Decision::EndPages { processes: newest_first, why: OPENED_PROCESSES })
    }
}

/// The processor time that a renderer has spent on messages since an earlier measurement.
pub(super) fn send_time_since(before: &HashMap<ProcessId, RendererSample>, renderer: &Renderer) -> Duration {
    let before = before.get(&renderer.process);
    renderer
        .io_thread_time
        .saturating_sub(before.map_or(Duration::ZERO, |before| before.renderer.io_thread_time))
}

/// How many bytes of memory a renderer has used for the first time since an earlier measurement.
pub(super) fn bytes_touched_since(before: &HashMap<ProcessId, RendererSample>, renderer: &Renderer) -> u64 {
    let before = before.get(&renderer.process);
    renderer.bytes_ever_touched.saturating_sub(before.map_or(0, |before| before.renderer.bytes_ever_touched))
}

pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// `whole * part / all`.
pub(super) fn proportion(whole: u64, part: u64, all: u64) -> u64 {
    let proportion = u128::from(whole) * u128::from(part) / u128::from(all.max(1));
    u64::try_from(proportion).unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) const MIB: u64 = 1 << 20;
    pub(in super::super) const MAX: UsageLimits =
        UsageLimits { memory_bytes_max: 1_000 * MIB, processes_max: 100 };
    pub(in super::super) const HALF: Duration = Duration::from_millis(500);

    pub(in super::super) fn process(pid: u32) -> ProcessId {
        ProcessId { pid, started: 1 }
    }

    pub(in super::super) fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Renderers with their usage: for messages, in milliseconds, or, in MiB, of new memory; their memory in MiB; the
    /// browser's memory in MiB.
    pub(in super::super) fn usage(renderers: &[(u32, u64, u64)], other_memory: u64) -> Usage {
        let renderer = |&(pid, used, memory): &(u32, u64, u64)| Renderer {
            process: process(pid),
            io_thread_time: ms(used),
            memory: memory * MIB,
            bytes_ever_touched: used * MIB,
            compositor_time: Duration::ZERO,
        };
        let renderers: Vec<_> = renderers.iter().map(renderer).collect();
        let processes = renderers.len() + 1;
        Usage { renderers, processes, other_memory: other_memory * MIB, ..Usage::default() }
    }

    /// The page that is ended now.
    pub(in super::super) fn page_to_end(judge: &mut Judge, now: Instant) -> Option<PageVerdict> {
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

    /// A page sends messages of hundreds of megabytes, for which its thread takes no time: it is ended, as soon as the browser
    /// has owed answers for long enough. A page whose picture is taken, or that fills its own memory, is not.
    #[test]
    fn sender_of_long_messages_is_ended() {
        for (growth, touched, is_ended) in [(500, 600, true), (280, 600, false), (500, 140, false)] {
            let mut judge = Judge::default();
            let start = Instant::now();
            let mut ended = Vec::new();
            for sample in 0..60_u32 {
                let now = start + HALF * sample;
                let messages = u64::from(sample / 12);
                // The browser works for a second, and has the message meanwhile.
                let is_at_work = sample % 12 > 9;
                if is_at_work {
                    judge.add_unanswered_work(ms(450));
                }
                let kept = if is_at_work { growth } else { 0 };
                let used = touched * (messages + u64::from(sample % 12 > 8));
                let mut seen = usage(&[(1, 0, 50), (2, used, 50)], 50 + kept);
                seen.renderers[0].io_thread_time = ms(u64::from(sample));
                seen.renderers[1].io_thread_time = Duration::ZERO;
                judge.record_usage(now, seen, is_at_work);
                ended.extend(page_to_end(&mut judge, now));
            }
            let verdict = PageVerdict { process: process(2), why: KEPT_BUSY };
            assert_eq!(ended.first(), is_ended.then_some(&verdict), "{growth} MiB, {touched} MiB");
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

    /// Too many processes end the newest pages, until a quarter of the limit is free; older pages stay. If none of the
    /// processes is a page's, the browser ends.
    #[test]
    fn newest_pages_end_over_the_process_limit() {
        let limits = UsageLimits { processes_max: 20, ..MAX };
        let pages = |count: u32| -> Vec<_> { (1..=count).map(|pid| (pid, 0, 1)).collect() };
        let decide = |usage: Usage| {
            let mut judge = Judge::default();
            let now = Instant::now();
            judge.record_usage(now, usage, false);
            judge.decide(now, limits)
        };
        assert_eq!(decide(usage(&pages(19), 10)), None);
        let newest = (15..=20).rev().map(process).collect();
        assert_eq!(
            decide(usage(&pages(20), 10)),
            Some(Decision::EndPages { processes: newest, why: OPENED_PROCESSES })
        );
        let helpers = Usage { processes: 21, ..usage(&[], 10) };
        assert!(
            matches!(decide(helpers), Some(Decision::EndBrowser { why }) if why.contains("pool.processes_max"))
        );
    }
}
