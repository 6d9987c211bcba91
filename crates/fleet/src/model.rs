//! The lease queue under a model checker: the same source as [`crate::queue`] with the checker's mutex and threads. The
//! checker may switch threads wherever another one could run, and tries thousands of schedules per test.
//!
//! A lost wake-up shows as a deadlock, a slot leased twice as a failed assertion.

#[allow(clippy::duplicate_mod, reason = "the same source, over other locks")]
#[allow(dead_code, reason = "what is checked here is a part of it")]
#[path = "queue.rs"]
mod queue;

/// The checker's mutex, with the methods of `parking_lot`'s.
mod sync {
    pub(super) use shuttle::sync::MutexGuard;

    pub(super) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(super) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(super) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }
    }
}

use std::{pin::pin, task::Poll};

use greenroom_core::{
    InstanceId, Owner,
    lease::{Ledger, RestartOutlook, Sharing, SlotRequest, Strategy},
};
use shuttle::{
    future::block_on,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use self::queue::{LeaseAnswer, Queue, Refusal, SlotGuard};

/// How many schedules each test tries.
const SCHEDULES: usize = 3_000;

fn check(test: impl Fn() + Send + Sync + 'static) {
    shuttle::check_pct(test, SCHEDULES, 3);
}

fn queue(instances: usize) -> std::sync::Arc<Queue> {
    let mut ledger = Ledger::new(Strategy::Fifo);
    for _ in 0..instances {
        let id = ledger.add(1, false).unwrap();
        ledger.started(id);
    }
    Queue::new(ledger)
}

fn lease(queue: &std::sync::Arc<Queue>, key: Option<u32>) -> Result<SlotGuard, Refusal> {
    match queue.request(SlotRequest { key: key.map(InstanceId), ..SlotRequest::any(&Owner::local()) }) {
        LeaseAnswer::Leased(lease) => Ok(lease),
        LeaseAnswer::Waits(waiting) => block_on(waiting),
        LeaseAnswer::Refused(why) => Err(why),
    }
}

/// The holder of each slot, to detect a slot with two holders.
#[derive(Clone, Default)]
struct Holders(Arc<[AtomicUsize; 2]>);

impl Holders {
    fn hold(&self, lease: &SlotGuard) {
        let holders = &self.0[lease.lease_id().instance.0 as usize];
        assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "leased twice");
        thread::yield_now();
        holders.fetch_sub(1, Ordering::SeqCst);
    }
}

/// With more callers than slots, some of them bound to an instance, each gets its turn and no slot is leased twice.
#[test]
fn every_waiter_gets_a_slot() {
    check(|| {
        let queue = queue(2);
        let holders = Holders::default();
        let callers = [None, Some(0), None, Some(1)].map(|key| {
            let queue = queue.clone();
            let holders = holders.clone();
            thread::spawn(move || holders.hold(&lease(&queue, key).unwrap()))
        });
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        assert_eq!((queue.figures().leased, queue.figures().waiting), (0, 0));
    });
}

/// A waiter that leaves the queue at any moment keeps no slot: the next waiter gets it.
#[test]
fn departed_waiter_keeps_no_slot() {
    check(|| {
        let queue = queue(1);
        let holders = Holders::default();
        let leaver = {
            let queue = queue.clone();
            thread::spawn(move || {
                let LeaseAnswer::Waits(waiting) = queue.request(SlotRequest::any(&Owner::local())) else {
                    return;
                };
                let mut waiting = pin!(waiting);
                // Poll once, then leave.
                block_on(std::future::poll_fn(|context| {
                    let _ = waiting.as_mut().poll(context);
                    Poll::Ready(())
                }));
            })
        };
        let callers = [0; 2].map(|_| {
            let queue = queue.clone();
            let holders = holders.clone();
            thread::spawn(move || holders.hold(&lease(&queue, None).unwrap()))
        });
        leaver.join().unwrap();
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        assert_eq!((queue.figures().leased, queue.figures().waiting), (0, 0));
    });
}

