//! Keeps large data off the runtime's thread.
//!
//! One thread serves everybody, and looking through a message or a record of some megabytes takes long enough that the
//! others would notice. A future that is made [`movable`] is polled on the runtime as any other. While it holds what
//! [`large`] gives it, each of its polls runs on a thread for blocking work instead, a few at a time; then it comes back.
//! Nothing else changes: its steps stay in their order, and dropping it ends it, at the latest behind the poll that runs.

use std::{
    cell::RefCell,
    future::poll_fn,
    panic::resume_unwind,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use tokio::{
    sync::{Notify, Semaphore, SemaphorePermit},
    task::spawn_blocking,
};

/// From this size on data is large. Below it a step takes a millisecond or two at worst; nearly all messages are far
/// below, and changing the thread would cost them more than it gives others.
const LARGE_BYTES: usize = 128 * 1024;

/// How many steps with large data run at a time. Each has a core and several copies of its data: clients who send large
/// messages wait for each other, and for nobody else.
const RUNNING_MAX: usize = 2;
static RUNNING: Semaphore = Semaphore::const_new(RUNNING_MAX);

thread_local! {
    /// The movable future that this thread is polling.
    static POLLED: RefCell<Option<Polled>> = const { RefCell::new(None) };
}

#[derive(Clone)]
struct Polled {
    movable: Arc<Movable>,
    /// This thread is not the runtime's.
    is_away: bool,
}

/// What is known of a movable future.
#[derive(Default)]
struct Movable {
    /// How many hold it off the runtime.
    held: AtomicUsize,
}

impl Movable {
    fn is_away(&self) -> bool {
        self.held.load(Ordering::Acquire) > 0
    }

    /// Polls the future, which finds this by [`POLLED`] meanwhile.
    fn poll<T>(self: &Arc<Self>, future: &mut Boxed<T>, context: &mut Context<'_>, is_away: bool) -> Poll<T> {
        /// Puts back what was there before, also where a poll panics.
        struct Before(Option<Polled>);
        impl Drop for Before {
            fn drop(&mut self) {
                POLLED.set(self.0.take());
            }
        }
        let _before = Before(POLLED.replace(Some(Polled { movable: self.clone(), is_away })));
        future.as_mut().poll(context)
    }
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Runs a future that may hold large data.
pub(crate) async fn movable<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    let movable = Arc::new(Movable::default());
    let mut future: Boxed<T> = Box::pin(future);
    loop {
        let here = poll_fn(|context| match movable.poll(&mut future, context, false) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if movable.is_away() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        if let Some(output) = here.await {
            return output;
        }
        let woken = Arc::new(Woken::default());
        while movable.is_away() {
            let (back, polled) = poll_away(movable.clone(), future, woken.clone()).await;
            future = back;
            match polled {
                Poll::Ready(output) => return output,
                // It is polled here once more at once: that poll has registered a waker that nobody waits for any more.
                Poll::Pending if !movable.is_away() => break,
                Poll::Pending => woken.0.notified().await,
            }
        }
    }
}

/// One poll of a future on another thread.
async fn poll_away<T: Send + 'static>(
    movable: Arc<Movable>,
    mut future: Boxed<T>,
    woken: Arc<Woken>,
) -> (Boxed<T>, Poll<T>) {
    // The semaphore is never closed.
    let permit: Option<SemaphorePermit<'static>> = RUNNING.acquire().await.ok();
    let poll = spawn_blocking(move || {
        let waker = Waker::from(woken);
        let polled = movable.poll(&mut future, &mut Context::from_waker(&waker), true);
        drop(permit);
        (future, polled)
    });
    match poll.await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime ends, and whoever waits here with it.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Holds up everything that is large, until it is dropped.
#[cfg(test)]
pub(crate) async fn hold_up() -> SemaphorePermit<'static> {
    RUNNING.acquire_many(RUNNING_MAX as u32).await.unwrap()
}

/// Says that a future that was polled on another thread wants to be polled again.
#[derive(Default)]
struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

/// Holds a movable future off the runtime until it is dropped.
pub(crate) struct Away(Arc<Movable>);

impl Drop for Away {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::Release);
    }
}

/// Moves the future that awaits this off the runtime, if data of this size is large. `None` if it is not, or if the future
/// is not [`movable`].
pub(crate) async fn large(bytes: usize) -> Option<Away> {
    if bytes < LARGE_BYTES {
        return None;
    }
    let Polled { movable, .. } = POLLED.with_borrow(Clone::clone)?;
    movable.held.fetch_add(1, Ordering::AcqRel);
    let away = Away(movable);
    // Whoever polls this may do so again before the movable future as a whole is polled on another thread.
    poll_fn(|context| {
        match POLLED.with_borrow(|polled| polled.as_ref().is_some_and(|polled| !polled.is_away)) {
            true => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            false => Poll::Ready(()),
        }
    })
    .await;
    Some(away)
}

