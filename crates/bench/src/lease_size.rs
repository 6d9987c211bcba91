//! Whether a lease takes longer with many instances, or many waiters. An O(1) operation takes as long among a thousand as
//! alone, except for the processor's caches.

use std::{
    collections::VecDeque,
    hint::black_box,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Instant,
};

use greenroom_core::{
    InstanceId, Owner,
    lease::{SlotRequest, Strategy},
};
use greenroom_fleet::queue::{LeaseAnswer, Queue, SlotGuard, SlotWaiter};

use crate::{
    lease::queue,
    report::{Goal, Row, comparison_table},
    stats::{greatest, median},
};

const STRATEGIES: [(&str, Strategy); 5] = [
    ("fifo", Strategy::Fifo),
    ("round_robin", Strategy::RoundRobin),
    ("least_used", Strategy::LeastUsed),
    ("sticky", Strategy::Sticky),
    ("the built-in pool's", Strategy::Fill),
];

const INSTANCES: [usize; 3] = [1, 64, 1024];
const WAITERS: [usize; 3] = [1, 64, 4096];

/// How many times longer a lease may take. A lease that looks at every instance takes hundreds of times as long; cache
/// misses cost this much at most.
const GOAL: f64 = 4.0;

/// Callers that the strategy `sticky` tells apart.
const CALLERS: u64 = 64;

/// Instances with a slot each, all leased.
const BUSY: usize = 8;

pub struct Sizes {
    pub rows: Vec<Row>,
    pub how: String,
}

pub fn measure(rounds: usize, leases: usize) -> Sizes {
    let choosing = STRATEGIES.map(|(_, strategy)| {
        median_times(INSTANCES.map(|instances| HalfLeasedQueue::new(strategy, instances)), rounds, leases)
    });
    let waiting = STRATEGIES.map(|(_, strategy)| {
        median_times(WAITERS.map(|count| WaitingQueue::new(strategy, count)), rounds, leases)
    });
    let worst = |all: &[[f64; 3]]| greatest(&all.iter().map(|times| times[2] / times[0]).collect::<Vec<_>>());
    let row = |what: &str, ratio: f64| {
        let row = Row::new(what, String::new(), String::new()).ratio(ratio);
        row.goal(Goal::check("≤ 4", ratio <= GOAL))
    };
    let rows = vec![
        row("time of a lease, 1024 instances to 1, slowest strategy", worst(&choosing)),
        row("time of a lease, 4096 waiting to 1, slowest strategy", worst(&waiting)),
    ];
    let table = |columns: [&str; 4], all: [[f64; 3]; 5]| {
        let lines = STRATEGIES.into_iter().zip(all).map(|((name, _), [one, some, many])| {
            let ratio = |time: f64| format!("{:.2}", time / one);
            (name, [format!("{one:.0} ns"), ratio(some), ratio(many)])
        });
        comparison_table(&columns, lines)
    };
    let how = format!(
        "A lease taken and given back where every other instance is leased already, by strategy: the time with one instance, \
         and how many times as long it takes with more:\n\n{}\n\nA slot that comes back to a queue with all {BUSY} slots leased, \
         goes to the waiter that has waited longest, and a new waiter at the end of the queue:\n\n{}",
        table(["strategy", "1 instance", "64", "1024"], choosing),
        table(["strategy", "1 waits", "64", "4096"], waiting),
    );
    Sizes { rows, how }
}

/// An operation that is repeated.
trait LeaseOperation {
    fn run_once(&mut self, round: u64);
}

/// The nanoseconds that a step of each operation takes: the median over rounds, in which the operations take turns.
fn median_times<S: LeaseOperation>(mut all: [S; 3], rounds: usize, steps: usize) -> [f64; 3] {
    let mut times: [Vec<f64>; 3] = Default::default();
    for _ in 0..rounds {
        for (one, times) in all.iter_mut().zip(&mut times) {
            let begun = Instant::now();
            (0..steps as u64).for_each(|round| one.run_once(round));
            times.push(begun.elapsed().as_secs_f64() * 1e9 / steps as f64);
        }
    }
    times.map(|times| median(&times))
}

