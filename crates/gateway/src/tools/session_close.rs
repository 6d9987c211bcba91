//! `session_close`: ends a session and its browser now.

use super::{BARE, OwnTool};
use serde_json::json;

pub(super) const TOOL: OwnTool = OwnTool {
    name: "session_close",
    description: "Close a browser session and free its browser",
    session: Some("Which session"),
    needs_session: true,
    run: |context| {
        Box::pin(async move {
            let whose = context.whose().await?;
            context.knowingly(&whose);
            context.gateway.fleet.close(context.owner(), &whose).await?;
            Ok(json!("session closed").into())
        })
    },
    ..BARE
};
