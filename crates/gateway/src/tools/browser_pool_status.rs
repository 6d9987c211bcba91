//! `browser_pool_status`: the pools, their instances, and their state. Listed where pools are declared, answered
//! everywhere.

use std::time::SystemTime;

use greenroom_core::raw;
use serde::Deserialize;
use serde_json::json;

use super::{OwnTool, ToolContext, ToolOutput};
use crate::{error_response::ErrorResponse, pool_json::Pools};

pub(super) const TOOL: OwnTool = OwnTool {
    name: "browser_pool_status",
    description: "Health and leases of browser pools and instances",
    schema: || json!({ "properties": { "pool_name": { "type": "string", "description": "Only this pool" } } }),
    read_only: true,
    usable: |gateway, _| gateway.facts.declared,
    run: |context| Box::pin(async move { run(&context) }),
    ..OwnTool::DEFAULTS
};

#[derive(Default, Deserialize)]
struct PoolStatusArguments {
    #[serde(default)]
    pool_name: Option<String>,
}

fn run(context: &ToolContext<'_>) -> Result<ToolOutput, ErrorResponse> {
    let fleet = &context.gateway.fleet;
    let arguments: PoolStatusArguments = context.arguments()?;
    let statuses = match arguments.pool_name {
        Some(name) => vec![
            fleet
                .pool_for(context.owner(), &name)
                .map_err(|error| ErrorResponse::from_fleet_error(context.gateway, &error))?,
        ],
        None => fleet.pools_for(context.owner()),
    };
    let pools = raw::encode(&Pools::new(&statuses, SystemTime::now()));
    Ok(ToolOutput::text(pools.get()))
}
