//! The fake engine's stdio: messages out, the client's answers to its questions, and the event log.
//!
//! Each message is one write to stdout, so that messages of different threads never mix.

use std::{
    collections::HashMap,
    fs::File,
    io::Write,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
};

use serde_json::value::RawValue;

/// What a client answered to a question: the raw `result`, or the raw `error`.
pub(crate) type Response = Result<String, String>;

pub(crate) struct StdioConnection {
    log: Option<File>,
    /// Questions the client has not answered yet, by the id they were sent with.
    questions: Mutex<HashMap<String, mpsc::Sender<Response>>>,
    next_id: AtomicU64,
}

impl StdioConnection {
    pub fn new(log: Option<&Path>) -> Self {
        let log = log.map(|path| File::options().create(true).append(true).open(path).unwrap());
        // Question ids count from 1 as most clients' do, to catch a gateway that mixes up the directions.
        Self { log, questions: Mutex::default(), next_id: AtomicU64::new(1) }
    }

    /// Answers the request `id`; `member` is `result` or `error`, `body` its raw JSON.
    pub fn answer(&self, id: &str, member: &str, body: &str) {
        let mut line = String::with_capacity(id.len() + body.len() + 48);
        line.push_str(r#"{"jsonrpc":"2.0","id":"#);
        line.push_str(id);
        line.push_str(",\"");
        line.push_str(member);
        line.push_str("\":");
        line.push_str(body);
        line.push_str("}\n");
        self.raw(&line);
    }

    pub fn notify(&self, method: &str, params: Option<&str>) {
        let params = params.map(|params| format!(r#","params":{params}"#)).unwrap_or_default();
        self.raw(&format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\"{params}}}\n"));
    }

    /// Asks the client and waits for its answer, for ever: the gateway in between has the deadlines.
    pub fn ask(&self, method: &str, params: Option<&str>) -> Response {
        let (_, answer) = self.send_request(method, params);
        answer.recv().expect("a question is answered or waits")
    }

    /// Asks the client. Returns the id, by which the question can be taken back.
    pub fn send_request(&self, method: &str, params: Option<&str>) -> (String, mpsc::Receiver<Response>) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed).to_string();
        let (sender, receiver) = mpsc::channel();
        self.questions.lock().unwrap().insert(id.clone(), sender);
        let params = params.map(|params| format!(r#","params":{params}"#)).unwrap_or_default();
        self.raw(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\"{params}}}\n"));
        (id, receiver)
    }

    /// Takes a question back: an answer that still comes is dropped.
    pub fn withdraw(&self, id: &str) {
        self.questions.lock().unwrap().remove(id);
        let params = format!(r#"{{"requestId":{id},"reason":"no longer wanted"}}"#);
        self.notify("notifications/cancelled", Some(&params));
    }

    /// Delivers an answer of the client. An answer without a waiter is logged and dropped.
    pub fn answered(&self, id: &str, response: Result<&RawValue, Option<&RawValue>>) {
        let Some(question) = self.questions.lock().unwrap().remove(id) else {
            return self.log("unknown answer");
        };
        let text = |raw: &RawValue| raw.get().to_owned();
        let response = response.map(text).map_err(|error| error.map_or_else(|| "null".to_owned(), text));
        let _ = question.send(response);
    }

    /// Writes complete lines as they are.
    pub fn raw(&self, lines: &str) {
        // Stdout is line buffered: text that ends with a newline leaves in one write. An error means that the
        // client has gone; the closed stdin will end this process.
        let _ = std::io::stdout().lock().write_all(lines.as_bytes());
    }

    /// Adds one line to the event log. Several engines may share the file: one appending write per line.
    pub fn log(&self, event: &str) {
        if let Some(mut log) = self.log.as_ref() {
            log.write_all(format!("{event}\n").as_bytes()).unwrap();
        }
    }

    /// Logs a tool call, without building the line when there is no log.
    pub fn log_call(&self, tool: &str) {
        if self.log.is_some() {
            self.log(&format!("tools/call {tool}"));
        }
    }
}

/// Writes a line to stderr.
pub(crate) fn write_stderr(text: &str) {
    let _ = std::io::stderr().lock().write_all(format!("{text}\n").as_bytes());
}
