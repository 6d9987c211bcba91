//! The events that have no line yet, counted. Pure state; the audit log's mutex guards it.
//!
//! Time is divided into windows of [`WINDOW`]. The first of equal events in a window is fresh: it gets its line at once.
//! The others are counted, and get one line at the end of the window. An actor has a limited number of different events
//! in a window. Its further ones are counted without their target, so that a page with a new target for each request
//! cannot push the lines of others out of the log.

use std::{
    collections::HashMap,
    process,
    time::{Duration, Instant, SystemTime},
};

use greenroom_core::{
    audit::{AuditActor, AuditEvent, AuditKind, AuditLine},
    time::timestamp_ms,
};

/// How long equal events are counted before they get a line. A sudden end of the process loses the count of no more
/// than this.
pub(super) const WINDOW: Duration = Duration::from_secs(60);

/// Different events of one actor in a window, before they are counted without their target. A page with a dozen trackers
/// in a private network stays below; a session that goes on for a day writes 20 MB at most.
pub(super) const ACTOR_EVENTS_MAX: usize = 64;

/// Different events in a window, some 300 bytes each.
pub(super) const EVENTS_MAX: usize = 8_192;

#[derive(Default)]
pub(super) struct PendingEvents {
    tallies: HashMap<AuditEvent, Tally>,
    events_by_actor: HashMap<AuditActor, usize>,
    /// Events that have no line in this window yet, in their order.
    fresh: Vec<AuditEvent>,
    /// `None` while nothing was reported since the last window.
    window_ends: Option<Instant>,
    /// Events that were not counted for lack of room, and those of lines that could not be written.
    lost: u64,
}

/// How often an event has happened since its last line.
struct Tally {
    first: SystemTime,
    last: SystemTime,
    count: u64,
}

impl PendingEvents {
    /// Counts an event. Returns whether there was room for it.
    pub(super) fn add(&mut self, event: AuditEvent, time: SystemTime, now: Instant) -> bool {
        self.window_ends.get_or_insert(now + WINDOW);
        let of_actor = self.events_by_actor.get(&event.actor).copied().unwrap_or_default();
        let event = if of_actor < ACTOR_EVENTS_MAX || self.tallies.contains_key(&event) {
            event
        } else {
            event.without_target()
        };
        if let Some(tally) = self.tallies.get_mut(&event) {
            tally.add(time);
            return true;
        }
        if self.tallies.len() >= EVENTS_MAX {
            self.lost += 1;
            return false;
        }
        *self.events_by_actor.entry(event.actor.clone()).or_default() += 1;
        self.fresh.push(event.clone());
        self.tallies.insert(event, Tally { first: time, last: time, count: 1 });
        true
    }

    /// Counts events that the log has no line of.
    pub(super) fn add_lost(&mut self, count: u64, now: Instant) {
        self.window_ends.get_or_insert(now + WINDOW);
        self.lost += count;
    }

    pub(super) fn has_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    pub(super) fn window_ends(&self) -> Option<Instant> {
        self.window_ends
    }

    /// Lines for the events that have none in this window.
    pub(super) fn take_fresh(&mut self) -> Vec<AuditLine> {
        let fresh = std::mem::take(&mut self.fresh);
        let lines = fresh.into_iter().filter_map(|event| {
            let tally = self.tallies.get_mut(&event)?;
            tally.take_line(event)
        });
        lines.collect()
    }

    /// Lines for all events that were not written, in the order of time, and the number of the lost ones. The next event
    /// begins a new window.
    pub(super) fn end_window(&mut self) -> Vec<AuditLine> {
        let ended = std::mem::take(self);
        let lines = ended.tallies.into_iter().filter_map(|(event, mut tally)| tally.take_line(event));
        let mut lines: Vec<_> = lines.collect();
        // All times have the same format, so their texts sort as they do.
        lines.sort_by(|one, other| one.time.cmp(&other.time));
        let lost = AuditEvent { actor: AuditActor::default(), kind: AuditKind::EventsLost };
        let now = SystemTime::now();
        lines.extend(Tally { first: now, last: now, count: ended.lost }.take_line(lost));
        lines
    }
}

