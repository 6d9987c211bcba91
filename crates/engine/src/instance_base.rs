//! What the instances of every engine have: a loss, which is declared once, and seats that are being opened.
//! The task that opens a seat finishes even if its caller has given up: otherwise no code would close the
//! half-open seat.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use greenroom_core::{OpenError, Seat, StartError};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use crate::loss::Loss;

#[derive(Default)]
pub(crate) struct InstanceBase {
    pub(crate) loss: Loss,
    /// Tasks that open and close seats, or wait for processes to end. Stopping the instance waits for all of them.
    pub(crate) tasks: TaskTracker,
    /// How many seats are being opened whose callers have given up.
    abandoned_openings: Arc<AtomicUsize>,
}

type OpenResult = Result<Box<dyn Seat>, OpenError>;

impl InstanceBase {
    /// Opens a seat in a task of its own. If the caller has given up, the seat is closed as soon as it is open.
    pub(crate) async fn open(
        &self,
        opening: impl Future<Output = OpenResult> + Send + 'static,
    ) -> OpenResult {
        let (mut deliver, opened) = oneshot::channel();
        let abandoned = self.abandoned_openings.clone();
        self.tasks.spawn(async move {
            let mut opening = pin!(opening);
            let mut _abandoned = None;
            let opened = tokio::select! {
                biased;
                opened = &mut opening => opened,
                () = deliver.closed() => {
                    _abandoned = Some(AbandonedOpening::count(&abandoned));
                    opening.await
                }
            };
            if let Err(Ok(unwanted)) = deliver.send(opened) {
                unwanted.close().await;
            }
        });
        opened.await.unwrap_or_else(|_| Err(StartError::new("the engine's adapter panicked").into()))
    }

    /// How many seats are being opened whose callers have given up.
    pub(crate) fn abandoned_openings(&self) -> usize {
        self.abandoned_openings.load(Ordering::Relaxed)
    }

    /// Returns when no seat is being opened or closed any more.
    pub(crate) async fn ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Counts a seat whose caller has given up.
struct AbandonedOpening<'a>(&'a AtomicUsize);

impl<'a> AbandonedOpening<'a> {
    fn count(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for AbandonedOpening<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
