//! The client that makes a call, and where the call comes from.

use std::sync::Arc;

use greenroom_core::{Agent, ApiScopes, ConnectionId, NoAgent, Owner};

use crate::{Gateway, agent_blobs::agent_with_blobs, connection::Connection};

/// The client that makes a call.
pub(crate) struct Caller {
    pub(crate) owner: Owner,
    /// What it may do.
    pub(crate) scopes: ApiScopes,
    pub(crate) source: CallSource,
    pub(crate) agent: Arc<dyn Agent>,
    /// Whether it speaks REST, so that errors use REST's parameter names.
    pub(crate) is_program: bool,
    /// Whether it runs as this user on this machine.
    pub(crate) is_local: bool,
    /// Whether it knows content of the type `resource_link`, which came with revision 2025-06-18.
    pub(crate) knows_resource_links: bool,
}

/// Where a call comes from.
pub(crate) enum CallSource {
    /// A client that stays connected between its calls.
    Connection(Arc<Connection>),
    /// The command line, each of whose calls comes from another process.
    CommandLine,
    /// A single request, over REST or of the stateless revision: it has no session of its own.
    Request,
}

impl From<Option<Arc<Connection>>> for CallSource {
    fn from(connection: Option<Arc<Connection>>) -> Self {
        connection.map_or(Self::Request, Self::Connection)
    }
}

/// The receiver of answers, as far as greenroom can tell agents apart. greenroom assumes that a receiver
/// still has every page that it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    Connection(ConnectionId),
    /// The command line. greenroom does not know which agent runs a command, and takes all commands in one
    /// session for one agent's.
    CommandLine,
}

impl Caller {
    /// `None` for a client of which greenroom cannot say whether it made the call before.
    pub(crate) fn reader(&self) -> Option<Reader> {
        match &self.source {
            CallSource::Connection(connection) => Some(Reader::Connection(connection.id)),
            CallSource::CommandLine => Some(Reader::CommandLine),
            CallSource::Request => None,
        }
    }

    /// The connection of a client that has one.
    pub(crate) fn connection(&self) -> Option<&Arc<Connection>> {
        match &self.source {
            CallSource::Connection(connection) => Some(connection),
            CallSource::CommandLine | CallSource::Request => None,
        }
    }

    /// The agent of a call that may name blobs.
    pub(crate) fn agent_with_blobs(&self, gateway: &Gateway) -> Arc<dyn Agent> {
        agent_with_blobs(self.agent.clone(), &self.owner, gateway.recall.records.as_ref())
    }

    /// A REST client, which has no connection and cannot be asked anything.
    pub(crate) fn program(owner: &Owner, scopes: ApiScopes) -> Self {
        let agent = Arc::new(NoAgent);
        Self {
            owner: owner.clone(),
            scopes,
            source: CallSource::Request,
            agent,
            is_program: true,
            is_local: false,
            knows_resource_links: true,
        }
    }

    /// The command line of the user who owns the process.
    pub(crate) fn command_line(agent: Arc<dyn Agent>) -> Self {
        Self {
            owner: Owner::local(),
            scopes: ApiScopes::all(),
            source: CallSource::CommandLine,
            agent,
            is_program: false,
            is_local: true,
            knows_resource_links: true,
        }
    }
}
