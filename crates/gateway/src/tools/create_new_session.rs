//! `create_new_session`: opens a browser before the first call needs it, under an id of the agent's or ours.

use greenroom_core::SessionId;
use greenroom_fleet::{Target, Whose};
use serde_json::json;
use uuid::Uuid;

use super::OwnTool;
use crate::rescue::Failure;

pub(super) const TOOL: OwnTool = OwnTool {
    name: "create_new_session",
    description: "Open a new isolated browser; returns its sessionId",
    session: Some("An id of your choice"),
    read_only: false,
    usable: |_| true,
    run: |context| {
        Box::pin(async move {
            let id = match context.session.clone() {
                Some(id) => id,
                None => fresh()?,
            };
            context.knowingly(&Whose::Named(id.clone()));
            let agent = context.agent();
            context.gateway.fleet.create(context.permit, id.clone(), Target::default(), agent).await?;
            Ok(json!({ "sessionId": id }))
        })
    },
};

/// Eight hex digits of randomness: an agent repeats its id with every call, so a whole UUID would cost tokens.
fn fresh() -> Result<SessionId, Failure> {
    let text = Uuid::new_v4().simple().to_string();
    Ok(SessionId::new(text.get(..8).unwrap_or(&text))?)
}
