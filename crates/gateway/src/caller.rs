//! The client behind a call.

use std::sync::Arc;

use greenroom_core::{Agent, NoAgent, Owner};

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
    pub(crate) is_here: bool,
}

impl Caller {
    /// A REST client, which has no connection and cannot be asked anything.
    pub(crate) fn program(owner: &Owner) -> Self {
        let agent = Arc::new(NoAgent);
        Self { owner: owner.clone(), connection: None, agent, is_program: true, is_here: false }
    }
}
