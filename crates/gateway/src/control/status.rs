//! `GET /control/status`: what the process is, and how full its pools are.

use std::{path::PathBuf, sync::Arc};

use axum::{Json, extract::State};
use greenroom_fleet::PoolStatus;
use serde::{Deserialize, Serialize};

use super::Control;
use crate::time::timestamp;

/// A process. What another version does not say is empty here, so that versions can ask each other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    pub version: String,
    pub pid: u32,
    /// `stdio` or `server`.
    pub kind: String,
    /// Where agents reach it, if that is an address.
    pub listen: Option<String>,
    pub data_folder: PathBuf,
    pub started_at: String,
    pub uptime_seconds: u64,
    pub pools: Vec<Pool>,
    /// How many sessions there are, of all owners.
    pub session_count: usize,
}

/// A pool's figures.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pool {
    pub name: String,
    pub instances: usize,
    pub leased: usize,
    pub slots: usize,
    pub waiting: usize,
    /// Open browsers that wait for a session. They are not among the leased.
    pub spares: usize,
}

pub(super) async fn show(State(control): State<Arc<Control>>) -> Json<Status> {
    let (identity, fleet) = (&control.identity, &control.gateway.fleet);
    Json(Status {
        version: identity.version.to_owned(),
        pid: std::process::id(),
        kind: identity.kind.as_str().to_owned(),
        listen: identity.listen.clone(),
        data_folder: identity.data_folder.clone(),
        started_at: timestamp(identity.started),
        uptime_seconds: identity.started_at.elapsed().as_secs(),
        pools: fleet.pools().into_iter().map(pool).collect(),
        session_count: fleet.list_all().len(),
    })
}

fn pool(status: PoolStatus) -> Pool {
    Pool {
        name: status.name,
        instances: status.instances.len(),
        leased: status.leased_slots,
        slots: status.slots,
        waiting: status.waiting,
        spares: status.spares,
    }
}
