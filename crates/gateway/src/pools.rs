//! Pools as programs see them: the answer of `browser_pool_status` and of `/api/pools`, field for field.
//!
//! An instance counts as leased when no slot of it is free, as available when it is healthy and one is. What another
//! version does not say is empty here, so that versions can ask each other.

use std::time::SystemTime;

use greenroom_fleet::{FleetError, Health, InstanceStatus, PoolStatus};
use serde::{Deserialize, Serialize};

use crate::time::timestamp_ms;

/// Pools, and their sums.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pools {
    pub pools: Vec<Pool>,
    pub summary: Summary,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Instance {
    /// Its number, as text.
    pub id: String,
    pub alias: Option<String>,
    /// `healthy`, `failed` or `starting`.
    pub status: String,
    pub leased: bool,
    /// Of the oldest lease that is out.
    pub lease_duration_ms: Option<u64>,
    pub lease_started_at: Option<String>,
    pub browser: String,
    pub headless: bool,
    pub process_id: Option<u32>,
    pub health_check: HealthCheck,
    pub slots: usize,
    pub leased_slots: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HealthCheck {
    /// `None` until it was looked at.
    pub last_check: Option<String>,
    pub responsive: bool,
    pub error: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
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
        let summary = Summary {
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
        // Where slots are free, the instance is not leased, whatever leases on other slots are out.
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

/// Why a pool cannot serve anybody, if it cannot: every instance has failed, and none is on its way. A pool that adds
/// instances by itself has none on its way until somebody asks.
pub(crate) fn without_hope(pool: &PoolStatus) -> Option<FleetError> {
    let failed = |instance: &InstanceStatus| instance.health == Health::Failed;
    if pool.elastic || !pool.instances.iter().all(failed) {
        return None;
    }
    let why = pool.instances.iter().find_map(|instance| instance.check.error.clone());
    Some(FleetError::NoHealthy { pool: pool.name.clone(), is_default: pool.is_default, why })
}
