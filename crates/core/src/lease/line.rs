//! A line of waiters: first come, first served, and whoever leaves early leaves no gap.
//!
//! A waiter that gave up is only struck off the list; its place in the line is passed over when its turn comes. So
//! joining, leaving and serving cost the same however many wait. The line is swept when most of it is struck off, so
//! it stays within a small multiple of those who really wait.

use std::collections::{HashSet, VecDeque};

use super::WaiterId;

/// A line shorter than this is not worth sweeping.
const SWEEP_MIN: usize = 32;

#[derive(Debug, Default)]
pub(super) struct Line {
    places: VecDeque<WaiterId>,
    waiting: HashSet<WaiterId>,
}

impl Line {
    pub(super) fn join(&mut self, waiter: WaiterId) {
        self.waiting.insert(waiter);
        self.places.push_back(waiter);
    }

    /// To the head of the line: for one whose turn had come and who got nothing for it.
    pub(super) fn rejoin(&mut self, waiter: WaiterId) {
        self.waiting.insert(waiter);
        self.places.push_front(waiter);
    }

    pub(super) fn leave(&mut self, waiter: WaiterId) -> bool {
        let was_here = self.waiting.remove(&waiter);
        if self.places.len() > SWEEP_MIN + 2 * self.waiting.len() {
            self.places.retain(|waiter| self.waiting.contains(waiter));
        }
        was_here
    }

    /// Whose turn it is.
    pub(super) fn first(&mut self) -> Option<WaiterId> {
        while let Some(first) = self.places.front() {
            if self.waiting.contains(first) {
                return Some(*first);
            }
            self.places.pop_front();
        }
        None
    }

    pub(super) fn serve_first(&mut self) -> Option<WaiterId> {
        let first = self.first()?;
        self.places.pop_front();
        self.waiting.remove(&first);
        Some(first)
    }

    pub(super) fn contains(&self, waiter: WaiterId) -> bool {
        self.waiting.contains(&waiter)
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Those who wait, first come first.
    pub(super) fn iter(&self) -> impl Iterator<Item = WaiterId> {
        self.places.iter().copied().filter(|waiter| self.waiting.contains(waiter))
    }
}
