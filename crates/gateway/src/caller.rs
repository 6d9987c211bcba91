//! The client behind a call.

use std::sync::Arc;

use greenroom_core::{Agent, ConnectionId, NoAgent, Owner};

use crate::connection::Connection;

/// The client that makes a call.
pub(crate) struct Caller {
    pub(crate) owner: Owner,
    /// `None` for a stateless request: it has no session of its own.
    pub(crate) connection: Option<Arc<Connection>>,
    pub(crate) agent: Arc<dyn Agent>,
    /// It speaks REST, so errors use REST's names.
    pub(crate) is_program: bool,
    /// It is this user on this machine.
    pub(crate) is_local: bool,
}

/// An agent as far as greenroom can tell agents apart: what it was sent, it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    Connection(ConnectionId),
}

impl Caller {
    /// `None` for a client of which greenroom cannot say whether it made the call before.
    pub(crate) fn reader(&self) -> Option<Reader> {
        self.connection.as_ref().map(|connection| Reader::Connection(connection.id))
    }

    /// A REST client, which has no connection and cannot be asked anything.
    pub(crate) fn program(owner: &Owner) -> Self {
        let agent = Arc::new(NoAgent);
        Self { owner: owner.clone(), connection: None, agent, is_program: true, is_local: false }
    }
}
