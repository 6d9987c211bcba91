//! `session_renew`: restarts a session's time limit. Listed only where sessions have a maximum lifetime.

use greenroom_core::port::human;
use serde_json::json;

use super::OwnTool;

pub(super) const TOOL: OwnTool =
    OwnTool {
        name: "session_renew",
        description: "Extend a session's lifetime",
        session: Some("Which session"),
        needs_session: true,
        usable: |gateway, _| gateway.facts.max_lifetime.is_some(),
        run: |context| {
            Box::pin(async move {
                context.gateway.fleet.renew(context.owner(), &context.session_key().await?)?;
                let facts = &context.gateway.facts;
                let idle = human(facts.idle_timeout);
                Ok(json!(match facts.max_lifetime {
                    Some(lifetime) => format!(
                        "session renewed: it ends in {}, or after {idle} without a call",
                        human(lifetime)
                    ),
                    None => format!("session renewed: it ends after {idle} without a call"),
                })
                .into())
            })
        },
        ..OwnTool::DEFAULTS
    };
