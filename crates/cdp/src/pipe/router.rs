//! Which connection each session on a pipe belongs to, and so who gets a message of the browser.
//!
//! Each connection has a browser session of its own (`Target.attachToBrowserTarget`), and the sessions that the browser
//! attaches within it. Its messages name their session, answers too, so connections may use the same numbers. One answer
//! names none: that to a call in a session that has ended. The router therefore answers such calls itself: at once if the
//! session is not the connection's, else when the session's end is announced.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use greenroom_core::raw::Raw;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tokio::sync::{mpsc, oneshot};

use super::channel::{ChannelQueue, ChannelReader, ChannelWriter, queue};
use crate::{
    Closed,
    envelope::{self, CdpError, Incoming},
    message_stream::Text,
    session_field::{id_of, session_of, with_session, without_session},
};

/// The longest call. A Chromium that reads more than 100 MiB without an end closes the pipe, and with it all sessions.
const CALL_BYTES_MAX: usize = 64 << 20;

/// The protocol's error for a session that has ended.
const SESSION_NOT_FOUND: i64 = -32001;

/// The protocol's error for a call that cannot be carried out.
const SERVER_ERROR: i64 = -32000;

const ATTACHED: &str = r#"{"method":"Target.attachedToTarget""#;
const DETACHED: &str = r#"{"method":"Target.detachedFromTarget""#;

pub(super) struct Router {
    routes: Mutex<Routes>,
    /// Browser sessions whose connections are over.
    ended: mpsc::UnboundedSender<String>,
}

#[derive(Default)]
struct Routes {
    /// Set once, when the pipe is over.
    is_closed: bool,
    last_id: u32,
    /// Calls of the pipe's own, in no session.
    root_calls: HashMap<u32, RootCall>,
    sessions: HashMap<String, PipeSession>,
}

/// What a call outside all sessions waits for.
pub(super) enum RootCall {
    Result(oneshot::Sender<Result<Raw, CdpError>>),
    /// A new browser session.
    Session {
        connection: oneshot::Sender<Result<Halves, CdpError>>,
        outgoing: mpsc::Sender<Text>,
    },
}

pub(super) type Halves = (ChannelWriter, ChannelReader);

struct PipeSession {
    queue: ChannelQueue,
    /// The session in which it was attached; `None` for a connection's browser session.
    parent: Option<String>,
    /// The calls in it that have no answer yet.
    calls: HashSet<u32>,
}

/// What becomes of a connection's call.
pub(super) enum Admission {
    Send(Text),
    /// The router has answered it.
    Answered,
    /// The connection is over.
    Closed,
}

#[derive(Deserialize)]
struct SessionEvent {
    params: SessionParam,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionParam {
    session_id: String,
}

impl Router {
    pub(super) fn new(ended: mpsc::UnboundedSender<String>) -> Self {
        Self { routes: Mutex::default(), ended }
    }

    /// Writes a call of the pipe's own. `None` when the pipe is over.
    pub(super) fn root_call(&self, method: &str, params: &RawValue, call: Option<RootCall>) -> Option<Text> {
        let mut routes = self.routes.lock();
        if routes.is_closed {
            return None;
        }
        routes.last_id = routes.last_id % i32::MAX.unsigned_abs() + 1;
        let id = routes.last_id;
        if let Some(call) = call {
            routes.root_calls.insert(id, call);
        }
        Some(json!({ "id": id, "method": method, "params": params }).to_string().into())
    }

    /// Judges a call of a connection, by its browser session.
    pub(super) fn admit(&self, browser_session: &str, text: Text) -> Admission {
        let (Ok(session), Some(id)) = (session_of(&text), id_of(&text)) else { return Admission::Closed };
        let mut routes = self.routes.lock();
        let Some(queue) = routes.sessions.get(browser_session).map(|own| own.queue.clone()) else {
            return Admission::Closed;
        };
        let refusal = if text.len() > CALL_BYTES_MAX {
            let why = format!("the call is too long: {} bytes, and {CALL_BYTES_MAX} are allowed", text.len());
            Some(error_answer(id, session.as_deref(), SERVER_ERROR, &why))
        } else {
            match session.as_deref() {
                None => None,
                Some(session) => match routes.sessions.get_mut(session) {
                    Some(known) if known.queue.is_same(&queue) => {
                        known.calls.insert(id);
                        None
                    }
                    _ => Some(session_not_found(id)),
                },
            }
        };
        match (refusal, session) {
            (Some(refusal), _) => {
                self.push(&mut routes, &queue, refusal);
                Admission::Answered
            }
            (None, Some(_)) => Admission::Send(text),
            (None, None) => Admission::Send(with_session(&text, browser_session).into()),
        }
    }

