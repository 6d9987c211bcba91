//! The one place where errors become answers: a stable code, whether to try again, a message, and what to do.
//!
//! An error on which an agent can act is a failed tool result, so that its model reads it. Only a mistake of the
//! client's program is a JSON-RPC error.

mod attached;

use greenroom_core::{
    ApiScope, ConnectionId, InvalidSessionId, PolicyRefusal, Raw, RefId, SessionId, StartError,
    excerpt::echoed, plural, port::human, raw::encode, record::Summary, time::timestamp,
};
use greenroom_fleet::{FleetError, LeaseTimeout, NotChosen};
use greenroom_mcp::{RpcError, error::INVALID_PARAMS};
use serde_json::json;

use crate::{
    Gateway,
    catalog::InvalidArguments,
    recall::{pages::PageError, response_options::InvalidOption},
    route::Unroutable,
};

/// How many lease holders a message names: enough to find one that can be closed.
const HOLDERS_MAX: usize = 5;

/// The message for a call that still runs when the server stops. All fronts use this text.
pub(crate) const STOPPING: &str =
    "greenroom is stopping, and the call was cut off; whether it took effect is unknown";

/// An error before it becomes an answer.
#[derive(Debug)]
pub(crate) struct ErrorResponse {
    code: &'static str,
    message: String,
    hint: Option<String>,
    /// Whether the same call may succeed if the client just repeats it.
    retryable: bool,
}

