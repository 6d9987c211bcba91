//! The events that wait for their consumer, in the order in which they came: at most [`EVENTS_MAX`], and no more than
//! [`EVENTS_BYTES_MAX`] of them together.
//!
//! A consumer may name events of which only the latest matters ([`EventKey`]). Such an event replaces an earlier one with the
//! same key that still waits, and goes to the end of the queue: the consumer sees some of the events, in order, and with
//! them the current state. So a page that changes its address without end does not fill the queue.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use crate::{EVENTS_BYTES_MAX, EVENTS_MAX, Event};

/// The key of an event that a later event with the same key makes worthless; `None` for other events.
pub(crate) type EventKey = fn(&Event) -> Option<String>;

/// The result of putting an event into the queue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PushOutcome {
    /// The event waits, or its consumer was dropped.
    Queued,
    Full,
}

/// The connection's end of the queue. Dropping it tells the consumer that no more events come.
pub(crate) struct Sender {
    waiting: Arc<Mutex<EventQueue>>,
    /// Counts the events that were put in.
    arrived: watch::Sender<u64>,
}

/// The consumer's end of the queue. Dropping it discards the events that wait and all later ones.
pub(crate) struct Receiver {
    waiting: Arc<Mutex<EventQueue>>,
    arrived: watch::Receiver<u64>,
}

struct EventQueue {
    bytes_max: usize,
    key: Option<EventKey>,
    /// The events with their keys, by the number of each.
    events: BTreeMap<u64, (Event, Option<String>)>,
    /// The number of the event that waits with a key.
    latest: HashMap<String, u64>,
    last_number: u64,
    /// The bytes of `events`.
    bytes: usize,
}

pub(crate) fn queue() -> (Sender, Receiver) {
    queue_with_limit(EVENTS_BYTES_MAX)
}

fn queue_with_limit(bytes_max: usize) -> (Sender, Receiver) {
    let key = None;
    let events = BTreeMap::new();
    let latest = HashMap::new();
    let waiting =
        Arc::new(Mutex::new(EventQueue { bytes_max, key, events, latest, last_number: 0, bytes: 0 }));
    let (sender, receiver) = watch::channel(0);
    (Sender { waiting: waiting.clone(), arrived: sender }, Receiver { waiting, arrived: receiver })
}

impl Sender {
    pub(crate) fn push(&self, event: Event) -> PushOutcome {
        // A consumer that was dropped wants no events.
        if self.arrived.is_closed() {
            return PushOutcome::Queued;
        }
        let mut waiting = lock(&self.waiting);
        let pushed = waiting.push(event);
        drop(waiting);
        self.arrived.send_modify(|count| *count += 1);
        pushed
    }

    /// The number of the last event that was put in.
    pub(crate) fn last_number(&self) -> u64 {
        lock(&self.waiting).last_number
    }

    /// Resolves when the consumer is dropped.
    pub(crate) async fn closed(&self) {
        self.arrived.closed().await;
    }
}

impl Receiver {
    pub(crate) fn keep_latest(&mut self, key: EventKey) {
        lock(&self.waiting).key = Some(key);
    }

    /// The next event; `None` once the connection is over and its last event is taken. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        // A consumer of an endless flow of events must not starve the other tasks of this thread.
        tokio::task::consume_budget().await;
        loop {
            // Events that arrive after this line count as a change.
            self.arrived.mark_unchanged();
            if let Some(event) = lock(&self.waiting).pop() {
                return Some(event);
            }
            if self.arrived.changed().await.is_err() {
                return lock(&self.waiting).pop();
            }
        }
    }

    /// All events that wait.
    pub(crate) fn take(&mut self) -> Vec<Event> {
        let mut waiting = lock(&self.waiting);
        waiting.latest.clear();
        waiting.bytes = 0;
        std::mem::take(&mut waiting.events).into_values().map(|(event, _)| event).collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.take();
    }
}

