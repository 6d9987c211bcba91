//! Pools as programs see them: the answer of `browser_pool_status` and of `/api/pools`, field for field.
//!
//! An instance counts as leased when none of its slots is free, and as available when it is healthy and a slot is free.
//! A field that another version does not send is empty here, so that versions can ask each other.

use std::time::SystemTime;

use greenroom_fleet::{FleetError, Health, InstanceStatus, PoolStatus};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use greenroom_core::time::timestamp_ms;

/// All pools, with totals.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Pools {
    pub pools: Vec<Pool>,
    pub summary: PoolSummary,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Pool {
    pub name: String,
    pub description: String,
    pub is_default: bool,
    pub total_instances: usize,
    pub healthy_instances: usize,
    pub leased_instances: usize,
    pub available_instances: usize,
    pub instances: Vec<Instance>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Instance {
    /// Its number, as text.
    pub id: String,
    pub alias: Option<String>,
    /// `healthy`, `failed` or `starting`.
    pub status: String,
    pub leased: bool,
    /// How long the instance's oldest current lease has lasted.
    pub lease_duration_ms: Option<u64>,
    pub lease_started_at: Option<String>,
    pub browser: String,
    pub headless: bool,
    pub process_id: Option<u32>,
    pub health_check: HealthCheck,
    pub slots: usize,
    pub leased_slots: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct HealthCheck {
    /// When the instance was last checked; `null` before the first check.
    pub last_check: Option<String>,
    pub responsive: bool,
    pub error: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct PoolSummary {
    pub total_pools: usize,
    pub total_instances: usize,
    pub healthy_instances: usize,
    pub failed_instances: usize,
    pub leased_instances: usize,
    pub available_instances: usize,
}

impl Pools {
    pub(crate) fn new(statuses: &[PoolStatus], now: SystemTime) -> Self {
        let pools: Vec<_> = statuses.iter().map(|status| Pool::new(status, now)).collect();
        let sum = |figure: fn(&Pool) -> usize| pools.iter().map(figure).sum();
        let failed = |pool: &Pool| pool.instances.iter().filter(|one| one.status == "failed").count();
        let summary = PoolSummary {
            total_pools: pools.len(),
            total_instances: sum(|pool| pool.total_instances),
            healthy_instances: sum(|pool| pool.healthy_instances),
            failed_instances: sum(failed),
            leased_instances: sum(|pool| pool.leased_instances),
            available_instances: sum(|pool| pool.available_instances),
        };
        Self { pools, summary }
    }
}

impl Pool {
    pub(crate) fn new(status: &PoolStatus, now: SystemTime) -> Self {
        let count = |is: fn(&InstanceStatus) -> bool| status.instances.iter().filter(|one| is(one)).count();
        Self {
            name: status.name.clone(),
            description: status.description.clone(),
            is_default: status.is_default,
            total_instances: status.instances.len(),
            healthy_instances: status.healthy(),
            leased_instances: count(InstanceStatus::is_leased),
            available_instances: count(InstanceStatus::is_available),
            instances: status.instances.iter().map(|instance| Instance::new(instance, now)).collect(),
        }
    }
}

impl Instance {
    fn new(status: &InstanceStatus, now: SystemTime) -> Self {
        let leased = status.is_leased();
        // An instance with a free slot does not count as leased, even if its other slots are.
        let since = status.leased_since.filter(|_| leased);
        let failed = status.health == Health::Failed;
        Self {
            id: status.id.to_string(),
            alias: status.alias.clone(),
            status: health(status.health).to_owned(),
            leased,
            lease_duration_ms: since.map(|since| {
                let passed = now.duration_since(since).unwrap_or_default().as_millis();
                u64::try_from(passed).unwrap_or(u64::MAX)
            }),
            lease_started_at: since.map(timestamp_ms),
            browser: status.browser.clone(),
            headless: status.headless,
            process_id: status.process_id.filter(|_| !failed),
            health_check: HealthCheck {
                last_check: status.check.last.map(timestamp_ms),
                responsive: status.check.responsive,
                error: status.check.error.clone(),
            },
            slots: status.slots,
            leased_slots: status.leased_slots,
        }
    }
}

/// A health as lists show it.
pub(crate) fn health(health: Health) -> &'static str {
    match health {
        Health::Healthy => "healthy",
        Health::Starting => "starting",
        Health::Failed => "failed",
    }
}

/// Why a pool can serve no caller, if it cannot: every instance has failed, and none is starting. An elastic pool
/// starts no instance until a caller asks for one.
pub(crate) fn all_failed(pool: &PoolStatus) -> Option<FleetError> {
    let failed = |instance: &InstanceStatus| instance.health == Health::Failed;
    if pool.elastic || !pool.instances.iter().all(failed) {
        return None;
    }
    let why = pool.instances.iter().find_map(|instance| instance.check.error.clone());
    Some(FleetError::NoHealthy { pool: pool.name.clone(), is_default: pool.is_default, why })
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenroom_core::InstanceId;
    use greenroom_fleet::Check;
    use std::time::Duration;

    /// 2026-01-02T10:15:30.123Z plus `ms` milliseconds.
    fn at(ms: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(1_767_348_930_123 + ms)
    }

    fn instance(id: u32, alias: Option<&str>, health: Health, leased: Option<u64>) -> InstanceStatus {
        InstanceStatus {
            id: InstanceId(id),
            alias: alias.map(ToOwned::to_owned),
            health,
            draining: false,
            slots: 1,
            leased_slots: usize::from(leased.is_some()),
            spares: 0,
            leased_since: leased.map(at),
            browser: "chromium".to_owned(),
            headless: true,
            process_id: Some(12_345 + id),
            check: Check { last: Some(at(1_333)), responsive: health == Health::Healthy, error: None },
            restarts: 0,
        }
    }

    fn pool(name: &str, is_default: bool, instances: Vec<InstanceStatus>) -> PoolStatus {
        PoolStatus {
            name: name.to_owned(),
            description: String::new(),
            is_default,
            elastic: false,
            drained: false,
            slots: instances.len(),
            leased_slots: 0,
            instances,
            spares: 0,
            waiting: 0,
            unproxied: false,
        }
    }

    fn sessionless() -> PoolStatus {
        let error = Some("Process exited unexpectedly (code 1)".to_owned());
        let check = Check { last: Some(at(0)), responsive: false, error };
        let failed = InstanceStatus { check, ..instance(2, None, Health::Failed, None) };
        let lazy = InstanceStatus {
            check: Check::default(),
            process_id: None,
            ..instance(3, None, Health::Starting, None)
        };
        let half = InstanceStatus { slots: 2, ..instance(4, None, Health::Healthy, Some(100)) };
        let instances = vec![
            instance(0, None, Health::Healthy, Some(0)),
            instance(1, Some("debug_browser"), Health::Healthy, None),
            failed,
            lazy,
            half,
        ];
        let description = "General web scraping and navigation".to_owned();
        PoolStatus { description, ..pool("SESSIONLESS", true, instances) }
    }

    /// Every field has its name and order, with null for what is unknown; an instance with a free slot is not leased,
    /// and a failed one has no process.
    #[test]
    fn pool_json_has_every_field() {
        let pools = Pools::new(&[sessionless()], at(1_523));
        let pool = serde_json::to_value(&pools.pools[0]).unwrap();
        let mut head = pool.as_object().unwrap().clone();
        let instances = head.shift_remove("instances").unwrap();
        assert_eq!(
            serde_json::to_string(&head).unwrap(),
            r#"{"name":"SESSIONLESS","description":"General web scraping and navigation","is_default":true,"total_instances":5,"healthy_instances":3,"leased_instances":1,"available_instances":2}"#
        );
        assert_eq!(
            instances[0].to_string(),
            r#"{"id":"0","alias":null,"status":"healthy","leased":true,"lease_duration_ms":1523,"lease_started_at":"2026-01-02T10:15:30.123Z","browser":"chromium","headless":true,"process_id":12345,"health_check":{"last_check":"2026-01-02T10:15:31.456Z","responsive":true,"error":null},"slots":1,"leased_slots":1}"#
        );
        assert_eq!(
            instances[2].to_string(),
            r#"{"id":"2","alias":null,"status":"failed","leased":false,"lease_duration_ms":null,"lease_started_at":null,"browser":"chromium","headless":true,"process_id":null,"health_check":{"last_check":"2026-01-02T10:15:30.123Z","responsive":false,"error":"Process exited unexpectedly (code 1)"},"slots":1,"leased_slots":0}"#
        );
        assert_eq!(instances[3]["status"], "starting");
        assert_eq!(instances[3]["health_check"]["last_check"], serde_json::Value::Null);
        let half = &instances[4];
        assert_eq!((&half["leased"], &half["leased_slots"]), (&false.into(), &1.into()));
        assert_eq!(half["lease_duration_ms"], serde_json::Value::Null);
    }

    /// The summary adds up the figures of the pools that are shown: all, or the one that was asked for.
    #[test]
    fn summary_adds_up_shown_pools() {
        let isolated = pool("ISOLATED", false, vec![instance(0, None, Health::Healthy, None)]);
        let all = Pools::new(&[sessionless(), isolated.clone()], at(0));
        assert_eq!(
            serde_json::to_string(&all.summary).unwrap(),
            r#"{"total_pools":2,"total_instances":6,"healthy_instances":4,"failed_instances":1,"leased_instances":1,"available_instances":3}"#
        );
        let one = Pools::new(&[isolated], at(0)).summary;
        assert_eq!((one.total_pools, one.total_instances), (1, 1));
    }

    /// A pool counts as down only when every instance has failed; its error has the documented text.
    #[test]
    fn pool_is_down_only_if_all_instances_failed() {
        let failed = || instance(0, None, Health::Failed, None);
        let says = |pool: PoolStatus| all_failed(&pool).map(|error| error.to_string());
        assert_eq!(
            says(pool("MAIN", true, vec![failed(), failed()])).unwrap(),
            "Default pool 'MAIN' has no healthy instances. Specify explicit pool or restart failed instances."
        );
        for other in [Health::Starting, Health::Healthy] {
            assert_eq!(says(pool("MAIN", true, vec![failed(), instance(1, None, other, None)])), None);
        }
        let elastic = PoolStatus { elastic: true, ..pool("DEFAULT", true, Vec::new()) };
        assert_eq!(says(elastic), None);
    }
}
