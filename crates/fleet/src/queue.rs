//! The lease queue: the ledger behind a mutex, with the waiters' wakers. It knows slots and nothing of browsers.
//!
//! Dropping a slot's guard gives the slot back, whatever happens to the holder. Dropping a waiter takes it out of the
//! queue, and gives back a slot that was granted but not yet taken. The mutex is held for a few lines and never across an
//! await; wakers are called after its release.
//!
//! `model.rs` runs this file under a model checker, in thousands of thread schedules.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use greenroom_core::{
    InstanceId, StartError,
    lease::{
        Changes, Figures, Grant, InternalSlot, LeaseId, LeaseRefused, Ledger, RestartOutlook, SlotAnswer,
        SlotRequest, WaiterId,
    },
};

use super::sync::{Mutex, MutexGuard};

pub struct Queue(Mutex<QueueState>);

struct QueueState {
    ledger: Ledger,
    waiters: HashMap<WaiterId, WaiterState>,
    closed: bool,
}

/// The state of a waiter.
enum WaiterState {
    Waits(Option<Waker>),
    Granted(LeaseId),
    Refused(Refusal),
}

/// Why a request gets no lease.
#[derive(Debug, Clone)]
pub enum Refusal {
    Refused(LeaseRefused),
    /// An instance had to start for the request, and could not.
    Start(StartError),
    Closed,
}

/// The immediate result of a request for a slot.
pub enum LeaseAnswer {
    Leased(SlotGuard),
    Waits(SlotWaiter),
    Refused(Refusal),
}

/// A leased slot. Dropping the guard gives the slot back. A pool wraps it in a `Lease`, which knows the instance.
pub struct SlotGuard {
    queue: Arc<Queue>,
    lease_id: LeaseId,
}

/// A queued request; a future that resolves to a slot.
pub struct SlotWaiter {
    queue: Arc<Queue>,
    pub(crate) id: WaiterId,
}

impl Queue {
    pub fn new(ledger: Ledger) -> Arc<Self> {
        Arc::new(Self(Mutex::new(QueueState { ledger, waiters: HashMap::new(), closed: false })))
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.0.lock()
    }

    /// Requests a slot; the request waits in the queue if none is free.
    pub fn request(self: &Arc<Self>, request: SlotRequest) -> LeaseAnswer {
        let mut state = self.lock();
        if state.closed {
            return LeaseAnswer::Refused(Refusal::Closed);
        }
        let answer = state.ledger.request(request);
        self.answer(&mut state, answer)
    }

    /// Requests a slot again, at the head of the queue, for a waiter whose granted slot is void.
    pub(crate) fn request_again(self: &Arc<Self>, waiter: WaiterId) -> LeaseAnswer {
        let mut state = self.lock();
        if state.closed {
            return LeaseAnswer::Refused(Refusal::Closed);
        }
        let answer = state.ledger.request_again(waiter);
        self.answer(&mut state, answer)
    }

    fn answer(self: &Arc<Self>, state: &mut QueueState, answer: SlotAnswer) -> LeaseAnswer {
        match answer {
            SlotAnswer::Leased(lease_id) => LeaseAnswer::Leased(self.guard(lease_id)),
            SlotAnswer::Refused(why) => LeaseAnswer::Refused(Refusal::Refused(why)),
            SlotAnswer::Wait(waiter) => {
                state.waiters.insert(waiter.clone(), WaiterState::Waits(None));
                LeaseAnswer::Waits(SlotWaiter { queue: self.clone(), id: waiter })
            }
        }
    }

    fn guard(self: &Arc<Self>, lease_id: LeaseId) -> SlotGuard {
        SlotGuard { queue: self.clone(), lease_id }
    }

    /// Takes this slot for internal use, not for a caller, if it is free.
    pub(crate) fn take(self: &Arc<Self>, instance: InstanceId, slot: usize) -> Option<SlotGuard> {
        let lease_id = self.lock().ledger.take(instance, slot)?;
        Some(self.guard(lease_id))
    }

    /// Takes a free slot for internal use, if one suits and taking it makes no caller wait.
    pub(crate) fn take_spare(
        self: &Arc<Self>,
        suits: impl Fn(InstanceId, usize) -> bool,
    ) -> Option<SlotGuard> {
        match self.lock().ledger.take_spare(suits) {
            InternalSlot::Slot(lease_id) => Some(self.guard(lease_id)),
            InternalSlot::Soon | InternalSlot::NoRoom => None,
        }
    }

