//! `/api/pools`: the state of pools, and commands to them: resize, restart, drain.

use std::time::SystemTime;

use axum::{Json, body::Body, http::HeaderMap};
use greenroom_core::{InstanceId, lease::INSTANCES_MAX};
use greenroom_fleet::{Fleet, FleetError, Health};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    RestContext, RestError, RestState, body,
    input::PathName,
    rest_error::{BadRequest, BodyTooLarge, Conflict, NotFound, NotJson, Unavailable},
};
use crate::pool_json::{Pool, Pools, all_failed};

/// The result of a change of the number of instances.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScaleResult {
    pub pool: String,
    pub from: usize,
    pub to: usize,
    /// The instances that stop when their last session ends.
    #[serde(default)]
    pub draining: Vec<String>,
}

/// The instances to which a command applies.
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
    /// An instance, by its number or its alias; all instances of the pool if absent.
    #[serde(default)]
    instance: Option<InstanceName>,
}

/// An instance: its number or its alias.
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

/// List all pools, with totals
#[utoipa::path(get, operation_id = "list_pools", path = "/pools", tag = "pools", responses((status = 200, body = Pools)))]
async fn list(RestContext(rest_state): RestContext) -> Json<Pools> {
    Json(Pools::new(&rest_state.gateway.fleet.pools_for(&rest_state.owner), SystemTime::now()))
}

/// Show one pool
#[utoipa::path(
    get, operation_id = "show_pool", path = "/pools/{name}", tag = "pools", params(("name" = String, Path)),
    responses((status = 200, body = Pool), BadRequest, NotFound)
)]
async fn show(
    RestContext(rest_state): RestContext,
    PathName(name): PathName,
) -> Result<Json<Pool>, RestError> {
    Ok(Json(Pool::new(&rest_state.gateway.fleet.pool_for(&rest_state.owner, &name)?, SystemTime::now())))
}

/// Check whether a pool can serve calls
///
/// The status is 200 also while instances of the pool start.
#[utoipa::path(
    get, operation_id = "pool_health", path = "/pools/{name}/health", tag = "pools", params(("name" = String, Path)),
    responses((status = 200, body = PoolHealth), BadRequest, NotFound, Unavailable)
)]
async fn health(
    RestContext(rest_state): RestContext,
    PathName(name): PathName,
) -> Result<Json<PoolHealth>, RestError> {
    let pool = rest_state.gateway.fleet.pool(&name)?;
    if let Some(error) = all_failed(&pool) {
        return Err(error.into());
    }
    let starting =
        !pool.instances.is_empty() && pool.instances.iter().all(|one| one.health != Health::Healthy);
    Ok(Json(PoolHealth { status: if starting { "starting" } else { "ok" } }))
}

/// Change the number of instances of a pool
///
/// Sessions keep their browsers: an instance that must go stops when its last session ends.
#[utoipa::path(
    post, operation_id = "scale_pool", path = "/pools/{name}/scale", tag = "pools", params(("name" = String, Path)), request_body = ScaleRequest,
    responses((status = 200, body = ScaleResult), BadRequest, NotFound, Conflict, BodyTooLarge, NotJson, Unavailable)
)]
async fn scale(
    RestContext(rest_state): RestContext,
    PathName(name): PathName,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<ScaleResult>, RestError> {
    let size = body::read::<ScaleRequest>(&headers, body, body::COMMAND).await?;
    let Some(ScaleRequest { instances }) = size else {
        return Err(RestError::bad_body("the body must say how many: `{\"instances\": 3}`"));
    };
    if !(1..=INSTANCES_MAX).contains(&instances) {
        return Err(RestError::bad_body(format!("`instances` must be 1 to {INSTANCES_MAX}: `{instances}`")));
    }
    let scaled = rest_state.gateway.fleet.scale(&name, instances)?;
    let draining = scaled.draining.iter().map(ToString::to_string).collect();
    Ok(Json(ScaleResult { pool: name, from: scaled.from, to: scaled.to, draining }))
}

/// Restart instances
///
/// greenroom restarts a failed instance at once, and a running one when its last session has ended. Without
/// `instance` it restarts all instances of the pool.
#[utoipa::path(
    post, operation_id = "restart_pool", path = "/pools/{name}/restart", tag = "pools", params(("name" = String, Path)), request_body = Option<InstanceSelector>,
    responses((status = 200, body = CommandedInstances), BadRequest, NotFound, Conflict, BodyTooLarge, NotJson, Unavailable)
)]
async fn restart(
    RestContext(rest_state): RestContext,
    PathName(name): PathName,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<CommandedInstances>, RestError> {
    run_command(&rest_state.gateway.fleet, name, &headers, body, Fleet::restart).await
}

/// Drain instances: they take no new sessions, and stop when their last session has ended
///
/// Without `instance` this drains all instances of the pool.
#[utoipa::path(
    post, operation_id = "drain_pool", path = "/pools/{name}/drain", tag = "pools", params(("name" = String, Path)), request_body = Option<InstanceSelector>,
    responses((status = 200, body = CommandedInstances), BadRequest, NotFound, Conflict, BodyTooLarge, NotJson, Unavailable)
)]
async fn drain(
    RestContext(rest_state): RestContext,
    PathName(name): PathName,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<CommandedInstances>, RestError> {
    run_command(&rest_state.gateway.fleet, name, &headers, body, Fleet::drain).await
}

type InstanceCommand = fn(&Fleet, &str, Option<&str>) -> Result<Vec<InstanceId>, FleetError>;

/// Runs a command on the instance that the body names, or on the whole pool.
async fn run_command(
    fleet: &Fleet,
    pool: String,
    headers: &HeaderMap,
    body: Body,
    command: InstanceCommand,
) -> Result<Json<CommandedInstances>, RestError> {
    let which = body::read::<Option<InstanceSelector>>(headers, body, body::COMMAND)
        .await?
        .flatten()
        .unwrap_or_default()
        .text();
    let commanded = command(fleet, &pool, which.as_deref())?;
    Ok(Json(CommandedInstances { pool, instances: commanded.iter().map(ToString::to_string).collect() }))
}
