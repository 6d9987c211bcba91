//! A call on its way to a seat, and its reply.

use std::{ops::Range, path::PathBuf, sync::Arc};

use super::BoxFuture;
use crate::{
    raw::{Fields, Raw},
    record::{ConsoleLine, SessionRef},
};

/// The MCP method of a tool call.
pub const TOOLS_CALL: &str = "tools/call";

/// One tool call on its way to a seat. `params` are the MCP parameters without greenroom's own selectors.
#[derive(Clone)]
pub struct Call {
    pub tool: Arc<str>,
    /// The MCP method: `tools/call`, or another request to an engine that is an MCP server.
    pub method: &'static str,
    pub params: Raw,
    /// The screenshot that this call takes must show the refs of elements that can be clicked or filled.
    pub annotate: bool,
    /// Records the call before it runs.
    pub recorder: Option<Arc<dyn CallRecorder>>,
}

impl Call {
    pub fn new(tool: impl Into<Arc<str>>, params: Raw) -> Self {
        Self { tool: tool.into(), method: TOOLS_CALL, params, annotate: false, recorder: None }
    }

    /// Begins the call's record, now that its session is known. The call must not run before the future resolves.
    pub fn begin(&mut self, session: Option<&SessionRef>) -> BoxFuture<'static, ()> {
        match self.recorder.take() {
            Some(recorder) => recorder.begin(session),
            None => Box::pin(std::future::ready(())),
        }
    }
}

/// Records the beginning of a call.
pub trait CallRecorder: Send + Sync {
    /// Queues the record of a call whose session is now known (`None`: it needs none) and that is about to run. Never
    /// blocks. The returned future resolves when the store has kept the record, or cannot.
    fn begin(&self, session: Option<&SessionRef>) -> BoxFuture<'static, ()>;
}

/// What an engine answered. The body is unchanged: `Ok` is a JSON-RPC result, `Err` a JSON-RPC error object.
#[derive(Debug, Clone)]
pub struct Reply {
    pub body: Result<Raw, Raw>,
    /// What the engine's adapter found in the answer or in the files it links to, in the order of their ranges.
    pub artifacts: Vec<Artifact>,
    /// Console lines that came with the answer, in order.
    pub console: Vec<ConsoleLine>,
    /// The session's folder, if the engine named files relative to it.
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

    /// The text of the page snapshot.
    pub fn snapshot_text(&self) -> Option<&Arc<str>> {
        match &self.snapshot()?.content {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The size of the reply's texts in bytes: the body, the snapshot and the console lines.
    pub fn bytes(&self) -> usize {
        let (Ok(body) | Err(body)) = &self.body;
        let console = self.console.iter().map(|line| line.message.len());
        body.get().len() + self.snapshot_text().map_or(0, |text| text.len()) + console.sum::<usize>()
    }

    /// Whether the engine says that it failed: a JSON-RPC error, or a result marked as one.
    pub fn is_failure(&self) -> bool {
        match &self.body {
            Err(_) => true,
            // Search for the word first: most answers do not contain it and need no parsing.
            Ok(result) => {
                result.get().contains("isError")
                    && Fields::open(result).ok().and_then(|fields| fields.read("isError").ok().flatten())
                        == Some(true)
            }
        }
    }
}

/// A part of an answer that stands for other content: a snapshot, console lines, a file.
#[derive(Debug, Clone)]
pub struct Artifact {
    pub kind: ArtifactKind,
    /// The artifact's position in the JSON text of [`Reply::body`], in bytes. Empty if it is not in that text: a file
    /// that the answer does not name, or a snapshot that was written to one of the agent's files.
    pub range: Range<usize>,
    /// The plain text that replaces the range. `None` if the answer already has that text.
    pub instead: Option<String>,
    /// The content to keep in the record.
    pub content: Content,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArtifactKind {
    /// A page snapshot, or a link to a file with one. The record keeps the snapshot's own text, without a code fence.
    Snapshot,
    /// New console lines that the engine wrote to a file; see [`Reply::console`].
    Console,
    /// A path that only the engine can use; [`Artifact::instead`] is the text that the agent can use.
    Path,
}

/// The content of an artifact that a record keeps.
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
