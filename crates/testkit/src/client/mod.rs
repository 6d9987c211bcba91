//! An MCP client over stdio that drives a real program: `greenroom mcp`, or the fake engine itself.
//!
//! It is deliberately thin: messages are `serde_json::Value`s, answers are matched by id, every line is kept,
//! and anything can be sent, malformed lines too. It plays an agent and checks no protocol rules.
//! All methods take `&self`, so calls can run concurrently in one test. Every wait ends after
//! [`TEST_TIMEOUT`] with a panic that shows the transcript and the program's stderr.
//! Dropping the client kills the program.

mod inbox;
mod launch;
mod pending;
mod read;

use std::{
    path::Path,
    process::ExitStatus,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt,
    process::ChildStdin,
    sync::{Mutex, oneshot},
    task::JoinSet,
};

use crate::{
    deadline::{TEST_TIMEOUT, within},
    process::{self, Signal},
};
use inbox::Inbox;
use launch::Home;

pub use launch::Launch;
pub use pending::Pending;

/// A running MCP server and the client's end of the connection.
pub struct Client {
    connection: Arc<ServerConnection>,
    pid: u32,
    home: Home,
    next_id: AtomicU64,
    /// The one task that serves the process. A set, because dropping it aborts the task, and that kills the process.
    _task: JoinSet<()>,
}

/// What the client shares with its task and its pending requests.
struct ServerConnection {
    inbox: Inbox,
    /// `None` once closed. A tokio mutex, because a line is written across awaits.
    stdin: Mutex<Option<ChildStdin>>,
}

/// A request of the server to this client that no handler has answered.
#[derive(Debug, Clone)]
pub struct Question {
    pub id: Value,
    pub method: String,
    pub params: Value,
}

impl Client {
    /// Starts the program and begins to read its output.
    pub fn spawn(launch: Launch) -> Self {
        let (mut child, home) = launch.start();
        let pid = child.id().expect("a process just started has an id");
        let stdin = Mutex::new(child.stdin.take());
        let connection = Arc::new(ServerConnection { inbox: Inbox::default(), stdin });
        let mut task = JoinSet::new();
        task.spawn(read::serve_process(child, Arc::clone(&connection)));
        Self { connection, pid, home, next_id: AtomicU64::new(1), _task: task }
    }

    /// The handshake: `initialize`, then `notifications/initialized`. Returns the whole response.
    pub async fn initialize(&self, version: &str, capabilities: Value) -> Value {
        let info = json!({"name": "greenroom-testkit", "version": "1.0.0"});
        let params = json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": info});
        let response = self.request("initialize", params).await;
        self.notify("notifications/initialized", Value::Null).await;
        response
    }

