//! The agent of a call that may name blobs: an agent on another machine has no files here, but what it uploaded, or got as
//! a result, it may hand to a browser as `greenroom://blobs/…`.

use std::{path::PathBuf, sync::Arc};

use greenroom_core::{
    Agent, BoxFuture, NoAnswer, Owner, Queued, Raw, Records,
    record::{Blob, BlobId, Unreadable},
};

/// An agent with the blobs of its owner. All else is the inner agent's.
pub(crate) struct AgentWithBlobs {
    agent: Arc<dyn Agent>,
    owner: Owner,
    records: Arc<dyn Records>,
}

/// The agent with the blobs of its owner, if greenroom keeps any.
pub(crate) fn agent_with_blobs(
    agent: Arc<dyn Agent>,
    owner: &Owner,
    records: Option<&Arc<dyn Records>>,
) -> Arc<dyn Agent> {
    match records {
        Some(records) => Arc::new(AgentWithBlobs { agent, owner: owner.clone(), records: records.clone() }),
        None => agent,
    }
}

impl Agent for AgentWithBlobs {
    fn tell(&self, method: &str, params: Option<Raw>) {
        self.agent.tell(method, params);
    }

    fn ask<'a>(
        &'a self,
        method: &'a str,
        params: Option<Raw>,
    ) -> BoxFuture<'a, Result<Result<Raw, Raw>, NoAnswer>> {
        self.agent.ask(method, params)
    }

    fn capabilities(&self) -> Option<Raw> {
        self.agent.capabilities()
    }

    fn roots(&self) -> BoxFuture<'_, Vec<PathBuf>> {
        self.agent.roots()
    }

    fn blob<'a>(&'a self, id: &'a BlobId) -> BoxFuture<'a, Result<Option<Blob>, Unreadable>> {
        self.records.blob(&self.owner, id)
    }

    fn keeps_blobs(&self) -> bool {
        true
    }

    fn log_level(&self) -> Option<String> {
        self.agent.log_level()
    }

    fn follows_queue(&self) -> bool {
        self.agent.follows_queue()
    }

    fn queued(&self, position: Queued<'_>) {
        self.agent.queued(position);
    }
}
