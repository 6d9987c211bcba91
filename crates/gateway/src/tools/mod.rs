//! greenroom's own tools, one file each. They cost tokens in every conversation, so their descriptions are short, and
//! each is listed only where it can be used.

mod browser_execute_bulk;
mod browser_pool_status;
mod connect_browser;
mod create_new_session;
mod disconnect_browser;
pub(crate) mod get_console_content;
mod get_content;
mod list_browsers;
pub(crate) mod more_tools;
mod reconnect_browser;
mod session_close;
mod session_list;
mod session_renew;

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use greenroom_core::{
    Agent, BoxFuture, Fields, Owner, Permit, Raw, Records,
    raw::encode,
    settings::{Scope, ToolProfile},
};
use greenroom_fleet::{BrowserStatus, SessionKey};
use serde::de::DeserializeOwned;
use serde_json::{Value, json, value::RawValue};

use crate::{
    Gateway,
    call_order::Turn,
    caller::Caller,
    catalog::{
        ArgumentChecker, AttachedCount, InjectedParameters, InvalidArguments, ListOptions, SESSION_ID, TAG,
        with_session_required,
    },
    error_response::{self, ErrorResponse},
    offload::offload_if_large,
    render,
    route::CallRequest,
    scope_table::tool_scope,
    session_key::named,
};

pub(crate) use create_new_session::open_session;
pub(crate) use session_list::{WHOLE_TEXT, first_within, state_name};

type RunTool = for<'a> fn(ToolContext<'a>) -> BoxFuture<'a, Result<ToolOutput, ErrorResponse>>;

/// One of greenroom's own tools.
pub(crate) struct OwnTool {
    pub(crate) name: &'static str,
    description: &'static str,
    /// The description of its `sessionId`; `None` if it takes none.
    session: Option<&'static str>,
    /// Whether it requires a session: it never creates one.
    needs_session: bool,
    /// Whether the caller can choose a pool and an instance, or an attached browser.
    takes_selectors: bool,
    /// Whether the caller can choose an attached browser, and nothing else.
    browser: bool,
    /// Its other parameters, as a JSON schema: `properties` and more keywords.
    schema: fn() -> Value,
    read_only: bool,
    /// Whether it runs tools of engines, and needs their list.
    runs_others: bool,
    /// Whether the profile `core` lists it.
    is_core: bool,
    /// Whether it is worth its tokens under this configuration. The flag says whether the client is this user on this
    /// machine.
    usable: fn(&Gateway, bool) -> bool,
    run: RunTool,
}

impl OwnTool {
    /// The default of every field: a tool without parameters, session and selectors.
    const DEFAULTS: Self = Self {
        name: "",
        description: "",
        session: None,
        needs_session: false,
        takes_selectors: false,
        browser: false,
        schema: || json!({ "properties": {} }),
        read_only: false,
        runs_others: false,
        is_core: false,
        usable: |_, _| true,
        run: |_| Box::pin(async { Ok(Value::Null.into()) }),
    };
}

const TOOLS: [&OwnTool; 13] = [
    &more_tools::TOOL,
    &session_list::TOOL,
    &create_new_session::TOOL,
    &session_close::TOOL,
    &session_renew::TOOL,
    &browser_execute_bulk::TOOL,
    &browser_pool_status::TOOL,
    &list_browsers::TOOL,
    &reconnect_browser::TOOL,
    &connect_browser::TOOL,
    &disconnect_browser::TOOL,
    &get_content::TOOL,
    &get_console_content::TOOL,
];

/// The checker of each tool's arguments; made when first needed.
static CHECKERS: [OnceLock<ArgumentChecker>; TOOLS.len()] = [const { OnceLock::new() }; TOOLS.len()];

/// A tool's answer.
pub(crate) struct ToolOutput {
    text: String,
    /// The same answer as JSON for programs, from tools that document it.
    structured: Option<Raw>,
    notes: Vec<String>,
    /// Whether the tool failed, although there is a text to show.
    pub(crate) failed: bool,
}

impl From<Value> for ToolOutput {
    fn from(value: Value) -> Self {
        let text = match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        Self::text(text)
    }
}

impl ToolOutput {
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
        render::annotate(result.to_raw(), &self.notes)
    }
}

