//! What the store and its writer share: the queue between them, and how recording goes.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use greenroom_core::record::NotRecorded;
use tokio::sync::watch;

use crate::queue::Queue;

/// What the writer and the store share.
pub(crate) struct Shared {
    pub(crate) queue: Queue,
    pub(crate) phase: watch::Sender<Phase>,
    health: Mutex<Result<(), Arc<str>>>,
    progress: watch::Sender<Progress>,
}

/// How far the writer is.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    /// How many operations are done.
    done: u64,
    /// The last batch could not be written.
    is_stuck: bool,
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
    /// What is small is noted in a journal in this data folder.
    pub(crate) fn new(folder: &Path) -> Self {
        Self::of(Queue::noting(folder))
    }

    fn of(queue: Queue) -> Self {
        Self {
            queue,
            phase: watch::Sender::new(Phase::Opening),
            health: Mutex::new(Ok(())),
            progress: watch::Sender::default(),
        }
    }

    /// Returns when everything that was acknowledged before can be read, or cannot be committed.
    pub(crate) async fn settled(&self) {
        if let Some(until) = self.queue.hurry() {
            let mut progress = self.progress.subscribe();
            // Its sender stands here, so this does not fail.
            let _ = progress.wait_for(|progress| progress.done >= until || progress.is_stuck).await;
        }
    }

    pub(crate) fn set_progress(&self, done: u64) {
        self.progress.send_replace(Progress { done, is_stuck: false });
    }

    pub(crate) fn set_stuck(&self) {
        self.progress.send_modify(|progress| progress.is_stuck = true);
    }

    /// Nobody writes; what is there can be read.
    pub(crate) fn for_reading() -> Self {
        let shared = Self::of(Queue::default());
        shared.queue.close();
        shared.phase.send_replace(Phase::Open(0));
        shared
    }

    pub(crate) fn health(&self) -> Result<(), Arc<str>> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
        self.queue.set_well(health.is_ok());
        let mut kept = self.health.lock().unwrap_or_else(PoisonError::into_inner);
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
