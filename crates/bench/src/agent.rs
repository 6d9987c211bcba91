//! The client over stdio: blocking reads and writes on a program's pipes, in the caller's thread. It is as lean as a
//! client can be, and the same for all programs, so that differences come from the programs.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::fd::{AsFd, BorrowedFd},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

/// A client that can call tools, over any transport.
pub trait Caller {
    /// Sends a request; returns the whole answer.
    fn ask(&mut self, method: &str, params: &Value) -> Value;

    /// Calls a tool, which must succeed.
    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let answer = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }));
        let failed = answer.get("result").is_none() || answer["result"]["isError"] == true;
        assert!(!failed, "`{tool}` failed: {answer}");
        answer
    }
}

/// How much is read at once: as much as a pipe holds.
const READ_BYTES: usize = 64 * 1024;

/// A running MCP server. Dropping it closes its stdin and waits for its end, so that it does not disturb the next
/// measurement.
pub struct BenchAgent {
    child: Child,
    /// `None` once closed.
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next_id: u64,
    line: Vec<u8>,
}

impl BenchAgent {
    /// Starts the program and does nothing else.
    pub fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let stdin = child.stdin.take();
        let stdout = BufReader::with_capacity(READ_BYTES, child.stdout.take().expect("stdout is a pipe"));
        Self { child, stdin, stdout, next_id: 1, line: Vec::new() }
    }

    /// Starts the program and does the handshake.
    pub fn start(command: Command) -> Self {
        let mut agent = Self::spawn(command);
        agent.initialize();
        agent
    }

    /// Does the handshake; returns the server's part of it.
    pub fn initialize(&mut self) -> Value {
        let answer = self.request("initialize", &initialize_params("2025-06-18"));
        self.write(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
        answer
    }

    pub fn request(&mut self, method: &str, params: &Value) -> Value {
        let answer = self.ask(method, params);
        assert!(answer.get("result").is_some(), "`{method}` failed: {answer}");
        answer
    }

    /// A request as a line, and its id. Callers encode before they start the clock.
    pub fn encode(&mut self, method: &str, params: &Value) -> (u64, Vec<u8>) {
        let id = self.next_id;
        self.next_id += 1;
        let mut line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string();
        line.push('\n');
        (id, line.into_bytes())
    }

    /// Sends a line and reads up to the answer of this id; returns the answer's line.
    pub fn exchange(&mut self, id: u64, line: &[u8]) -> &[u8] {
        self.write(line);
        loop {
            self.line.clear();
            let count = self.stdout.read_until(b'\n', &mut self.line).expect("stdout can be read");
            assert!(count > 0, "the program ended");
            if response_id(&self.line) == Some(id) {
                return &self.line;
            }
        }
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().expect("stdin is open").write_all(bytes).expect("the program reads");
    }

    /// Reads what has arrived, at least a byte. Not to be mixed with `exchange`.
    pub fn read(&mut self, buffer: &mut Vec<u8>) {
        let start = buffer.len();
        buffer.resize(start + READ_BYTES, 0);
        let count = self.stdout.get_mut().read(&mut buffer[start..]).expect("stdout can be read");
        assert!(count > 0, "the program ended");
        buffer.truncate(start + count);
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The pipe's descriptor, for `poll`.
    pub fn readable(&self) -> BorrowedFd<'_> {
        self.stdout.get_ref().as_fd()
    }
}

impl Caller for BenchAgent {
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let (id, line) = self.encode(method, params);
        serde_json::from_slice(self.exchange(id, &line)).expect("answers are JSON")
    }
}

impl Drop for BenchAgent {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// The parameters of `initialize`.
pub fn initialize_params(revision: &str) -> Value {
    let info = json!({ "name": "greenroom-bench", "version": "1" });
    json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": info })
}

/// The id that a line answers, `None` for anything but an answer. Looks at the first member after `jsonrpc` only: all
/// programs measured here write `result` or `error` after it, and notifications have a `method` there. A line with
/// `result` first is parsed.
pub fn response_id(line: &[u8]) -> Option<u64> {
    const HEAD: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":";
    if let Some(rest) = line.strip_prefix(HEAD) {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if rest.get(digits..)?.starts_with(b",\"method\"") {
            return None;
        }
        return std::str::from_utf8(rest.get(..digits)?).ok()?.parse().ok();
    }
    let message: Value = serde_json::from_slice(line).ok()?;
    if message.get("method").is_some() { None } else { message.get("id")?.as_u64() }
}
