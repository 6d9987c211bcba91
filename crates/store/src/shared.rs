//! What the store and its writer share: the queue between them, and the health of recording.

use std::sync::Arc;

use greenroom_core::record::NotRecorded;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::queue::WriteQueue;

/// What the writer and the store share.
pub(crate) struct StoreShared {
    pub(crate) queue: WriteQueue,
    pub(crate) phase: watch::Sender<DatabasePhase>,
    health: Mutex<Result<(), Arc<str>>>,
}

/// The state of the database, for readers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DatabasePhase {
    Opening,
    /// Readers can use it. The number changes whenever the file is replaced.
    Open(u64),
    Shut(Arc<str>),
    /// The writer has ended.
    Ended,
}

impl StoreShared {
    pub(crate) fn new() -> Self {
        Self {
            queue: WriteQueue::default(),
            phase: watch::Sender::new(DatabasePhase::Opening),
            health: Mutex::new(Ok(())),
        }
    }

    /// For a store without a writer, which only reads existing records.
    pub(crate) fn for_reading() -> Self {
        let shared = Self::new();
        shared.queue.close();
        shared.phase.send_replace(DatabasePhase::Open(0));
        shared
    }

    pub(crate) fn health(&self) -> Result<(), Arc<str>> {
        self.health.lock().clone()
    }

    /// The error for operations that the writer has not carried out before its end.
    pub(crate) fn ended(&self) -> NotRecorded {
        let why = self.queue.why_closed();
        NotRecorded(why.unwrap_or_else(|| Arc::from("the writer of records has ended")))
    }

    /// Refuses all operations, because the writer's thread could not be started.
    pub(crate) fn abandon(&self, why: &str) {
        let why: Arc<str> = Arc::from(why);
        self.set_health(Err(why.clone()));
        self.queue.close_because(why);
        self.phase.send_replace(DatabasePhase::Ended);
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
