//! The metrics for Prometheus. Calls count when they end, leases when they are granted; gauges are read from the fleet
//! at each scrape.
//!
//! Only configured names become labels: those of pools, and the numbers of instances, which each pool limits. Attached
//! browsers have metrics of their own ([`browser_metrics`]).

mod browser_metrics;

use std::{fmt, time::Duration};

use greenroom_core::InstanceId;
use greenroom_fleet::{CallLocation, Fleet, FleetError, Health, InstanceStatus, PoolStatus, Watcher};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram, info::Info},
    registry::{Registry, Unit},
};

use self::browser_metrics::{BrowserMetrics, CountedEvent};
use crate::browser_json::index_of;

/// Buckets of a call's duration, in seconds: from an answer of greenroom's own to the longest waits.
const SECONDS: [f64; 12] = [0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 90.0];

/// All metrics.
pub struct Metrics {
    registry: Registry,
    calls: Family<CallLabels, Counter>,
    seconds: Histogram,
    totals: ProcessGauges,
    pools: PoolMetrics,
    instances: InstanceMetrics,
    browsers: BrowserMetrics,
    network_refusals: Family<NetworkRefusalLabels, Counter>,
}

/// Metrics of the whole process.
struct ProcessGauges {
    sessions: Gauge,
    instances: Gauge,
    slots: Gauge,
    leased: Gauge,
    waiting: Gauge,
    spares: Gauge,
    clients: Gauge,
    audit_lost: Gauge,
}

/// Metrics of each pool.
struct PoolMetrics {
    waited: Family<PoolLabels, Histogram>,
    refused: Family<RefusalLabels, Counter>,
    waiting: Family<PoolLabels, Gauge>,
}

