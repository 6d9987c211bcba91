//! What a relay must know to survive the loss of its server: the client's `initialize`, its unanswered
//! requests, the server's open questions, and the sessions that the client used. It is plain state
//! and sends nothing.

use std::collections::BTreeSet;

use greenroom_core::{Fields, Raw, raw::encode};
use greenroom_mcp::{
    Id, Message, RpcError,
    error::SERVER,
    message::{self, Parsed},
};
use indexmap::{IndexMap, IndexSet};
use serde_json::{json, value::RawValue};

use crate::{front::stateless, tools};

/// How many session ids are remembered for the next server. Beyond it the front forgets the least recently used: they
/// have long expired.
pub(crate) const SESSIONS_MAX: usize = 1024;

/// The prefix of the ids of the front's own requests. Clients do not use it.
const OWN: &str = "greenroom-front-";

#[derive(Default)]
pub(super) struct RelayState {
    /// The client's `initialize` that has no answer yet.
    pending_initialize: Option<(Id, Raw)>,
    /// The parameters of the `initialize` that the server accepted.
    accepted_initialize: Option<Raw>,
    log_level: Option<Raw>,
    /// Requests without an answer, in the order sent.
    pending: IndexMap<Id, PendingRequest>,
    /// Questions of the server that the client has not answered.
    questions: BTreeSet<u64>,
    questions_seen: u64,
    /// Sessions that the client uses on the present server.
    used: UsedSessions,
    /// Sessions that the client lost with earlier servers, if no answer has said so yet.
    lost: UsedSessions,
    own_requests: u64,
}

/// A client's sessions: the named sessions, the last used one last, and whether the connection's own is among them.
#[derive(Default, Clone)]
pub(super) struct UsedSessions {
    pub(super) named: IndexSet<String>,
    pub(super) own: bool,
}

impl UsedSessions {
    fn add(&mut self, session: &UsedSession) {
        match session {
            UsedSession::None => {}
            UsedSession::Own => self.own = true,
            UsedSession::Named(id) => self.add_named(id),
        }
    }

    fn add_named(&mut self, id: &str) {
        self.named.shift_remove(id);
        self.named.insert(id.to_owned());
        if self.named.len() > SESSIONS_MAX {
            self.named.shift_remove_index(0);
        }
    }

    fn remove(&mut self, session: &UsedSession) {
        match session {
            UsedSession::None => {}
            UsedSession::Own => self.own = false,
            UsedSession::Named(id) => drop(self.named.shift_remove(id)),
        }
    }
}

struct PendingRequest {
    /// The line to send again, if repeating it is safe.
    resend_line: Option<Vec<u8>>,
    /// Whether the request is of the stateless revision, whose results contain their type.
    stateless: bool,
    session: UsedSession,
}

/// The session that a request uses.
#[derive(Debug, PartialEq, Eq)]
enum UsedSession {
    None,
    /// The connection's own.
    Own,
    Named(String),
}

impl RelayState {
    /// Records a line of the client before it is sent, so that the relay knows every line that may have been sent.
    pub(super) fn record_client_line(&mut self, line: &[u8]) {
        match message::parse_from_client(line) {
            Parsed::One(Ok(one)) => self.client_message(one),
            Parsed::Batch(parts) => parts.into_iter().flatten().for_each(|part| self.client_message(part)),
            // The server reports the error. The line uses no session, and can be sent to the next server.
            Parsed::One(Err(malformed)) => {
                if let Some(id) = malformed.id {
                    let pending = PendingRequest {
                        resend_line: Some(line.to_vec()),
                        stateless: false,
                        session: UsedSession::None,
                    };
                    self.pending.entry(id).or_insert(pending);
                }
            }
        }
    }

