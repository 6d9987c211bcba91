//! Decides what to end when a browser takes too much memory: a part of [`super::judge::Judge`], and pure as that is.
//!
//! What the browser keeps for its pages (blobs, say) is in the browser's own memory; while that grows, the judge attributes
//! the growth to the renderers that use new memory meanwhile: a page has to make what it sends. It attributes the memory of
//! the GPU process to no page: a page fills it with some bytes of commands. If that process takes most, the judge ends
//! it, and the browser starts another one. If too much memory is in use for long and no page can be blamed, the browser ends.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

use super::{
    judge::{
        Decision, PageVerdict, RendererSample, bytes_touched_since, micros, proportion, send_time_since,
    },
    memory_attribution::MemoryAttribution,
    usage::{ProcessId, Renderer, Usage},
};
use crate::browser_limits::mebibytes;

/// If memory of gone pages is what exceeds a browser's limit, a page with less than this part of the limit is not ended: that
/// would not help. Pages that exceed the limit together are ended however small each is.
const MEMORY_SHARE_DIVISOR: u64 = 8;

/// A GPU process that takes less than the pages together is ended only if it takes this part of the limit.
const GPU_SHARE_DIVISOR: u64 = 4;

/// How long after the end of a page the browser may take to return what it kept for that page. What then remains is what the
/// page has stored (IndexedDB, caches), which Chromium frees with the session alone.
const FREED_WITHIN: Duration = Duration::from_secs(10);

/// For how long a browser may take too much memory while no page can be blamed. Memory of gone pages takes up to
/// [`FREED_WITHIN`], and their sessions as long again.
const BLAMELESS_FOR: Duration = Duration::from_secs(30);

pub(super) const TOOK_MEMORY: &str = "greenroom ended it: it took too much memory (pool.memory_bytes_max)";

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
pub(super) struct MemoryJudge {
    /// How much of the browser's own memory is attributed to each renderer.
    browser_memory: MemoryAttribution,
    /// The memory of the browser's own process at the first measurement: it keeps that for no page.
    empty_browser_memory: Option<u64>,
    ends: Option<MemoryEnds>,
    /// Since when too much memory is in use, but nothing can be ended for it.
    blameless_since: Option<Instant>,
}

