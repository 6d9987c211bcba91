//! Which tabs of a seat crashed. One crash costs one tab; a seat whose tabs crash over and over is lost.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use greenroom_core::{
    Crash, Lost,
    port::{CRASHES_REPORTED_MAX, human},
};
use tokio::time::Instant;

/// After this many crashes within [`LOOP_WITHIN`] the seat is lost: its pages crash as fast as they are opened, and each of
/// them costs a renderer's start. An agent that retries a bad page a few times stays below this.
const LOOP_MAX: usize = 10;
const LOOP_WITHIN: Duration = Duration::from_secs(60);

/// The crashes of a seat's tabs so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Crashes {
    /// The total number of crashes.
    pub(crate) count: u64,
    /// The last crashes with their tabs' ids, oldest first; at most [`CRASHES_REPORTED_MAX`].
    recent: VecDeque<(String, Crash)>,
    /// The times of the last crashes; at most [`LOOP_MAX`].
    times: VecDeque<Instant>,
    /// When greenroom last ended a tab's page, for each reason. There are a few reasons.
    ends: HashMap<Arc<str>, Instant>,
    /// Set when crashes came too fast, or when greenroom gave the seat up.
    pub(crate) lost: Option<Lost>,
}

impl Crashes {
    pub(super) fn add(&mut self, tab: &str, url: &str, why: &str, now: Instant) {
        self.count += 1;
        self.recent.push_back((tab.to_owned(), Crash { url: url.into(), why: why.into() }));
        self.times.push_back(now);
        while self.recent.len() > CRASHES_REPORTED_MAX {
            self.recent.pop_front();
        }
        while self.times.len() > LOOP_MAX {
            self.times.pop_front();
        }
        let is_loop = self.times.len() == LOOP_MAX
            && self.times.front().is_some_and(|first| now.duration_since(*first) <= LOOP_WITHIN);
        if is_loop && self.lost.is_none() {
            self.lost = Some(Lost::Page(format!("{LOOP_MAX} times within {}", human(LOOP_WITHIN)).into()));
        }
    }

    /// greenroom has ended a tab's page.
    pub(super) fn ended_by_greenroom(&mut self, why: &Arc<str>, now: Instant) {
        self.ends.insert(why.clone(), now);
    }

    /// Whether greenroom has ended a tab's page for this reason since a time.
    pub(super) fn was_ended(&self, why: &str, since: Instant) -> bool {
        self.ends.get(why).is_some_and(|at| *at >= since)
    }

    /// greenroom gives the seat up. The first reason stays.
    pub(super) fn lose(&mut self, why: Lost) {
        self.lost.get_or_insert(why);
    }

    /// The crashes after the first `seen` ones, as far as they are remembered, with their tabs' ids.
    pub(crate) fn since(&self, seen: u64) -> impl Iterator<Item = (&str, &Crash)> {
        let new = usize::try_from(self.count.saturating_sub(seen)).unwrap_or(usize::MAX);
        let skipped = self.recent.len().saturating_sub(new);
        self.recent.iter().skip(skipped).map(|(tab, crash)| (tab.as_str(), crash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each crash is reported once, of many only the last few; crashes that come too fast are a loss, and slow ones are not.
    #[tokio::test(start_paused = true)]
    async fn crashes_are_reported_once_and_loops_are_losses() {
        let mut crashes = Crashes::default();
        for number in 0..30 {
            crashes.add("t", &format!("http://site/{number}"), "oom", Instant::now());
            tokio::time::advance(LOOP_WITHIN / 5).await;
        }
        assert_eq!((crashes.count, &crashes.lost), (30, &None));
        assert_eq!(crashes.since(30).count(), 0);
        assert_eq!(crashes.since(29).map(|(_, crash)| &*crash.url).collect::<Vec<_>>(), ["http://site/29"]);
        assert_eq!(crashes.since(0).count(), CRASHES_REPORTED_MAX);
        tokio::time::advance(LOOP_WITHIN).await;
        for _ in 0..LOOP_MAX {
            assert_eq!(crashes.lost, None);
            crashes.add("t", "http://site/", "oom", Instant::now());
            tokio::time::advance(LOOP_WITHIN / 20).await;
        }
        assert_eq!(crashes.lost.unwrap().to_string(), "the page crashed (10 times within 60 s)");
    }
}