    fn client_message(&mut self, message: Message) {
        match message {
            Message::Request { id, method, params } => {
                if method == "initialize" {
                    let params = params.clone().unwrap_or_else(|| encode(&json!({})));
                    self.pending_initialize = Some((id.clone(), params));
                }
                let call = method == "tools/call";
                let session = if call { self.note_session(params.as_deref()) } else { UsedSession::None };
                if method == "logging/setLevel" {
                    self.log_level.clone_from(&params);
                }
                let resend_line = (!call).then(|| message::request(&id, &method, params.as_deref()));
                let stateless = stateless::is_stateless(params.as_deref());
                self.pending.insert(id, PendingRequest { resend_line, stateless, session });
            }
            Message::Notification { method, params } if method == "notifications/cancelled" => {
                if let Some(id) = cancelled(params.as_deref()) {
                    self.pending.shift_remove(&id);
                }
            }
            Message::Notification { .. } => {}
            Message::Response { id, .. } => {
                if let Some(number) = id.as_number() {
                    self.questions.remove(&number);
                }
            }
        }
    }

    /// Notes which session a call uses.
    fn note_session(&mut self, params: Option<&RawValue>) -> UsedSession {
        // The server refuses a call whose session cannot be read, so it uses none.
        let Some((tool, session)) = params.and_then(tool_and_session) else { return UsedSession::None };
        match tool.as_deref().and_then(tools::find).map(|tool| tool.name) {
            Some("session_close") => self.used.remove(&session),
            // Without an id the server chooses one, which the relay does not learn.
            Some("create_new_session") if session == UsedSession::Own => return UsedSession::None,
            Some("create_new_session") | None => self.used.add(&session),
            // The other own tools manage sessions, and use none.
            Some(_) => return UsedSession::None,
        }
        session
    }

    /// Records a line of the server. `false` if it answers a request of the front itself.
    pub(super) fn record_server_line(&mut self, line: &[u8]) -> bool {
        match message::parse(line) {
            Parsed::One(Ok(one)) => self.server_message(&one),
            Parsed::Batch(parts) => {
                for part in parts.iter().flatten() {
                    self.server_message(part);
                }
                true
            }
            Parsed::One(Err(_)) => true,
        }
    }

    fn server_message(&mut self, message: &Message) -> bool {
        match message {
            Message::Response { id, body } => {
                if id.as_json().strip_prefix('"').is_some_and(|id| id.starts_with(OWN)) {
                    return false;
                }
                let answered = self.pending.shift_remove(id);
                // Any answer in this session carries the server's note that the session was lost, so no later
                // answer needs it.
                if let Some(pending) = answered {
                    self.lost.remove(&pending.session);
                }
                // The server refuses a second `initialize`, and then the first one stays valid.
                if let Some((_, params)) = self.pending_initialize.take_if(|(pending, _)| pending == id)
                    && body.is_ok()
                {
                    self.accepted_initialize = Some(params);
                }
            }
            Message::Request { id, .. } => {
                if let Some(number) = id.as_number() {
                    self.questions.insert(number);
                    self.questions_seen = self.questions_seen.max(number);
                }
            }
            Message::Notification { method, params } if method == "notifications/cancelled" => {
                if let Some(number) = cancelled(params.as_deref()).and_then(|id| id.as_number()) {
                    self.questions.remove(&number);
                }
            }
            Message::Notification { .. } => {}
        }
        true
    }

    /// Notes that the server is gone. Returns the messages for the client: errors for calls that may have had an
    /// effect, and cancellations of questions whose server is gone. All other requests are sent again.
    pub(super) fn server_gone(&mut self) -> Vec<Vec<u8>> {
        let why = "the greenroom server went away while this call ran: whether it took effect is unknown, and it was not repeated";
        let hint = "look at the page before trying again";
        let mut messages: Vec<_> = self
            .pending
            .iter()
            .filter(|(_, pending)| pending.resend_line.is_none())
            .map(|(id, pending)| answer(id, pending, "server_lost", false, why, hint))
            .collect();
        self.pending.retain(|_, pending| pending.resend_line.is_some());
        for number in std::mem::take(&mut self.questions) {
            let params = encode(&json!({ "requestId": number, "reason": "the greenroom server went away" }));
            messages.push(message::notification("notifications/cancelled", Some(&params)));
        }
        messages
    }

