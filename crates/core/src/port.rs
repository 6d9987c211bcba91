//! The ports: how the fleet sees engines, and how an engine sees the agent behind a call.
//!
//! An [`Engine`] starts [`Instance`]s, an instance opens [`Seat`]s, a seat takes [`Call`]s one at a time
//! (`&mut self` makes "calls of a session run in order" a type). Everything the fleet knows of a browser it
//! knows through these traits, so it is tested against fakes.

use std::{
    collections::BTreeSet, future::Future, ops::Range, path::PathBuf, pin::Pin, sync::Arc, time::Duration,
};

use tokio::sync::watch;

use crate::{
    id::InstanceId,
    raw::{Fields, Raw},
    record::{ConsoleLine, SessionRef},
};

/// The method of calls of tools.
pub const TOOLS_CALL: &str = "tools/call";

/// A boxed future: what an object-safe async method returns.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One tool call on its way to a seat. `params` are the MCP parameters without greenroom's own selectors.
#[derive(Clone)]
pub struct Call {
    pub tool: Arc<str>,
    /// The MCP method: `tools/call`, or what else an engine that is a server is asked for.
    pub method: &'static str,
    pub params: Raw,
    /// Who writes it down before it runs.
    pub scribe: Option<Arc<dyn Scribe>>,
}

impl Call {
    pub fn new(tool: impl Into<Arc<str>>, params: Raw) -> Self {
        Self { tool: tool.into(), method: TOOLS_CALL, params, scribe: None }
    }

    /// Has it written down, now that its session is known. It must not run before that is done.
    pub fn begin(&mut self, session: Option<&SessionRef>) -> BoxFuture<'static, ()> {
        match self.scribe.take() {
            Some(scribe) => scribe.begin(session),
            None => Box::pin(std::future::ready(())),
        }
    }
}

/// Writes a call down.
pub trait Scribe: Send + Sync {
    /// The call has found its session, or needs none, and is about to run there. What this returns resolves when that
    /// is written down, or cannot be; putting it in order happens at once and never blocks.
    fn begin(&self, session: Option<&SessionRef>) -> BoxFuture<'static, ()>;
}

/// What an engine answered. The body is untouched: `Ok` is a JSON-RPC result, `Err` a JSON-RPC error object.
#[derive(Debug, Clone)]
pub struct Reply {
    pub body: Result<Raw, Raw>,
    /// What the engine's adapter found in the answer or in the files it links to, in the order of their places.
    pub artifacts: Vec<Artifact>,
    /// Console lines that came with the answer, in order.
    pub console: Vec<ConsoleLine>,
    /// The session's folder, where the engine named files relative to it.
    pub folder: Option<PathBuf>,
}

impl From<Result<Raw, Raw>> for Reply {
    /// An answer in which nothing was found.
    fn from(body: Result<Raw, Raw>) -> Self {
        Self { body, artifacts: Vec::new(), console: Vec::new(), folder: None }
    }
}

impl Reply {
    /// The page snapshot, if the answer has one or links to one.
    pub fn snapshot(&self) -> Option<&Artifact> {
        self.artifacts.iter().find(|artifact| matches!(artifact.kind, ArtifactKind::Snapshot))
    }