impl ErrorResponse {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, retryable: false }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    fn retryable(mut self) -> Self {
        self.retryable = true;
        self
    }

    /// `sessionId` is missing where it is required.
    pub(crate) fn session_required() -> Self {
        Self::new("session_required", "missing argument: `sessionId`")
            .hint("choose an id for your own browser, any text will do, and give it with every call")
    }

    /// The call asks for changes, but has no session whose pages could be compared.
    pub(crate) fn nothing_to_compare() -> Self {
        let message = "`mode: \"diff\"` compares with the snapshot before it in the same session, and this call has none";
        Self::new("session_required", message).hint(
            "give a `sessionId` of your choice, with the calls before this one too; or leave `mode` out for the whole snapshot",
        )
    }

    /// A program uses a parameter that only agents use.
    pub(crate) fn agent_only_parameter(is_other_session: bool) -> Self {
        let message = match is_other_session {
            true => "`sessionId` in `params` is not the call's `session_id`",
            false => "`params` says how an agent would be answered: programs read answers by their `ref_id`",
        };
        Self::new("invalid_arguments", message)
            .hint("leave `sessionId`, `mode`, `responses`, `pictures` and the parameters of pages out")
    }

    /// `session_id` is missing in a program's call.
    pub(crate) fn program_session_required() -> Self {
        Self::new("session_required", "missing: `session_id`")
            .hint("choose an id for your own browser, any text will do, and give it with every call")
    }

    /// `sessionId` is missing in a stateless request.
    pub(crate) fn stateless() -> Self {
        Self::new(
            "session_required",
            "missing argument: `sessionId`; requests of this protocol revision share nothing",
        )
        .hint("give a sessionId of your choice with every call, or get one from create_new_session")
    }

    /// The UUID names a session that has ended.
    pub(crate) fn session_over(id: &SessionId, name: &str) -> Self {
        let failure = Self::new("session_over", format!("the session takes no calls: `{id}`; it is closed"));
        match ConnectionId::is_session_name(name) {
            true => failure.hint("choose another id for a new browser"),
            false => failure.hint(format!("its name opens a new browser: `{name}`")),
        }
    }

    /// The UUID names another connection's own session.
    pub(crate) fn session_of_a_connection(id: &SessionId) -> Self {
        let message = format!("the session takes no calls: `{id}`; it is a connection's own");
        Self::new("session_over", message).hint("choose an id for your own browser")
    }

    /// The name is that of a connection's own session.
    pub(crate) fn reserved_session_name(id: &SessionId) -> Self {
        let message = format!("sessionId cannot be `{id}`: that is the number of a connection's own session");
        Self::new("invalid_session_id", message)
            .hint("choose any other text; a connection's own session is meant by leaving `sessionId` out")
    }

    /// The request needs a custom server, but its session has a browser.
    pub(crate) fn not_a_server(method: &str, pool: &str) -> Self {
        Self::new(
            "invalid_arguments",
            format!("`{method}`: this session lives in pool \"{pool}\", whose engine has no such method"),
        )
        .hint("name another session, or none")
    }

    /// The request changes the state of a session, so it needs a session that stays.
    pub(crate) fn lasting_session_required(method: &str, named_by: &str) -> Self {
        Self::new("session_required", format!("`{method}` needs a session that stays"))
            .hint(format!("name one, any text will do: \"_meta\": {{\"{named_by}\": \"…\"}}"))
    }

    /// It is unclear which session a session tool means.
    pub(crate) fn which_session() -> Self {
        Self::new("session_required", "missing argument: `sessionId`")
            .hint("session_list shows what there is")
    }

    pub(crate) fn invalid_arguments(tool: &str, invalid: &InvalidArguments) -> Self {
        let failure = Self::new("invalid_arguments", format!("{invalid} (tool \"{tool}\")"));
        match invalid.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }

    /// The failed result for a tool that no engine has. The free function [`unknown_tool`] makes the JSON-RPC
    /// error.
    pub(crate) fn unknown_tool(name: &str, suggestion: Option<&str>) -> Self {
        Self::new("unknown_tool", unknown_tool(name, suggestion).message)
    }

    /// A tool that cannot be a step of a bulk.
    pub(crate) fn not_in_bulk(message: impl Into<String>) -> Self {
        Self::new("invalid_arguments", message)
    }

    /// The same failure, of the command `index` of a bulk: all commands are checked before the first runs.
    pub(crate) fn in_command(mut self, index: usize) -> Self {
        self.message = format!("commands[{index}]: {}; no command was run", self.message);
        self.retryable = false;
        self
    }

    /// An error of the fleet, with hints that fit the configuration.
    pub(crate) fn from_fleet_error(gateway: &Gateway, error: &FleetError) -> Self {
        Self::fleet(error, gateway.facts.declared)
    }

    /// Another owner's call has this `ref_id`.
    pub(crate) fn request_id_taken(ref_id: &RefId) -> Self {
        Self::new("request_id_taken", format!("`request_id` is in use: `{ref_id}`"))
            .hint("choose a random UUID")
    }

    /// The caller has given this `ref_id` to another call.
    pub(crate) fn request_id_reused(first: &Summary) -> Self {
        let message = format!(
            "the call was not made: its `request_id` is that of another call, `{}`: tool \"{}\" at {}, with its own arguments",
            first.ref_id,
            first.tool,
            timestamp(first.at)
        );
        Self::new("request_id_reused", message)
            .hint("choose a random UUID for each call, and repeat it only with the same tool and arguments")
    }

    /// A call with this `ref_id` began, and its end was not recorded.
    pub(crate) fn call_interrupted(ref_id: &RefId) -> Self {
        let message = format!(
            "the call has no end: `{ref_id}`; greenroom ended while it ran, and whether it took effect is not known"
        );
        Self::new("call_interrupted", message).hint("look at the page, then call under another `request_id`")
    }

    /// The store cannot say whether a call with this `ref_id` was made before.
    pub(crate) fn records_unavailable(why: &str) -> Self {
        Self::new(
            "records_unavailable",
            format!("the call was not made: its `request_id` cannot be kept: {why}"),
        )
        .hint("send it again later")
        .retryable()
    }

    /// For a REST client, in cases in which an MCP client gets a JSON-RPC error.
    pub(crate) fn invalid_request(message: String) -> Self {
        Self::new("invalid_request", message)
    }

    pub(crate) fn code(&self) -> &'static str {
        self.code
    }

    /// Whether the call may have begun. If so, this error is the call's outcome; otherwise nothing ran.
    pub(crate) fn may_have_run(&self) -> bool {
        matches!(self.code, "session_lost" | "not_run" | "session_closed" | "browser_removed")
    }

    /// Records are switched off.
    pub(crate) fn records_off() -> Self {
        Self::new("records_off", "calls are not recorded here")
            .hint("the operator can set `records.enabled = true`")
    }

    pub(crate) fn no_record(message: String) -> Self {
        Self::new("no_record", message).hint(
            "a ref_id stands at the end of the answer it belongs to; old records are removed after a while",
        )
    }

    pub(crate) fn not_ended(message: String) -> Self {
        Self::new("not_ended", message).hint("wait for its answer").retryable()
    }

    pub(crate) fn unreadable(message: String) -> Self {
        Self::new("records_unreadable", message).hint("the operator's `greenroom db stats` may say more")
    }

    pub(crate) fn too_many_calls(max: usize) -> Self {
        Self::new("too_many_calls", format!("too many calls at once on this connection: {max} are in flight"))
            .hint("wait for some of them to be answered")
            .retryable()
    }

    /// The call is done, but its client reads too slowly for another big answer to wait.
    pub(crate) fn unread_answers(bytes: usize) -> Self {
        let message = format!(
            "the call was carried out, but its answer of {bytes} bytes was dropped: this client has too many unread answers"
        );
        Self::new("unread_answers", message).hint("read the answers to earlier calls first")
    }

    /// The text that the agent reads.
    pub(crate) fn text(&self) -> String {
        let hint = self.hint.as_ref().map(|hint| format!("\n\nhint: {hint}")).unwrap_or_default();
        format!("{}{hint}", self.message)
    }

    pub(crate) fn to_result(&self) -> Raw {
        encode(&json!({
            "content": [{ "type": "text", "text": self.text() }],
            "isError": true,
            "_meta": { "greenroom/error": { "code": self.code, "retryable": self.retryable } },
        }))
    }
}