/// A queue in which half the instances are leased.
struct HalfLeasedQueue {
    queue: Arc<Queue>,
    _held: Vec<SlotGuard>,
}

impl HalfLeasedQueue {
    fn new(strategy: Strategy, instances: usize) -> Self {
        let queue = queue(strategy, instances);
        let odd = (1..u32::try_from(instances).expect("few instances")).step_by(2);
        let held = odd.map(|number| {
            expect_lease(queue.request(SlotRequest::keyed(&Owner::local(), InstanceId(number))))
        });
        Self { _held: held.collect(), queue }
    }
}

impl LeaseOperation for HalfLeasedQueue {
    fn run_once(&mut self, round: u64) {
        let want = SlotRequest { caller: Some(round % CALLERS), ..SlotRequest::any(&Owner::local()) };
        drop(black_box(expect_lease(self.queue.request(want))));
    }
}

/// A queue in which every slot is leased, and its waiters, the longest waiting first.
struct WaitingQueue {
    queue: Arc<Queue>,
    held: VecDeque<SlotGuard>,
    waiting: VecDeque<SlotWaiter>,
}

impl WaitingQueue {
    fn new(strategy: Strategy, waiters: usize) -> Self {
        let queue = queue(strategy, BUSY);
        let held =
            (0..BUSY).map(|_| expect_lease(queue.request(SlotRequest::any(&Owner::local())))).collect();
        let mut waiting_queue = Self { queue, held, waiting: VecDeque::new() };
        (0..waiters).for_each(|caller| waiting_queue.join(caller as u64));
        waiting_queue
    }

    fn join(&mut self, caller: u64) {
        let want = SlotRequest { caller: Some(caller % CALLERS), ..SlotRequest::any(&Owner::local()) };
        let LeaseAnswer::Waits(mut waiting) = self.queue.request(want) else {
            panic!("all slots are leased")
        };
        assert!(poll(&mut waiting).is_none(), "all slots are leased");
        self.waiting.push_back(waiting);
    }
}

impl LeaseOperation for WaitingQueue {
    fn run_once(&mut self, round: u64) {
        drop(self.held.pop_front());
        let mut first = self.waiting.pop_front().expect("there is a waiter");
        self.held.push_back(poll(&mut first).expect("the first in the line is served"));
        self.join(round);
    }
}

/// How many waiters of one owner wait before another owner's first call comes.
pub const CROWD: usize = 1_000;

/// How many leases of an owner with [`CROWD`] waiters end before another owner's first call has its slot: all waiters want
/// the same slot, and every second one names its instance.
pub fn leases_before_another_owner() -> usize {
    let queue = queue(Strategy::Fifo, 1);
    let many = Owner::new("many");
    let mut held = expect_lease(queue.request(SlotRequest::any(&many)));
    let join = |request| match queue.request(request) {
        LeaseAnswer::Waits(waiter) => waiter,
        LeaseAnswer::Leased(_) | LeaseAnswer::Refused(_) => panic!("the slot is leased"),
    };
    let mut crowd: VecDeque<_> = (0..CROWD)
        .map(|n| match n % 2 {
            0 => join(SlotRequest::any(&many)),
            _ => join(SlotRequest::keyed(&many, InstanceId(0))),
        })
        .collect();
    let mut other = join(SlotRequest::any(&Owner::new("other")));
    for ended in 1.. {
        drop(held);
        if poll(&mut other).is_some() {
            return ended;
        }
        held =
            poll(&mut crowd.pop_front().expect("the other owner is served before the last")).expect("served");
    }
    CROWD
}

fn expect_lease(answer: LeaseAnswer) -> SlotGuard {
    match answer {
        LeaseAnswer::Leased(lease) => lease,
        LeaseAnswer::Waits(_) => panic!("a slot is free"),
        LeaseAnswer::Refused(why) => panic!("refused: {why:?}"),
    }
}

fn poll(waiting: &mut SlotWaiter) -> Option<SlotGuard> {
    match Pin::new(waiting).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(lease) => Some(lease.expect("every instance runs")),
        Poll::Pending => None,
    }
}
