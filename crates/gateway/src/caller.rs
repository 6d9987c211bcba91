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
    /// It is the command line, each of whose calls comes from another process.
    pub(crate) is_command_line: bool,
}

/// An agent as far as greenroom can tell agents apart: what it was sent, it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    Connection(ConnectionId),
    /// The commands of this user. Which agent runs them is unknown; those of one session are taken for one agent's.
    CommandLine,
}

impl Caller {
    /// `None` for a client of which greenroom cannot say whether it made the call before.
    pub(crate) fn reader(&self) -> Option<Reader> {
        let command_line = self.is_command_line.then_some(Reader::CommandLine);
        command_line.or_else(|| Some(Reader::Connection(self.connection.as_ref()?.id)))
    }

    /// A REST client, which has no connection and cannot be asked anything.
    pub(crate) fn program(owner: &Owner) -> Self {
        let agent = Arc::new(NoAgent);
        Self {
            owner: owner.clone(),
            connection: None,
            agent,
            is_program: true,
            is_local: false,
            is_command_line: false,
        }
    }

    /// The command line of the user who owns the process.
    pub(crate) fn command_line(agent: Arc<dyn Agent>) -> Self {
        Self {
            owner: Owner::local(),
            connection: None,
            agent,
            is_program: false,
            is_local: true,
            is_command_line: true,
        }
    }
}
