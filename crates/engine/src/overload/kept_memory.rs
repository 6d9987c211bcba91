//! To which renderer the memory of the browser's own process is attributed. Pure, like [`super::judge`], which uses it.
//!
//! The memory of a browser rises and falls all the time by some megabytes. What falls is therefore taken from what rose last:
//! if each renderer lost its share of the whole instead, a renderer that does nothing but work would gain a little with
//! every rise, until all memory that other pages have left in the browser counted as its own.

use super::usage::ProcessId;

/// How many parts are told apart. Renderers of different sessions take turns, so there may be many small parts; the two
/// oldest become nobody's then.
const PARTS_MAX: usize = 4_096;

/// A part of the browser's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    /// The renderer for which the browser keeps it. `None` if that has ended.
    renderer: Option<ProcessId>,
    bytes: u64,
}

/// The parts of the browser's memory, the newest last.
#[derive(Debug, Default)]
pub(super) struct KeptMemory {
    parts: Vec<Part>,
}

impl KeptMemory {
    /// The browser keeps more memory for this renderer.
    pub(super) fn grew(&mut self, renderer: ProcessId, bytes: u64) {
        self.push(Part { renderer: Some(renderer), bytes });
        if self.parts.len() > PARTS_MAX {
            let oldest = self.parts.remove(0).bytes;
            let next = &mut self.parts[0];
            *next = Part { renderer: None, bytes: next.bytes.saturating_add(oldest) };
        }
    }

    /// The browser has freed this much.
    pub(super) fn shrank(&mut self, mut bytes: u64) {
        while let Some(newest) = self.parts.last_mut().filter(|_| bytes > 0) {
            let freed = newest.bytes.min(bytes);
            newest.bytes -= freed;
            bytes -= freed;
            if newest.bytes == 0 {
                self.parts.pop();
            }
        }
    }

    /// Only these renderers are left. What the browser kept for the others is nobody's, and is the first to be freed: the
    /// browser frees most of it soon. What a page has stored stays until its session ends.
    pub(super) fn retain(&mut self, is_left: impl Fn(ProcessId) -> bool) {
        let has_ended = |part: &Part| part.renderer.is_some_and(|renderer| !is_left(renderer));
        let freed: u64 = self.parts.iter().filter(|part| has_ended(part)).map(|part| part.bytes).sum();
        if freed > 0 {
            self.parts.retain(|part| !has_ended(part));
            self.push(Part { renderer: None, bytes: freed });
        }
    }

    /// How much the browser keeps for this renderer.
    pub(super) fn of(&self, renderer: ProcessId) -> u64 {
        let parts = self.parts.iter().filter(|part| part.renderer == Some(renderer));
        parts.map(|part| part.bytes).sum()
    }

    fn push(&mut self, part: Part) {
        match self.parts.last_mut() {
            _ if part.bytes == 0 => {}
            Some(newest) if newest.renderer == part.renderer => {
                newest.bytes = newest.bytes.saturating_add(part.bytes);
            }
            _ => self.parts.push(part),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renderer(pid: u32) -> ProcessId {
        ProcessId { pid, started: 1 }
    }

    /// What is freed is taken from what came last; what a renderer leaves behind is freed before what others have.
    #[test]
    fn newest_memory_is_freed_first() {
        let [first, second] = [renderer(1), renderer(2)];
        let mut kept = KeptMemory::default();
        let of = |kept: &KeptMemory| (kept.of(first), kept.of(second));
        kept.grew(first, 100);
        kept.grew(second, 30);
        kept.grew(first, 5);
        kept.shrank(15);
        assert_eq!(of(&kept), (100, 20));
        kept.retain(|left| left == second);
        kept.shrank(100);
        assert_eq!(of(&kept), (0, 20));
        kept.shrank(1_000);
        assert_eq!((of(&kept), kept.parts.len()), ((0, 0), 0));
    }

    /// Renderers that take turns without end cost a bounded amount of greenroom's own memory.
    #[test]
    fn parts_are_bounded() {
        let mut kept = KeptMemory::default();
        for turn in 0..10 * u32::try_from(PARTS_MAX).unwrap() {
            kept.grew(renderer(turn % 2), 1);
        }
        assert_eq!(kept.parts.len(), PARTS_MAX);
        let all: u64 = kept.parts.iter().map(|part| part.bytes).sum();
        assert_eq!(all, 10 * PARTS_MAX as u64);
    }
}
