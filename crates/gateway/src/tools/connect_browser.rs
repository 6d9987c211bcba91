//! `connect_browser`: attaches a running browser by its debugger's address. Listed for callers that may attach
//! browsers, refused to others.

use greenroom_core::settings::EngineKind;
use serde_json::json;

use super::{OwnTool, ToolOutput};
use crate::{
    attach::{AttachRequest, NotAttached},
    browser_json::Browser,
    error_response::ErrorResponse,
};

pub(super) const TOOL: OwnTool = OwnTool {
    name: "connect_browser",
    description: "Attach a running browser by its debugger URL",
    schema: || {
        let engines = EngineKind::all().filter(|engine| engine.attaches()).map(EngineKind::as_str);
        json!({
            "properties": {
                "url": { "type": "string", "description": "http://host:port or ws://…" },
                "label": { "type": "string" },
                "tags": { "type": "array", "items": { "type": "string" } },
                "engine": { "enum": engines.collect::<Vec<_>>() },
            },
            "required": ["url"],
        })
    },
    usable: |gateway, is_local| gateway.attaching.allows(is_local),
    run: |context| {
        Box::pin(async move {
            let gateway = context.gateway;
            let request: AttachRequest = context.arguments()?;
            let attached = match gateway.attaching.allows(context.caller.is_local) {
                true => gateway.connect_browser(&request).await,
                false => Err(NotAttached::NotAllowed),
            };
            let status = attached.map_err(|error| ErrorResponse::not_attached(gateway, &error))?;
            Ok(ToolOutput::text(Browser::from_status(&gateway.fleet, status).line()))
        })
    },
    ..OwnTool::DEFAULTS
};
