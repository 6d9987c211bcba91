//! The fake engine: an MCP server over stdio without a browser. It is fast (it is the floor of the latency
//! benchmark), keeps state (so that tests see which process they reached) and breaks on demand.
//!
//! One thread reads and answers; a tool that waits gets a thread of its own, so that calls do not delay each
//! other. It ends when stdin closes. Like the real engines it ignores `notifications/cancelled`.
//!
//! `options` has its flags, `stdio` its stdio, `tools` its tools, `catalog` its tool list, and `log` the test's view of
//! what reached it.

mod catalog;
pub mod log;
mod options;
mod stdio;
mod tools;

use std::{
    borrow::Cow,
    collections::HashMap,
    io::BufRead,
    process::ExitCode,
    sync::{Arc, Mutex},
    thread,
};

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::signal::unix::{SignalKind, signal};

use options::{FakeEngineOptions, OnTerm, Start};
use stdio::StdioConnection;
use tools::{Call, ToolReply};

/// The revisions this engine speaks. A client that asks for another gets the newest.
const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

const METHOD_NOT_FOUND: i64 = -32_601;
const INVALID_PARAMS: i64 = -32_602;

/// The lines of `--garbage-at-start` and of the tool `garbage`: plain words, an empty line, half a message,
/// and JSON that is not a message.
const GARBAGE: &str = "this is not JSON\n\n{\"jsonrpc\":\"2.0\",\"id\":\n[1,2]\n42\n";

/// What the threads of one fake engine share.
pub(crate) struct Engine {
    stdio: StdioConnection,
    options: FakeEngineOptions,
    /// The values that `set` has set: they live as long as this process.
    values: Mutex<HashMap<String, String>>,
    /// Names of the tools beyond the built-in ones, in the order they came.
    extra_tools: Mutex<Vec<String>>,
    /// The least level of `notifications/message` that the client wants, as an index into `tools::LEVELS`.
    level: Mutex<usize>,
}

/// One line from the client. Its members tell a request, a notification and a response apart.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// Runs the fake engine until stdin closes. `args` are the command line without the program's name.
pub fn main(args: impl Iterator<Item = String>) -> ExitCode {
    let options = match FakeEngineOptions::parse(args) {
        Ok(options) => options,
        Err(complaint) => {
            stdio::write_stderr(&complaint);
            return ExitCode::from(2);
        }
    };
    let stdio = StdioConnection::new(options.log.as_deref());
    stdio.log("start");
    match options.start {
        Start::Die => {
            stdio::write_stderr(
                options.stderr.as_deref().unwrap_or("fake engine: ends at start, as its flags say"),
            );
            return ExitCode::FAILURE;
        }
        Start::Garbage => stdio.raw(GARBAGE),
        Start::Normal | Start::Hang => {}
    }
    thread::sleep(options.slow_start);
    let engine = Engine::new(stdio, options);
    engine.handle_sigterm();
    engine.serve();
    ExitCode::SUCCESS
}

impl Engine {
    fn new(stdio: StdioConnection, options: FakeEngineOptions) -> Arc<Self> {
        let extra_tools = Mutex::new(options.extra_tools.clone());
        Arc::new(Self { stdio, options, values: Mutex::default(), extra_tools, level: Mutex::default() })
    }

    /// Starts a thread that handles SIGTERM as the flags say; none without such a flag.
    fn handle_sigterm(self: &Arc<Self>) {
        if self.options.on_term == OnTerm::Default {
            return;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let entered = runtime.enter();
        let mut signals = signal(SignalKind::terminate()).unwrap();
        drop(entered);
        let engine = Arc::clone(self);
        thread::spawn(move || {
            while runtime.block_on(signals.recv()).is_some() {
                engine.stdio.log("SIGTERM");
                if engine.options.on_term == OnTerm::Log {
                    std::process::exit(0);
                }
            }
        });
    }

    fn serve(self: &Arc<Self>) {
        let mut stdin = std::io::stdin().lock();
        let mut line = Vec::with_capacity(64 * 1_024);
        loop {
            line.clear();
            match stdin.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => self.receive(&line),
            }
        }
    }

