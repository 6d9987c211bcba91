//! Decides which renderer of a browser to end, from the resources that the browser's processes use. Pure: it has no access
//! to processes or clocks.
//!
//! A page keeps its browser busy by messages, which one thread of its renderer sends. So that thread's processor time shows
//! which page does it; a page with busy scripts alone slows only itself, and is left alone. What the browser keeps for its
//! pages (blobs, say) is in the browser's own memory; while that grows, the growth is attributed to the renderers that use
//! new memory meanwhile: a page has to make what it sends. The memory of the GPU process is attributed to nobody: a page fills
//! it with some bytes of commands. If that process takes most, it is ended itself, and the browser starts another one.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    kept_memory::KeptMemory,
    usage::{ProcessId, Renderer, Usage},
};

/// How much work a page may cause a browser while the browser owes an answer. A healthy browser answers within some
/// milliseconds of work, whatever its pages do.
const WORK_MAX: Allowance = Allowance { work: Duration::from_secs(1), within: Duration::from_secs(8) };

/// The same over a longer time: a page that sends in bursts and rests in between stays below [`WORK_MAX`], but keeps the
/// other sessions waiting again and again. A page that loads, or clears a large store, does so once or twice a minute.
const BURSTS_MAX: Allowance = Allowance { work: Duration::from_secs(3), within: Duration::from_secs(60) };

/// A message may cause work some time after it was sent.
const SENT_WITHIN: Duration = Duration::from_millis(1_500);

/// How much of the browser's work between two measurements is attributed to a renderer at most: this many times the processor
/// time that it spent on messages within [`SENT_WITHIN`]. Of the pages that keep a browser busy, a page that opens frames with
/// addresses of 2 MB causes most work for its sending: 15 times as much, of which three measurements take a share each. A page
/// that loads while the browser is busy for another reason, such as a large picture, stops sending as soon as it gets no
/// answers, so less than [`WORK_MAX`] of that work is attributed to it.
const WORK_PER_SENDING: u32 = 5;

/// How long no other page is ended. The browser first has to clean up after a page, and to return its memory.
const PAUSE: Duration = Duration::from_secs(3);

/// A page with less than this part of a browser's memory limit is not ended: that would not help.
const MEMORY_PART_MIN: u64 = 8;

const KEPT_BUSY: &str = "greenroom ended it: it kept the whole browser too busy to answer";
pub(super) const KEPT_DRAWING: &str = "greenroom ended it: it kept the browser too busy to draw other pages";
const TOOK_MEMORY: &str = "greenroom ended it: it took too much memory (sessions.memory_bytes_max)";

/// So much work within a time.
struct Allowance {
    work: Duration,
    within: Duration,
}

/// A process to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    EndPage(Verdict),
    EndGpuProcess(ProcessId),
}

/// A renderer to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) process: ProcessId,
    /// For the agent that uses the tab.
    pub(super) why: &'static str,
}

pub(super) struct Judge {
    /// How much memory all processes of the browser may take.
    memory_max: u64,
    /// The browser's work since the last measurement without the answer that it owed.
    owed: Duration,
    /// How much of this work is attributed to which renderer, by measurement, within [`BURSTS_MAX`].
    work: VecDeque<(Instant, HashMap<ProcessId, Duration>)>,
    /// What the renderers had used at each measurement within [`SENT_WITHIN`], oldest first.
    looks: VecDeque<(Instant, HashMap<ProcessId, Renderer>)>,
    now: Usage,
    /// How much of the browser's own memory is attributed to each renderer.
    kept: KeptMemory,
    pause_until: Option<Instant>,
    /// Whether it was logged that too much memory is in use, but no page can be ended for it.
    has_warned: bool,
}

impl Judge {
    pub(super) fn new(memory_max: u64) -> Self {
        Self {
            memory_max,
            owed: Duration::ZERO,
            work: VecDeque::new(),
            looks: VecDeque::new(),
            now: Usage::default(),
            kept: KeptMemory::default(),
            pause_until: None,
            has_warned: false,
        }
    }