impl ErrorResponse {
    /// `declared`: pools are declared one by one, rather than the built-in one that grows by itself.
    fn fleet(error: &FleetError, declared: bool) -> Self {
        let failure = |code| Self::new(code, error.to_string());
        match error {
            FleetError::Lease(timeout) => failure("lease_timeout").hint(pool_full_hint(timeout, declared)).retryable(),
            FleetError::Start(start) => match &start.hint {
                Some(hint) => failure("start_failed").hint(hint),
                None => failure("start_failed").hint(
                    "run `greenroom doctor`; nothing is remembered of this failure, the next call tries again",
                ),
            },
            FleetError::Late(_) => failure("open_timeout")
                .hint("the call had no effect; the browser is busy or does not answer, and the next call may get another")
                .retryable(),
            FleetError::Lost(_) => failure("session_lost").hint(
                "whether the call had its effect is not known; the next call begins with a new, empty page",
            ),
            FleetError::NotRun(_) => failure("not_run")
                .hint("it had no effect; the next call begins with a new, empty page")
                .retryable(),
            FleetError::Closed => {
                failure("session_closed").hint("a call with the same sessionId starts a new session")
            }
            FleetError::TooManySessions { .. } => failure("session_limit")
                .hint("use one of your sessions, or close one with session_close; session_list shows them")
                .retryable(),
            FleetError::TooManyCalls { .. } => {
                failure("call_limit").hint("wait for some of your calls to be answered").retryable()
            }
            FleetError::TooManyWaitingCalls { .. } => failure("waiting_limit")
                .hint("wait for some of your calls to be answered, or close a session that you do not need")
                .retryable(),
            FleetError::QueueFull { .. } => {
                failure("queue_full").hint("wait for earlier calls, or use another sessionId").retryable()
            }
            FleetError::LineFull { .. } => failure("line_full")
                .hint("wait a while, or name another pool; the operator can raise INSTANCES or SLOTS")
                .retryable(),
            FleetError::NoSession(_) => failure("no_session")
                .hint("session_list, or `greenroom sessions` in a shell, shows what there is"),
            FleetError::NoConnectionSession => {
                failure("no_session").hint("give a `sessionId`; session_list shows what there is")
            }
            FleetError::Exists(_) => {
                failure("session_exists").hint("use it, close it with session_close, or choose another id")
            }
            FleetError::NoPool { known, .. } if known.is_empty() => {
                Self::new("no_such_pool", format!("Invalid pool name in browser_pool: {error}")).hint("there are no pools here: leave `browser_pool` out")
            }
            FleetError::NoPool { .. } => {
                Self::new("no_such_pool", format!("Invalid pool name in browser_pool: {error}")).hint("leave `browser_pool` out for the default pool")
            }
            FleetError::NoInstance { .. } => {
                Self::new("no_such_instance", format!("Instance not found in pool: {error}")).hint("leave `browser_instance` out for whichever is free first")
            }
            FleetError::NoHealthy { pool, why, .. } => {
                let why = why.as_ref().map(|why| format!("its last failure: {why}; ")).unwrap_or_default();
                failure("no_healthy_instance").hint(format!("{why}`greenroom pool restart {pool}` starts it again"))
            }
            FleetError::InstanceDown { .. } => failure("instance_down")
                .hint("leave `browser_instance` out for whichever is free first, or try again when it is back")
                .retryable(),
            FleetError::Elsewhere { .. } => failure("session_elsewhere")
                .hint("leave `browser_pool`, `browser_instance` and `browserIndex` out, or choose another sessionId"),
            FleetError::NotFixed { .. } => {
                failure("not_fixed").hint("`pool.instances_max` is how many there may be at most")
            }
            FleetError::NotYours { .. } => failure("not_yours").hint("use another pool"),
            FleetError::NotChosen(NotChosen::OnlyOne | NotChosen::NoneAttached) => {
                failure("browser_index").hint("leave `browserIndex` out")
            }
            FleetError::NotChosen(NotChosen::Required { known } | NotChosen::Unknown { known, .. }) => {
                let instead = if declared { "; `browser_pool` names a pool instead" } else { "" };
                let known = known.join(", ");
                failure("browser_index")
                    .hint(format!("`browserIndex` is one of {known}; list_browsers shows them{instead}"))
            }
            FleetError::NotChosen(NotChosen::Nowhere) => {
                failure("no_browser").hint("connect_browser attaches one, where that is allowed")
            }
            FleetError::NotChosen(NotChosen::Both) => {
                failure("browser_index").hint("`browserIndex` is for attached browsers, `browser_pool` for pools")
            }
            FleetError::BrowserDown { retry_in, .. } => {
                let when = match retry_in {
                    Some(wait) => format!("it is tried again in {}; ", human(*wait)),
                    None => String::new(),
                };
                failure("browser_down").hint(format!("{when}reconnect_browser tries it now")).retryable()
            }
            FleetError::BrowserExists { .. } => failure("browser_exists").hint("list_browsers shows it"),
            FleetError::BrowserRemoved { .. } => failure("browser_removed").hint(
                "whether a call that ran had its effect is not known; list_browsers shows what there is",
            ),
            FleetError::BadLabel { .. } => failure("bad_label").hint("choose a word"),
            FleetError::Network(_) => failure("bad_network")
                .hint("`network` can only narrow what the pool permits: `preset`, `allow`, `only`, `deny`"),
            FleetError::NoNetworkPolicy { .. } => {
                failure("no_network_policy").hint("leave `network` out, or use a pool whose browsers greenroom starts")
            }
            FleetError::ShuttingDown => failure("shutting_down").retryable(),
        }
    }
}

