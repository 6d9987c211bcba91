//! greenroom's own tools, one file each. They cost tokens in every conversation, so they say little, and each is
//! shown only where it can be used.

mod browser_execute_bulk;
mod browser_pool_status;
mod create_new_session;
pub(crate) mod get_console_content;
mod get_content;
mod session_close;
mod session_list;
mod session_renew;

use std::sync::{Arc, OnceLock};

use greenroom_core::{Agent, BoxFuture, Fields, Owner, Permit, Raw, Records, raw::encode, settings::Scope};
use greenroom_fleet::Whose;
use serde::de::DeserializeOwned;
use serde_json::{Value, json, value::RawValue};

use crate::{
    Gateway,
    call::Caller,
    catalog::{Checker, INSTANCE, Invalid, POOL, SESSION_ID, Takes},
    rescue::{self, Failure},
    route::{Request, Selected},
    shape,
};

pub(crate) use session_list::state_name;

type Run = for<'a> fn(Context<'a>) -> BoxFuture<'a, Result<Said, Failure>>;

/// A tool of greenroom's own.
pub(crate) struct OwnTool {
    pub(crate) name: &'static str,
    description: &'static str,
    /// Whether it takes a `sessionId`, and if so what it says of it.
    session: Option<&'static str>,
    /// Whether it takes a pool and an instance to choose.
    places: bool,
    /// Its other parameters, as a JSON schema: `properties` and what else there is.
    schema: fn() -> Value,
    read_only: bool,
    /// Whether it runs tools of engines, and needs their list.
    pub(crate) runs_others: bool,
    /// Whether it is worth its tokens under this configuration.
    usable: fn(&Gateway) -> bool,
    run: Run,
}

/// What most tools have in common: a look at something, without arguments.
const BARE: OwnTool = OwnTool {
    name: "",
    description: "",
    session: None,
    places: false,
    schema: || json!({ "properties": {} }),
    read_only: false,
    runs_others: false,
    usable: |_| true,
    run: |_| Box::pin(async { Ok(Value::Null.into()) }),
};

const TOOLS: [&OwnTool; 8] = [
    &session_list::TOOL,
    &create_new_session::TOOL,
    &session_close::TOOL,
    &session_renew::TOOL,
    &browser_execute_bulk::TOOL,
    &browser_pool_status::TOOL,
    &get_content::TOOL,
    &get_console_content::TOOL,
];

/// What checks the arguments of each; made when first needed.
static CHECKERS: [OnceLock<Checker>; TOOLS.len()] = [const { OnceLock::new() }; TOOLS.len()];

/// What a tool answers.
pub(crate) struct Said {
    text: String,
    /// The same for programs, if that is promised.
    structured: Option<Raw>,
    notes: Vec<String>,
    /// It did not come to what was asked for, though there is something to say.
    pub(crate) failed: bool,
}

impl From<Value> for Said {
    fn from(value: Value) -> Self {
        let text = match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        Self::text(text)
    }
}

impl Said {
    fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), structured: None, notes: Vec::new(), failed: false }
    }

    pub(crate) fn to_result(&self) -> Raw {
        let mut result = Fields::default();
        result.set("content", encode(&json!([{ "type": "text", "text": self.text }])));
        if let Some(structured) = &self.structured {
            result.set("structuredContent", structured.clone());
        }
        if self.failed {
            result.set("isError", encode(&true));
        }
        shape::annotate(result.to_raw(), &self.notes)
    }
}

/// What a tool works with.
pub(crate) struct Context<'a> {
    gateway: &'a Gateway,
    caller: &'a Caller,
    permit: Permit,
    selected: Selected,
    /// As it came, selectors taken out, arguments checked.
    request: Request,
}