    /// The browser did this much work without the answer that it owed.
    pub(super) fn waited(&mut self, work: Duration) {
        self.owed += work;
    }

    /// Nothing was measured for a while: earlier measurements say nothing.
    pub(super) fn forget(&mut self) {
        self.owed = Duration::ZERO;
        self.work.clear();
        self.looks.clear();
    }

    /// Notes what the processes use now. Stopped renderers send nothing: the browser still works for what they sent before,
    /// so the time window stays where it was.
    pub(super) fn saw(&mut self, now: Instant, usage: Usage, are_stopped: bool) {
        while self.work.front().is_some_and(|(at, _)| now.duration_since(*at) > BURSTS_MAX.within) {
            self.work.pop_front();
        }
        // The newest of the old measurements is where the time window begins.
        while !are_stopped && self.looks.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= SENT_WITHIN)
        {
            self.looks.pop_front();
        }
        self.attribute_work(now, &usage);
        self.attribute_memory(&usage);
        if !are_stopped {
            let renderers = usage.renderers.iter().map(|renderer| (renderer.process, *renderer)).collect();
            self.looks.push_back((now, renderers));
        }
        self.now = usage;
    }

    /// Attributes the browser's work to the renderers that sent messages, as far as these explain it.
    fn attribute_work(&mut self, now: Instant, usage: &Usage) {
        let owed = std::mem::take(&mut self.owed);
        let Some((_, before)) = self.looks.front().filter(|_| !owed.is_zero()) else { return };
        let sent = |renderer: &Renderer| sent_since(before, renderer);
        let all: Duration = usage.renderers.iter().map(sent).sum();
        let work = |renderer: &Renderer| {
            let part = Duration::from_micros(part(micros(owed), micros(sent(renderer)), micros(all)));
            (renderer.process, part.min(sent(renderer) * WORK_PER_SENDING))
        };
        self.work.push_back((now, usage.renderers.iter().map(work).collect()));
    }

    /// Attributes the growth of the browser's own memory to the renderers that used new memory meanwhile, and growth beyond
    /// that to those that sent messages: a page can have the browser allocate what it does not fill itself.
    fn attribute_memory(&mut self, usage: &Usage) {
        self.kept.retain(|process| usage.renderers.iter().any(|there| there.process == process));
        let Some((_, before)) = self.looks.front() else { return };
        let old = self.now.other_memory;
        let new = usage.other_memory;
        if new <= old {
            return self.kept.shrank(old - new);
        }
        let made = |renderer: &Renderer| {
            let before = before.get(&renderer.process).map_or(0, |before| before.touched);
            renderer.touched.saturating_sub(before)
        };
        let sent = |renderer: &Renderer| micros(sent_since(before, renderer));
        let all_made: u64 = usage.renderers.iter().map(made).sum();
        let all_sent: u64 = usage.renderers.iter().map(sent).sum();
        let explained = |renderer: &Renderer| part(new - old, made(renderer), all_made).min(made(renderer));
        let unexplained = new - old - usage.renderers.iter().map(explained).sum::<u64>();
        for renderer in &usage.renderers {
            let kept = explained(renderer) + part(unexplained, sent(renderer), all_sent);
            self.kept.grew(renderer.process, kept);
        }
    }

    /// The process to end now, if there is one.
    pub(super) fn decide(&mut self, now: Instant) -> Option<Decision> {
        if self.pause_until.is_some_and(|until| now < until) {
            return None;
        }
        let decision = self.keeps_busy(now).map(Decision::EndPage).or_else(|| self.takes_memory())?;
        self.pause_until = Some(now + PAUSE);
        self.forget();
        Some(decision)
    }

    fn keeps_busy(&self, now: Instant) -> Option<Verdict> {
        [WORK_MAX, BURSTS_MAX].iter().find_map(|allowance| self.exceeds(allowance, now))
    }

    /// The renderer that caused most work within this time, if that was too much.
    fn exceeds(&self, allowance: &Allowance, now: Instant) -> Option<Verdict> {
        let counts = |at: &Instant| now.duration_since(*at) <= allowance.within;
        let work = |process: &ProcessId| -> Duration {
            let work = self.work.iter().filter(|(at, _)| counts(at));
            work.filter_map(|(_, work)| work.get(process)).sum()
        };
        let processes = self.now.renderers.iter().map(|renderer| renderer.process);
        let (most, process) =
            processes.map(|process| (work(&process), process)).max_by_key(|(work, _)| *work)?;
        (most >= allowance.work).then_some(Verdict { process, why: KEPT_BUSY })
    }

    fn takes_memory(&mut self) -> Option<Decision> {
        let taken = |renderer: &Renderer| renderer.memory + self.kept.of(renderer.process);
        let of_renderers: u64 = self.now.renderers.iter().map(|renderer| renderer.memory).sum();
        let (gpu, of_gpu) = self.now.gpu.unzip();
        let of_gpu = of_gpu.unwrap_or_default();
        let all = of_renderers + of_gpu + self.now.other_memory;
        if all <= self.memory_max {
            self.has_warned = false;
            return None;
        }
        let most = self.now.renderers.iter().map(|renderer| (taken(renderer), renderer.process));
        let most = most.max_by_key(|(taken, _)| *taken);
        let min = self.memory_max / MEMORY_PART_MIN;
        if let Some(gpu) = gpu.filter(|_| of_gpu >= most.map_or(min, |(taken, _)| taken.max(min))) {
            return Some(Decision::EndGpuProcess(gpu));
        }
        if let Some((_, process)) = most.filter(|(taken, _)| *taken >= min) {
            return Some(Decision::EndPage(Verdict { process, why: TOOK_MEMORY }));
        }
        if !self.has_warned {
            tracing::warn!(
                bytes = all,
                max = self.memory_max,
                "a browser takes too much memory, but no single page a large part of it"
            );
        }
        self.has_warned = true;
        None
    }
}