    /// Its own text.
    pub fn snapshot_text(&self) -> Option<&Arc<str>> {
        match &self.snapshot()?.content {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    /// How many bytes it has to look through.
    pub fn bytes(&self) -> usize {
        let (Ok(body) | Err(body)) = &self.body;
        let console = self.console.iter().map(|line| line.message.len());
        body.get().len() + self.snapshot_text().map_or(0, |text| text.len()) + console.sum::<usize>()
    }

    /// Whether the engine says that it failed: a JSON-RPC error, or a result marked as one.
    pub fn is_failure(&self) -> bool {
        match &self.body {
            Err(_) => true,
            // Most answers do not have the word: then nothing is taken apart.
            Ok(result) => {
                result.get().contains("isError")
                    && Fields::open(result).ok().and_then(|fields| fields.read("isError").ok().flatten())
                        == Some(true)
            }
        }
    }
}

/// Something in an answer that stands for more, or for something else, than its letters.
#[derive(Debug, Clone)]
pub struct Artifact {
    pub kind: ArtifactKind,
    /// Where it stands in the JSON text of [`Reply::body`], in bytes. Empty where it does not stand there: a file that the
    /// answer does not name, or a snapshot that was written to a file of the agent's.
    pub place: Range<usize>,
    /// What belongs there instead, as plain text. `None` when the answer has it already.
    pub instead: Option<String>,
    /// What there is to keep of it.
    pub content: Content,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArtifactKind {
    /// A page snapshot, or a link to a file with one. What is kept is the snapshot's own text, without a fence around it.
    Snapshot,
    /// New console lines that the engine wrote to a file; see [`Reply::console`].
    Console,
    /// A file: its path means something to the engine only; the text is what the agent can use.
    Path,
}

/// An input field of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// What calls may name it by.
    pub reference: String,
    /// What was entered, as far as the snapshot shows it.
    pub value: Option<String>,
}

/// What there is to keep of an artifact.
#[derive(Debug, Clone)]
pub enum Content {
    Nothing,
    Text(Arc<str>),
    /// A file, by the name that the engine or the agent gave it.
    File {
        name: String,
        mime: &'static str,
        data: Vec<u8>,
    },
}

/// Why a seat or an instance is gone. Noticed by process exit or observer, never guessed from an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    #[error("the engine process ended ({status}){}", last_words(.stderr_tail))]
    Process { status: Arc<str>, stderr_tail: Arc<str> },
    #[error("the browser ended ({status}){}", last_words(.stderr_tail))]
    Browser { status: Arc<str>, stderr_tail: Arc<str> },
    /// Its pages crashed too often. One crash costs one tab; see [`Seat::take_crashes`].
    #[error("the page crashed ({0})")]
    Page(Arc<str>),
    #[error("the engine did not answer within {}", human(*.0))]
    Hung(Duration),
    /// It failed its health checks.
    #[error("the browser was given up: {0}")]
    Unwell(Arc<str>),
    /// The browser goes on without what its network service had in memory.
    #[error("the browser's network service ended: cookies that its sessions had in memory are gone")]
    Cookies,
    #[error("the engine broke the protocol: {0}")]
    Protocol(Arc<str>),
    #[error("greenroom is shutting down")]
    Shutdown,
}

/// What a process wrote to stderr last, for the end of a message about it; nothing where it wrote nothing.
pub fn last_words(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!("; its last words: {stderr}") }
}

/// A duration as people write it: `250 ms`, `30 s`, `5 min`.
pub fn human(duration: Duration) -> String {
    let ms = duration.as_millis();
    match ms {
        _ if ms < 1_000 => format!("{ms} ms"),
        _ if ms < 120_000 && !ms.is_multiple_of(1_000) => format!("{:.1} s", duration.as_secs_f64()),
        _ if ms < 120_000 => format!("{} s", ms / 1_000),
        _ => format!("{} min", (ms + 30_000) / 60_000),
    }
}

/// Why an instance could not be started.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct StartError {
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl StartError {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Why a seat could not be opened.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OpenError {
    /// The instance is gone; another one may do.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// This seat was not made in time, and is cleared away when it comes up late. Whether the instance still answers is for
    /// [`Instance::ping`] to say.
    #[error(transparent)]
    Late(StartError),
    /// This seat could not be made; the instance lives.
    #[error(transparent)]
    Failed(#[from] StartError),
}

/// Why an instance gives no sign of life. It may yet come round; whether it does is looked at again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unwell(pub Arc<str>);

/// Where a caller stands that waits for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queued<'a> {
    pub pool: &'a str,
    /// 1 is served next.
    pub place: usize,
    /// How many wait, this one too.
    pub waiting: usize,
}

/// A tool as the engine described it: the whole JSON object, raw.
#[derive(Debug, Clone)]
pub struct Tool {
    pub name: Arc<str>,
    pub definition: Raw,
}

/// The tools of an engine.
#[derive(Debug, Clone, Default)]
pub struct Toolset {
    pub tools: Vec<Tool>,
    /// What it said of itself in the handshake. `None` if nobody asked.
    pub introduction: Option<Introduction>,
}

/// What an engine says of itself when it is met.
#[derive(Debug, Clone)]
pub struct Introduction {
    /// What it has beside tools: its MCP capabilities.
    pub capabilities: Raw,
    /// How it wants to be used, for the model to read.
    pub instructions: Option<Arc<str>>,
}

/// What the observer knows of a seat's current page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    pub url: String,
    pub title: String,
    pub tabs: usize,
}

