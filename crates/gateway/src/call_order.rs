//! Keeps the calls of a connection in the order in which they came.
//!
//! Every call is a task of its own, and tasks overtake each other. So a call takes a [`Turn`] when it is read,
//! continues when all earlier calls have given up their turns, and gives up its own when it has reached its session's
//! queue. A cancelled call gives up its turn by being dropped. Calls wait for their answers without a turn: sessions
//! run in parallel.
//!
//! A connection's [`TaskTracker`] counts the turns that are held. When it is empty, no call of that connection can
//! reach a session any more.

use std::{collections::BTreeMap, future::poll_fn, pin::pin, sync::Arc, task::Poll};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

use crate::offload::stop_if_aborted;

/// Gives out turns.
#[derive(Clone, Default)]
pub(crate) struct Turns {
    queue: Arc<Mutex<TurnQueue>>,
    tasks: TaskTracker,
}

#[derive(Default)]
struct TurnQueue {
    next: u64,
    /// Turns that are held, oldest first, each with the channel that wakes it.
    waiting: BTreeMap<u64, Option<oneshot::Sender<()>>>,
}

impl TurnQueue {
    fn wake_first(&mut self) {
        if let Some(call) = self.waiting.first_entry().and_then(|mut first| first.get_mut().take()) {
            let _ = call.send(());
        }
    }
}

impl Turns {
    /// Gives out turns that `tasks` counts.
    pub(crate) fn tracked_by(tasks: &TaskTracker) -> Self {
        Self { queue: Arc::default(), tasks: tasks.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, TurnQueue> {
        self.queue.lock()
    }

    /// A turn after all earlier ones.
    pub(crate) fn take(&self) -> Turn {
        let (call, called) = oneshot::channel();
        let mut queue = self.lock();
        let number = queue.next;
        queue.next += 1;
        queue.waiting.insert(number, Some(call));
        queue.wake_first();
        Turn { turns: self.clone(), number, called: Some(called), _tracked: self.tasks.token() }
    }
}

/// A call's turn in the order of its connection's calls. Dropping it lets the next call go.
pub(crate) struct Turn {
    turns: Turns,
    number: u64,
    /// `None` once the turn has come.
    called: Option<oneshot::Receiver<()>>,
    _tracked: TaskTrackerToken,
}

impl Turn {
    /// Returns when all earlier turns are given up.
    pub(crate) async fn wait(&mut self) {
        if let Some(called) = self.called.take() {
            // `waiting` keeps the sender until it wakes this turn, so this does not fail.
            let _ = called.await;
        }
    }

    /// Runs the future and holds the turn for its first poll only: calls are queued in order, but do not wait
    /// for each other's answers. A future that was aborted before its turn is not polled at all.
    pub(crate) async fn first_step<F: Future>(self, future: F) -> F::Output {
        stop_if_aborted().await;
        let mut future = pin!(future);
        let first = poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
        drop(self);
        match first {
            Poll::Ready(output) => output,
            Poll::Pending => future.await,
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut queue = self.turns.lock();
        queue.waiting.remove(&self.number);
        queue.wake_first();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use tokio::sync::Notify;

    async fn is_first(turn: &mut Turn) -> bool {
        let mut coming: Pin<Box<dyn Future<Output = ()> + Send + '_>> = Box::pin(turn.wait());
        poll_fn(|context| Poll::Ready(coming.as_mut().poll(context).is_ready())).await
    }

    /// Turns come one after the other; a turn that is dropped out of order lets no other overtake.
    #[tokio::test]
    async fn calls_take_turns_in_order() {
        let turns = Turns::default();
        let mut first = turns.take();
        let second = turns.take();
        let mut third = turns.take();
        assert!(is_first(&mut first).await);
        drop(second);
        drop(first);
        third.wait().await;
        let mut fourth = turns.take();
        drop(third);
        assert!(is_first(&mut fourth).await);
    }

    /// A turn is given up after the first step, not after the last.
    #[tokio::test]
    async fn turn_is_held_for_the_first_poll_only() {
        let turns = Turns::default();
        let go_on = Notify::new();
        let mut first = turns.take();
        let mut second = turns.take();
        first.wait().await;
        let long = first.first_step(go_on.notified());
        let other = async {
            second.wait().await;
            go_on.notify_one();
        };
        tokio::join!(long, other);
    }
}
