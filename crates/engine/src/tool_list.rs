//! Tool lists of engines: reads them, and passes them to the catalog.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use greenroom_core::{Introduction, Raw, StartError, Tool, Toolset, raw::encode};
use greenroom_mcp::{Peer, link::child};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;

use crate::{
    loss::explain_by_exit,
    process::{Pipes, Process},
    upstream::{EngineRequestError, initialize, within_deadline},
};

/// How many pages a tool list may have before it counts as endless.
const TOOL_PAGES_MAX: usize = 100;

/// A tool list, and how long and for which agents it is valid.
#[derive(Debug)]
pub struct OfferedTools {
    pub tools: Toolset,
    /// Whether the engine has just started. Then the next one will offer the same list, and the catalog may
    /// cache it; a list that an engine announces later may be valid for this process only.
    pub at_start: bool,
    /// Whether the list may lack tools that the engine offers other agents: this agent's client cannot answer
    /// all kinds of questions (sampling, elicitation) that the engine may ask.
    pub partial: bool,
}

/// Called with every tool list that an engine offers, including unchanged ones.
pub type ToolsChanged = Arc<dyn Fn(OfferedTools) + Send + Sync>;

/// The receiver of an engine's tool lists, and what decides whether a list is complete.
#[derive(Clone)]
pub(crate) struct ToolListSink {
    pub(crate) notify: ToolsChanged,
    pub(crate) partial: bool,
    /// The names of the last list. A tool that is missing from the next list is gone for all agents.
    pub(crate) last_names: Arc<Mutex<Vec<Arc<str>>>>,
    /// The engine's own description, once it has sent it.
    pub(crate) introduction: Arc<OnceLock<Introduction>>,
}

/// Asks the engine for its tools, passes them on, and returns their names.
pub(crate) async fn report_tools(peer: Arc<Peer>, tool_sink: ToolListSink, at_start: bool) -> Vec<Arc<str>> {
    match list_tools(&peer).await.map_err(StartError::from) {
        Ok(tools) => {
            let names: Vec<_> = tools.tools.iter().map(|tool| tool.name.clone()).collect();
            let last_names = std::mem::replace(&mut *tool_sink.last_names.lock(), names.clone());
            let partial = tool_sink.partial && last_names.iter().all(|name| names.contains(name));
            let tools = Toolset { introduction: tool_sink.introduction.get().cloned(), ..tools };
            (tool_sink.notify)(OfferedTools { tools, at_start, partial });
            names
        }
        Err(error) => {
            tracing::warn!(%error, "cannot read the engine's tool list");
            Vec::new()
        }
    }
}

/// Asks a started engine for its tools, and ends it.
pub(crate) async fn list_tools_and_stop(
    process: Process,
    pipes: Pipes,
    grace: Duration,
) -> Result<Toolset, StartError> {
    let (peer, _inbound) = child::connect(pipes.stdin, pipes.stdout);
    let listed = explain_by_exit(&process, ask_for_tools(&peer)).await;
    drop(peer);
    process.stop(grace).await;
    listed
}

/// Makes the handshake on a fresh connection and asks for the tools: all that any agent could be offered. Some servers have
/// tools only for clients that can answer questions.
pub(crate) async fn ask_for_tools(peer: &Peer) -> Result<Toolset, EngineRequestError> {
    let all = json!({ "roots": {}, "sampling": {}, "elicitation": { "form": {}, "url": {} } });
    let introduction = Some(initialize(peer, encode(&all)).await?);
    Ok(Toolset { introduction, ..list_tools(peer).await? })
}

/// All pages of the engine's tool list.
pub(crate) async fn list_tools(peer: &Peer) -> Result<Toolset, EngineRequestError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ToolListPage {
        tools: Vec<Raw>,
        next_cursor: Option<String>,
    }
    #[derive(Deserialize)]
    struct ToolName {
        name: Arc<str>,
    }
    let unusable_list = |error: &dyn std::fmt::Display| {
        EngineRequestError::Answer(StartError::new(format!("the engine's tool list cannot be used: {error}")))
    };
    let mut tools = Vec::new();
    let mut cursor: Option<String> = None;
    for _ in 0..TOOL_PAGES_MAX {
        let params = cursor.take().map(|cursor| encode(&json!({ "cursor": cursor })));
        let answer = within_deadline("tools/list", peer.request("tools/list", params.as_ref())).await?;
        let page: ToolListPage = serde_json::from_str(answer.map_err(|error| unusable_list(&error))?.get())
            .map_err(|error| unusable_list(&error))?;
        for definition in page.tools {
            let ToolName { name } =
                serde_json::from_str(definition.get()).map_err(|error| unusable_list(&error))?;
            tools.push(Tool { name, definition });
        }
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => return Ok(Toolset { tools, introduction: None }),
        }
    }
    Err(unusable_list(&format!("it has more than {TOOL_PAGES_MAX} pages")))
}
