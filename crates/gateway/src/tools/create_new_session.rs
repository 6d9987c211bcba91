//! `create_new_session`: opens a browser before the first call needs it, under an id that the agent or greenroom
//! chooses, in a pool and instance of its choice. Programs do the same over REST.

use greenroom_core::{Permit, SessionId, SessionUid, network::SessionNetwork, record::SessionRef};
use greenroom_fleet::{CallTarget, FleetError, SessionKey, SessionOptions};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use super::OwnTool;
use crate::{Gateway, caller::Caller, error_response::ErrorResponse, session_key::check_name};

pub(super) const TOOL: OwnTool = OwnTool {
    name: "create_new_session",
    description: "Open a new isolated browser; returns its sessionId",
    session: Some("An id of your choice"),
    takes_selectors: true,
    schema: || {
        let rules = json!({ "type": "array", "items": { "type": "string" } });
        json!({
            "properties": {
                "network": {
                    "type": "object",
                    "description": "Narrows what it may reach; rules are hosts, *.host, CIDR, :port",
                    "properties": {
                        "preset": { "enum": ["guarded"] },
                        "allow": rules,
                        "only": rules,
                        "deny": rules,
                    },
                    "additionalProperties": false,
                },
            },
        })
    },
    run: |context| {
        Box::pin(async move {
            let id = context.request.session.clone();
            let target = context.request.target.clone();
            let NewSessionArguments { network } = context.arguments()?;
            let options = SessionOptions { network };
            let opened = open(context.gateway, context.caller, context.permit, id, target, options).await?;
            let mut result = json!({ "sessionId": opened.id });
            if let Some(session) = opened.session {
                result["session_id"] = json!(session.uid);
            }
            Ok(result.into())
        })
    },
    ..OwnTool::DEFAULTS
};

/// The arguments besides `sessionId` and the selectors.
#[derive(Deserialize)]
struct NewSessionArguments {
    #[serde(default)]
    network: Option<SessionNetwork>,
}

/// A session that was opened.
pub(crate) struct OpenedSession {
    pub(crate) id: SessionId,
    /// The session as records name it.
    session: Option<SessionRef>,
}

/// Opens a session as the tool does, if the caller may use the tool.
pub(crate) async fn open_session(
    gateway: &Gateway,
    caller: &Caller,
    id: Option<SessionId>,
    target: CallTarget,
    options: SessionOptions,
) -> Result<OpenedSession, ErrorResponse> {
    let permit = gateway.policy.permit(&caller.owner, TOOL.name)?;
    open(gateway, caller, permit, id, target, options).await
}

async fn open(
    gateway: &Gateway,
    caller: &Caller,
    permit: Permit,
    id: Option<SessionId>,
    target: CallTarget,
    options: SessionOptions,
) -> Result<OpenedSession, ErrorResponse> {
    let id = match id {
        Some(id) => {
            check_name(&id)?;
            id
        }
        None => fresh()?,
    };
    let uid = SessionUid::parse(id.as_str());
    if uid.is_some_and(|uid| gateway.fleet.by_uid(&caller.owner, &uid).is_some()) {
        return Err(FleetError::Exists(id).into());
    }
    if let Some(connection) = caller.connection() {
        // The agent starts this session on purpose: it needs no note that an earlier one was lost.
        connection.take_lost_note(&SessionKey::Named(id.clone()));
    }
    let created = gateway.fleet.create(permit, id.clone(), target, options, caller.agent.clone()).await;
    let session = created.map_err(|error| ErrorResponse::from_fleet_error(gateway, &error))?;
    if let Some(session) = &session {
        // If recording fails, the answer to the session's first call says so.
        gateway.recall.session_began(&caller.owner, session).await;
    }
    Ok(OpenedSession { id, session })
}

/// Eight random hex digits: an agent repeats its id with every call, so a whole UUID would cost tokens.
fn fresh() -> Result<SessionId, ErrorResponse> {
    let text = Uuid::new_v4().simple().to_string();
    Ok(SessionId::new(text.get(..8).unwrap_or(&text))?)
}
