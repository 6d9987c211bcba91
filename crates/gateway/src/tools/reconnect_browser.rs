//! `reconnect_browser`: connects an attached browser now, whatever happened to the last attempt, and runs its start
//! command if the configuration has one and the browser does not answer. A connected browser that answers stays as it
//! is.

use super::{OwnTool, ToolOutput, has_browsers};
use crate::{browser_json::Browser, error_response::ErrorResponse};

pub(super) const TOOL: OwnTool = OwnTool {
    name: "reconnect_browser",
    description: "Reconnect to an attached browser now",
    browser: true,
    usable: has_browsers,
    run: |context| {
        Box::pin(async move {
            let gateway = context.gateway;
            let fleet = &context.gateway.fleet;
            let index = context.browser()?.index.to_string();
            let again = fleet.reconnect_browser(&index).await;
            let status = again.map_err(|error| ErrorResponse::not_reconnected(gateway, &error))?;
            Ok(ToolOutput::text(Browser::from_status(fleet, status).line()))
        })
    },
    ..OwnTool::DEFAULTS
};
