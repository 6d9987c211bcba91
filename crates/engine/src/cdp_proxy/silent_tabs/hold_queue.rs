//! Messages that wait behind a tab that is being probed, in the order in which they came.

use std::collections::VecDeque;

use greenroom_cdp::message_stream::Text;
use tokio::time::Instant;

pub(super) struct HoldQueue {
    pub(super) since: Instant,
    pub(super) bytes: usize,
    pub(super) items: VecDeque<HeldItem>,
}

impl HoldQueue {
    pub(super) fn new(since: Instant) -> Self {
        Self { since, bytes: 0, items: VecDeque::new() }
    }

    pub(super) fn push(&mut self, item: HeldItem) {
        if let HeldItem::Message(text) = &item {
            self.bytes += text.len();
        }
        self.items.push_back(item);
    }
}

pub(super) enum HeldItem {
    Message(Text),
    /// A tab by its session.
    Tab(String),
}
