//! `session_close`: ends a session and its browser now.

use super::OwnTool;
use serde_json::json;

pub(super) const TOOL: OwnTool = OwnTool {
    name: "session_close",
    description: "Close a browser session and free its browser",
    session: Some("Which session"),
    needs_session: true,
    run: |context| {
        Box::pin(async move {
            let session_key = context.session_key().await?;
            context.forget_lost_session_note(&session_key);
            context.gateway.fleet.close(context.owner(), &session_key).await?;
            Ok(json!("session closed").into())
        })
    },
    is_core: true,
    ..OwnTool::DEFAULTS
};