    /// Calls a tool and returns the whole JSON-RPC response.
    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.start_call(tool, arguments).await.response().await
    }

    /// Calls a tool and returns the response line as the server wrote it, to see spellings that parsing hides.
    pub async fn call_line(&self, tool: &str, arguments: Value) -> String {
        self.start_call(tool, arguments).await.line().await
    }

    pub async fn request(&self, method: &str, params: Value) -> Value {
        self.start(method, params).await.response().await
    }

    /// Sends a tool call now, to be awaited later.
    pub async fn start_call(&self, tool: &str, arguments: Value) -> Pending {
        self.start("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// Sends a request now, to be awaited later. `Value::Null` as `params` sends none.
    pub async fn start(&self, method: &str, params: Value) -> Pending {
        let params = (!params.is_null()).then(|| params.to_string());
        self.start_raw(method, params.as_deref()).await
    }

    /// Sends a request whose params are spelt as given: a `Value` does not keep how a number such as `1.50` is written.
    pub async fn start_raw(&self, method: &str, params: Option<&str>) -> Pending {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        // A server that has already closed its stdout will not answer: dropping the sender says so.
        self.connection.inbox.with(|contents| {
            if !contents.stdout_closed {
                contents.waiting.insert(id, sender);
            }
        });
        let what = format!("the answer to `{method}` (id {id})");
        let params = params.map(|params| format!(r#","params":{params}"#)).unwrap_or_default();
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"{params}}}"#);
        self.connection.send_line(line.as_bytes()).await;
        Pending { id, what, answer, connection: Arc::clone(&self.connection) }
    }

    /// Sends a notification. `Value::Null` as `params` sends none.
    pub async fn notify(&self, method: &str, params: Value) {
        let mut message = json!({"jsonrpc": "2.0", "method": method});
        if !params.is_null() {
            message["params"] = params;
        }
        self.connection.send(&message).await;
    }

    /// Tells the server that the answer to the request `id` is no longer wanted.
    pub async fn cancel(&self, id: u64) {
        self.notify("notifications/cancelled", json!({"requestId": id, "reason": "the test says so"})).await;
    }

    /// Sends bytes and a newline as they are. An answer to such a line comes by [`Client::next_unmatched`].
    pub async fn send_line(&self, raw: impl AsRef<[u8]>) {
        self.connection.send_line(raw.as_ref()).await;
    }

    /// The next notification of this method that was not yet taken.
    pub async fn next_notification(&self, method: &str) -> Value {
        let what = format!("a notification `{method}`");
        self.connection
            .inbox
            .message(&what, |contents| {
                let at = contents.notifications.iter().position(|message| message["method"] == method)?;
                contents.notifications.remove(at)
            })
            .await
    }

    /// How many notifications of this method have come and not been taken.
    pub fn notifications_left(&self, method: &str) -> usize {
        let of_method = |message: &&Value| message["method"] == method;
        self.connection.inbox.with(|contents| contents.notifications.iter().filter(of_method).count())
    }

    /// Answers every request of this method from now on. `ping` is answered without a handler.
    pub fn on_request(&self, method: &str, handler: impl Fn(Value) -> Value + Send + Sync + 'static) {
        let handler = Arc::new(handler);
        self.connection.inbox.with(|contents| contents.handlers.insert(method.to_owned(), handler));
    }

    /// The next request of the server that no handler has answered.
    pub async fn next_request(&self) -> Question {
        self.connection
            .inbox
            .message("a request of the server", |contents| contents.questions.pop_front())
            .await
    }

    pub async fn respond(&self, id: &Value, result: Value) {
        self.connection.send(&json!({"jsonrpc": "2.0", "id": id, "result": result})).await;
    }

    pub async fn respond_error(&self, id: &Value, code: i64, message: &str) {
        let error = json!({"code": code, "message": message});
        self.connection.send(&json!({"jsonrpc": "2.0", "id": id, "error": error})).await;
    }

    /// The next response whose id belongs to no pending request of this client.
    pub async fn next_unmatched(&self) -> Value {
        self.connection
            .inbox
            .message("an unmatched response", |contents| contents.unmatched.pop_front())
            .await
    }

    /// How many responses came that belong to no pending request and were not taken.
    pub fn unmatched_left(&self) -> usize {
        self.connection.inbox.with(|contents| contents.unmatched.len())
    }

    /// Every line so far: `--> ` before what was sent, `<-- ` before what came.
    pub fn transcript(&self) -> Vec<String> {
        self.connection.inbox.with(|contents| contents.transcript.clone())
    }

    /// What the program has written to stderr so far.
    pub fn stderr(&self) -> String {
        self.connection.inbox.with(|contents| contents.stderr.clone())
    }

    /// Returns when stderr contains `text`.
    pub async fn wait_for_stderr(&self, text: &str) {
        let what = format!("`{text}` on stderr");
        self.connection.inbox.event(&what, |contents| contents.stderr.contains(text).then_some(())).await;
    }

    /// Closes the program's stdin, which asks a stdio server to end.
    pub async fn close_stdin(&self) {
        self.connection.stdin.lock().await.take();
    }

    /// Returns when the program has ended and what it wrote to stdout and stderr has been read.
    pub async fn wait(&self) -> ExitStatus {
        self.connection.inbox.event("the end of the program", |contents| contents.status).await
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The program's `HOME`.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Kills the program with SIGKILL, so that it cannot clean up. Await [`Client::wait`] to know it is gone.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Sends a signal, unless the program has ended and its id may belong to another.
    pub fn signal(&self, signal: Signal) {
        self.connection.inbox.with(|contents| {
            if contents.status.is_none() {
                process::signal(self.pid, signal);
            }
        });
    }
}

impl ServerConnection {
    async fn send(&self, message: &Value) {
        self.send_line(message.to_string().as_bytes()).await;
    }

    /// Writes one line in one write. A program that has ended is no error here: its answer will be missing.
    async fn send_line(&self, raw: &[u8]) {
        let mut line = raw.to_vec();
        line.push(b'\n');
        let shown = format!("--> {}", String::from_utf8_lossy(raw));
        let mut stdin = self.stdin.lock().await;
        self.inbox.with(|contents| contents.transcript.push(shown));
        if let Some(stdin) = stdin.as_mut() {
            let _ = within(TEST_TIMEOUT, stdin.write_all(&line)).await;
        }
    }
}

/// All text parts of a tool's response, joined by newlines. Panics when the response is not a tool result.
pub fn text_of(response: &Value) -> String {
    let Some(parts) = response["result"]["content"].as_array() else {
        panic!("no tool result: {response}");
    };
    let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
    texts.join("\n")
}