impl Tally {
    fn add(&mut self, time: SystemTime) {
        if self.count == 0 {
            self.first = time;
        }
        self.last = time;
        self.count += 1;
    }

    /// The line of an event that has happened since its last line.
    fn take_line(&mut self, event: AuditEvent) -> Option<AuditLine> {
        let count = std::mem::take(&mut self.count);
        (count > 0).then(|| AuditLine {
            time: timestamp_ms(self.first),
            until: (self.last > self.first).then(|| timestamp_ms(self.last)),
            pid: process::id(),
            event,
            count,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(session: &str, target: usize) -> AuditEvent {
        AuditEvent {
            actor: AuditActor { session: Some(session.to_owned()), ..AuditActor::default() },
            kind: AuditKind::NetworkRefused {
                rule: "loopback".to_owned(),
                denied_by: None,
                target: Some(format!("host{target}:80")),
            },
        }
    }

    fn total(lines: &[AuditLine]) -> u64 {
        lines.iter().map(|line| line.count).sum()
    }

    /// The first of equal events is written at once, the others as one line with their number and times.
    #[test]
    fn equal_events_are_counted() {
        let mut pending = PendingEvents::default();
        let start = Instant::now();
        let time = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        for second in 0..10_000 {
            assert!(pending.add(event("a", 1), time(second), start));
            if second == 0 {
                let fresh = pending.take_fresh();
                assert_eq!((fresh.len(), fresh[0].count, &fresh[0].until), (1, 1, &None));
            }
            assert!(!pending.has_fresh());
        }
        assert_eq!(pending.window_ends(), Some(start + WINDOW));
        let lines = pending.end_window();
        assert_eq!((lines.len(), lines[0].count), (1, 9_999));
        assert_eq!(lines[0].time, "1970-01-01T00:00:01.000Z");
        assert_eq!(lines[0].until.as_deref(), Some("1970-01-01T02:46:39.000Z"));
        assert_eq!(pending.window_ends(), None);
        pending.add(event("a", 1), time(0), start);
        assert!(pending.has_fresh(), "a new window has a line of its own");
    }

    /// A session with a new target for each request gets a bounded number of lines, and all its requests are counted;
    /// another session is not affected.
    #[test]
    fn targets_of_an_actor_are_bounded() {
        let mut pending = PendingEvents::default();
        let now = Instant::now();
        for target in 0..10_000 {
            assert!(pending.add(event("flood", target), SystemTime::now(), now));
        }
        assert!(pending.add(event("other", 1), SystemTime::now(), now));
        let lines = pending.end_window();
        assert_eq!((lines.len(), total(&lines)), (ACTOR_EVENTS_MAX + 2, 10_001));
        let rest = lines.iter().find(|line| line.event == event("flood", 0).without_target()).unwrap();
        assert_eq!(rest.count, 10_000 - ACTOR_EVENTS_MAX as u64);
        assert!(lines.iter().any(|line| line.event == event("other", 1)));
    }

    /// Beyond the room there is, events are lost, and a line says how many. What could not be written is among them.
    #[test]
    fn lost_events_are_told() {
        let mut pending = PendingEvents::default();
        let now = Instant::now();
        let kept = (0..EVENTS_MAX + 10)
            .filter(|n| pending.add(event(&format!("session {n}"), 1), SystemTime::now(), now));
        assert_eq!(kept.count(), EVENTS_MAX);
        pending.add_lost(5, now);
        let lines = pending.end_window();
        let last = lines.last().unwrap();
        assert_eq!((&last.event.kind, last.count), (&AuditKind::EventsLost, 15));
        assert_eq!(pending.end_window(), []);
        pending.add_lost(1, now);
        assert!(pending.window_ends().is_some(), "it is written without a further event");
    }
}
