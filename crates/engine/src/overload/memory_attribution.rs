//! To which renderer the memory of the browser's own process is attributed. Pure, like [`super::judge`], which uses it.
//!
//! The memory of a browser rises and falls all the time by some megabytes. So when the memory falls, the newest share
//! shrinks first. If each renderer lost its share of the whole instead, a renderer that merely works would gain a
//! little with every rise, until all memory that other pages have left in the browser counted as its own.

use super::usage::ProcessId;

/// How many shares are kept. Renderers of different sessions take turns, so there may be many small shares; beyond this
/// number the two oldest become one share of no renderer.
const SHARES_MAX: usize = 4_096;

/// A share of the browser's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MemoryShare {
    /// The renderer for which the browser keeps it. `None` if that has ended.
    renderer: Option<ProcessId>,
    bytes: u64,
}

/// The shares of the browser's memory, the newest last.
#[derive(Debug, Default)]
pub(super) struct MemoryAttribution {
    shares: Vec<MemoryShare>,
}

impl MemoryAttribution {
    /// The browser keeps more memory for this renderer.
    pub(super) fn add(&mut self, renderer: ProcessId, bytes: u64) {
        self.push(MemoryShare { renderer: Some(renderer), bytes });
        if self.shares.len() > SHARES_MAX {
            let oldest = self.shares.remove(0).bytes;
            let next = &mut self.shares[0];
            *next = MemoryShare { renderer: None, bytes: next.bytes.saturating_add(oldest) };
        }
    }

    /// The browser has freed this much.
    pub(super) fn subtract(&mut self, mut bytes: u64) {
        while let Some(newest) = self.shares.last_mut().filter(|_| bytes > 0) {
            let freed = newest.bytes.min(bytes);
            newest.bytes -= freed;
            bytes -= freed;
            if newest.bytes == 0 {
                self.shares.pop();
            }
        }
    }

    /// Only these renderers are left. What the browser kept for the others becomes one share of no renderer, and the
    /// newest: the browser frees most of it soon. What a page has stored stays until its session ends.
    pub(super) fn retain(&mut self, is_left: impl Fn(ProcessId) -> bool) {
        let has_ended = |share: &MemoryShare| share.renderer.is_some_and(|renderer| !is_left(renderer));
        let freed: u64 = self.shares.iter().filter(|share| has_ended(share)).map(|share| share.bytes).sum();
        if freed > 0 {
            self.shares.retain(|share| !has_ended(share));
            self.push(MemoryShare { renderer: None, bytes: freed });
        }
    }

    /// How much the browser keeps for this renderer.
    pub(super) fn attributed_to(&self, renderer: ProcessId) -> u64 {
        let shares = self.shares.iter().filter(|share| share.renderer == Some(renderer));
        shares.map(|share| share.bytes).sum()
    }

    /// How much the browser keeps for renderers that have ended.
    pub(super) fn of_gone_renderers(&self) -> u64 {
        self.shares.iter().filter(|share| share.renderer.is_none()).map(|share| share.bytes).sum()
    }

    fn push(&mut self, share: MemoryShare) {
        match self.shares.last_mut() {
            _ if share.bytes == 0 => {}
            Some(newest) if newest.renderer == share.renderer => {
                newest.bytes = newest.bytes.saturating_add(share.bytes);
            }
            _ => self.shares.push(share),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renderer(pid: u32) -> ProcessId {
        ProcessId { pid, started: 1 }
    }

    /// Freed memory is subtracted from the newest share first; what an ended renderer leaves behind counts as the
    /// newest.
    #[test]
    fn newest_memory_is_freed_first() {
        let [first, second] = [renderer(1), renderer(2)];
        let mut memory = MemoryAttribution::default();
        let attributed =
            |memory: &MemoryAttribution| (memory.attributed_to(first), memory.attributed_to(second));
        memory.add(first, 100);
        memory.add(second, 30);
        memory.add(first, 5);
        memory.subtract(15);
        assert_eq!(attributed(&memory), (100, 20));
        memory.retain(|left| left == second);
        assert_eq!(memory.of_gone_renderers(), 100);
        memory.subtract(100);
        assert_eq!((attributed(&memory), memory.of_gone_renderers()), ((0, 20), 0));
        memory.subtract(1_000);
        assert_eq!((attributed(&memory), memory.shares.len()), ((0, 0), 0));
    }

    /// Renderers that take turns without end cost a bounded amount of greenroom's own memory.
    #[test]
    fn shares_are_bounded() {
        let mut memory = MemoryAttribution::default();
        for turn in 0..10 * u32::try_from(SHARES_MAX).unwrap() {
            memory.add(renderer(turn % 2), 1);
        }
        assert_eq!(memory.shares.len(), SHARES_MAX);
        let all: u64 = memory.shares.iter().map(|share| share.bytes).sum();
        assert_eq!(all, 10 * SHARES_MAX as u64);
    }
}