/// A tab whose page crashed. Cookies and the other tabs of its seat are as they were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crash {
    /// What it showed.
    pub url: Arc<str>,
    /// How it ended, in the browser's words: `crashed`, `oom`, `killed`.
    pub why: Arc<str>,
}

/// Downloads that were stopped because the files of their seat take all the disk space that they may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoppedDownloads {
    pub count: u64,
    /// How many bytes the files of a seat may take.
    pub bytes_max: u64,
}

/// How many crashes an agent is told of with one answer. More than a few say nothing new.
pub const CRASHES_TOLD_MAX: usize = 8;

/// Starts instances of one configured engine.
pub trait Engine: Send + Sync {
    /// What the tool list depends on: kind, version and options. Equal fingerprints have equal tools.
    fn fingerprint(&self) -> String;
    /// Tools that run code in the engine's own process; hidden and refused unless `tools.unsafe` is set.
    fn unsafe_tools(&self) -> BTreeSet<&'static str>;
    /// Whether a tool's answers carry page snapshots, as far as the engine's adapter knows.
    fn gives_snapshots(&self, _tool: &str) -> bool {
        false
    }
    /// The entry of `caps` that a tool belongs to, where the engine has the tool and is not told to offer it.
    fn missing_cap(&self, _tool: &str) -> Option<&'static str> {
        None
    }
    /// A snapshot's input fields whose names are such.
    fn fields(&self, _snapshot: &str, _is_such: &dyn Fn(&str) -> bool) -> Vec<Field> {
        Vec::new()
    }
    /// Which of its answers can be read as data, to be asked for in parts.
    fn gives_data(&self, _tool: &str) -> bool {
        false
    }
    /// An answer as data: a snapshot as a tree of nodes (`role`, `name`, `ref`, …, `children`), the value of an
    /// evaluation. `None` when there is none in it.
    fn data(&self, _tool: &str, _result: &str, _snapshot: Option<&str>) -> Option<serde_json::Value> {
        None
    }
    /// Whether it is an MCP server of somebody else's, that may have prompts and resources beside its tools.
    fn is_server(&self) -> bool {
        false
    }
    /// Asks the engine for its tools, without a browser.
    fn tools(&self) -> BoxFuture<'_, Result<Toolset, StartError>>;
    fn start(&self, id: InstanceId) -> BoxFuture<'_, Result<Arc<dyn Instance>, StartError>>;
    /// Brings the browser of an attached engine back that cannot be reached, by whatever its operator said does so.
    /// Says whether anything was done; nothing is where the browser answers, or nobody said what to do.
    fn revive(&self) -> BoxFuture<'_, Result<bool, StartError>> {
        Box::pin(std::future::ready(Ok(false)))
    }
    /// Whether a seat that was opened for [`Nobody`] serves this agent as well as one opened for it would.
    fn spare_suits(&self, agent: &dyn Agent) -> bool;
}

/// One running engine with its browser.
pub trait Instance: Send + Sync {
    /// Opens a seat on behalf of an agent, whose capabilities the engine learns. The seat has a private folder
    /// of its own, which ends with it.
    fn open(&self, agent: Arc<dyn Agent>) -> BoxFuture<'_, Result<Box<dyn Seat>, OpenError>>;
    /// Becomes `Some` once, when the instance is gone.
    fn lost(&self) -> watch::Receiver<Option<Lost>>;
    /// Asks the engine and its browser for a sign of life, beside whatever calls are running. Whoever asks decides how
    /// long that may take.
    fn ping(&self) -> BoxFuture<'_, Result<(), Unwell>>;
    /// Who did not answer the last [`Instance::ping`], for whoever has given up waiting for it. `None` where nobody is
    /// waited for, or nobody knows.
    fn silent(&self) -> Option<Arc<str>> {
        None
    }
    /// Declares the instance lost, for a reason that whoever asks has found. What was said first stays.
    fn condemn(&self, _: Lost) {}
    /// The processes this instance started and still owns: the engine's, then the browser's.
    fn process_ids(&self) -> Vec<u32>;
    /// Ends the instance: politely within `grace`, then by force. Returns when nothing of it is left.
    fn stop(&self, grace: Duration) -> BoxFuture<'_, ()>;
}