/// An instance dies and comes back while callers wait: each caller gets an answer, and a slot leased before
/// its restart does not come back as a second slot.
#[test]
fn lost_instance_leaves_no_caller_waiting() {
    check(|| {
        let queue = queue(1);
        let callers = [None, Some(0), None].map(|key| {
            let queue = queue.clone();
            thread::spawn(move || match lease(&queue, key) {
                Ok(lease) => {
                    thread::yield_now();
                    drop(lease);
                }
                Err(why) => assert!(key.is_some(), "{why:?}"),
            })
        });
        queue.change(|ledger| ledger.lost(InstanceId(0), RestartOutlook::Soon));
        queue.change(|ledger| {
            ledger.starting(InstanceId(0));
            ledger.started(InstanceId(0))
        });
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        assert_eq!((queue.figures().leased, queue.figures().waiting), (0, 0));
    });
}

/// Whether callers of two owners hold slots of the one instance at the same time.
#[derive(Clone, Default)]
struct Owners(Arc<[AtomicUsize; 2]>);

impl Owners {
    fn hold(&self, owner: usize) {
        self.0[owner].fetch_add(1, Ordering::SeqCst);
        thread::yield_now();
        assert_eq!(self.0[1 - owner].load(Ordering::SeqCst), 0, "another owner holds a slot");
        self.0[owner].fetch_sub(1, Ordering::SeqCst);
    }
}

/// Restarts the instance if it has been cleared, as its supervisor does.
fn restart_if_cleared(queue: &Queue) {
    if queue.with(|ledger| ledger.recycle(InstanceId(0))) {
        queue.change(|ledger| ledger.started(InstanceId(0)));
    }
}

/// Two owners want the same instance, and one caller leaves the queue at any moment: the owners never hold slots of it
/// together, and each caller gets its turn.
#[test]
fn owners_share_no_instance() {
    check(|| {
        let mut ledger = Ledger::new(Strategy::Fifo);
        ledger.set_sharing(Sharing::OneOwner);
        let id = ledger.add(2, false).unwrap();
        ledger.started(id);
        let queue = Queue::new(ledger);
        let owners = Owners::default();
        let callers = [(0, None), (1, None), (0, Some(0)), (1, Some(0))].map(|(owner, key)| {
            let queue = queue.clone();
            let owners = owners.clone();
            thread::spawn(move || {
                let name = Owner::new(["a", "b"][owner]);
                let request = SlotRequest { key: key.map(InstanceId), ..SlotRequest::any(&name) };
                let lease = match queue.request(request) {
                    LeaseAnswer::Leased(lease) => lease,
                    LeaseAnswer::Waits(waiting) => {
                        restart_if_cleared(&queue);
                        block_on(waiting).unwrap()
                    }
                    LeaseAnswer::Refused(why) => panic!("{why:?}"),
                };
                owners.hold(owner);
                drop(lease);
                restart_if_cleared(&queue);
            })
        });
        let leaver = {
            let queue = queue.clone();
            thread::spawn(move || {
                drop(queue.request(SlotRequest::any(&Owner::new("c"))));
                restart_if_cleared(&queue);
            })
        };
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        leaver.join().unwrap();
        assert_eq!((queue.figures().leased, queue.figures().waiting), (0, 0));
    });
}

/// A queue that closes answers every waiter.
#[test]
fn closing_answers_every_waiter() {
    check(|| {
        let queue = queue(1);
        let callers = [0; 3].map(|_| {
            let queue = queue.clone();
            thread::spawn(move || {
                if let Ok(lease) = lease(&queue, None) {
                    drop(lease);
                }
            })
        });
        queue.close();
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        assert_eq!((queue.figures().leased, queue.figures().waiting), (0, 0));
        assert!(matches!(lease(&queue, None), Err(Refusal::Closed)));
    });
}