    /// Returns errors for all waiting requests, because no server came back in time.
    pub(super) fn give_up(&mut self, why: &str) -> Vec<Vec<u8>> {
        let hint = "start one with `greenroom serve`, then try again";
        let waiting = std::mem::take(&mut self.pending);
        waiting.iter().map(|(id, pending)| answer(id, pending, "no_server", true, why, hint)).collect()
    }

    /// The lines that the front sends first on a new connection: `initialize` again, and requests without an answer.
    pub(super) fn lines_to_resend(&mut self) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        if let Some(params) = &self.accepted_initialize {
            self.own_requests += 1;
            lines.push(own_request(self.own_requests, "initialize", params));
            lines.push(message::notification("notifications/initialized", None));
            if let Some(params) = &self.log_level {
                self.own_requests += 1;
                lines.push(own_request(self.own_requests, "logging/setLevel", params));
            }
        }
        lines.extend(self.pending.values().filter_map(|pending| pending.resend_line.clone()));
        lines
    }

    pub(super) fn is_initialized(&self) -> bool {
        self.accepted_initialize.is_some()
    }

    /// The sessions that the client used on its last server, and those it lost before.
    pub(super) fn sessions(&self) -> (UsedSessions, UsedSessions) {
        (self.used.clone(), self.lost.clone())
    }

    /// Notes that the front has joined another server: the sessions on the previous server are lost.
    pub(super) fn another_server(&mut self) {
        let used = std::mem::take(&mut self.used);
        for id in &used.named {
            self.lost.add_named(id);
        }
        self.lost.own |= used.own;
    }

    pub(super) fn next_question(&self) -> u64 {
        self.questions_seen + 1
    }
}

/// The tool that a call names, and the session that it means; `None` if its arguments cannot be read.
fn tool_and_session(params: &RawValue) -> Option<(Option<String>, UsedSession)> {
    let params = Fields::open(params).ok()?;
    let arguments = match params.get("arguments").filter(|arguments| arguments.get() != "null") {
        Some(arguments) => Fields::open(arguments).ok()?,
        None => Fields::default(),
    };
    let session = arguments.guarded::<String>("sessionId").ok()?;
    let session = session.map_or(UsedSession::Own, UsedSession::Named);
    Some((params.read("name").ok().flatten(), session))
}

fn cancelled(params: Option<&RawValue>) -> Option<Id> {
    Fields::open(params?).ok()?.get("requestId").and_then(Id::from_raw)
}

fn own_request(number: u64, method: &str, params: &Raw) -> Vec<u8> {
    let id = encode(&format!("{OWN}{number}"));
    // A JSON string is always an id.
    let id = Id::from_raw(&id).unwrap_or_else(|| Id::number(number));
    message::request(&id, method, Some(params))
}