/// One isolated browser context, ready to take calls, one at a time.
pub trait Seat: Send {
    fn call<'a>(&'a mut self, call: Call, agent: Arc<dyn Agent>) -> BoxFuture<'a, Result<Reply, Lost>>;
    /// How much longer than the usual deadline this call asks to wait, by its own arguments.
    fn own_wait(&self, call: &Call) -> Duration;
    /// Becomes `Some` once, when this seat can take no more calls.
    fn lost(&self) -> watch::Receiver<Option<Lost>>;
    /// The tabs that crashed since this was last asked, oldest first, and no more than [`CRASHES_TOLD_MAX`]. The seat goes on
    /// without them.
    fn take_crashes(&mut self) -> Vec<Crash> {
        Vec::new()
    }
    /// The downloads that were stopped since this was last asked. The seat goes on without them.
    fn take_stopped_downloads(&mut self) -> Option<StoppedDownloads> {
        None
    }
    fn view(&self) -> watch::Receiver<View>;
    /// Gives the context back. Returns when it is gone.
    fn close(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// Why a question to an agent has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    #[error("the agent's client does not support `{0}`")]
    Unsupported(String),
    #[error("the agent is gone")]
    Gone,
}

/// Whoever is behind a call.
pub trait Agent: Send + Sync {
    /// Passes on a notification (method and parameters). Bounded; never blocks.
    fn tell(&self, method: &str, params: Option<Raw>);
    /// Passes on a question and its answer: `Ok(Ok)` a result, `Ok(Err)` the client's JSON-RPC error object.
    fn ask<'a>(
        &'a self,
        method: &'a str,
        params: Option<Raw>,
    ) -> BoxFuture<'a, Result<Result<Raw, Raw>, NoAnswer>>;
    /// The client's MCP capabilities, as it sent them.
    fn capabilities(&self) -> Option<Raw>;
    /// The folders whose files this agent may hand to a browser or receive from one.
    fn roots(&self) -> BoxFuture<'_, Vec<PathBuf>>;
    /// The level last asked for with `logging/setLevel`.
    fn log_level(&self) -> Option<String>;
    /// Whether it wants to hear where its call stands in the queue for a slot.
    fn follows_queue(&self) -> bool {
        false
    }
    /// Hears where its call stands, when that has changed. Bounded; never blocks.
    fn queued(&self, _: Queued<'_>) {}
}

/// The agent of a seat that has none yet, and of whoever drives a browser without being one: it hears nothing,
/// offers nothing and answers nothing.
#[derive(Debug, Clone, Copy)]
pub struct Nobody;

impl Agent for Nobody {
    fn tell(&self, _: &str, _: Option<Raw>) {}

    fn ask<'a>(
        &'a self,
        method: &'a str,
        _: Option<Raw>,
    ) -> BoxFuture<'a, Result<Result<Raw, Raw>, NoAnswer>> {
        Box::pin(async move { Err(NoAnswer::Unsupported(method.to_owned())) })
    }

    fn capabilities(&self) -> Option<Raw> {
        None
    }

    fn roots(&self) -> BoxFuture<'_, Vec<PathBuf>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    fn log_level(&self) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Durations in messages read as people write them.
    #[test]
    fn durations_read_well() {
        for (ms, text) in
            [(250, "250 ms"), (1_500, "1.5 s"), (30_000, "30 s"), (90_000, "90 s"), (300_000, "5 min")]
        {
            assert_eq!(human(Duration::from_millis(ms)), text);
        }
    }
}
