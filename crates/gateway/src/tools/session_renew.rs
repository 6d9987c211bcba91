//! `session_renew`: starts a session's time anew. Shown only where sessions have a maximum lifetime.

use greenroom_core::port::human;
use serde_json::json;

use super::OwnTool;

pub(super) const TOOL: OwnTool = OwnTool {
    name: "session_renew",
    description: "Extend a session's lifetime",
    session: Some("Which session"),
    read_only: false,
    usable: |gateway| gateway.facts.max_lifetime.is_some(),
    run: |context| {
        Box::pin(async move {
            let left = context.gateway.fleet.renew(context.owner(), &context.whose()?)?;
            Ok(json!(format!("session renewed: it ends in {} unless it is used", human(left))))
        })
    },
};
