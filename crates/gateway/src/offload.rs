//! Runs CPU-heavy steps of a task on tokio's blocking threads.
//!
//! The runtime has one thread; parsing a message of megabytes there delays every client. While a task holds an
//! [`OffloadGuard`], tokio's blocking threads poll it, at most [`RUNNING_MAX`] tasks at a time. The task returns to the
//! runtime's thread at its next `Pending` after the guard is dropped; [`return_to_runtime`] makes one.
//!
//! The steps of a task keep their order. A task that is aborted while a blocking thread polls it is dropped when that
//! poll ends; [`stop_if_aborted`] ends the poll before a step that must not happen after an abort. Awaiting the aborted
//! task does not wait for that poll: code that must wait for it tracks the future inside of [`offloadable`].

use std::{
    cell::RefCell,
    future::poll_fn,
    panic::resume_unwind,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use serde_json::value::RawValue;
use tokio::{
    sync::{Notify, Semaphore, SemaphorePermit},
    task::{spawn_blocking, yield_now},
};

/// From this size on data counts as large. Below it a step takes a millisecond or two at worst; nearly all messages are
/// far below, and changing threads would cost them more than it saves other clients.
const LARGE_BYTES: usize = 128 * 1024;

/// How many blocking threads poll tasks with large data at a time. Each uses a core and several copies of its data:
/// clients who send large messages wait for each other only.
const RUNNING_MAX: usize = 2;
static RUNNING: Semaphore = Semaphore::const_new(RUNNING_MAX);

thread_local! {
    /// The offloadable task that this thread is polling.
    static POLLED: RefCell<Option<CurrentPoll>> = const { RefCell::new(None) };
}

#[derive(Clone)]
struct CurrentPoll {
    task: Arc<TaskState>,
    /// Whether this thread is a blocking thread, not the runtime's.
    on_blocking_thread: bool,
}

fn polled_on_blocking_thread() -> Option<Arc<TaskState>> {
    POLLED.with_borrow(|polled| {
        polled.as_ref().filter(|polled| polled.on_blocking_thread).map(|polled| polled.task.clone())
    })
}

/// The state of an offloadable task.
#[derive(Default)]
struct TaskState {
    /// How many guards the task holds.
    guards: AtomicUsize,
    /// Whether it has ended or was aborted. The result of a poll that still runs is discarded.
    is_aborted: AtomicBool,
}

impl TaskState {
    fn is_offloaded(&self) -> bool {
        self.guards.load(Ordering::Acquire) > 0
    }

    fn is_aborted(&self) -> bool {
        self.is_aborted.load(Ordering::Acquire)
    }

    /// Polls the task's future and sets [`POLLED`] to this task meanwhile.
    fn poll<T>(
        self: &Arc<Self>,
        future: &mut BoxedFuture<T>,
        context: &mut Context<'_>,
        on_blocking_thread: bool,
    ) -> Poll<T> {
        /// Restores the previous value, even if the poll panics.
        struct RestoreOnDrop(Option<CurrentPoll>);
        impl Drop for RestoreOnDrop {
            fn drop(&mut self) {
                POLLED.set(self.0.take());
            }
        }
        let _before =
            RestoreOnDrop(POLLED.replace(Some(CurrentPoll { task: self.clone(), on_blocking_thread })));
        future.as_mut().poll(context)
    }
}

type BoxedFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Runs a future that may hold an [`OffloadGuard`].
pub(crate) async fn offloadable<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    /// Tells a poll on a blocking thread that the task was dropped on the runtime.
    struct AbortOnDrop(Arc<TaskState>);
    impl Drop for AbortOnDrop {
        fn drop(&mut self) {
            self.0.is_aborted.store(true, Ordering::Release);
        }
    }
    let task = Arc::new(TaskState::default());
    let _abort = AbortOnDrop(task.clone());
    let mut future: BoxedFuture<T> = Box::pin(future);
    loop {
        let on_runtime = poll_fn(|context| match task.poll(&mut future, context, false) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if task.is_offloaded() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        if let Some(output) = on_runtime.await {
            return output;
        }
        let woken = Arc::new(WakeFlag::default());
        while task.is_offloaded() {
            let (back, polled) = poll_on_blocking_thread(task.clone(), future, woken.clone()).await;
            future = back;
            match polled {
                Poll::Ready(output) => return output,
                // Let the runtime poll the future again at once: the waker of this poll no longer wakes anything.
                Poll::Pending if !task.is_offloaded() => break,
                Poll::Pending => woken.0.notified().await,
            }
        }
    }
}

async fn poll_on_blocking_thread<T: Send + 'static>(
    task: Arc<TaskState>,
    mut future: BoxedFuture<T>,
    woken: Arc<WakeFlag>,
) -> (BoxedFuture<T>, Poll<T>) {
    // The semaphore is never closed.
    let permit: Option<SemaphorePermit<'static>> = RUNNING.acquire().await.ok();
    let poll = spawn_blocking(move || {
        let waker = Waker::from(woken);
        // The task may have been aborted while this waited for a thread.
        let polled = match task.is_aborted() {
            true => Poll::Pending,
            false => task.poll(&mut future, &mut Context::from_waker(&waker), true),
        };
        drop(permit);
        (future, polled)
    });
    match poll.await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime shuts down, and drops this task too.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Keeps every offloaded task from being polled until the permit is dropped. Returns when none is polled.
#[cfg(test)]
pub(crate) async fn block_all() -> SemaphorePermit<'static> {
    RUNNING.acquire_many(RUNNING_MAX as u32).await.unwrap()
}

