//! Metrics of attached browsers, by index and label. Events are counted by index; each scrape looks up the label.
//! Metrics of a removed browser disappear: otherwise a caller who may attach browsers could create labels without end.

use std::{collections::BTreeMap, sync::atomic::Ordering};

use greenroom_fleet::{BrowserState, BrowserStatus};
use parking_lot::{Mutex, MutexGuard};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::set;

/// Counts by index, figure and outcome.
type BrowserCounts = BTreeMap<u32, BTreeMap<(CountedEvent, &'static str), u64>>;

/// The counts of each browser, and the metrics that show them.
#[derive(Default)]
pub(super) struct BrowserMetrics {
    counted: Mutex<BrowserCounts>,
    states: Family<BrowserStateLabels, Gauge>,
    leased: Family<BrowserLabels, Gauge>,
    waiting: Family<BrowserLabels, Gauge>,
    reconnects: Family<BrowserLabels, Counter>,
    attempts: Family<BrowserOutcomeLabels, Counter>,
    calls: Family<BrowserOutcomeLabels, Counter>,
}

/// The figures that are counted, each by outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CountedEvent {
    Attempt,
    Call,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BrowserLabels {
    browser: u32,
    label: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BrowserStateLabels {
    browser: u32,
    label: String,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BrowserOutcomeLabels {
    browser: u32,
    label: String,
    outcome: &'static str,
}

const STATES: [BrowserState; 4] =
    [BrowserState::Pending, BrowserState::Connecting, BrowserState::Connected, BrowserState::Disconnected];

impl BrowserMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let all = Self::default();
        registry.register("browser_state", "1 for the state of an attached browser", all.states.clone());
        registry.register("browser_slots_leased", "Slots of it that are leased", all.leased.clone());
        registry.register("browser_waiting", "Callers that wait for it", all.waiting.clone());
        registry.register("browser_reconnects", "Connections made again", all.reconnects.clone());
        registry.register("browser_attempts", "Attempts to connect it that have ended", all.attempts.clone());
        registry.register("browser_calls", "Calls of engine tools there", all.calls.clone());
        all
    }

    fn counted(&self) -> MutexGuard<'_, BrowserCounts> {
        self.counted.lock()
    }

    pub(super) fn count(&self, index: u32, figure: CountedEvent, outcome: &'static str) {
        *self.counted().entry(index).or_default().entry((figure, outcome)).or_default() += 1;
    }

    pub(super) fn forget(&self, index: u32) {
        self.counted().remove(&index);
    }

    /// Updates the metrics from the counts and from these browsers' states.
    pub(super) fn update_gauges(&self, browsers: &[BrowserStatus]) {
        let Self { states, leased, waiting, reconnects, attempts, calls, .. } = self;
        states.clear();
        for gauges in [leased, waiting] {
            gauges.clear();
        }
        reconnects.clear();
        for counters in [attempts, calls] {
            counters.clear();
        }
        let counted = self.counted();
        for status in browsers {
            let browser = status.index;
            let label = status.label.clone().unwrap_or_default();
            let of = BrowserLabels { browser, label: label.clone() };
            for state in STATES {
                let in_state = BrowserStateLabels { browser, label: label.clone(), state: state.as_str() };
                set(&states.get_or_create(&in_state), usize::from(state == status.state));
            }
            set(&leased.get_or_create(&of), status.leased_slots);
            set(&waiting.get_or_create(&of), status.waiting);
            reconnects.get_or_create(&of).inner().store(status.reconnects, Ordering::Relaxed);
            for ((figure, outcome), count) in counted.get(&browser).into_iter().flatten() {
                let family = match figure {
                    CountedEvent::Attempt => attempts,
                    CountedEvent::Call => calls,
                };
                let ended = BrowserOutcomeLabels { browser, label: label.clone(), outcome };
                family.get_or_create(&ended).inner().store(*count, Ordering::Relaxed);
            }
        }
    }
}
