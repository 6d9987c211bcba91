//! greenroom's own tools, one file each. They cost tokens in every conversation, so they say little, and each is
//! shown only where it can be used.

mod create_new_session;
mod session_close;
mod session_list;
mod session_renew;

use std::sync::Arc;

use greenroom_core::{Agent, BoxFuture, Fields, Owner, Permit, Raw, SessionId, raw::encode, settings::Scope};
use greenroom_fleet::Whose;
use serde_json::{Value, json, value::RawValue};

use crate::{
    Gateway,
    call::Caller,
    catalog::Invalid,
    rescue::{self, Failure},
    route::Request,
};

pub(crate) use session_list::state_name;

type Run = for<'a> fn(Context<'a>) -> BoxFuture<'a, Result<Value, Failure>>;

/// A tool of greenroom's own.
pub(crate) struct OwnTool {
    pub(crate) name: &'static str,
    description: &'static str,
    /// Whether it takes a `sessionId`, and if so what it says of it.
    session: Option<&'static str>,
    read_only: bool,
    /// Whether it is worth its tokens under this configuration.
    usable: fn(&Gateway) -> bool,
    run: Run,
}

const TOOLS: [&OwnTool; 4] =
    [&session_list::TOOL, &create_new_session::TOOL, &session_close::TOOL, &session_renew::TOOL];

/// What a tool works with.
pub(crate) struct Context<'a> {
    gateway: &'a Gateway,
    caller: &'a Caller,
    permit: Permit,
    session: Option<SessionId>,
}

impl Context<'_> {
    fn owner(&self) -> &Owner {
        &self.caller.owner
    }

    fn agent(&self) -> Arc<dyn Agent> {
        self.caller.agent.clone()
    }

    /// The agent ends or begins this session knowingly: nothing is to be said of what became of it elsewhere.
    fn knowingly(&self, whose: &Whose) {
        if let Some(connection) = &self.caller.connection {
            connection.takes_leave_of(whose);
        }
    }

    /// The session that is meant: the named one, or where connections have one, this connection's.
    fn whose(&self) -> Result<Whose, Failure> {
        match (&self.session, self.gateway.scope, &self.caller.connection) {
            (Some(id), _, _) => Ok(Whose::Named(id.clone())),
            (None, Scope::Connection, Some(connection)) => Ok(Whose::Connection(connection.id)),
            (None, _, _) => Err(Failure::which_session()),
        }
    }
}

/// The own tool of this name, shown here or not.
pub(crate) fn find(name: &str) -> Option<&'static OwnTool> {
    TOOLS.into_iter().find(|tool| tool.name == name)
}

pub(crate) fn names(gateway: &Gateway) -> impl Iterator<Item = &'static str> {
    usable(gateway).map(|tool| tool.name)
}

/// Their definitions, as far as this owner may use them.
pub(crate) fn definitions(gateway: &Gateway, owner: &Owner) -> Vec<Raw> {
    usable(gateway).filter(|tool| gateway.policy.shows(owner, tool.name)).map(OwnTool::definition).collect()
}

fn usable(gateway: &Gateway) -> impl Iterator<Item = &'static OwnTool> {
    TOOLS.into_iter().filter(|tool| (tool.usable)(gateway))
}

impl OwnTool {
    fn definition(&self) -> Raw {
        let mut properties = Fields::default();
        if let Some(description) = self.session {
            properties.set("sessionId", encode(&json!({ "type": "string", "description": description })));
        }
        encode(&json!({
            "name": self.name,
            "description": self.description,
            "inputSchema": { "type": "object", "properties": properties, "additionalProperties": false },
            "annotations": { "readOnlyHint": self.read_only, "openWorldHint": false },
        }))
    }

    pub(crate) async fn run(
        &self,
        gateway: &Gateway,
        caller: &Caller,
        mut request: Request,
    ) -> Result<Raw, Failure> {
        let permit = gateway.policy.permit(&caller.owner, self.name)?;
        let session = match self.session {
            Some(_) => request.take_session().map_err(|error| match rescue::unroutable(error) {
                Ok(failure) => failure,
                Err(_) => Failure::invalid_arguments(self.name, &Invalid::NotAnObject),
            })?,
            None => None,
        };
        self.check(request.arguments())?;
        let value = (self.run)(Context { gateway, caller, permit, session }).await?;
        let text = match &value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Ok(encode(&json!({ "content": [{ "type": "text", "text": text }] })))
    }

    /// What is left of the arguments must be nothing.
    fn check(&self, arguments: Option<&RawValue>) -> Result<(), Failure> {
        let Some(arguments) = arguments else { return Ok(()) };
        let known = if self.session.is_some() { vec!["sessionId".to_owned()] } else { Vec::new() };
        let invalid = match Fields::open(arguments) {
            Err(_) => Invalid::NotAnObject,
            Ok(fields) => match fields.names().next() {
                None => return Ok(()),
                Some(name) => Invalid::Unknown { name: name.to_owned(), known },
            },
        };
        Err(Failure::invalid_arguments(self.name, &invalid))
    }
}
