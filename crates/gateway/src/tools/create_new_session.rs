//! `create_new_session`: opens a browser before the first call needs it, under an id of the agent's or ours, in a pool
//! and instance of its choice.

use greenroom_core::{SessionId, SessionUid};
use greenroom_fleet::{FleetError, Whose};
use serde_json::json;
use uuid::Uuid;

use super::{BARE, OwnTool};
use crate::rescue::Failure;

pub(super) const TOOL: OwnTool = OwnTool {
    name: "create_new_session",
    description: "Open a new isolated browser; returns its sessionId",
    session: Some("An id of your choice"),
    places: true,
    run: |context| {
        Box::pin(async move {
            let id = match context.selected.session.clone() {
                Some(id) => id,
                None => fresh()?,
            };
            let gateway = context.gateway;
            let uid = SessionUid::parse(id.as_str());
            if uid.is_some_and(|uid| gateway.fleet.by_uid(context.owner(), &uid).is_some()) {
                return Err(FleetError::Exists(id).into());
            }
            context.knowingly(&Whose::Named(id.clone()));
            let owner = context.owner().clone();
            let (agent, target) = (context.agent(), context.selected.target.clone());
            let created = gateway.fleet.create(context.permit, id.clone(), target, agent).await;
            let session = created.map_err(|error| Failure::of(gateway, &error))?;
            let mut said = json!({ "sessionId": id });
            if let Some(session) = session {
                said["session_id"] = json!(session.uid);
                // That it is not recorded is told with its first call.
                gateway.recall.session_began(&owner, &session).await;
            }
            Ok(said.into())
        })
    },
    ..BARE
};

/// Eight hex digits of randomness: an agent repeats its id with every call, so a whole UUID would cost tokens.
fn fresh() -> Result<SessionId, Failure> {
    let text = Uuid::new_v4().simple().to_string();
    Ok(SessionId::new(text.get(..8).unwrap_or(&text))?)
}
