//! `/api/pools`: how pools are, and commands to them: another size, restarts, drains.

use std::{sync::Arc, time::SystemTime};

use axum::{
    Json, Router,
    body::Body,
    extract::{Path, State},
    http::HeaderMap,
    routing::{get, post},
};
use greenroom_core::{InstanceId, lease::INSTANCES_MAX};
use greenroom_fleet::{Fleet, FleetError, Health};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Problem, body};
use crate::{
    Gateway,
    pools::{Pool, Pools, without_hope},
};

/// What another size came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scaled {
    pub pool: String,
    pub from: usize,
    pub to: usize,
    /// Instances that leave when their leases are back.
    #[serde(default)]
    pub draining: Vec<String>,
}

/// Which instances a command reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    pub pool: String,
    #[serde(default)]
    pub instances: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Size {
    instances: usize,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    /// A number or an alias; all of them without.
    #[serde(default)]
    instance: Option<Name>,
}

/// Instances are numbered, and programs write numbers.
#[derive(Deserialize)]
#[serde(untagged)]
enum Name {
    Text(String),
    Number(u32),
}

impl Which {
    fn text(self) -> Option<String> {
        self.instance.map(|name| match name {
            Name::Text(text) => text,
            Name::Number(number) => number.to_string(),
        })
    }
}

type Door = State<Arc<Gateway>>;

pub(super) fn routes() -> Router<Arc<Gateway>> {
    Router::new()
        .route("/pools", get(list))
        .route("/pools/{name}", get(show))
        .route("/pools/{name}/health", get(health))
        .route("/pools/{name}/scale", post(scale))
        .route("/pools/{name}/restart", post(restart))
        .route("/pools/{name}/drain", post(drain))
}

async fn list(State(gateway): Door) -> Json<Pools> {
    Json(Pools::new(&gateway.fleet.pools(), SystemTime::now()))
}

async fn show(State(gateway): Door, Path(name): Path<String>) -> Result<Json<Pool>, Problem> {
    Ok(Json(Pool::new(&gateway.fleet.pool(&name)?, SystemTime::now())))
}

/// Whether the pool can serve anybody. One whose instances are on their way will.
async fn health(State(gateway): Door, Path(name): Path<String>) -> Result<Json<Value>, Problem> {
    let pool = gateway.fleet.pool(&name)?;
    if let Some(error) = without_hope(&pool) {
        return Err(error.into());
    }
    let starting =
        !pool.instances.is_empty() && pool.instances.iter().all(|one| one.health != Health::Healthy);
    Ok(Json(json!({ "status": if starting { "starting" } else { "ok" } })))
}

async fn scale(
    State(gateway): Door,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Scaled>, Problem> {
    let size = body::read::<Size>(&headers, body).await?;
    let Some(Size { instances }) = size else {
        return Err(Problem::bad_body("the body must say how many: `{\"instances\": 3}`"));
    };
    if !(1..=INSTANCES_MAX).contains(&instances) {
        return Err(Problem::bad_body(format!("`instances` must be 1 to {INSTANCES_MAX}: `{instances}`")));
    }
    let scaled = gateway.fleet.scale(&name, instances)?;
    let draining = scaled.draining.iter().map(ToString::to_string).collect();
    Ok(Json(Scaled { pool: name, from: scaled.from, to: scaled.to, draining }))
}

async fn restart(
    State(gateway): Door,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Changed>, Problem> {
    tell(&gateway.fleet, name, &headers, body, Fleet::restart).await
}

async fn drain(
    State(gateway): Door,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Changed>, Problem> {
    tell(&gateway.fleet, name, &headers, body, Fleet::drain).await
}

type Order = fn(&Fleet, &str, Option<&str>) -> Result<Vec<InstanceId>, FleetError>;

/// Gives an order to the instance that the body names, or to all of the pool.
async fn tell(
    fleet: &Fleet,
    pool: String,
    headers: &HeaderMap,
    body: Body,
    order: Order,
) -> Result<Json<Changed>, Problem> {
    let which = body::read::<Which>(headers, body).await?.unwrap_or_default().text();
    let told = order(fleet, &pool, which.as_deref())?;
    Ok(Json(Changed { pool, instances: told.iter().map(ToString::to_string).collect() }))
}