/// Metrics of each instance.
struct InstanceMetrics {
    leases: Family<InstanceLabels, Counter>,
    calls: Family<InstanceCallLabels, Counter>,
    restarts: Family<InstanceLabels, Counter>,
    slots: Family<InstanceLabels, Gauge>,
    leased: Family<InstanceLabels, Gauge>,
    healthy: Family<InstanceLabels, Gauge>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    tool: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PoolLabels {
    pool: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InstanceLabels {
    pool: String,
    instance: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InstanceCallLabels {
    pool: String,
    instance: u32,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    pool: String,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NetworkRefusalLabels {
    pool: String,
    rule: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("greenroom");
        let version = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "Version of greenroom", version);
        let calls = Family::<CallLabels, Counter>::default();
        registry.register("calls", "Tool calls that have ended", calls.clone());
        let seconds = Histogram::new(SECONDS);
        registry.register_with_unit(
            "call_duration",
            "How long tool calls took",
            Unit::Seconds,
            seconds.clone(),
        );
        let totals = ProcessGauges::new(&mut registry);
        let pools = PoolMetrics::new(&mut registry);
        let instances = InstanceMetrics::new(&mut registry);
        let browsers = BrowserMetrics::new(&mut registry);
        let network_refusals = Family::default();
        let help = "Connections of browsers that the network policy refused";
        registry.register("network_refusals", help, network_refusals.clone());
        Self { registry, calls, seconds, totals, pools, instances, browsers, network_refusals }
    }
}

impl Metrics {
    /// Counts a call that has ended. Only tools that exist are counted by name, so that a client cannot create labels
    /// without end.
    pub(crate) fn call(&self, tool: &str, fine: bool, took: Duration) {
        self.command(tool, fine);
        self.seconds.observe(took.as_secs_f64());
    }

    /// Counts a step of a bulk that has ended; its duration is unknown.
    pub(crate) fn command(&self, tool: &str, fine: bool) {
        self.calls.get_or_create(&CallLabels { tool: tool.to_owned(), outcome: outcome(fine) }).inc();
    }

    /// Counts a call of an engine's tool that has ended in this pool and instance.
    pub(crate) fn ran(&self, ran: &CallLocation, fine: bool) {
        self.ended(&ran.pool, ran.instance, outcome(fine));
    }

    fn ended(&self, pool: &str, instance: InstanceId, outcome: &'static str) {
        if let Some(index) = index_of(pool) {
            return self.browsers.count(index, CountedEvent::Call, outcome);
        }
        let InstanceLabels { pool, instance } = instance_labels(pool, instance);
        self.instances.calls.get_or_create(&InstanceCallLabels { pool, instance, outcome }).inc();
    }

    /// Counts a connection that the network policy refused. The rule is the word for its kind: a page chooses the target.
    pub fn network_refused(&self, pool: &str, rule: &'static str) {
        self.network_refusals.get_or_create(&NetworkRefusalLabels { pool: pool.to_owned(), rule }).inc();
    }

    /// Removes the metrics of an attached browser that was detached.
    pub(crate) fn forget_browser(&self, index: u32) {
        self.browsers.forget(index);
    }

    /// All metrics as text.
    pub fn text(&self, fleet: &Fleet, clients: usize, audit_lost: u64) -> String {
        let pools = fleet.pools();
        let ProcessGauges {
            sessions,
            instances,
            slots,
            leased,
            waiting,
            spares,
            clients: http_clients,
            audit_lost: lost,
        } = &self.totals;
        let sum = |figure: fn(&PoolStatus) -> usize| pools.iter().map(figure).sum();
        set(sessions, fleet.list_all().len());
        set(instances, sum(|pool| pool.instances.len()));
        set(slots, sum(|pool| pool.slots));
        set(leased, sum(|pool| pool.leased_slots));
        set(waiting, sum(|pool| pool.waiting));
        set(spares, sum(|pool| pool.spares));
        set(http_clients, clients);
        set(lost, usize::try_from(audit_lost).unwrap_or(usize::MAX));
        self.update_gauges(&pools);
        self.browsers.update_gauges(&fleet.browsers());
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    fn update_gauges(&self, pools: &[PoolStatus]) {
        // Clear these first: metrics of removed instances must not stay.
        let InstanceMetrics { slots, leased, healthy, .. } = &self.instances;
        for gauges in [slots, leased, healthy] {
            gauges.clear();
        }
        for pool in pools {
            let of_pool = PoolLabels { pool: pool.name.clone() };
            set(&self.pools.waiting.get_or_create(&of_pool), pool.waiting);
            for instance in &pool.instances {
                let InstanceStatus { id, health, slots: has, leased_slots, .. } = instance;
                let labels = instance_labels(&pool.name, *id);
                set(&slots.get_or_create(&labels), *has);
                set(&leased.get_or_create(&labels), *leased_slots);
                set(&healthy.get_or_create(&labels), usize::from(*health == Health::Healthy));
            }
        }
    }
}

impl ProcessGauges {
    fn new(registry: &mut Registry) -> Self {
        let mut gauge = |name: &str, help: &str| {
            let gauge = Gauge::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        Self {
            sessions: gauge("sessions", "Open sessions"),
            instances: gauge("instances", "Instances there are"),
            slots: gauge("slots", "Slots there can be"),
            leased: gauge("slots_leased", "Slots that are leased"),
            waiting: gauge("waiting", "Callers that wait for a slot"),
            spares: gauge("spares", "Open browsers that wait for a session"),
            clients: gauge("http_clients", "HTTP clients with a handshake"),
            audit_lost: gauge("audit_events_lost", "Events without a line in the audit log"),
        }
    }
}

impl PoolMetrics {
    fn new(registry: &mut Registry) -> Self {
        let waited = Family::new_with_constructor((|| Histogram::new(SECONDS)) as fn() -> Histogram);
        let help = "How long callers waited for a slot that they got";
        registry.register_with_unit("pool_lease_wait", help, Unit::Seconds, waited.clone());
        let refused = Family::default();
        registry.register("pool_leases_refused", "Callers that got no slot", refused.clone());
        let waiting = Family::default();
        registry.register("pool_waiting", "Callers that wait for a slot of the pool", waiting.clone());
        Self { waited, refused, waiting }
    }
}

impl InstanceMetrics {
    fn new(registry: &mut Registry) -> Self {
        let leases = Family::default();
        let calls = Family::default();
        let restarts = Family::default();
        registry.register("pool_leases", "Leases that were granted", leases.clone());
        registry.register("pool_calls", "Calls of engine tools that have ended", calls.clone());
        registry.register("pool_restarts", "Instances that were started again", restarts.clone());
        let slots = Family::default();
        let leased = Family::default();
        let healthy = Family::default();
        registry.register("pool_slots", "Slots of instances there are", slots.clone());
        registry.register("pool_slots_leased", "Slots of them that are leased", leased.clone());
        registry.register("pool_healthy", "Instances that are healthy", healthy.clone());
        Self { leases, calls, restarts, slots, leased, healthy }
    }
}

impl Watcher for Metrics {
    fn leased(&self, pool: &str, instance: InstanceId, waited: Duration) {
        if index_of(pool).is_some() {
            return;
        }
        self.instances.leases.get_or_create(&instance_labels(pool, instance)).inc();
        let of_pool = PoolLabels { pool: pool.to_owned() };
        self.pools.waited.get_or_create(&of_pool).observe(waited.as_secs_f64());
    }

    fn not_leased(&self, pool: &str, why: &FleetError, _: Duration) {
        if let Some(index) = index_of(pool) {
            return self.browsers.count(index, CountedEvent::Call, "refused");
        }
        let reason = match why {
            FleetError::Lease(_) => "timeout",
            FleetError::NoHealthy { .. } => "no_healthy_instance",
            FleetError::InstanceDown { .. } => "instance_down",
            FleetError::Start(_) => "start_failed",
            FleetError::Late(_) => "open_timeout",
            FleetError::ShuttingDown => "shutting_down",
            _ => "other",
        };
        self.pools.refused.get_or_create(&RefusalLabels { pool: pool.to_owned(), reason }).inc();
    }

    fn lost_call(&self, pool: &str, instance: InstanceId) {
        self.ended(pool, instance, "lost");
    }

    fn tried_to_connect(&self, browser: u32, is_made: bool) {
        self.browsers.count(browser, CountedEvent::Attempt, if is_made { "ok" } else { "failed" });
    }

    fn restarted(&self, pool: &str, instance: InstanceId) {
        // A browser counts its reconnects itself.
        if index_of(pool).is_some() {
            return;
        }
        self.instances.restarts.get_or_create(&instance_labels(pool, instance)).inc();
    }
}

fn instance_labels(pool: &str, instance: InstanceId) -> InstanceLabels {
    InstanceLabels { pool: pool.to_owned(), instance: instance.0 }
}

fn outcome(fine: bool) -> &'static str {
    if fine { "ok" } else { "error" }
}

fn set(gauge: &Gauge, value: usize) {
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}
