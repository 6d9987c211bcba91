//! The agent behind a call: it receives the engine's notifications, and answers the engine's questions.

use std::path::PathBuf;

use super::BoxFuture;
use crate::{
    raw::Raw,
    record::{Blob, BlobId, Unreadable},
};

/// Why a question to an agent has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    #[error("the agent's client does not support `{0}`")]
    Unsupported(String),
    #[error("the agent is gone")]
    Gone,
}

/// The client behind a call. By default an agent ignores notifications, has no capabilities and no files, and answers
/// no question.
pub trait Agent: Send + Sync {
    /// Passes on a notification (method and parameters). Bounded; never blocks.
    fn tell(&self, _method: &str, _params: Option<Raw>) {}
    /// Passes on a question and its answer: `Ok(Ok)` a result, `Ok(Err)` the client's JSON-RPC error object.
    fn ask<'a>(
        &'a self,
        method: &'a str,
        _params: Option<Raw>,
    ) -> BoxFuture<'a, Result<Result<Raw, Raw>, NoAnswer>> {
        Box::pin(async move { Err(NoAnswer::Unsupported(method.to_owned())) })
    }
    /// The client's MCP capabilities, as it sent them.
    fn capabilities(&self) -> Option<Raw> {
        None
    }
    /// The folders whose files this agent may hand to a browser or receive from one.
    fn roots(&self) -> BoxFuture<'_, Vec<PathBuf>> {
        Box::pin(std::future::ready(Vec::new()))
    }
    /// A blob that this agent's owner may read, as a file for the browser.
    fn blob<'a>(&'a self, _id: &'a BlobId) -> BoxFuture<'a, Result<Option<Blob>, Unreadable>> {
        Box::pin(std::future::ready(Ok(None)))
    }
    /// Whether greenroom keeps results as blobs for this agent, so that one without folders may name a result.
    fn keeps_blobs(&self) -> bool {
        false
    }
    /// The level last asked for with `logging/setLevel`.
    fn log_level(&self) -> Option<String> {
        None
    }
    /// Whether the agent wants to know where its call stands in the queue for a slot.
    fn follows_queue(&self) -> bool {
        false
    }
    /// Reports the call's new position in the queue to the agent. Bounded; never blocks.
    fn queued(&self, _: Queued<'_>) {}
}

/// The agent of a seat or call that no client asked for: a spare, or one of greenroom's own calls.
#[derive(Debug, Clone, Copy)]
pub struct NoAgent;

impl Agent for NoAgent {}

/// The position of a caller that waits for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queued<'a> {
    pub pool: &'a str,
    /// 1 is served next.
    pub position: usize,
    /// How many wait, this caller included.
    pub waiting: usize,
}
