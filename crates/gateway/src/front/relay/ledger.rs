//! What a thin front must know to survive the loss of its server: the client's `initialize`, its unanswered
//! requests, the server's open questions, and the sessions it used. It is plain state and sends nothing.

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

/// The prefix of the ids of the front's own requests. No sane client uses it.
const OWN: &str = "greenroom-front-";

#[derive(Default)]
pub(super) struct Ledger {
    /// The client's `initialize` that has no answer yet.
    introducing: Option<(Id, Raw)>,
    /// The parameters of the `initialize` that the server accepted.
    introduced: Option<Raw>,
    log_level: Option<Raw>,
    /// Requests without an answer, in the order sent.
    pending: IndexMap<Id, PendingRequest>,
    /// Questions of the server that the client has not answered.
    questions: BTreeSet<u64>,
    questions_seen: u64,
    /// Sessions that the client uses on the present server.
    used: UsedSessions,
    /// Sessions that it used on lost servers, if no answer has said so yet.
    lost: UsedSessions,
    own_requests: u64,
}

/// A client's sessions: the named ones, last used last, and whether the connection's own is among them.
#[derive(Default, Clone)]
pub(super) struct UsedSessions {
    pub(super) named: IndexSet<String>,
    pub(super) own: bool,
}

impl UsedSessions {
    fn add(&mut self, session: Option<&str>) {
        let Some(id) = session else {
            self.own = true;
            return;
        };
        self.named.shift_remove(id);
        self.named.insert(id.to_owned());
        if self.named.len() > SESSIONS_MAX {
            self.named.shift_remove_index(0);
        }
    }

    fn remove(&mut self, session: Option<&str>) {
        match session {
            Some(id) => drop(self.named.shift_remove(id)),
            None => self.own = false,
        }
    }
}

struct PendingRequest {
    /// The line to send again, if repeating it is safe.
    again: Option<Vec<u8>>,
    /// The client expects the result's type in the result.
    stateless: bool,
    /// The session that a call uses; `Some(None)` for the connection's own.
    session: Option<Option<String>>,
}