    /// Hands a message of the browser to its connection.
    pub(super) fn route(self: &Arc<Self>, text: String) -> Result<(), Closed> {
        let session = session_of(&text).map_err(|error| Closed::Protocol(error.to_string().into()))?;
        let Some(session) = session.map(std::borrow::Cow::into_owned) else { return self.route_root(&text) };
        let mut routes = self.routes.lock();
        let Some(known) = routes.sessions.get_mut(&session) else {
            // The browser had sent it before it knew that the session is over.
            tracing::trace!(session, "a message of a session that is over");
            return Ok(());
        };
        let queue = known.queue.clone();
        let is_browser_session = known.parent.is_none();
        if text.starts_with(r#"{"id":"#)
            && let Some(id) = id_of(&text)
        {
            known.calls.remove(&id);
        }
        let attached = if text.starts_with(ATTACHED) { session_param(&text) } else { None };
        let detached = if text.starts_with(DETACHED) { session_param(&text) } else { None };
        if let Some(attached) = attached {
            let child = PipeSession { queue: queue.clone(), parent: Some(session), calls: HashSet::new() };
            routes.sessions.insert(attached, child);
        }
        let text = if is_browser_session { without_session(text) } else { text };
        self.push(&mut routes, &queue, text.into());
        if let Some(detached) = detached {
            for id in routes.remove_with_children(&detached) {
                self.push(&mut routes, &queue, session_not_found(id));
            }
        }
        Ok(())
    }

    /// A message in no session answers a call of the pipe's own.
    fn route_root(self: &Arc<Self>, text: &str) -> Result<(), Closed> {
        match envelope::parse(text).map_err(|why| Closed::Protocol(why.into()))? {
            // The answer to a connection's call in a session that has ended: the connection has been told already.
            Incoming::Reply { body: Err(CdpError { code: SESSION_NOT_FOUND, .. }), .. } => {}
            Incoming::Reply { id, body } => {
                let call = self.routes.lock().root_calls.remove(&id);
                match call {
                    Some(RootCall::Result(result)) => drop(result.send(body)),
                    Some(RootCall::Session { connection, outgoing }) => {
                        // If the caller has given up, dropping the connection ends its session.
                        drop(connection.send(body.and_then(|result| self.begin_session(&result, outgoing))));
                    }
                    None => {}
                }
            }
            Incoming::Event(event) if event.method == "Target.detachedFromTarget" => {
                let ended = serde_json::from_str::<SessionParam>(event.params.get());
                if let Ok(SessionParam { session_id }) = ended {
                    self.routes.lock().remove_with_children(&session_id);
                }
            }
            Incoming::Event(_) => {}
            Incoming::UnmatchedError(error) => {
                return Err(Closed::Protocol(error.message_with_data().into()));
            }
        }
        Ok(())
    }

    fn begin_session(
        self: &Arc<Self>,
        attached: &RawValue,
        outgoing: mpsc::Sender<Text>,
    ) -> Result<Halves, CdpError> {
        let SessionParam { session_id } = serde_json::from_str(attached.get())
            .map_err(|error| CdpError::new(SERVER_ERROR, format!("no session: {error}")))?;
        let (queue, reader) = queue();
        let session = PipeSession { queue, parent: None, calls: HashSet::new() };
        self.routes.lock().sessions.insert(session_id.clone(), session);
        Ok((ChannelWriter::new(session_id, self.clone(), outgoing), reader))
    }

    /// Queues a message for a connection. A connection that does not read its messages ends.
    fn push(&self, routes: &mut Routes, queue: &ChannelQueue, text: Text) {
        if queue.push(text) {
            return;
        }
        tracing::warn!("an engine or an observer does not read the browser's messages; its connection ends");
        queue.close(Closed::Overflow);
        routes.sessions.retain(|session, known| {
            let is_other = !known.queue.is_same(queue);
            if !is_other && known.parent.is_none() {
                let _ = self.ended.send(session.clone());
            }
            is_other
        });
    }

    /// Ends a connection's browser session, and with it the sessions within it.
    pub(super) fn end_session(&self, session: &str) {
        let mut routes = self.routes.lock();
        if routes.sessions.contains_key(session) {
            routes.remove_with_children(session);
            drop(routes);
            // Without a pipe the session is gone.
            let _ = self.ended.send(session.to_owned());
        }
    }

    /// Ends every connection, and fails every call of the pipe's own.
    pub(super) fn close(&self, why: &Closed) {
        let mut routes = self.routes.lock();
        routes.is_closed = true;
        routes.root_calls.clear();
        for (_, session) in routes.sessions.drain() {
            session.queue.close(why.clone());
        }
    }
}

impl Routes {
    /// Removes a session and all within it. Returns the calls in them that have no answer.
    fn remove_with_children(&mut self, session: &str) -> Vec<u32> {
        let mut unanswered = Vec::new();
        let mut ended = vec![session.to_owned()];
        while let Some(session) = ended.pop() {
            let Some(removed) = self.sessions.remove(&session) else { continue };
            unanswered.extend(removed.calls);
            let is_child = |known: &PipeSession| known.parent.as_deref() == Some(&*session);
            let children = self.sessions.iter().filter(|(_, known)| is_child(known));
            ended.extend(children.map(|(child, _)| child.clone()));
        }
        unanswered.sort_unstable();
        unanswered
    }
}

fn session_param(event: &str) -> Option<String> {
    serde_json::from_str(event).ok().map(|SessionEvent { params }| params.session_id)
}

/// The browser's own answer to a call in a session that it does not know; it names no session.
fn session_not_found(id: u32) -> Text {
    error_answer(id, None, SESSION_NOT_FOUND, "Session with given id not found.")
}

fn error_answer(id: u32, session: Option<&str>, code: i64, message: &str) -> Text {
    let mut answer = json!({ "id": id, "error": { "code": code, "message": message } });
    if let Some(session) = session {
        answer["sessionId"] = Value::from(session);
    }
    answer.to_string().into()
}