/// The answer to a request that no server answers: a failed tool result for a call, so that its model reads it; an
/// error for any other request.
fn answer(id: &Id, pending: &PendingRequest, code: &str, retryable: bool, why: &str, hint: &str) -> Vec<u8> {
    let text = format!("{why}\n\nhint: {hint}");
    if pending.resend_line.is_some() {
        return message::response(Some(id), &Err(RpcError::new(SERVER, text).to_raw()));
    }
    let mut result = json!({
        "content": [{ "type": "text", "text": text }],
        "isError": true,
        "_meta": { "greenroom/error": { "code": code, "retryable": retryable } },
    });
    if pending.stateless {
        result["resultType"] = json!("complete");
    }
    message::response(Some(id), &Ok(encode(&result)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: &[Vec<u8>]) -> Vec<String> {
        lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    }

    fn names(state: &RelayState) -> (Vec<String>, Vec<String>) {
        let (used, lost) = state.sessions();
        (used.named.into_iter().collect(), lost.named.into_iter().collect())
    }

    fn initialized() -> RelayState {
        let mut state = RelayState::default();
        state.record_client_line(
            br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#,
        );
        assert!(
            state
                .record_server_line(br#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18"}}"#)
        );
        state
    }

    /// A call that was sent is never sent again; a request that only reads is.
    #[test]
    fn calls_are_not_repeated() {
        let mut state = initialized();
        state.record_client_line(br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"sessionId":"s"}}}"#);
        state.record_client_line(br#"{"jsonrpc":"2.0","id":"two","method":"tools/list"}"#);
        let messages = text(&state.server_gone());
        assert_eq!(messages.len(), 1);
        assert!(
            messages[0].contains(r#""id":1,"#) && messages[0].contains("whether it took effect is unknown"),
            "{messages:?}"
        );
        let again = text(&state.lines_to_resend());
        assert_eq!(again.len(), 3, "{again:?}");
        assert!(again[0].contains("initialize") && again[0].contains("2025-06-18"));
        assert_eq!(again[2], r#"{"jsonrpc":"2.0","id":"two","method":"tools/list"}"#);
        assert!(
            !state.record_server_line(br#"{"jsonrpc":"2.0","id":"greenroom-front-1","result":{}}"#),
            "ours"
        );
        assert_eq!(names(&state), (vec!["s".to_owned()], vec![]));
        state.another_server();
        assert_eq!(names(&state), (vec![], vec!["s".to_owned()]));
        // The front tells every later server too, until the client has had an answer in that session.
        state.another_server();
        assert_eq!(names(&state), (vec![], vec!["s".to_owned()]));
        state.record_client_line(br#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"t","arguments":{"sessionId":"s"}}}"#);
        state.record_server_line(br#"{"jsonrpc":"2.0","id":3,"result":{}}"#);
        assert_eq!(names(&state), (vec!["s".to_owned()], vec![]));
    }

    /// A call that the server will refuse uses no session, neither the connection's own nor another; a malformed line
    /// is sent again to the next server, which answers it.
    #[test]
    fn refused_calls_use_no_session() {
        let mut state = initialized();
        for (id, arguments) in [(1, r#"{"sessionId":5}"#), (2, r#"{"sessionId":"\ud800"}"#), (3, "[]")] {
            let params = format!(r#"{{"name":"t","arguments":{arguments}}}"#);
            let call = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#);
            state.record_client_line(call.as_bytes());
        }
        let (used, _) = state.sessions();
        assert!(used.named.is_empty() && !used.own);
        assert_eq!(state.server_gone().len(), 2, "each call gets an error: its server is gone");
        let again = text(&state.lines_to_resend());
        assert!(again.last().unwrap().contains(r#""id":2,"#), "{again:?}");
    }

    /// A second `initialize` that the server refuses does not replace the first.
    #[test]
    fn refused_initialize_does_not_replace_the_first() {
        let mut state = initialized();
        state.record_client_line(
            br#"{"jsonrpc":"2.0","id":9,"method":"initialize","params":{"protocolVersion":"x"}}"#,
        );
        state.record_server_line(br#"{"jsonrpc":"2.0","id":9,"error":{"code":-32600,"message":"already"}}"#);
        let again = text(&state.lines_to_resend());
        assert!(again[0].contains("2025-06-18") && state.is_initialized(), "{again:?}");
    }

    /// Answered and cancelled requests are forgotten; open questions are cancelled.
    #[test]
    fn answered_and_cancelled_requests_are_forgotten() {
        let mut state = initialized();
        for id in 1..=2 {
            state.record_client_line(
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t"}}}}"#)
                    .as_bytes(),
            );
        }
        state.record_server_line(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        state.record_client_line(
            br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#,
        );
        for id in 7..=8 {
            state.record_server_line(
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"elicitation/create"}}"#).as_bytes(),
            );
        }
        state.record_client_line(br#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
        let messages = text(&state.server_gone());
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(messages[0].contains("notifications/cancelled") && messages[0].contains(r#""requestId":8"#));
        assert_eq!((state.next_question(), state.sessions().0.own), (9, true));
    }

    /// When no server comes back, every waiting request gets an error; a stateless client gets it in its revision's
    /// form.
    #[test]
    fn waiting_requests_fail_without_a_server() {
        let mut state = RelayState::default();
        state.record_client_line(br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#);
        state.record_client_line(br#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#);
        let messages = text(&state.give_up("no server"));
        assert!(messages[0].contains(r#""resultType":"complete""#) && messages[0].contains("isError"));
        assert!(messages[1].contains(r#""error""#));
        assert!(state.lines_to_resend().is_empty());
    }
}