impl Ledger {
    /// Notes a line of the client before it is sent, so that the ledger knows every line that may have been sent.
    pub(super) fn client_said(&mut self, line: &[u8]) {
        match message::parse_from_client(line) {
            Parsed::One(Ok(one)) => self.client_message(one),
            Parsed::Batch(parts) => parts.into_iter().flatten().for_each(|part| self.client_message(part)),
            // The server reports the error. The line uses no session, and can be sent to the next server.
            Parsed::One(Err(malformed)) => {
                if let Some(id) = malformed.id {
                    let pending =
                        PendingRequest { again: Some(line.to_vec()), stateless: false, session: None };
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
                    self.introducing = Some((id.clone(), params));
                }
                let call = method == "tools/call";
                let session = if call { self.uses(params.as_deref()) } else { None };
                if method == "logging/setLevel" {
                    self.log_level.clone_from(&params);
                }
                let again = (!call).then(|| message::request(&id, &method, params.as_deref()));
                let stateless = stateless::is_stateless(params.as_deref());
                self.pending.insert(id, PendingRequest { again, stateless, session });
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
    fn uses(&mut self, params: Option<&RawValue>) -> Option<Option<String>> {
        let params = Fields::open(params?).ok()?;
        let arguments = match params.get("arguments").filter(|arguments| arguments.get() != "null") {
            Some(arguments) => Fields::open(arguments).ok()?,
            None => Fields::default(),
        };
        // The server refuses a call whose session cannot be read, so it uses none.
        let session = arguments.guarded::<String>("sessionId").ok()?;
        let tool: Option<String> = params.read("name").ok().flatten();
        match tool.as_deref().and_then(tools::find).map(|tool| tool.name) {
            Some("session_close") => self.used.remove(session.as_deref()),
            Some("create_new_session") => self.used.add(Some(session.as_deref()?)),
            // The other own tools manage sessions, and use none.
            Some(_) => return None,
            None => self.used.add(session.as_deref()),
        }
        Some(session)
    }

    /// Notes a line of the server. `false` if it answers a request of the front itself.
    pub(super) fn server_said(&mut self, line: &[u8]) -> bool {
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
                // one needs it.
                if let Some(session) = answered.and_then(|pending| pending.session) {
                    self.lost.remove(session.as_deref());
                }
                // The server refuses a second `initialize`, and then the first one stays valid.
                if let Some((_, params)) = self.introducing.take_if(|(introducing, _)| introducing == id)
                    && body.is_ok()
                {
                    self.introduced = Some(params);
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

    /// The server is gone. Returns the messages for the client: errors for calls that may have had an effect, and
    /// cancellations of questions whose server is gone. All other requests are sent again.
    pub(super) fn server_gone(&mut self) -> Vec<Vec<u8>> {
        let why = "the greenroom server went away while this call ran: whether it took effect is unknown, and it was not repeated";
        let hint = "look at the page before trying again";
        let mut messages: Vec<_> = self
            .pending
            .iter()
            .filter(|(_, pending)| pending.again.is_none())
            .map(|(id, pending)| answer(id, pending, "server_lost", false, why, hint))
            .collect();
        self.pending.retain(|_, pending| pending.again.is_some());
        for number in std::mem::take(&mut self.questions) {
            let params = encode(&json!({ "requestId": number, "reason": "the greenroom server went away" }));
            messages.push(message::notification("notifications/cancelled", Some(&params)));
        }
        messages
    }

    /// No server came back in time: returns errors for all waiting requests.
    pub(super) fn give_up(&mut self, why: &str) -> Vec<Vec<u8>> {
        let hint = "start one with `greenroom serve`, then try again";
        let waiting = std::mem::take(&mut self.pending);
        waiting.iter().map(|(id, pending)| answer(id, pending, "no_server", true, why, hint)).collect()
    }

    /// The lines that a new connection begins with: `initialize` again, and requests without an answer.
    pub(super) fn again(&mut self) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        if let Some(params) = &self.introduced {
            self.own_requests += 1;
            lines.push(own_request(self.own_requests, "initialize", params));
            lines.push(message::notification("notifications/initialized", None));
            if let Some(params) = &self.log_level {
                self.own_requests += 1;
                lines.push(own_request(self.own_requests, "logging/setLevel", params));
            }
        }
        lines.extend(self.pending.values().filter_map(|pending| pending.again.clone()));
        lines
    }

    pub(super) fn is_introduced(&self) -> bool {
        self.introduced.is_some()
    }

    /// The sessions that the client used on its last server, and those it lost before.
    pub(super) fn sessions(&self) -> (UsedSessions, UsedSessions) {
        (self.used.clone(), self.lost.clone())
    }

    /// The front has joined another server: the sessions on the one before are lost.
    pub(super) fn another_server(&mut self) {
        let used = std::mem::take(&mut self.used);
        for id in &used.named {
            self.lost.add(Some(id));
        }
        self.lost.own |= used.own;
    }

    pub(super) fn next_question(&self) -> u64 {
        self.questions_seen + 1
    }
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

/// A call gets a failed tool result, which its model reads; any other request gets an error.
fn answer(id: &Id, pending: &PendingRequest, code: &str, retryable: bool, why: &str, hint: &str) -> Vec<u8> {
    let text = format!("{why}\n\nhint: {hint}");
    if pending.again.is_some() {
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

    fn names(ledger: &Ledger) -> (Vec<String>, Vec<String>) {
        let (used, lost) = ledger.sessions();
        (used.named.into_iter().collect(), lost.named.into_iter().collect())
    }

    fn introduced() -> Ledger {
        let mut ledger = Ledger::default();
        ledger.client_said(
            br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#,
        );
        assert!(ledger.server_said(br#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18"}}"#));
        ledger
    }

    /// A call that was sent is never sent again; a request that only reads is.
    #[test]
    fn calls_are_not_repeated() {
        let mut ledger = introduced();
        ledger.client_said(br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"sessionId":"s"}}}"#);
        ledger.client_said(br#"{"jsonrpc":"2.0","id":"two","method":"tools/list"}"#);
        let messages = text(&ledger.server_gone());
        assert_eq!(messages.len(), 1);
        assert!(
            messages[0].contains(r#""id":1,"#) && messages[0].contains("whether it took effect is unknown"),
            "{messages:?}"
        );
        let again = text(&ledger.again());
        assert_eq!(again.len(), 3, "{again:?}");
        assert!(again[0].contains("initialize") && again[0].contains("2025-06-18"));
        assert_eq!(again[2], r#"{"jsonrpc":"2.0","id":"two","method":"tools/list"}"#);
        assert!(!ledger.server_said(br#"{"jsonrpc":"2.0","id":"greenroom-front-1","result":{}}"#), "ours");
        assert_eq!(names(&ledger), (vec!["s".to_owned()], vec![]));
        ledger.another_server();
        assert_eq!(names(&ledger), (vec![], vec!["s".to_owned()]));
        // The front tells every later server too, until the client has had an answer in that session.
        ledger.another_server();
        assert_eq!(names(&ledger), (vec![], vec!["s".to_owned()]));
        ledger.client_said(br#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"t","arguments":{"sessionId":"s"}}}"#);
        ledger.server_said(br#"{"jsonrpc":"2.0","id":3,"result":{}}"#);
        assert_eq!(names(&ledger), (vec!["s".to_owned()], vec![]));
    }

    /// A call that the server will refuse uses no session, neither the connection's own nor another; a malformed line
    /// is sent again to the next server, which answers it.
    #[test]
    fn refused_calls_use_no_session() {
        let mut ledger = introduced();
        for (id, arguments) in [(1, r#"{"sessionId":5}"#), (2, r#"{"sessionId":"\ud800"}"#), (3, "[]")] {
            let params = format!(r#"{{"name":"t","arguments":{arguments}}}"#);
            let call = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#);
            ledger.client_said(call.as_bytes());
        }
        let (used, _) = ledger.sessions();
        assert!(used.named.is_empty() && !used.own);
        assert_eq!(ledger.server_gone().len(), 2, "each call gets an error: its server is gone");
        let again = text(&ledger.again());
        assert!(again.last().unwrap().contains(r#""id":2,"#), "{again:?}");
    }

    /// A second `initialize` that the server refuses does not replace the first.
    #[test]
    fn refused_initialize_does_not_replace_the_first() {
        let mut ledger = introduced();
        ledger.client_said(
            br#"{"jsonrpc":"2.0","id":9,"method":"initialize","params":{"protocolVersion":"x"}}"#,
        );
        ledger.server_said(br#"{"jsonrpc":"2.0","id":9,"error":{"code":-32600,"message":"already"}}"#);
        let again = text(&ledger.again());
        assert!(again[0].contains("2025-06-18") && ledger.is_introduced(), "{again:?}");
    }

    /// Answered and cancelled requests are forgotten; open questions are cancelled.
    #[test]
    fn answered_and_cancelled_requests_are_forgotten() {
        let mut ledger = introduced();
        for id in 1..=2 {
            ledger.client_said(
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t"}}}}"#)
                    .as_bytes(),
            );
        }
        ledger.server_said(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        ledger
            .client_said(br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#);
        for id in 7..=8 {
            ledger.server_said(
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"elicitation/create"}}"#).as_bytes(),
            );
        }
        ledger.client_said(br#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
        let messages = text(&ledger.server_gone());
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(messages[0].contains("notifications/cancelled") && messages[0].contains(r#""requestId":8"#));
        assert_eq!((ledger.next_question(), ledger.sessions().0.own), (9, true));
    }

    /// When no server comes back, every waiting request gets an error; a stateless client gets it in its revision's
    /// form.
    #[test]
    fn waiting_requests_fail_without_a_server() {
        let mut ledger = Ledger::default();
        ledger.client_said(br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#);
        ledger.client_said(br#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#);
        let messages = text(&ledger.give_up("no server"));
        assert!(messages[0].contains(r#""resultType":"complete""#) && messages[0].contains("isError"));
        assert!(messages[1].contains(r#""error""#));
        assert!(ledger.again().is_empty());
    }
}