/// How full the pool is, which sessions hold it, how many other callers wait, and what would help.
fn pool_full_hint(timeout: &LeaseTimeout, declared: bool) -> String {
    let LeaseTimeout {
        pool,
        browser,
        leased,
        slots,
        waiting,
        silent,
        is_owners_apart,
        instance,
        holders,
        ..
    } = timeout;
    let mut hint = format!("{} {} leased", plural::count_of(*leased, *slots, "slot"), plural::is(*leased));
    if !holders.is_empty() {
        let named = holders.iter().take(HOLDERS_MAX).cloned().collect::<Vec<_>>().join(", ");
        hint += &format!(" by {named}");
        if holders.len() > HOLDERS_MAX {
            hint += &format!(" and {} more", holders.len() - HOLDERS_MAX);
        }
    }
    if *waiting > 0 {
        let waits = plural::verb(*waiting, "waits", "wait");
        hint += &format!(", {} {waits}", plural::count(*waiting, "other caller"));
    }
    if *silent > 0 {
        let one = "does not answer and gets no sessions until it does";
        let several = "do not answer and get no sessions until they do";
        let silence = plural::verb(*silent, one, several);
        hint += &format!(", {} {silence}", plural::count(*silent, "instance"));
    }
    if *is_owners_apart && leased < slots {
        hint += "; a browser with free slots that serves another owner is restarted first, when that owner's sessions there have ended";
    }
    if instance.is_some() {
        hint += "; leave `browser_instance` out for whichever is free first";
    }
    hint += "; close a session with session_close, or ";
    if browser.is_some() {
        return hint + "wait: an attached browser has one slot, or `slots` of them if it is `isolated`";
    }
    hint += "raise ";
    hint += &match declared {
        true => format!("INSTANCES or SLOTS of pool \"{pool}\""),
        false => "`pool.slots` or `pool.instances_max`".to_owned(),
    };
    hint
}

