//! The one place where errors become answers: a stable code, whether to try again, a message, and what to do.
//!
//! What an agent can act on is a failed tool, so that its model reads it. Only what a client's program did wrong
//! is a JSON-RPC error.

use greenroom_core::{InvalidSessionId, Raw, Refused, StartError, raw::encode};
use greenroom_fleet::{FleetError, LeaseTimeout};
use greenroom_mcp::{RpcError, error::INVALID_PARAMS};
use serde_json::json;

use crate::{catalog::Invalid, route::Unroutable};

/// A failure on its way to becoming an answer.
#[derive(Debug)]
pub(crate) struct Failure {
    code: &'static str,
    message: String,
    hint: Option<String>,
    /// Whether the same call may succeed if it is simply made again.
    retryable: bool,
}

impl Failure {
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

    /// `sessionId` is missing in a request that belongs to no connection.
    pub(crate) fn stateless() -> Self {
        Self::new(
            "session_required",
            "missing argument: `sessionId`; requests of this protocol revision share nothing",
        )
        .hint("give a sessionId of your choice with every call, or get one from create_new_session")
    }

    /// It is not clear which session a session tool is about.
    pub(crate) fn which_session() -> Self {
        Self::new("session_required", "missing argument: `sessionId`")
            .hint("session_list shows what there is")
    }

    pub(crate) fn invalid_arguments(tool: &str, invalid: &Invalid) -> Self {
        let failure = Self::new("invalid_arguments", format!("{invalid} (tool \"{tool}\")"));
        match invalid.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }

    pub(crate) fn too_many_calls(max: usize) -> Self {
        Self::new("too_many_calls", format!("too many calls at once on this connection: {max} are in flight"))
            .hint("wait for some of them to be answered")
            .retryable()
    }

    /// The call is done, and its client reads too little for another big answer to wait.
    pub(crate) fn unread_answers(bytes: usize) -> Self {
        let message = format!(
            "the call was carried out, but its answer of {bytes} bytes was dropped: too much waits to be read by this client already"
        );
        Self::new("unread_answers", message).hint("read the answers to earlier calls first")
    }

    pub(crate) fn to_result(&self) -> Raw {
        let mut text = self.message.clone();
        if let Some(hint) = &self.hint {
            text.push_str("\n\nhint: ");
            text.push_str(hint);
        }
        encode(&json!({
            "content": [{ "type": "text", "text": text }],
            "isError": true,
            "_meta": { "greenroom/error": { "code": self.code, "retryable": self.retryable } },
        }))
    }
}

impl From<FleetError> for Failure {
    fn from(error: FleetError) -> Self {
        match &error {
            FleetError::Lease(LeaseTimeout { leased, slots, waiting, .. }) => {
                let others = if *waiting > 0 { format!(", {waiting} other callers wait") } else { String::new() };
                let hint = format!(
                    "{leased} of {slots} slots are leased{others}; close a session with session_close, or raise `pool.slots` or `pool.instances_max`"
                );
                Self::new("lease_timeout", error.to_string()).hint(hint).retryable()
            }
            FleetError::Start(start) => {
                let failure = Self::new("start_failed", error.to_string());
                match &start.hint {
                    Some(hint) => failure.hint(hint),
                    None => failure.hint("run `greenroom doctor`; nothing is remembered of this failure, the next call tries again"),
                }
            }
            FleetError::Lost(_) => Self::new("session_lost", error.to_string()).hint(
                "whether the call had its effect is not known; the next call with this session gets a new, empty browser",
            ),
            FleetError::NotRun(_) => Self::new("not_run", error.to_string())
                .hint("it had no effect; the next call with this session gets a new, empty browser")
                .retryable(),
            FleetError::Closed => Self::new("session_closed", error.to_string())
                .hint("a call with the same sessionId starts a new session"),
            FleetError::QueueFull { .. } => {
                Self::new("queue_full", error.to_string()).hint("wait for earlier calls, or use another sessionId").retryable()
            }
            FleetError::NoSession(_) => Self::new("no_session", error.to_string()).hint("session_list shows what there is"),
            FleetError::NoConnectionSession => {
                Self::new("no_session", error.to_string()).hint("give a `sessionId`; session_list shows what there is")
            }
            FleetError::Exists(_) => Self::new("session_exists", error.to_string())
                .hint("use it, close it with session_close, or choose another id"),
            FleetError::NoPool { .. } => Self::new("no_such_pool", error.to_string()),
            FleetError::NoInstance { .. } => Self::new("no_such_instance", error.to_string()),
            FleetError::NoHealthy { .. } => Self::new("no_healthy_instance", error.to_string()),
            FleetError::InstanceDown { .. } => Self::new("instance_down", error.to_string()).retryable(),
            FleetError::Elsewhere { .. } => Self::new("session_elsewhere", error.to_string()),
            FleetError::NotFixed { .. } => Self::new("not_fixed", error.to_string()),
            FleetError::NotYours { .. } => Self::new("not_yours", error.to_string()),
            FleetError::ShuttingDown => Self::new("shutting_down", error.to_string()).retryable(),
        }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        FleetError::Start(error).into()
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        let hint = match &refused {
            Refused::Denied(_) | Refused::NotAllowed(_) => "the operator decides which tools may be used",
            Refused::Unsafe(_) => "the operator can allow it with `tools.unsafe = true` and `pool.slots = 1`",
        };
        Self::new("tool_refused", refused.to_string()).hint(hint)
    }
}

impl From<InvalidSessionId> for Failure {
    fn from(error: InvalidSessionId) -> Self {
        Self::new("invalid_session_id", error.to_string())
    }
}

/// Parameters that are no call are the program's mistake; a bad session id is the agent's.
pub(crate) fn unroutable(error: Unroutable) -> Result<Failure, RpcError> {
    match error {
        Unroutable::NoName | Unroutable::Arguments => Err(RpcError::new(INVALID_PARAMS, error.to_string())),
        Unroutable::SessionIdType => Ok(Failure::new("invalid_session_id", error.to_string())),
        Unroutable::SessionId(error) => Ok(error.into()),
    }
}

/// A tool that nobody has.
pub(crate) fn unknown_tool(name: &str, nearest: Option<&str>) -> RpcError {
    let mut message = format!("unknown tool: \"{name}\"");
    if let Some(nearest) = nearest {
        message.push_str(&format!("; did you mean \"{nearest}\"?"));
    }
    RpcError::new(INVALID_PARAMS, message)
}