/// One call of a tool, and what the tool needs to carry it out.
pub(crate) struct ToolContext<'a> {
    gateway: &'a Gateway,
    caller: &'a Caller,
    permit: Permit,
    /// The request, with selectors removed and arguments checked.
    request: CallRequest,
}

impl ToolContext<'_> {
    fn owner(&self) -> &Owner {
        &self.caller.owner
    }

    /// The store, if records are on.
    fn records(&self) -> Result<&dyn Records, ErrorResponse> {
        self.gateway.recall.records.as_deref().ok_or_else(ErrorResponse::records_off)
    }

    fn agent(&self) -> Arc<dyn Agent> {
        self.caller.agent.clone()
    }

    /// Drops the note that this session was lost with another server: the agent now ends or starts the session on
    /// purpose.
    fn forget_lost_session_note(&self, session_key: &SessionKey) {
        if let Some(connection) = self.caller.connection() {
            connection.take_lost_note(session_key);
        }
    }

    /// The arguments. They were checked, so an error here means that the schema is too loose.
    fn arguments<T: DeserializeOwned>(&self) -> Result<T, ErrorResponse> {
        let text = self.request.arguments().map_or("{}", RawValue::get);
        serde_json::from_str(text).map_err(|error| {
            let invalid = InvalidArguments::Wrong { name: "arguments".to_owned(), why: error.to_string() };
            ErrorResponse::invalid_arguments(&self.request.tool, &invalid)
        })
    }

    /// The attached browser that the caller means: the only one must not be named, one of several must.
    fn browser(&self) -> Result<BrowserStatus, ErrorResponse> {
        let chosen = self.gateway.fleet.chosen_browser(self.request.target.browser.as_deref());
        chosen.map_err(|error| ErrorResponse::from_fleet_error(self.gateway, &error))
    }

    /// The session that the caller means: the named one, or, where connections have one, this connection's own.
    async fn session_key(&self) -> Result<SessionKey, ErrorResponse> {
        match (&self.request.session, self.gateway.scope, self.caller.connection()) {
            (Some(id), _, _) => named(self.gateway, self.caller, id.clone()).await,
            (None, Scope::Connection, Some(connection)) => Ok(SessionKey::Connection(connection.id)),
            (None, _, _) => Err(ErrorResponse::which_session()),
        }
    }
}

/// The own tool of this name, listed or not.
pub(crate) fn find(name: &str) -> Option<&'static OwnTool> {
    TOOLS.into_iter().find(|tool| tool.name == name)
}

/// The names of the tools that a client can use. `is_local`: it is this user on this machine.
pub(crate) fn names(gateway: &Gateway, is_local: bool) -> impl Iterator<Item = &'static str> {
    usable(gateway, is_local).map(|tool| tool.name)
}

/// The definitions of these tools, as far as this owner may use them. `scope` says what a call without `sessionId`
/// means to the client, `is_listed` whether to return the tools that the profile lists or the others.
pub(crate) fn definitions(
    gateway: &Gateway,
    owner: &Owner,
    is_local: bool,
    scope: Scope,
    is_listed: bool,
) -> Vec<Raw> {
    let lists_all = gateway.catalog.profile() != ToolProfile::Core;
    let shown = usable(gateway, is_local)
        .filter(|tool| gateway.policy.shows(owner, tool.name) && (tool.is_core || lists_all) == is_listed);
    let parameters = gateway.catalog.shown();
    shown.map(|tool| tool.definition(&parameters, scope)).collect()
}

fn usable(gateway: &Gateway, is_local: bool) -> impl Iterator<Item = &'static OwnTool> {
    TOOLS.into_iter().filter(move |tool| (tool.usable)(gateway, is_local))
}

/// Whether browsers are attached, or can be.
fn has_browsers(gateway: &Gateway, is_local: bool) -> bool {
    gateway.catalog.shown().browsers != AttachedCount::None || gateway.attaching.allows(is_local)
}