/// Returns when a blocking thread polls a task, or is about to.
#[cfg(test)]
pub(crate) async fn one_runs() {
    while RUNNING.available_permits() == RUNNING_MAX {
        yield_now().await;
    }
}

/// Set when a future that a blocking thread polled wants to be polled again.
#[derive(Default)]
struct WakeFlag(Notify);

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

/// Keeps a task off the runtime's thread until it is dropped.
pub(crate) struct OffloadGuard(Arc<TaskState>);

impl Drop for OffloadGuard {
    fn drop(&mut self) {
        self.0.guards.fetch_sub(1, Ordering::Release);
    }
}

/// Moves the task that awaits this to a blocking thread, if data of this size is large. `None` if it is not, or if the task
/// is not [`offloadable`].
pub(crate) async fn offload_if_large(bytes: usize) -> Option<OffloadGuard> {
    if bytes < LARGE_BYTES {
        return None;
    }
    let CurrentPoll { task, .. } = POLLED.with_borrow(Clone::clone)?;
    task.guards.fetch_add(1, Ordering::AcqRel);
    let guard = OffloadGuard(task);
    // A combinator may poll this again before a blocking thread polls the whole task.
    poll_fn(|context| {
        match POLLED.with_borrow(|polled| polled.as_ref().is_some_and(|polled| !polled.on_blocking_thread)) {
            true => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            false => Poll::Ready(()),
        }
    })
    .await;
    Some(guard)
}

/// [`offload_if_large`] for JSON, which may be absent.
pub(crate) async fn offload_if_large_json(json: Option<&RawValue>) -> Option<OffloadGuard> {
    offload_if_large(json.map_or(0, |json| json.get().len())).await
}

/// Returns to the runtime's thread, unless the task still holds a guard. Otherwise a task that continues with small
/// data would stay on the blocking thread, and delay tasks with large data, until it next waits.
pub(crate) async fn return_to_runtime() {
    if polled_on_blocking_thread().is_some_and(|task| !task.is_offloaded()) {
        yield_now().await;
    }
}

