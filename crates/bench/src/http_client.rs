//! The client over HTTP: one persistent connection, blocking reads and writes in the caller's thread. It is as lean as
//! [`crate::agent`]: it makes heads before the clock runs, and reads only status and length of an answer's head.

use std::{
    io::{Read, Write},
    net::TcpStream,
    os::fd::{AsFd, BorrowedFd},
};

use serde_json::{Value, json};

use crate::agent::{Caller, initialize_params};

/// How much is read at once.
const READ_BYTES: usize = 64 * 1024;

/// A connection to `greenroom serve`, and the MCP session on it.
pub struct BenchHttpClient {
    stream: TcpStream,
    /// The head of every request, up to the value of its length.
    head: Vec<u8>,
    next_id: u64,
    /// Bytes that were read and belong to no whole answer yet.
    input: Vec<u8>,
    /// The buffer of all reads, zeroed once instead of before every read.
    chunk: Box<[u8]>,
}

impl BenchHttpClient {
    pub fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("the server accepts");
        stream.set_nodelay(true).expect("a connection can be told not to wait");
        let chunk = vec![0; READ_BYTES].into_boxed_slice();
        Self { stream, head: head(address, ""), next_id: 1, input: Vec::new(), chunk }
    }

    /// Does the handshake, as a client of the newest revision that has one.
    pub fn initialize(&mut self) {
        let address = self.stream.peer_addr().expect("the server is there").to_string();
        let line = self.encode("initialize", &initialize_params("2025-11-25"));
        let (start, _) = self.exchange(&line);
        let session = start.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        let session = session.unwrap_or_else(|| panic!("no session: {start}"));
        let more = format!("Mcp-Session-Id: {session}\r\nMcp-Protocol-Version: 2025-11-25\r\n");
        self.head = head(&address, &more);
        let initialized = self.request(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        self.stream.write_all(&initialized).expect("the server reads");
        let (start, _) = self.answer();
        assert!(start.starts_with("HTTP/1.1 202 "), "{start}");
    }

    /// A whole request that calls a method. Callers encode before they start the clock.
    pub fn encode(&mut self, method: &str, params: &Value) -> Vec<u8> {
        let id = self.next_id;
        self.next_id += 1;
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string();
        self.request(body.as_bytes())
    }

    /// Sends a request and reads its answer: the head as text, and the body, which is JSON.
    pub fn exchange(&mut self, request: &[u8]) -> (String, Vec<u8>) {
        self.stream.write_all(request).expect("the server reads");
        let (head, body) = self.answer();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        (head, body)
    }

    /// The text of a page.
    pub fn get(&mut self, path: &str) -> String {
        let address = self.stream.peer_addr().expect("the server is there");
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        let (_, body) = self.exchange(request.as_bytes());
        String::from_utf8(body).expect("pages are text")
    }

    /// Sends a request without waiting for its answer.
    pub fn send(&mut self, request: &[u8]) {
        self.stream.write_all(request).expect("the server reads");
    }

    /// Reads what has arrived. Returns whether an answer is complete, and removes it.
    pub fn take(&mut self) -> bool {
        self.read();
        let whole = length(&self.input).filter(|(head, body)| self.input.len() >= head + body);
        whole.inspect(|(head, body)| drop(self.input.drain(..head + body))).is_some()
    }

    /// The socket's descriptor, for `poll`.
    pub fn readable(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    fn request(&self, body: &[u8]) -> Vec<u8> {
        [&self.head, format!("{}\r\n\r\n", body.len()).as_bytes(), body].concat()
    }

    fn answer(&mut self) -> (String, Vec<u8>) {
        loop {
            if let Some((head, body)) = length(&self.input)
                && self.input.len() >= head + body
            {
                let start = String::from_utf8_lossy(&self.input[..head]).into_owned();
                let end = self.input[head..head + body].to_vec();
                self.input.drain(..head + body);
                return (start, end);
            }
            self.read();
        }
    }

    fn read(&mut self) {
        let count = self.stream.read(&mut self.chunk).expect("the connection can be read");
        assert!(count > 0, "the server closed the connection");
        self.input.extend_from_slice(&self.chunk[..count]);
    }
}

impl Caller for BenchHttpClient {
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let request = self.encode(method, params);
        serde_json::from_slice(&self.exchange(&request).1).expect("answers are JSON")
    }
}

fn head(address: &str, more: &str) -> Vec<u8> {
    format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Accept: application/json\r\n{more}Content-Length: "
    )
    .into_bytes()
}

/// The lengths of an answer's head and of its body, once the head is complete. An answer without a length has no body;
/// this client accepts no event stream, which would come in chunks.
fn length(input: &[u8]) -> Option<(usize, usize)> {
    let end = input.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&input[..end]).expect("heads are text");
    assert!(!head.contains("transfer-encoding"), "an answer in pieces: {head}");
    let body = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    Some((end, body.map_or(0, |length| length.parse().expect("a length is a number"))))
}
