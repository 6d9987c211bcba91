//! What is counted, for Prometheus. Calls are counted as they end; how full everything is, is looked up when asked.

use std::{fmt, time::Duration};

use greenroom_fleet::{Fleet, PoolStatus};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram, info::Info},
    registry::{Registry, Unit},
};

/// Bounds of the buckets of a call's time, in seconds: from an answer of greenroom's own to the longest waits.
const SECONDS: [f64; 12] = [0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 90.0];

/// What is counted.
pub struct Metrics {
    registry: Registry,
    calls: Family<Labels, Counter>,
    seconds: Histogram,
    sessions: Gauge,
    instances: Gauge,
    slots: Gauge,
    leased: Gauge,
    waiting: Gauge,
    spares: Gauge,
    clients: Gauge,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    tool: String,
    outcome: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("greenroom");
        let version = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "Which greenroom this is", version);
        let calls = Family::<Labels, Counter>::default();
        registry.register("calls", "Tool calls that have ended", calls.clone());
        let seconds = Histogram::new(SECONDS);
        registry.register_with_unit(
            "call_duration",
            "How long tool calls took",
            Unit::Seconds,
            seconds.clone(),
        );
        let mut gauge = |name: &str, help: &str| {
            let gauge = Gauge::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        let sessions = gauge("sessions", "Sessions there are");
        let instances = gauge("instances", "Instances that run");
        let slots = gauge("slots", "Slots there can be");
        let leased = gauge("slots_leased", "Slots that are lent");
        let waiting = gauge("waiting", "Callers that wait for a slot");
        let spares = gauge("spares", "Open browsers that wait for a session");
        let clients = gauge("http_clients", "HTTP clients that have introduced themselves");
        Self { registry, calls, seconds, sessions, instances, slots, leased, waiting, spares, clients }
    }
}

impl Metrics {
    /// A call has ended. Only tools that exist are counted by name, so that nobody can invent names without end.
    pub(crate) fn call(&self, tool: &str, fine: bool, took: Duration) {
        let outcome = if fine { "ok" } else { "error" };
        self.calls.get_or_create(&Labels { tool: tool.to_owned(), outcome }).inc();
        self.seconds.observe(took.as_secs_f64());
    }

    /// Everything, as text.
    pub fn text(&self, fleet: &Fleet, clients: usize) -> String {
        let pools = fleet.pools();
        let sum = |figure: fn(&PoolStatus) -> usize| pools.iter().map(figure).sum();
        let set = |gauge: &Gauge, value: usize| {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        set(&self.sessions, fleet.list_all().len());
        set(&self.instances, sum(|pool| pool.instances.len()));
        set(&self.slots, sum(|pool| pool.slots));
        set(&self.leased, sum(|pool| pool.leased_slots));
        set(&self.waiting, sum(|pool| pool.waiting));
        set(&self.spares, sum(|pool| pool.spares));
        set(&self.clients, clients);
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}
