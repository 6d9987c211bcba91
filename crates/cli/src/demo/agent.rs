//! One agent of the demo: an MCP client with its own connection and session, that counts its calls.
//!
//! It reads answers as a model would, as text. [`script`](super::script) says what it calls.

use std::time::{Duration, Instant};

use greenroom_core::{Raw, raw::encode};
use greenroom_mcp::{
    Peer,
    link::http::HttpEndpoint,
    peer::{ClientInfo, InitializeParams},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::catalog::Role;

/// The newest revision that has a handshake.
const REVISION: &str = "2025-11-25";

/// Why a step did not work, in the words of the server that refused it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepError {
    pub message: String,
    pub hint: Option<String>,
}

impl StepError {
    /// Parses an answer's text: `what happened`, perhaps below a heading and with details; a blank line; `hint: what to
    /// do`.
    pub fn new(text: &str) -> Self {
        let hint = text.split_once("\n\nhint: ").and_then(|(_, hint)| hint.lines().next());
        let message = text.lines().find(|line| !line.starts_with('#') && !line.trim().is_empty());
        Self { message: message.unwrap_or(text).trim().to_owned(), hint: hint.map(str::to_owned) }
    }
}

/// The part of a call's answer that the demo reads.
#[derive(Debug, Default)]
pub struct DemoAnswer {
    pub text: String,
    /// The size of the picture in it, in base64.
    pub picture_chars: Option<usize>,
}

impl DemoAnswer {
    /// The rest of the first line that contains these words.
    pub fn rest_of_line(&self, words: &str) -> Option<&str> {
        let rest = self.text.split_once(words)?.1.lines().next().unwrap_or_default();
        Some(rest.trim_end_matches('"').trim())
    }
}

/// What a page says about the agent that visits it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShopPage {
    pub customer: String,
    /// Empty, or its items, with commas between.
    pub basket: String,
}

impl ShopPage {
    fn read(answer: &DemoAnswer) -> Option<Self> {
        let customer = answer.rest_of_line("Signed in as ")?.to_owned();
        let basket = answer.rest_of_line("Basket holds ").unwrap_or_default().to_owned();
        Some(Self { customer, basket })
    }
}

pub struct DemoAgent {
    pub role: Role,
    pub calls: usize,
    /// How many pages it has loaded.
    pub pages: usize,
    /// Time spent waiting for answers.
    pub busy: Duration,
    /// What the last page said.
    pub last_page: ShopPage,
    pub error: Option<StepError>,
    peer: Peer,
}

impl DemoAgent {
    pub fn new(role: Role, front: &HttpEndpoint) -> Self {
        // The agent does not read the server's requests: a server sends none to a client without capabilities.
        let (peer, _) = front.connect();
        Self {
            role,
            calls: 0,
            pages: 0,
            busy: Duration::ZERO,
            last_page: ShopPage::default(),
            error: None,
            peer,
        }
    }

    /// The handshake.
    pub async fn initialize(&self) -> Result<(), StepError> {
        let hello = InitializeParams {
            protocol_version: REVISION,
            capabilities: encode(&json!({})),
            client_info: ClientInfo { name: "greenroom-demo", version: env!("CARGO_PKG_VERSION") },
        };
        let answer = self.peer.initialize(&hello).await;
        flatten_result(answer).map(drop)
    }

    /// Sets the counters to zero: earlier calls were preparation.
    pub fn reset_counters(&mut self) {
        self.calls = 0;
        self.busy = Duration::ZERO;
    }

    /// Calls a tool in this agent's session.
    pub async fn call(&mut self, tool: &str, mut arguments: Value) -> Result<DemoAnswer, StepError> {
        arguments["sessionId"] = json!(self.role.session());
        let params = encode(&json!({ "name": tool, "arguments": arguments }));
        let start = Instant::now();
        let answered = self.peer.request("tools/call", Some(&params)).await;
        self.busy += start.elapsed();
        self.calls += 1;
        let answer = read(&flatten_result(answered)?)?;
        if let Some(page) = ShopPage::read(&answer) {
            self.last_page = page;
        }
        Ok(answer)
    }
}

type PeerResult = Result<Result<Raw, Raw>, greenroom_mcp::PeerError>;

/// Turns a JSON-RPC error and the end of the connection into a [`StepError`].
fn flatten_result(answered: PeerResult) -> Result<Raw, StepError> {
    match answered {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(error)) => Err(StepError::new(error.get())),
        Err(gone) => Err(StepError::new(&gone.to_string())),
    }
}

/// Reads a tool's answer. A failed tool is a [`StepError`].
fn read(result: &Raw) -> Result<DemoAnswer, StepError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ToolResult {
        content: Vec<ContentBlock>,
        #[serde(default)]
        is_error: bool,
    }
    #[derive(Deserialize)]
    struct ContentBlock {
        text: Option<String>,
        data: Option<String>,
    }
    let ToolResult { content, is_error } =
        serde_json::from_str(result.get()).map_err(|error| StepError::new(&error.to_string()))?;
    let mut answer = DemoAnswer::default();
    for part in content {
        if let Some(text) = part.text {
            answer.text += &text;
            answer.text.push('\n');
        }
        answer.picture_chars = answer.picture_chars.or(part.data.map(|data| data.len()));
    }
    if is_error { Err(StepError::new(&answer.text)) } else { Ok(answer) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(value: &Value) -> Result<DemoAnswer, StepError> {
        read(&encode(value))
    }

    /// An agent reads from a snapshot who it is and what it has taken, quoted or not.
    #[test]
    fn customer_and_basket_are_parsed_from_a_snapshot() {
        let text = "### Page\n- Page URL: http://x/\n```yaml\n- paragraph [ref=e3]: Signed in as Ada\n\
                    - paragraph [ref=e4]: \"Basket holds Sencha, Biscuits\"\n- button \"Take Mint\"\n```";
        let read = answer(&json!({"content": [{"type": "text", "text": text}]})).unwrap();
        let page = ShopPage { customer: "Ada".to_owned(), basket: "Sencha, Biscuits".to_owned() };
        assert_eq!(ShopPage::read(&read), Some(page));
        assert_eq!(read.rest_of_line("- Page URL: "), Some("http://x/"));
        assert_eq!(ShopPage::read(&DemoAnswer::default()), None);
    }

    /// A failed tool is a [`StepError`], with its hint separate.
    #[test]
    fn failed_answer_becomes_a_step_error() {
        let text = "no browser free within 1 s: pool \"DEFAULT\"\n\nhint: close a session";
        let failed = answer(&json!({"isError": true, "content": [{"type": "text", "text": text}]}));
        let error = failed.unwrap_err();
        assert_eq!(error.message, "no browser free within 1 s: pool \"DEFAULT\"");
        assert_eq!(error.hint.as_deref(), Some("close a session"));
        let error = StepError::new("### Error\nTypeError: no such thing\n    at eval (1:2)\n");
        assert_eq!((error.message.as_str(), error.hint), ("TypeError: no such thing", None));
        assert_eq!(answer(&json!({"content": []})).unwrap().text, "");
        assert!(answer(&json!({"nothing": 1})).is_err());
    }

    /// The size of a picture is known without decoding it.
    #[test]
    fn picture_size_is_counted_in_base64() {
        let read = answer(&json!({"content": [{"type": "image", "data": "AAAA", "mimeType": "image/jpeg"}]}));
        assert_eq!(read.unwrap().picture_chars, Some(4));
    }
}