impl Context<'_> {
    fn owner(&self) -> &Owner {
        &self.caller.owner
    }

    /// What calls are kept by.
    fn records(&self) -> Result<&dyn Records, Failure> {
        self.gateway.recall.records.as_deref().ok_or_else(Failure::nothing_kept)
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

    /// The arguments. They were checked, so a failure here is a schema that says less than it should.
    fn arguments<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let text = self.request.arguments().map_or("{}", RawValue::get);
        serde_json::from_str(text).map_err(|error| {
            let invalid = Invalid::Wrong { name: "arguments".to_owned(), why: error.to_string() };
            Failure::invalid_arguments(&self.request.tool, &invalid)
        })
    }

    /// The session that is meant: the named one, or where connections have one, this connection's.
    fn whose(&self) -> Result<Whose, Failure> {
        match (&self.selected.session, self.gateway.scope, &self.caller.connection) {
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
    let shown = usable(gateway).filter(|tool| gateway.policy.shows(owner, tool.name));
    shown.map(|tool| tool.definition(gateway)).collect()
}

fn usable(gateway: &Gateway) -> impl Iterator<Item = &'static OwnTool> {
    TOOLS.into_iter().filter(|tool| (tool.usable)(gateway))
}

impl OwnTool {
    fn definition(&self, gateway: &Gateway) -> Raw {
        let mut schema = Fields::default();
        schema.set("type", encode("object"));
        let own = self.own_schema();
        let mut properties = own.read::<Fields>("properties").ok().flatten().unwrap_or_default();
        if let Some(description) = self.session {
            properties.set(SESSION_ID, encode(&json!({ "type": "string", "description": description })));
        }
        if self.places {
            gateway.catalog.shown().places().for_each(|(name, parameter)| properties.set(name, parameter));
        }
        for (name, value) in own.iter() {
            schema.set(name, value.to_owned());
        }
        schema.set("properties", properties.to_raw());
        schema.set("additionalProperties", encode(&false));
        encode(&json!({
            "name": self.name,
            "description": self.description,
            "inputSchema": schema,
            "annotations": { "readOnlyHint": self.read_only, "openWorldHint": self.runs_others },
        }))
    }

    fn own_schema(&self) -> Fields {
        Fields::open(&encode(&(self.schema)())).unwrap_or_default()
    }

    pub(crate) async fn run(
        &self,
        gateway: &Gateway,
        caller: &Caller,
        mut request: Request,
    ) -> Result<Said, Failure> {
        let permit = gateway.policy.permit(&caller.owner, self.name)?;
        let (session, places) = (self.session.is_some(), self.places);
        let takes =
            Takes { session, pool: places, instance: places, browser: places, wants: Default::default() };
        let selected = request.take_selectors(takes).map_err(|error| match rescue::unroutable(error) {
            Ok(failure) => failure,
            Err(_) => Failure::invalid_arguments(self.name, &Invalid::NotAnObject),
        })?;
        self.check(&request, gateway)?;
        (self.run)(Context { gateway, caller, permit, selected, request }).await
    }

    /// What is left of the arguments must be what the schema says.
    fn check(&self, request: &Request, gateway: &Gateway) -> Result<(), Failure> {
        let Some(place) = TOOLS.iter().position(|tool| tool.name == self.name) else { return Ok(()) };
        let checker = CHECKERS[place].get_or_init(|| {
            let mut schema = self.own_schema();
            schema.set("additionalProperties", encode(&false));
            Checker::new(&encode(&json!({ "inputSchema": schema })))
        });
        checker.check(request.arguments()).map_err(|mut invalid| {
            if let Invalid::Unknown { known, .. } = &mut invalid {
                known.extend(self.session.map(|_| SESSION_ID.to_owned()));
                let shown: Vec<_> = gateway.catalog.shown().places().map(|(name, _)| name).collect();
                let places = [POOL, INSTANCE].into_iter().filter(|name| self.places && shown.contains(name));
                known.extend(places.map(ToOwned::to_owned));
            }
            Failure::invalid_arguments(self.name, &invalid)
        })
    }
}