/// What a renderer has sent since an earlier look.
fn sent_since(before: &HashMap<ProcessId, Renderer>, renderer: &Renderer) -> Duration {
    let before = before.get(&renderer.process).map_or(Duration::ZERO, |before| before.messages);
    renderer.messages.saturating_sub(before)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// This share of a whole.
fn part(whole: u64, parts: u64, of: u64) -> u64 {
    let part = u128::from(whole) * u128::from(parts) / u128::from(of.max(1));
    u64::try_from(part).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
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
            messages: ms(used),
            memory: memory * MIB,
            touched: used * MIB,
            drawn: Duration::ZERO,
        };
        let renderers = renderers.iter().map(renderer).collect();
        Usage { renderers, gpu: None, other_memory: other_memory * MIB }
    }

    /// The page that is ended now.
    fn page_to_end(judge: &mut Judge, now: Instant) -> Option<Verdict> {
        match judge.decide(now) {
            Some(Decision::EndPage(verdict)) => Some(verdict),
            Some(Decision::EndGpuProcess(process)) => panic!("{process:?}"),
            None => None,
        }
    }

    /// If a browser works and does not answer, the renderer that sent most meanwhile is ended: not one that sent more long
    /// ago, none if none sent much, and no second one before the browser had time to clean up.
    #[test]
    fn who_keeps_a_browser_busy() {
        let mut judge = Judge::new(1_000 * MIB);
        let start = Instant::now();
        let seen = |look: u64| usage(&[(1, 900, 10), (2, 60 * look, 10), (3, 2 * look, 10)], 10);
        let mut ended = Vec::new();
        for look in 0..8 {
            let now = start + HALF * u32::try_from(look).unwrap();
            judge.waited(ms(400));
            judge.saw(now, seen(look), false);
            ended.extend(page_to_end(&mut judge, now).map(|verdict| (look, verdict)));
        }
        assert_eq!(ended, [(3, Verdict { process: process(2), why: KEPT_BUSY })]);
        // The page is gone; the browser cleans up, and the others go on.
        for look in 8..40 {
            let now = start + HALF * u32::try_from(look).unwrap();
            judge.waited(ms(500));
            judge.saw(now, usage(&[(1, 900, 10), (3, 2 * look, 10)], 10), false);
            assert_eq!(page_to_end(&mut judge, now), None, "look {look}");
        }
    }

    /// No page is ended if a browser answers late without working (stopped, or waiting for a processor), if it works and
    /// answers, or if it was too busy only for a moment, however much its pages send.
    #[test]
    fn innocent_pages() {
        for (work, every) in [(0, 1), (80, 1), (900, 17)] {
            let mut judge = Judge::new(1_000 * MIB);
            let start = Instant::now();
            for look in 0..60 {
                let now = start + HALF * u32::try_from(look).unwrap();
                if look % every == 0 {
                    judge.waited(ms(work));
                }
                judge.saw(now, usage(&[(1, 200 * look, 10), (2, 300 * look, 10)], 10), false);
                assert_eq!(page_to_end(&mut judge, now), None, "{work} ms of work, look {look}");
            }
        }
    }

    /// A page floods the browser for a moment, then rests for longer than the short account remembers: the long account ends
    /// it. A page that does so once in a while stays.
    #[test]
    fn bursts() {
        for (every, burst_to_end) in [(18, Some(3)), (60, None)] {
            let mut judge = Judge::new(1_000 * MIB);
            let start = Instant::now();
            let mut sent = 0;
            let mut ended = None;
            for look in 0..240 {
                let now = start + HALF * look;
                if look % every == 1 {
                    judge.waited(ms(800));
                    sent += 400;
                }
                judge.saw(now, usage(&[(1, 5, 10), (2, sent, 10)], 10), false);
                ended = ended.or_else(|| Some((look / every, page_to_end(&mut judge, now)?.process)));
            }
            assert_eq!(ended, burst_to_end.map(|burst| (burst, process(2))), "every {every} looks");
        }
    }

    /// Renderers are stopped while the browser works off what they sent: its work is still attributed to them.
    #[test]
    fn stopped_renderers() {
        for are_stopped in [true, false] {
            let mut judge = Judge::new(1_000 * MIB);
            let start = Instant::now();
            judge.saw(start, usage(&[(1, 0, 10), (2, 0, 10)], 10), false);
            let mut ended = Vec::new();
            for look in 1..20 {
                let now = start + HALF * look;
                judge.waited(ms(450));
                judge.saw(now, usage(&[(1, 5, 10), (2, 60, 10)], 10), are_stopped);
                ended.extend(page_to_end(&mut judge, now).map(|verdict| verdict.process));
            }
            assert_eq!(ended.first(), are_stopped.then(|| process(2)).as_ref());
        }
    }

    /// After a gap, earlier measurements are forgotten.
    #[test]
    fn a_gap() {
        let mut judge = Judge::new(1_000 * MIB);
        let start = Instant::now();
        judge.saw(start, usage(&[(1, 0, 10)], 10), false);
        judge.waited(ms(5_000));
        judge.forget();
        judge.saw(start + HALF, usage(&[(1, 5_000, 10)], 10), false);
        assert_eq!(page_to_end(&mut judge, start + HALF), None);
    }

    /// Too much memory ends the page that takes most: in its own process, or in the browser's by the memory attributed to
    /// it.
    #[test]
    fn who_takes_the_memory() {
        let why = TOOK_MEMORY;
        for (large, end) in [
            // The page's own memory.
            (usage(&[(1, 10, 100), (2, 10, 900), (3, 400, 10)], 90), Some(2)),
            // The browser's memory, for a page that is small itself.
            (usage(&[(1, 12, 200), (2, 10, 50), (3, 900, 10)], 800), Some(3)),
            // Within the limit.
            (usage(&[(1, 10, 100), (2, 10, 400), (3, 400, 10)], 400), None),
        ] {
            let mut judge = Judge::new(1_000 * MIB);
            let start = Instant::now();
            judge.saw(start, usage(&[(1, 10, 10), (2, 10, 10), (3, 10, 10)], 50), false);
            judge.saw(start + HALF, large, false);
            let end = end.map(|pid| Verdict { process: process(pid), why });
            assert_eq!(page_to_end(&mut judge, start + HALF), end);
        }
    }

    /// Memory that grows in the browser though no page uses new memory: the page that sends messages meanwhile ends.
    #[test]
    fn memory_by_messages() {
        let mut judge = Judge::new(1_000 * MIB);
        let start = Instant::now();
        let seen = |sent: u64, other: u64| {
            let mut usage = usage(&[(1, 0, 50), (2, 0, 50)], other);
            usage.renderers[0].messages = ms(1);
            usage.renderers[1].messages = ms(sent);
            usage
        };
        judge.saw(start, seen(1, 50), false);
        judge.saw(start + HALF, seen(30, 1_500), false);
        assert_eq!(page_to_end(&mut judge, start + HALF).map(|verdict| verdict.process), Some(process(2)));
    }

    /// The memory of a browser rises and falls while one of its pages works. However long that takes, the page does not
    /// count as the one that took what a page before it has left in the browser.
    #[test]
    fn memory_that_rises_and_falls() {
        let (mut judge, start) = (Judge::new(1_000 * MIB), Instant::now());
        judge.saw(start, usage(&[(1, 0, 50), (2, 0, 50)], 50), false);
        judge.saw(start + HALF, usage(&[(1, 0, 50), (2, 900, 50)], 950), false);
        for look in 2..600 {
            let now = start + HALF * look;
            let risen = u64::from(look % 2) * 8;
            judge.saw(now, usage(&[(1, 8 * u64::from(look), 50)], 950 + risen), false);
            assert_eq!(page_to_end(&mut judge, now), None, "look {look}");
        }
    }

    /// Memory that stays after its page is gone costs no other page, until one is large itself.
    #[test]
    fn memory_that_stays() {
        let mut judge = Judge::new(1_000 * MIB);
        let start = Instant::now();
        judge.saw(start, usage(&[(1, 10, 50), (2, 10, 50)], 50), false);
        judge.saw(start + HALF, usage(&[(1, 10, 50), (2, 900, 50)], 1_500), false);
        assert_eq!(page_to_end(&mut judge, start + HALF).map(|verdict| verdict.process), Some(process(2)));
        for look in 2..30 {
            let now = start + HALF * look;
            judge.saw(now, usage(&[(1, 10 + u64::from(look), 50)], 1_500), false);
            assert_eq!(page_to_end(&mut judge, now), None, "look {look}");
        }
        let now = start + HALF * 30;
        judge.saw(now, usage(&[(1, 40, 500)], 1_500), false);
        assert_eq!(page_to_end(&mut judge, now).map(|verdict| verdict.process), Some(process(1)));
    }

    /// The GPU process takes most: it is ended, and no page, whatever the pages send. A page that takes more is ended first.
    #[test]
    fn memory_of_the_gpu_process() {
        let gpu = process(9);
        for (memory, of_page, expected) in [
            (1_500, 50, Some(Decision::EndGpuProcess(gpu))),
            (600, 700, Some(Decision::EndPage(Verdict { process: process(2), why: TOOK_MEMORY }))),
            (500, 50, None),
        ] {
            let (mut judge, start) = (Judge::new(1_000 * MIB), Instant::now());
            let seen = |sent: u64, of_gpu: u64| Usage {
                gpu: Some((gpu, of_gpu * MIB)),
                ..usage(&[(1, sent, 50), (2, 0, of_page)], 50)
            };
            judge.saw(start, seen(1, 50), false);
            judge.saw(start + HALF, seen(300, memory), false);
            assert_eq!(judge.decide(start + HALF), expected);
        }
    }
}
