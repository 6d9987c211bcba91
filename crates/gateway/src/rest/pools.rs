//! `/api/pools`: the state of pools, and commands to them: resize, restart, drain.

use std::time::SystemTime;

use axum::{Json, body::Body, extract::State, http::HeaderMap};
use greenroom_core::{InstanceId, lease::INSTANCES_MAX};
use greenroom_fleet::{Fleet, FleetError, Health};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Problem, RestContext, RestState, body,
    input::PathName,
    problem::{BadRequest, BodyTooLarge, Conflict, NotFound, NotJson, Unavailable},
};
use crate::pools::{Pool, Pools, all_failed};

/// The result of scaling a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScaleResult {
    pub pool: String,
    pub from: usize,
    pub to: usize,
    /// Instances that leave when their leases are back.
    #[serde(default)]
    pub draining: Vec<String>,
}

/// Which instances a command reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CommandedInstances {
    pub pool: String,
    #[serde(default)]
    pub instances: Vec<String>,
}

/// Whether a pool can serve calls.
#[derive(Serialize, ToSchema)]
struct PoolHealth {
    /// `ok`, or `starting`.
    status: &'static str,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ScaleRequest {
    #[serde(deserialize_with = "body::whole")]
    #[schema(minimum = 1, maximum = 1_024)]
    instances: usize,
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct InstanceSelector {
    /// A number or an alias; all of them without.
    #[serde(default)]
    instance: Option<InstanceName>,
}

/// Instances are numbered, and programs write numbers.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
enum InstanceName {
    Text(String),
    Number(#[serde(deserialize_with = "body::whole")] u32),
}

impl InstanceSelector {
    fn text(self) -> Option<String> {
        self.instance.map(|name| match name {
            InstanceName::Text(text) => text,
            InstanceName::Number(number) => number.to_string(),
        })
    }
}

pub(super) fn routes() -> OpenApiRouter<RestState> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(health))
        .routes(routes!(scale))
        .routes(routes!(restart))
        .routes(routes!(drain))
}

/// All pools, and their sums
#[utoipa::path(get, operation_id = "list_pools", path = "/pools", tag = "pools", responses((status = 200, body = Pools)))]
async fn list(State(rest_state): RestContext) -> Json<Pools> {
    Json(Pools::new(&rest_state.gateway.fleet.pools(), SystemTime::now()))
}

/// One pool
#[utoipa::path(
    get, operation_id = "show_pool", path = "/pools/{name}", tag = "pools", params(("name" = String, Path)),
    responses((status = 200, body = Pool), BadRequest, NotFound)
)]
async fn show(State(rest_state): RestContext, PathName(name): PathName) -> Result<Json<Pool>, Problem> {
    Ok(Json(Pool::new(&rest_state.gateway.fleet.pool(&name)?, SystemTime::now())))
}

/// Whether the pool can serve calls
///
/// One whose instances are on their way will.
#[utoipa::path(
    get, operation_id = "pool_health", path = "/pools/{name}/health", tag = "pools", params(("name" = String, Path)),
    responses((status = 200, body = PoolHealth), BadRequest, NotFound, Unavailable)
)]
async fn health(
    State(rest_state): RestContext,
    PathName(name): PathName,
) -> Result<Json<PoolHealth>, Problem> {
    let pool = rest_state.gateway.fleet.pool(&name)?;
    if let Some(error) = all_failed(&pool) {
        return Err(error.into());
    }
    let starting =
        !pool.instances.is_empty() && pool.instances.iter().all(|one| one.health != Health::Healthy);
    Ok(Json(PoolHealth { status: if starting { "starting" } else { "ok" } }))
}

/// More instances, or fewer
///
/// No lease that is out is cut.
#[utoipa::path(
    post, operation_id = "scale_pool", path = "/pools/{name}/scale", tag = "pools", params(("name" = String, Path)), request_body = ScaleRequest,
    responses((status = 200, body = ScaleResult), BadRequest, NotFound, Conflict, BodyTooLarge, NotJson, Unavailable)
)]
async fn scale(
    State(rest_state): RestContext,
    PathName(name): PathName,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<ScaleResult>, Problem> {
    let size = body::read::<ScaleRequest>(&headers, body, body::COMMAND).await?;
    let Some(ScaleRequest { instances }) = size else {
        return Err(Problem::bad_body("the body must say how many: `{\"instances\": 3}`"));
    };
    if !(1..=INSTANCES_MAX).contains(&instances) {
        return Err(Problem::bad_body(format!("`instances` must be 1 to {INSTANCES_MAX}: `{instances}`")));
    }
    let scaled = rest_state.gateway.fleet.scale(&name, instances)?;
    let draining = scaled.draining.iter().map(ToString::to_string).collect();
    Ok(Json(ScaleResult { pool: name, from: scaled.from, to: scaled.to, draining }))
}

/// Starts instances again
///
/// Failed ones now, running ones when their leases are back; all of the pool unless one is named.
#[utoipa::path(
    post, operation_id = "restart_pool", path = "/pools/{name}/restart", tag = "pools", params(("name" = String, Path)), request_body = Option<InstanceSelector>,
    responses((status = 200, body = CommandedInstances), BadRequest, NotFound, Conflict, BodyTooLarge, NotJson, Unavailable)
)]
async fn restart(
    State(rest_state): RestContext,
    PathName(name): PathName,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<CommandedInstances>, Problem> {
    tell(&rest_state.gateway.fleet, name, &headers, body, Fleet::restart).await
}

/// Lends no more of instances, and stops them when their leases are back
///
/// All of the pool unless one is named.
#[utoipa::path(
    post, operation_id = "drain_pool", path = "/pools/{name}/drain", tag = "pools", params(("name" = String, Path)), request_body = Option<InstanceSelector>,
    responses((status = 200, body = CommandedInstances), BadRequest, NotFound, Conflict, BodyTooLarge, NotJson, Unavailable)
)]
async fn drain(
    State(rest_state): RestContext,
    PathName(name): PathName,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<CommandedInstances>, Problem> {
    tell(&rest_state.gateway.fleet, name, &headers, body, Fleet::drain).await
}

type InstanceCommand = fn(&Fleet, &str, Option<&str>) -> Result<Vec<InstanceId>, FleetError>;

/// Gives an order to the instance that the body names, or to the whole pool.
async fn tell(
    fleet: &Fleet,
    pool: String,
    headers: &HeaderMap,
    body: Body,
    order: InstanceCommand,
) -> Result<Json<CommandedInstances>, Problem> {
    let which = body::read::<Option<InstanceSelector>>(headers, body, body::COMMAND)
        .await?
        .flatten()
        .unwrap_or_default()
        .text();
    let commanded = order(fleet, &pool, which.as_deref())?;
    Ok(Json(CommandedInstances { pool, instances: commanded.iter().map(ToString::to_string).collect() }))
}
