//! `disconnect_browser`: detaches a browser. The browser keeps running as it was; its index is not used
//! again.

use super::{OwnTool, ToolOutput};
use crate::{attach::NotAttached, catalog::AttachedCount, error_response::ErrorResponse};

pub(super) const TOOL: OwnTool = OwnTool {
    name: "disconnect_browser",
    description: "Detach a browser; it keeps running",
    browser: true,
    usable: |gateway, is_local| {
        gateway.attaching.allows(is_local) && gateway.catalog.shown().browsers != AttachedCount::None
    },
    run: |context| {
        Box::pin(async move {
            let gateway = context.gateway;
            if !gateway.attaching.allows(context.caller.is_local) {
                return Err(ErrorResponse::not_attached(gateway, &NotAttached::NotAllowed));
            }
            let index = context.browser()?.index;
            let left = gateway
                .detach(index)
                .await
                .map_err(|error| ErrorResponse::from_fleet_error(gateway, &error))?;
            Ok(ToolOutput::text(format!("browser {index} is no longer attached: {}", left.url)))
        })
    },
    ..OwnTool::DEFAULTS
};