impl OwnTool {
    fn definition(&self, shown: &ListOptions, scope: Scope) -> Raw {
        let mut schema = Fields::default();
        schema.set("type", encode("object"));
        let own = self.own_schema();
        let mut properties = own.read::<Fields>("properties").ok().flatten().unwrap_or_default();
        if let Some(description) = self.session {
            properties.set(SESSION_ID, encode(&json!({ "type": "string", "description": description })));
        }
        if !shown.tagged {
            properties.remove(TAG);
        }
        self.choices(shown).for_each(|(name, parameter)| properties.set(name, parameter));
        for (name, value) in own.iter() {
            schema.set(name, value.to_owned());
        }
        schema.set("properties", properties.to_raw());
        let mut definition = json!({
            "name": self.name,
            "description": self.description,
            "inputSchema": schema,
        });
        // Without this annotation MCP assumes that a tool changes something.
        if self.read_only {
            definition["annotations"] = json!({ "readOnlyHint": true });
        }
        let definition = encode(&definition);
        let required = scope == Scope::Explicit && self.needs_session;
        required.then(|| with_session_required(&definition)).flatten().unwrap_or(definition)
    }

    /// The parameters that choose where to run, as far as there is a choice.
    fn choices(&self, shown: &ListOptions) -> impl Iterator<Item = (&'static str, Raw)> {
        let selectors = self.takes_selectors.then(|| shown.selectors()).into_iter().flatten();
        selectors.chain(self.browser.then(|| shown.browser()).flatten())
    }

    fn own_schema(&self) -> Fields {
        Fields::open(&encode(&(self.schema)())).unwrap_or_default()
    }

    /// Runs the tool in its turn, and makes the result for an MCP client.
    pub(crate) async fn answer(
        &self,
        gateway: &Gateway,
        caller: &Caller,
        request: CallRequest,
        turn: Turn,
    ) -> Raw {
        if self.runs_others {
            // Wait within the turn, so that later calls do not overtake this one. If the list cannot be
            // fetched, the tool reports it.
            let _ = gateway.catalog.list().await;
        }
        let began = Instant::now();
        let outcome = turn.first_step(self.run(gateway, caller, request)).await;
        gateway.metrics.call(self.name, outcome.as_ref().is_ok_and(|output| !output.failed), began.elapsed());
        let _guard = offload_if_large(outcome.as_ref().map_or(0, |output| output.text.len())).await;
        outcome.map_or_else(|failure| failure.to_result(), |output| output.to_result())
    }

    pub(crate) async fn run(
        &self,
        gateway: &Gateway,
        caller: &Caller,
        mut request: CallRequest,
    ) -> Result<ToolOutput, ErrorResponse> {
        let scope = tool_scope(self.name);
        if !caller.scopes.has(scope) {
            return Err(ErrorResponse::missing_scope(self.name, scope));
        }
        let permit = gateway.policy.permit(&caller.owner, self.name)?;
        let all = self.takes_selectors;
        let injected = InjectedParameters {
            session: self.session.is_some(),
            pool: all,
            instance: all,
            browser: all || self.browser,
            response_options: Default::default(),
        };
        request.take_selectors(injected).map_err(|error| match error_response::unroutable(error) {
            Ok(failure) => failure,
            Err(_) => ErrorResponse::invalid_arguments(self.name, &InvalidArguments::NotAnObject),
        })?;
        self.check(&request, gateway)?;
        (self.run)(ToolContext { gateway, caller, permit, request }).await
    }

    /// Checks the remaining arguments against the schema.
    fn check(&self, request: &CallRequest, gateway: &Gateway) -> Result<(), ErrorResponse> {
        let Some(place) = TOOLS.iter().position(|tool| tool.name == self.name) else { return Ok(()) };
        let checker = CHECKERS[place].get_or_init(|| {
            let mut schema = self.own_schema();
            schema.set("additionalProperties", encode(&false));
            ArgumentChecker::new(&encode(&json!({ "inputSchema": schema })))
        });
        checker.check(request.arguments()).map_err(|mut invalid| {
            if let InvalidArguments::Unknown { known, .. } = &mut invalid {
                let shown = gateway.catalog.shown();
                known.retain(|name| name != TAG || shown.tagged);
                known.extend(self.session.map(|_| SESSION_ID.to_owned()));
                known.extend(self.choices(&shown).map(|(name, _)| name.to_owned()));
            }
            ErrorResponse::invalid_arguments(self.name, &invalid)
        })
    }
}