    /// Changes the ledger, and wakes the waiters that the change concerns.
    pub fn change(&self, change: impl FnOnce(&mut Ledger) -> Changes) {
        let mut state = self.lock();
        let changes = change(&mut state.ledger);
        let wakers = state.set_outcomes(changes, Refusal::Refused);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Reports that the instance could not start. It stays cold, and callers that wait for any slot get the error;
    /// otherwise each of them would wait for a failed start of its own.
    pub(crate) fn start_failed(&self, instance: InstanceId, error: &StartError) {
        let mut state = self.lock();
        let refused = state.ledger.refuse_all();
        let mut changes = state.ledger.lost(instance, RestartOutlook::OnDemand);
        changes.refused.extend(refused.into_iter().map(|waiter| (waiter, LeaseRefused::Failed(instance))));
        let wakers = state.set_outcomes(changes, |_| Refusal::Start(error.clone()));
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Leases nothing more and refuses the callers that wait.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let waiting: Vec<_> = state.waiters.keys().cloned().collect();
        let mut wakers = Vec::new();
        for waiter in waiting {
            // A granted slot stays granted: its waiter is about to take it.
            if matches!(state.waiters.get(&waiter), Some(WaiterState::Waits(_))) {
                wakers.extend(state.remove_waiter(&waiter));
                wakers.extend(state.set_outcome(waiter, WaiterState::Refused(Refusal::Closed)));
            }
        }
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Reads the ledger, or changes it in a way that concerns no waiter.
    pub(crate) fn with<T>(&self, read: impl FnOnce(&mut Ledger) -> T) -> T {
        read(&mut self.lock().ledger)
    }

    pub(crate) fn figures(&self) -> Figures {
        self.lock().ledger.figures()
    }

    fn give_back(&self, lease_id: LeaseId) {
        let mut state = self.lock();
        let granted = state.ledger.release(lease_id);
        let wakers = state.set_granted(granted);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl QueueState {
    /// Notes the outcome of a waiter. Returns its waker.
    fn set_outcome(&mut self, waiter: WaiterId, outcome: WaiterState) -> Option<Waker> {
        match self.waiters.insert(waiter, outcome) {
            Some(WaiterState::Waits(waker)) => waker,
            Some(WaiterState::Granted(_) | WaiterState::Refused(_)) | None => None,
        }
    }

    /// Notes which waiters got a slot. Returns their wakers.
    fn set_granted(&mut self, granted: Vec<Grant>) -> Vec<Waker> {
        let set = |Grant { waiter, lease }| self.set_outcome(waiter, WaiterState::Granted(lease));
        granted.into_iter().filter_map(set).collect()
    }

    /// Notes which waiters got a slot and which are refused. Returns their wakers.
    fn set_outcomes(&mut self, changes: Changes, why: impl Fn(LeaseRefused) -> Refusal) -> Vec<Waker> {
        let Changes { granted, refused } = changes;
        let mut wakers = self.set_granted(granted);
        for (waiter, refused) in refused {
            wakers.extend(self.set_outcome(waiter, WaiterState::Refused(why(refused))));
        }
        wakers
    }

    /// Takes a waiter that gives up out of the ledger. Returns the wakers of those that get a slot because of it.
    fn remove_waiter(&mut self, waiter: &WaiterId) -> Vec<Waker> {
        let granted = self.ledger.remove_waiter(waiter);
        self.set_granted(granted)
    }
}

impl SlotGuard {
    pub(crate) fn lease_id(&self) -> LeaseId {
        self.lease_id
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        self.queue.give_back(self.lease_id);
    }
}

impl SlotWaiter {
    /// The waiter's position, and how many wait in all; `None` once the waiter has its outcome.
    pub(crate) fn queue_position(&self) -> Option<(usize, usize)> {
        let state = self.queue.lock();
        Some((state.ledger.queue_position(&self.id)?, state.ledger.waiting()))
    }
}

impl Future for SlotWaiter {
    type Output = Result<SlotGuard, Refusal>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.queue.lock();
        match state.waiters.remove(&self.id) {
            Some(WaiterState::Waits(_)) => {
                state.waiters.insert(self.id.clone(), WaiterState::Waits(Some(context.waker().clone())));
                Poll::Pending
            }
            Some(WaiterState::Granted(lease_id)) => Poll::Ready(Ok(self.queue.guard(lease_id))),
            Some(WaiterState::Refused(why)) => Poll::Ready(Err(why)),
            // An earlier poll has returned the outcome.
            None => Poll::Ready(Err(Refusal::Closed)),
        }
    }
}

impl SlotWaiter {
    /// Leaves the queue and gives back a slot that was already granted. Returns that slot's instance.
    pub(crate) fn leave(&mut self) -> Option<InstanceId> {
        let mut state = self.queue.lock();
        match state.waiters.remove(&self.id)? {
            WaiterState::Waits(_) => {
                let wakers = state.remove_waiter(&self.id);
                drop(state);
                wakers.into_iter().for_each(Waker::wake);
                None
            }
            WaiterState::Granted(lease_id) => {
                drop(state);
                self.queue.give_back(lease_id);
                Some(lease_id.instance)
            }
            WaiterState::Refused(_) => None,
        }
    }
}

impl Drop for SlotWaiter {
    fn drop(&mut self) {
        self.leave();
    }
}
