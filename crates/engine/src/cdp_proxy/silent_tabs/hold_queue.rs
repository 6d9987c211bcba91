//! Messages that wait behind a tab that is being asked, in the order in which they came.

use std::collections::VecDeque;

use greenroom_cdp::link::Text;
use tokio::time::Instant;

pub(super) struct HoldQueue {
    pub(super) since: Instant,
    pub(super) bytes: usize,
    pub(super) waiting: VecDeque<HeldItem>,
}

impl HoldQueue {
    pub(super) fn new(since: Instant) -> Self {
        Self { since, bytes: 0, waiting: VecDeque::new() }
    }

    pub(super) fn push(&mut self, waiting: HeldItem) {
        if let HeldItem::Message(text) = &waiting {
            self.bytes += text.len();
        }
        self.waiting.push_back(waiting);
    }
}

pub(super) enum HeldItem {
    Message(Text),
    /// A tab by its session.
    Tab(String),
}