#[cfg(test)]
mod tests {
    use std::{
        sync::mpsc,
        thread::{self, ThreadId},
    };

    use greenroom_testkit::{PATIENCE, within};
    use tokio::sync::oneshot;

    use super::*;

    fn here() -> ThreadId {
        thread::current().id()
    }

    /// While a future works on large data, others on the same single thread go on: its work ends only when another task has
    /// run. Before and behind that it is where everybody is.
    #[tokio::test]
    async fn others_go_on_meanwhile() {
        let (done, waits) = mpsc::channel();
        let runtime = here();
        let work = movable(async move {
            assert_eq!(here(), runtime);
            assert!(large(LARGE_BYTES - 1).await.is_none());
            let away = large(LARGE_BYTES).await;
            assert_ne!(here(), runtime);
            waits.recv_timeout(PATIENCE).expect("another task runs meanwhile");
            tokio::task::yield_now().await;
            assert_ne!(here(), runtime, "it stays away while it holds the data");
            let twice = large(LARGE_BYTES).await;
            drop(away);
            tokio::task::yield_now().await;
            assert_ne!(here(), runtime, "somebody holds it still");
            drop(twice);
            tokio::task::yield_now().await;
            assert_eq!(here(), runtime);
            7
        });
        let work = tokio::spawn(work);
        let other = tokio::spawn(async move { done.send(()) });
        other.await.unwrap().unwrap();
        assert_eq!(within(PATIENCE, work).await.unwrap(), 7);
    }

    /// Nothing goes on until it is away, even where a part of it is polled twice at once.
    #[tokio::test]
    async fn polled_twice_at_once() {
        let runtime = here();
        let work = movable(async move {
            let mut part = Box::pin(async {
                let _away = large(LARGE_BYTES).await;
                here()
            });
            let first = poll_fn(|context| Poll::Ready(part.as_mut().poll(context))).await;
            assert!(first.is_pending());
            part.await
        });
        assert_ne!(within(PATIENCE, work).await, runtime);
    }

    /// What it waits for while it is away wakes it, and where it is not movable it stays where it is.
    #[tokio::test]
    async fn waits_while_away() {
        let (say, heard) = oneshot::channel();
        let work = tokio::spawn(movable(async move {
            let _away = large(usize::MAX).await;
            heard.await.unwrap()
        }));
        tokio::task::yield_now().await;
        say.send("said").unwrap();
        assert_eq!(within(PATIENCE, work).await.unwrap(), "said");
        assert!(large(usize::MAX).await.is_none());
    }

    /// Only so many run at a time, however many there are, and one that is given up ends behind the poll that runs.
    #[tokio::test]
    async fn few_at_a_time() {
        static RUN: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        struct Dropped(Option<oneshot::Sender<()>>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                let _ = self.0.take().map(|dropped| dropped.send(()));
            }
        }
        let many = (0..16).map(|_| {
            tokio::spawn(movable(async {
                let _away = large(usize::MAX).await;
                for _ in 0..100 {
                    MOST.fetch_max(RUN.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::yield_now();
                    RUN.fetch_sub(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                }
            }))
        });
        for one in many.collect::<Vec<_>>() {
            within(PATIENCE, one).await.unwrap();
        }
        assert!(MOST.load(Ordering::SeqCst) <= RUNNING_MAX);

        let (dropped, is_dropped) = oneshot::channel();
        let (begun, begins) = oneshot::channel();
        let (go_on, waits) = mpsc::channel::<()>();
        let given_up = tokio::spawn(movable(async move {
            let _dropped = Dropped(Some(dropped));
            let _away = large(usize::MAX).await;
            begun.send(()).unwrap();
            let _ = waits.recv_timeout(PATIENCE);
            std::future::pending::<()>().await;
        }));
        within(PATIENCE, begins).await.unwrap();
        given_up.abort();
        assert!(within(PATIENCE, given_up).await.unwrap_err().is_cancelled());
        go_on.send(()).unwrap();
        within(PATIENCE, is_dropped).await.unwrap();
    }

    /// A panic on the other thread is one of the future.
    #[tokio::test]
    async fn panics_pass() {
        let work = tokio::spawn(movable(async {
            let _away = large(usize::MAX).await;
            panic!("on another thread");
        }));
        assert!(within(PATIENCE, work).await.unwrap_err().is_panic());
    }
}