    fn receive(self: &Arc<Self>, line: &[u8]) {
        let Ok(message) = serde_json::from_slice::<Message<'_>>(line) else {
            self.stdio.log("garbage");
            return;
        };
        match (message.method.as_deref(), message.id) {
            (Some("tools/call"), Some(id)) => self.call(id, message.params.unwrap_or(RawValue::NULL)),
            (Some(method), Some(id)) => {
                self.stdio.log(method);
                self.answer(id.get(), self.request(method, message.params));
            }
            (Some(notification), None) => self.stdio.log(notification),
            (None, Some(id)) => self.stdio.answered(id.get(), message.result.ok_or(message.error)),
            (None, None) => self.stdio.log("garbage"),
        }
    }

    /// Answers every request except tool calls.
    fn request(&self, method: &str, params: Option<&RawValue>) -> ToolReply {
        match method {
            "initialize" if self.options.start == Start::Hang => ToolReply::Never,
            "initialize" => ToolReply::Result(self.initialize(params)),
            "ping" => ToolReply::Result("{}".to_owned()),
            "tools/list" => self.list_tools(params),
            "logging/setLevel" if self.options.logging => self.set_level(params),
            _ => ToolReply::error(METHOD_NOT_FOUND, &format!("method not found: `{method}`")),
        }
    }

    fn initialize(&self, params: Option<&RawValue>) -> String {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Initialize {
            protocol_version: String,
        }
        let requested = params.and_then(|raw| serde_json::from_str::<Initialize>(raw.get()).ok());
        let known = requested
            .map(|requested| requested.protocol_version)
            .filter(|requested| REVISIONS.contains(&requested.as_str()));
        let revision = self
            .options
            .protocol
            .clone()
            .or(known)
            .unwrap_or_else(|| REVISIONS[REVISIONS.len() - 1].to_owned());
        let logging = if self.options.logging { r#","logging":{}"# } else { "" };
        format!(
            r#"{{"protocolVersion":{},"capabilities":{{"tools":{{"listChanged":true}}{logging}}},"serverInfo":{{"name":"greenroom-fake-engine","version":"1.0.0"}},"instructions":"A fake engine for tests."}}"#,
            tools::quote(&revision)
        )
    }

    fn list_tools(&self, params: Option<&RawValue>) -> ToolReply {
        #[derive(Deserialize)]
        struct List {
            cursor: Option<String>,
        }
        let list = params.and_then(|raw| serde_json::from_str::<List>(raw.get()).ok());
        let start = match list.and_then(|list| list.cursor).map(|cursor| cursor.parse::<usize>()) {
            None => 0,
            Some(Ok(start)) => start,
            Some(Err(_)) => return ToolReply::error(INVALID_PARAMS, "no such cursor"),
        };
        ToolReply::Result(catalog::page(&self.extra_tools.lock().unwrap(), start, self.options.page_size))
    }

    fn set_level(&self, params: Option<&RawValue>) -> ToolReply {
        #[derive(Deserialize)]
        struct SetLevel {
            level: String,
        }
        let wanted = params.and_then(|raw| serde_json::from_str::<SetLevel>(raw.get()).ok());
        match wanted.and_then(|wanted| tools::LEVELS.iter().position(|level| *level == wanted.level)) {
            Some(level) => {
                *self.level.lock().unwrap() = level;
                ToolReply::Result("{}".to_owned())
            }
            None => ToolReply::error(INVALID_PARAMS, "no such level"),
        }
    }

    fn call(self: &Arc<Self>, id: &RawValue, params: &RawValue) {
        let call = match Call::read(id, params) {
            Ok(call) => call,
            Err(error) => {
                self.stdio.log("tools/call");
                return self.answer(id.get(), ToolReply::error(INVALID_PARAMS, &error.to_string()));
            }
        };
        self.stdio.log_call(&call.name);
        match tools::find(&call.name) {
            Some(tool) if tool.waits => {
                let engine = Arc::clone(self);
                // Never joined: a call that still waits when stdin closes ends with the process.
                thread::spawn(move || engine.answer(&call.id, tools::run(tool, &engine, &call)));
            }
            Some(tool) => self.answer(&call.id, tools::run(tool, self, &call)),
            None if self.extra_tools.lock().unwrap().contains(&call.name) => {
                self.answer(&call.id, ToolReply::text(&call.name));
            }
            None => {
                let complaint = format!("unknown tool: `{}`", call.name);
                self.answer(&call.id, ToolReply::error(INVALID_PARAMS, &complaint));
            }
        }
    }

    fn answer(&self, id: &str, answer: ToolReply) {
        match answer {
            ToolReply::Result(result) => self.stdio.answer(id, "result", &result),
            ToolReply::Error(error) => self.stdio.answer(id, "error", &error),
            ToolReply::Never => {}
        }
    }
}