impl From<FleetError> for ErrorResponse {
    fn from(error: FleetError) -> Self {
        Self::fleet(&error, false)
    }
}

impl From<StartError> for ErrorResponse {
    fn from(error: StartError) -> Self {
        FleetError::Start(error).into()
    }
}

impl ErrorResponse {
    /// The client's key lacks a scope that the tool needs.
    pub(crate) fn missing_scope(tool: &str, scope: ApiScope) -> Self {
        Self::new("tool_refused", format!("tool \"{tool}\" needs an API key with the scope `{scope}`"))
            .hint("the operator decides which scopes a key has")
    }
}

impl From<PolicyRefusal> for ErrorResponse {
    fn from(refused: PolicyRefusal) -> Self {
        let hint = match &refused {
            PolicyRefusal::Denied(_) | PolicyRefusal::NotAllowed(_) => {
                "the operator decides which tools may be used"
            }
            PolicyRefusal::Unsafe(_) => {
                "the operator can allow it with `tools.unsafe = true` and `pool.slots = 1`"
            }
        };
        Self::new("tool_refused", refused.to_string()).hint(hint)
    }
}

impl From<PageError> for ErrorResponse {
    fn from(error: PageError) -> Self {
        let code = match &error {
            PageError::Expired(_) => "page_expired",
            _ => "invalid_arguments",
        };
        Self::new(code, error.to_string()).hint(error.hint())
    }
}

impl From<InvalidSessionId> for ErrorResponse {
    fn from(error: InvalidSessionId) -> Self {
        Self::new("invalid_session_id", error.to_string())
    }
}

impl From<Unroutable> for ErrorResponse {
    /// Here the agent wrote all parameters, so every mistake in them becomes an answer that its model reads.
    fn from(error: Unroutable) -> Self {
        let message = error.to_string();
        unroutable(error).unwrap_or_else(|_| Self::new("invalid_arguments", message))
    }
}

/// Parameters that are not a call are the client program's mistake, a JSON-RPC error; a bad selector is the
/// agent's.
pub(crate) fn unroutable(error: Unroutable) -> Result<ErrorResponse, RpcError> {
    match error {
        Unroutable::NoName | Unroutable::Arguments => Err(RpcError::new(INVALID_PARAMS, error.to_string())),
        Unroutable::SessionIdType => Ok(ErrorResponse::new("invalid_session_id", error.to_string())),
        Unroutable::SessionId(error) => Ok(error.into()),
        Unroutable::PoolType => Ok(ErrorResponse::new("no_such_pool", error.to_string())),
        Unroutable::InstanceType => Ok(ErrorResponse::new("no_such_instance", error.to_string())),
        Unroutable::BrowserType => Ok(ErrorResponse::new("browser_index", error.to_string())),
        Unroutable::Wants(InvalidOption::Page(error)) => Ok(error.into()),
        Unroutable::MoreToolsInItself => Ok(ErrorResponse::new("invalid_arguments", error.to_string())),
        Unroutable::Wants(unwanted) => Ok(ErrorResponse::new("invalid_arguments", unwanted.to_string())),
    }
}

/// No engine has this tool.
pub(crate) fn unknown_tool(name: &str, suggestion: Option<&str>) -> RpcError {
    let mut message = format!("unknown tool: \"{}\"", echoed(name));
    if let Some(suggestion) = suggestion {
        message.push_str(&format!("; {suggestion}"));
    }
    RpcError::new(INVALID_PARAMS, message)
}

#[cfg(test)]
mod tests;