/// Stops here if the task was aborted while a blocking thread polls it; on the runtime's thread tokio does that itself.
/// Does not yield otherwise.
pub(crate) async fn stop_if_aborted() {
    if polled_on_blocking_thread().is_some_and(|task| task.is_aborted()) {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::mpsc,
        thread::{self, ThreadId},
    };

    use greenroom_testkit::{TEST_TIMEOUT, within};
    use tokio::sync::oneshot;

    use super::*;

    fn here() -> ThreadId {
        thread::current().id()
    }

    /// While a task works on large data, other tasks on the runtime's thread go on: its work ends only when another
    /// task has run. Before and after that it is on the runtime's thread.
    #[tokio::test]
    async fn other_tasks_run_during_offloaded_work() {
        let (done, waits) = mpsc::channel();
        let runtime = here();
        let work = offloadable(async move {
            assert_eq!(here(), runtime);
            assert!(offload_if_large(LARGE_BYTES - 1).await.is_none());
            let guard = offload_if_large(LARGE_BYTES).await;
            assert_ne!(here(), runtime);
            waits.recv_timeout(TEST_TIMEOUT).expect("another task runs meanwhile");
            tokio::task::yield_now().await;
            assert_ne!(here(), runtime, "it stays there while it holds a guard");
            let twice = offload_if_large(LARGE_BYTES).await;
            drop(guard);
            tokio::task::yield_now().await;
            assert_ne!(here(), runtime, "it still holds the second guard");
            drop(twice);
            tokio::task::yield_now().await;
            assert_eq!(here(), runtime);
            7
        });
        let work = tokio::spawn(work);
        let other = tokio::spawn(async move { done.send(()) });
        other.await.unwrap().unwrap();
        assert_eq!(within(TEST_TIMEOUT, work).await.unwrap(), 7);
    }

    /// The task does not continue before a blocking thread polls it, even if a part of it is polled twice at once.
    #[tokio::test]
    async fn task_continues_on_a_blocking_thread_when_polled_twice() {
        let runtime = here();
        let work = offloadable(async move {
            let mut part = Box::pin(async {
                let _guard = offload_if_large(LARGE_BYTES).await;
                here()
            });
            let first = poll_fn(|context| Poll::Ready(part.as_mut().poll(context))).await;
            assert!(first.is_pending());
            part.await
        });
        assert_ne!(within(TEST_TIMEOUT, work).await, runtime);
    }

    /// The event that a task on a blocking thread waits for wakes it after its poll has ended. A task that is not
    /// offloadable stays where it is.
    #[tokio::test]
    async fn task_waits_on_a_blocking_thread() {
        let (say, mut heard) = oneshot::channel();
        let (waits, waiting) = oneshot::channel();
        let work = tokio::spawn(offloadable(async move {
            let _guard = offload_if_large(usize::MAX).await;
            let mut waits = Some(waits);
            poll_fn(|context| {
                let polled = Pin::new(&mut heard).poll(context);
                if let Some(waits) = waits.take() {
                    assert!(polled.is_pending());
                    waits.send(()).unwrap();
                }
                polled
            })
            .await
            .unwrap()
        }));
        within(TEST_TIMEOUT, waiting).await.unwrap();
        drop(within(TEST_TIMEOUT, block_all()).await);
        say.send("said").unwrap();
        assert_eq!(within(TEST_TIMEOUT, work).await.unwrap(), "said");
        assert!(offload_if_large(usize::MAX).await.is_none());
    }

    /// Only [`RUNNING_MAX`] tasks run at a time, however many there are, and an aborted task is dropped after its
    /// running poll.
    #[tokio::test]
    async fn concurrent_offloads_are_limited() {
        static RUN: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        struct SignalOnDrop(Option<oneshot::Sender<()>>);
        impl Drop for SignalOnDrop {
            fn drop(&mut self) {
                let _ = self.0.take().map(|dropped| dropped.send(()));
            }
        }
        let many = (0..16).map(|_| {
            tokio::spawn(offloadable(async {
                let _guard = offload_if_large(usize::MAX).await;
                for _ in 0..100 {
                    MOST.fetch_max(RUN.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::yield_now();
                    RUN.fetch_sub(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                }
            }))
        });
        for one in many.collect::<Vec<_>>() {
            within(TEST_TIMEOUT, one).await.unwrap();
        }
        assert!(MOST.load(Ordering::SeqCst) <= RUNNING_MAX);

        let (dropped, is_dropped) = oneshot::channel();
        let (begun, begins) = oneshot::channel();
        let (go_on, waits) = mpsc::channel::<()>();
        let given_up = tokio::spawn(offloadable(async move {
            let _dropped = SignalOnDrop(Some(dropped));
            let _guard = offload_if_large(usize::MAX).await;
            begun.send(()).unwrap();
            let _ = waits.recv_timeout(TEST_TIMEOUT);
            std::future::pending::<()>().await;
        }));
        within(TEST_TIMEOUT, begins).await.unwrap();
        given_up.abort();
        assert!(within(TEST_TIMEOUT, given_up).await.unwrap_err().is_cancelled());
        go_on.send(()).unwrap();
        within(TEST_TIMEOUT, is_dropped).await.unwrap();
    }

    /// A task that has dropped its guards goes back to the runtime's thread at `return_to_runtime`, and not before.
    #[tokio::test]
    async fn task_without_guards_returns_to_the_runtime() {
        let runtime = here();
        let work = offloadable(async move {
            return_to_runtime().await;
            let guard = offload_if_large(LARGE_BYTES).await;
            let twice = offload_if_large(LARGE_BYTES).await;
            drop(guard);
            return_to_runtime().await;
            assert_ne!(here(), runtime, "it holds a guard");
            drop(twice);
            assert_ne!(here(), runtime, "the same poll goes on");
            return_to_runtime().await;
            here()
        });
        assert_eq!(within(TEST_TIMEOUT, work).await, runtime);
    }

    /// A task that is aborted while a blocking thread polls it takes no step after the next check.
    #[tokio::test]
    async fn aborted_task_stops_at_the_next_check() {
        let (steps, taken) = mpsc::channel();
        let (begun, begins) = oneshot::channel();
        let (go_on, waits) = mpsc::channel::<()>();
        let task = tokio::spawn(offloadable(async move {
            let _guard = offload_if_large(LARGE_BYTES).await;
            stop_if_aborted().await;
            steps.send("before").unwrap();
            begun.send(()).unwrap();
            waits.recv_timeout(TEST_TIMEOUT).unwrap();
            stop_if_aborted().await;
            steps.send("behind").unwrap();
        }));
        within(TEST_TIMEOUT, begins).await.unwrap();
        task.abort();
        assert!(within(TEST_TIMEOUT, task).await.unwrap_err().is_cancelled());
        go_on.send(()).unwrap();
        drop(within(TEST_TIMEOUT, block_all()).await);
        assert_eq!(taken.iter().collect::<Vec<_>>(), ["before"]);
    }

    /// A task that is aborted before it gets a blocking thread is not polled there.
    #[test]
    fn no_poll_begins_after_an_abort() {
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        let (steps, taken) = mpsc::channel::<()>();
        let (free, occupied) = mpsc::channel::<()>();
        runtime.block_on(async {
            let other = spawn_blocking(move || occupied.recv_timeout(TEST_TIMEOUT).unwrap());
            let task = tokio::spawn(offloadable(async move {
                let _guard = offload_if_large(LARGE_BYTES).await;
                steps.send(()).unwrap();
            }));
            one_runs().await;
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
            free.send(()).unwrap();
            other.await.unwrap();
            drop(block_all().await);
        });
        assert_eq!(taken.iter().count(), 0);
    }

    /// A panic on the blocking thread is a panic of the future.
    #[tokio::test]
    async fn panics_propagate() {
        let work = tokio::spawn(offloadable(async {
            let _guard = offload_if_large(usize::MAX).await;
            panic!("on another thread");
        }));
        assert!(within(TEST_TIMEOUT, work).await.unwrap_err().is_panic());
    }
}
