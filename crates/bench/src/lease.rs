//! How fast the lease queue leases slots and takes them back, without browsers, compared with the simplest pool.
//! `lease_size` measures whether that depends on the number of instances.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Instant,
};

use greenroom_core::{
    Owner,
    lease::{Ledger, SlotRequest, Strategy},
};
use greenroom_fleet::queue::{LeaseAnswer, Queue, SlotGuard};
use tokio::{
    runtime::{Builder, Runtime},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::{LocalSet, yield_now},
};

use crate::{
    lease_size,
    machine::{cores, pin},
    programs::Programs,
    report::{Goal, Row, Section, comparison_table},
    stats::median,
};

const ALONE_GOAL: f64 = 1_000_000.0;
const CROWD_GOAL: f64 = 200_000.0;

/// Instances with one slot each.
const INSTANCES: usize = 8;
/// Callers that want one of them at the same time.
const CALLERS: usize = 64;

pub fn measure(_: &Programs, quick: bool) -> Section {
    let (rounds, leases) = if quick { (3, 1_000) } else { (15, 4_000) };
    let all = cores();
    pin(None, &all[..1]);
    let runtime = Builder::new_current_thread().build().expect("a runtime in this thread");
    let queue = queue(Strategy::Fifo, INSTANCES);
    let plain = SemaphorePool::new(INSTANCES);
    // For each kind of load, the queue's rates and the simplest pool's.
    let mut rates: [[Vec<f64>; 2]; 2] = Default::default();
    for _ in 0..rounds {
        for (at, callers) in [1, CALLERS].into_iter().enumerate() {
            let each = leases * CALLERS / callers;
            rates[at][0].push(lease_rate(&runtime, &queue, callers, each));
            rates[at][1].push(lease_rate(&runtime, &plain, callers, each));
        }
    }
    let sizes = lease_size::measure(rounds, leases * 8);
    pin(None, &all);

    let [alone, crowd] = rates.map(|both| both.map(|rates| median(&rates)));
    let crowded = format!("{CALLERS} callers for {INSTANCES} slots");
    let mut rows = vec![
        Row::new("leases a second, no waiters, one core", format!("{:.0}", alone[0]), String::new())
            .goal(Goal::check("≥ 1,000,000", alone[0] >= ALONE_GOAL)),
        Row::new(format!("leases a second, {crowded}, one core"), format!("{:.0}", crowd[0]), String::new())
            .goal(Goal::check("≥ 200,000", crowd[0] >= CROWD_GOAL)),
    ];
    rows.extend(sizes.rows);
    let delay = lease_size::leases_before_another_owner();
    let waiting = lease_size::CROWD;
    rows.push(
        Row::new(
            format!("leases that end before another owner's first call, {waiting} of one owner waiting"),
            delay.to_string(),
            String::new(),
        )
        .goal(Goal::check("≤ 1", delay <= 1)),
    );
    let figures = |[ours, plain]: [f64; 2]| {
        [format!("{ours:.0}"), format!("{plain:.0}"), format!("{:.2}", ours / plain)]
    };
    let peers = [("no waiters", figures(alone)), (crowded.as_str(), figures(crowd))];
    let how = format!(
        "The lease queue that every call goes through, without pools and browsers around it. A lease is taken and given \
         back in a loop; or {CALLERS} tasks of one single-threaded runtime take one of {INSTANCES} slots, hold it while \
         every other task has its turn, and give it back. That is compared with the simplest pool, a semaphore of tokio and a \
         list behind a mutex, which knows no instances by name, no strategies and no instances that fail. {rounds} rounds \
         of {} leases each in turns on one core, medians, leases a second:\n\n{}\n\n{}",
        leases * CALLERS,
        comparison_table(&["", "lease queue", "semaphore and list", "ratio"], peers.into_iter()),
        sizes.how,
    );
    Section { title: "Leases", rows, how }
}

/// A queue over running instances with a slot each.
pub fn queue(strategy: Strategy, instances: usize) -> Arc<Queue> {
    let mut ledger = Ledger::new(strategy);
    for _ in 0..instances {
        let id = ledger.add(1, false).expect("a pool can be as big");
        ledger.started(id);
    }
    Queue::new(ledger)
}

/// Leases slots.
trait LeasePool: Clone + 'static {
    type Lease;
    fn lease(&self) -> impl Future<Output = Self::Lease>;
}

impl LeasePool for Arc<Queue> {
    type Lease = SlotGuard;

    async fn lease(&self) -> SlotGuard {
        match self.request(SlotRequest::any(&Owner::local())) {
            LeaseAnswer::Leased(lease) => lease,
            LeaseAnswer::Waits(waiting) => waiting.await.expect("every instance runs"),
            LeaseAnswer::Refused(why) => panic!("refused: {why:?}"),
        }
    }
}

/// The simplest pool: a semaphore and a list.
#[derive(Clone)]
struct SemaphorePool {
    permits: Arc<Semaphore>,
    free: Arc<Mutex<VecDeque<usize>>>,
}

struct SemaphoreLease {
    slot: usize,
    free: Arc<Mutex<VecDeque<usize>>>,
    /// Dropped after the slot is back in the list, so that a waiter finds the slot.
    _permit: OwnedSemaphorePermit,
}

impl SemaphorePool {
    fn new(slots: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(slots)), free: Arc::new(Mutex::new((0..slots).collect())) }
    }
}

impl LeasePool for SemaphorePool {
    type Lease = SemaphoreLease;

    async fn lease(&self) -> SemaphoreLease {
        let permits = self.permits.clone().acquire_owned().await.expect("it is never closed");
        let slot = self.free.lock().expect("no thread panics").pop_front().expect("there is room");
        SemaphoreLease { slot, free: self.free.clone(), _permit: permits }
    }
}

impl Drop for SemaphoreLease {
    fn drop(&mut self) {
        self.free.lock().expect("no thread panics").push_back(self.slot);
    }
}

/// `callers` callers take `each` leases each. Returns leases a second.
fn lease_rate<L: LeasePool>(runtime: &Runtime, pool: &L, callers: usize, each: usize) -> f64 {
    let tasks = LocalSet::new();
    let begun = Instant::now();
    for _ in 0..callers {
        let pool = pool.clone();
        tasks.spawn_local(async move {
            for _ in 0..each {
                let lease = pool.lease().await;
                if callers > 1 {
                    yield_now().await;
                }
                drop(lease);
            }
        });
    }
    runtime.block_on(tasks);
    (callers * each) as f64 / begun.elapsed().as_secs_f64()
}
