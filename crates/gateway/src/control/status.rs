//! `GET /control/status`: the process, how full its pools are, and the state of its attached browsers.

use std::{path::PathBuf, sync::Arc, time::SystemTime};

use axum::{Json, extract::State};
use greenroom_fleet::{InstanceStatus, PoolStatus};
use serde::{Deserialize, Serialize};

use super::Control;
use greenroom_core::time::timestamp;

use crate::{
    browser_json::{Browser, Browsers},
    pool_json::health,
};

/// A process. A field that another version does not send is empty here, so that versions can ask each other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProcessStatus {
    pub version: String,
    pub pid: u32,
    /// `stdio` or `server`.
    pub kind: String,
    /// The address at which agents reach it, if it has one.
    pub listen: Option<String>,
    pub data_folder: PathBuf,
    /// After how long without sessions, clients and commands it ends by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_exit_seconds: Option<u64>,
    pub started_at: String,
    pub uptime_seconds: u64,
    pub pools: Vec<PoolReport>,
    /// Attached browsers.
    pub browsers: Vec<Browser>,
    /// How many sessions there are, of all owners.
    pub session_count: usize,
}

/// A pool's figures.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolReport {
    pub name: String,
    pub description: String,
    pub is_default: bool,
    /// Instances come and go as they are needed.
    pub elastic: bool,
    /// A command drained the whole pool: it leases no slot until it is restarted.
    pub drained: bool,
    /// How many instances there are.
    pub instances: usize,
    pub healthy: usize,
    /// Instances with a slot that can be leased now.
    pub available: usize,
    /// Slots that are leased.
    pub leased: usize,
    pub slots: usize,
    pub waiting: usize,
    /// Open browsers that wait for a session. They do not count as leased.
    pub spares: usize,
    pub restarts: u64,
    /// No proxy of greenroom stands between some browser of the pool and the network: no network policy holds there.
    pub unproxied: bool,
    /// The instances, by number.
    pub members: Vec<InstanceReport>,
}

/// An instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceReport {
    pub id: u32,
    pub alias: Option<String>,
    /// `healthy`, `starting` or `failed`.
    pub status: String,
    /// It leases no more slots, and stops when its last lease is back.
    pub draining: bool,
    pub slots: usize,
    pub leased: usize,
    pub spares: usize,
    /// How long ago the oldest of its current leases began.
    pub leased_seconds: Option<u64>,
    pub browser: String,
    pub headless: bool,
    pub process_id: Option<u32>,
    pub restarts: u64,
    /// Whether it answered the last health check; empty before the first.
    pub responsive: Option<bool>,
    pub error: Option<String>,
}

pub(super) async fn show(State(control): State<Arc<Control>>) -> Json<ProcessStatus> {
    let identity = &control.identity;
    let fleet = &control.gateway.fleet;
    Json(ProcessStatus {
        version: identity.version.to_owned(),
        pid: std::process::id(),
        kind: identity.kind.as_str().to_owned(),
        listen: identity.listen.clone(),
        data_folder: identity.data_folder.clone(),
        idle_exit_seconds: identity.idle_exit.map(|after| after.as_secs()),
        started_at: timestamp(identity.started),
        uptime_seconds: identity.started_at.elapsed().as_secs(),
        pools: fleet.pools().into_iter().map(pool).collect(),
        browsers: Browsers::list(fleet).browsers,
        session_count: fleet.list_all().len(),
    })
}

fn pool(status: PoolStatus) -> PoolReport {
    let now = SystemTime::now();
    PoolReport {
        instances: status.instances.len(),
        healthy: status.healthy(),
        available: status.instances.iter().filter(|instance| instance.is_available()).count(),
        restarts: status.instances.iter().map(|instance| instance.restarts).sum(),
        members: status.instances.into_iter().map(|one| instance(one, now)).collect(),
        name: status.name,
        description: status.description,
        is_default: status.is_default,
        elastic: status.elastic,
        drained: status.drained,
        leased: status.leased_slots,
        slots: status.slots,
        waiting: status.waiting,
        spares: status.spares,
        unproxied: status.unproxied,
    }
}

fn instance(status: InstanceStatus, now: SystemTime) -> InstanceReport {
    let since = |then: SystemTime| now.duration_since(then).unwrap_or_default().as_secs();
    InstanceReport {
        id: status.id.0,
        alias: status.alias,
        status: health(status.health).to_owned(),
        draining: status.draining,
        slots: status.slots,
        leased: status.leased_slots,
        spares: status.spares,
        leased_seconds: status.leased_since.map(since),
        browser: status.browser,
        headless: status.headless,
        process_id: status.process_id,
        restarts: status.restarts,
        responsive: status.check.last.map(|_| status.check.responsive),
        error: status.check.error,
    }
}
