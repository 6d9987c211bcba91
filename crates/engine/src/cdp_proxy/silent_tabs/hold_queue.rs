//! Messages that wait behind a tab that is being asked, in the order in which they came.

use std::collections::VecDeque;

use greenroom_cdp::link::Text;
use tokio::time::Instant;

pub(super) struct Lane {
    pub(super) since: Instant,
    pub(super) bytes: usize,
    pub(super) waiting: VecDeque<Waiting>,
}

impl Lane {
    pub(super) fn new(since: Instant) -> Self {
        Self { since, bytes: 0, waiting: VecDeque::new() }
    }

    pub(super) fn push(&mut self, waiting: Waiting) {
        if let Waiting::Message(text) = &waiting {
            self.bytes += text.len();
        }
        self.waiting.push_back(waiting);
    }
}

pub(super) enum Waiting {
    Message(Text),
    /// A tab by its session.
    Tab(String),
}
