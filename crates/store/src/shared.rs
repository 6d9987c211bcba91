//! What the store and its writer share: the queue between them, and how recording goes.

use std::sync::Arc;

use greenroom_core::record::NotRecorded;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::queue::Queue;

/// What the writer and the store share.
pub(crate) struct Shared {
    pub(crate) queue: Queue,
    pub(crate) phase: watch::Sender<Phase>,
    health: Mutex<Result<(), Arc<str>>>,
}

/// Where the database stands, for those who read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    Opening,
    /// It can be read. The number is another one whenever it is another file.
    Open(u64),
    Shut(Arc<str>),
    /// The writer has ended.
    Ended,
}

impl Shared {
    pub(crate) fn new() -> Self {
        Self {
            queue: Queue::default(),
            phase: watch::Sender::new(Phase::Opening),
            health: Mutex::new(Ok(())),
        }
    }

    /// Nobody writes; what is there can be read.
    pub(crate) fn for_reading() -> Self {
        let shared = Self::new();
        shared.queue.close();
        shared.phase.send_replace(Phase::Open(0));
        shared
    }

    pub(crate) fn health(&self) -> Result<(), Arc<str>> {
        self.health.lock().clone()
    }

    /// What those hear whose operations the writer has left undone.
    pub(crate) fn ended(&self) -> NotRecorded {
        let why = self.queue.why_closed();
        NotRecorded(why.unwrap_or_else(|| Arc::from("the writer of records has ended")))
    }

    /// There is no writer, and there will be none.
    pub(crate) fn abandon(&self, why: &str) {
        let why: Arc<str> = Arc::from(why);
        self.set_health(Err(why.clone()));
        self.queue.close_because(why);
        self.phase.send_replace(Phase::Ended);
    }

    pub(crate) fn set_health(&self, health: Result<(), Arc<str>>) {
        let mut kept = self.health.lock();
        if *kept == health {
            return;
        }
        match &health {
            Ok(()) => tracing::info!("calls are recorded again"),
            Err(why) => tracing::error!(%why, "calls are not recorded"),
        }
        *kept = health;
    }
}