impl EventQueue {
    fn push(&mut self, mut event: Event) -> PushOutcome {
        let key = self.key.and_then(|key| key(&event));
        if let Some(superseded) = key.as_ref().and_then(|key| self.latest.remove(key)) {
            self.events.remove(&superseded).inspect(|(former, _)| self.bytes -= bytes(former));
        }
        if self.events.len() == EVENTS_MAX || self.bytes + bytes(&event) > self.bytes_max {
            return PushOutcome::Full;
        }
        self.bytes += bytes(&event);
        self.last_number += 1;
        event.number = self.last_number;
        if let Some(key) = key.clone() {
            self.latest.insert(key, self.last_number);
        }
        self.events.insert(self.last_number, (event, key));
        PushOutcome::Queued
    }

    fn pop(&mut self) -> Option<Event> {
        let (_, (event, key)) = self.events.pop_first()?;
        self.bytes -= bytes(&event);
        if let Some(key) = key {
            self.latest.remove(&key);
        }
        Some(event)
    }
}

/// How much of the limit an event takes. No message is longer than the limit, so any event fits into an empty queue.
fn bytes(event: &Event) -> usize {
    event.method.len() + event.params.get().len()
}

/// Held for a map access and never across an await; a panic cannot leave it half changed.
fn lock(waiting: &Mutex<EventQueue>) -> MutexGuard<'_, EventQueue> {
    waiting.lock()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `A.b` has no key, `A.=x` has the key `x`.
    fn event(method: &str, params: usize) -> Event {
        let params = greenroom_core::raw::encode(&params);
        Event { method: method.to_owned(), session: None, params, number: 0 }
    }

    fn key(event: &Event) -> Option<String> {
        event.method.split_once('=').map(|(_, key)| key.to_owned())
    }

    fn methods_and_params(events: &[Event]) -> Vec<String> {
        events.iter().map(|event| format!("{} {}", event.method, event.params.get())).collect()
    }

    /// Of events with one key only the latest waits, behind what came before it. An event that was taken is not replaced.
    #[test]
    fn only_the_latest_of_a_key_waits() {
        let (sender, mut receiver) = queue();
        receiver.keep_latest(key);
        for (number, method) in ["A.=x", "A.b", "A.=y", "A.=x", "A.b"].into_iter().enumerate() {
            assert_eq!(sender.push(event(method, number)), PushOutcome::Queued);
        }
        assert_eq!(methods_and_params(&receiver.take()), ["A.b 1", "A.=y 2", "A.=x 3", "A.b 4"]);
        sender.push(event("A.=x", 5));
        assert_eq!(methods_and_params(&receiver.take()), ["A.=x 5"]);
    }

    /// A queue is full when its events have too many bytes, however few they are; events that were taken or replaced do not
    /// count.
    #[tokio::test]
    async fn waiting_bytes_are_bounded() {
        let quarter = || {
            let params = greenroom_core::raw::encode(&"x".repeat(244));
            Event { method: "A.=x".to_owned(), session: None, params, number: 0 }
        };
        let (sender, mut receiver) = queue_with_limit(1_000);
        for _ in 0..4 {
            assert_eq!(sender.push(quarter()), PushOutcome::Queued);
        }
        assert_eq!(sender.push(quarter()), PushOutcome::Full);
        assert!(receiver.next().await.is_some());
        assert_eq!(sender.push(quarter()), PushOutcome::Queued);
        assert_eq!(receiver.take().len(), 4);
        receiver.keep_latest(key);
        for _ in 0..6 {
            assert_eq!(sender.push(quarter()), PushOutcome::Queued, "it replaces the former");
        }
        assert_eq!(receiver.take().len(), 1);
    }

    /// Any number of events with one key fills no queue, and a full queue takes an event that replaces another.
    #[tokio::test]
    async fn events_of_one_key_fill_no_queue() {
        let (sender, mut receiver) = queue();
        receiver.keep_latest(key);
        for number in 0..3 * EVENTS_MAX {
            assert_eq!(sender.push(event("A.=x", number)), PushOutcome::Queued);
        }
        for number in 1..EVENTS_MAX {
            assert_eq!(sender.push(event("A.b", number)), PushOutcome::Queued);
        }
        assert_eq!(sender.push(event("A.=x", 7)), PushOutcome::Queued);
        assert_eq!(sender.push(event("A.=y", 8)), PushOutcome::Full);
        drop(sender);
        let mut last = None;
        while let Some(event) = receiver.next().await {
            last = Some(event);
        }
        assert_eq!(methods_and_params(last.as_slice()), ["A.=x 7"]);
    }
}