impl MemoryJudge {
    /// Attributes the growth of the browser's own memory to the renderers that used new memory meanwhile, and growth beyond
    /// that to those that sent messages: a page can have the browser allocate what it does not fill itself. `before` is what
    /// the renderers had used when the time window began.
    pub(super) fn attribute(
        &mut self,
        before: Option<&HashMap<ProcessId, RendererSample>>,
        last_usage: &Usage,
        usage: &Usage,
    ) {
        self.browser_memory
            .retain(|process| usage.renderers.iter().any(|renderer| renderer.process == process));
        self.empty_browser_memory.get_or_insert(usage.other_memory);
        let old = last_usage.other_memory;
        let new = usage.other_memory;
        if new <= old {
            return self.browser_memory.subtract(old - new);
        }
        let Some(before) = before else { return };
        let allocated = |renderer: &Renderer| bytes_touched_since(before, renderer);
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

    /// How much of the browser's own memory is attributed to a renderer.
    pub(super) fn attributed_to(&self, process: ProcessId) -> u64 {
        self.browser_memory.attributed_to(process)
    }

    /// The process to end now, if there is one. All processes of the browser together may take this much memory.
    pub(super) fn decide(&mut self, now: Instant, usage: &Usage, memory_bytes_max: u64) -> Option<Decision> {
        let taken =
            |renderer: &Renderer| renderer.memory + self.browser_memory.attributed_to(renderer.process);
        let (gpu, of_gpu) = usage.gpu.unzip();
        let of_gpu = of_gpu.unwrap_or_default();
        let all = usage.memory();
        let min = memory_bytes_max / MEMORY_SHARE_DIVISOR;
        let of_gone_pages = self.browser_memory.of_gone_renderers();
        if of_gone_pages < min {
            self.ends = self.ends.filter(|ends| now.duration_since(ends.last) < FREED_WITHIN);
        }
        if all <= memory_bytes_max {
            self.blameless_since = None;
            return None;
        }
        let of_pages: u64 = usage.renderers.iter().map(taken).sum();
        let most = usage.renderers.iter().map(|renderer| (taken(renderer), renderer.process));
        let most = most.max_by_key(|(taken, _)| *taken);
        // A GPU process that draws many small pages is larger than each of them, but its end would not help for long.
        let is_large = of_gpu >= memory_bytes_max / GPU_SHARE_DIVISOR && all - of_gpu <= memory_bytes_max;
        let helps = is_large || of_gpu >= of_pages;
        if let Some(gpu) = gpu.filter(|_| helps && of_gpu >= most.map_or(min, |(taken, _)| taken.max(min))) {
            self.blameless_since = None;
            return Some(Decision::EndGpuProcess(gpu));
        }
        let is_excess_of_gone_pages = all.saturating_sub(of_gone_pages) <= memory_bytes_max;
        if let Some(ends) = self.ends.as_mut().filter(|_| is_excess_of_gone_pages) {
            if now.duration_since(ends.last) < FREED_WITHIN {
                return None;
            }
            if !ends.has_ended_sessions {
                ends.has_ended_sessions = true;
                ends.last = now;
                self.blameless_since = None;
                return Some(Decision::LoseSessions { ended_since: ends.since });
            }
        }
        // What else the browser has gained may be of gone pages.
        let of_empty_browser = self.empty_browser_memory.unwrap_or_default().min(usage.other_memory);
        let is_excess_of_pages = of_pages + of_gpu + of_empty_browser > memory_bytes_max;
        if let Some((_, process)) = most.filter(|(taken, _)| is_excess_of_pages || *taken >= min) {
            let earlier = self.ends.filter(|ends| !ends.has_ended_sessions);
            let since = earlier.map_or(now, |ends| ends.since);
            self.ends = Some(MemoryEnds { since, last: now, has_ended_sessions: false });
            self.blameless_since = None;
            return Some(Decision::EndPage(PageVerdict { process, why: TOOK_MEMORY }));
        }
        let Some(since) = self.blameless_since else {
            self.blameless_since = Some(now);
            tracing::warn!(
                bytes = all,
                max = memory_bytes_max,
                "a browser takes too much memory, but no single page a large part of it"
            );
            return None;
        };
        (now.duration_since(since) >= BLAMELESS_FOR).then(|| Decision::EndBrowser {
            why: format!(
                "it takes {}, and no page can be blamed for that; {} are allowed (pool.memory_bytes_max)",
                mebibytes(all),
                mebibytes(memory_bytes_max)
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::judge::{
            Judge,
            tests::{HALF, MAX, MIB, ms, page_to_end, process, usage},
        },
        *,
    };

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

    /// Memory for which no page can be blamed ends the browser, once it has been too much for long without a pause.
    #[test]
    fn blameless_memory_ends_the_browser() {
        for (pause_at, expected) in [(None, Some(61)), (Some(30), Some(91))] {
            let mut judge = Judge::default();
            let start = Instant::now();
            let mut ended = None;
            for sample in 0..100 {
                let now = start + HALF * sample;
                let other = match sample {
                    0 => 50,
                    _ if Some(sample) == pause_at => 900,
                    _ => 1_200,
                };
                judge.record_usage(now, usage(&[(1, 10, 50)], other), false);
                match judge.decide(now, MAX) {
                    None => {}
                    Some(Decision::EndBrowser { why }) => {
                        assert!(why.starts_with("it takes 1250 MiB") && why.contains("1000 MiB are allowed"));
                        ended = ended.or(Some(sample));
                    }
                    Some(other) => panic!("{other:?}"),
                }
            }
            assert_eq!(ended, expected, "{pause_at:?}");
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
