//! Reports connections that the network policy refused.

use greenroom_core::{
    port::{PortUser, RefusalSink, RefusedConnection},
    printable::printable,
};

/// Writes refusals to the log.
pub struct LoggedRefusals;

impl RefusalSink for LoggedRefusals {
    fn refused(&self, user: Option<&PortUser>, refusal: &RefusedConnection) {
        let owner = user.map(|user| user.owner.to_string());
        let session = user.and_then(|user| user.session.as_ref()).map(ToString::to_string);
        tracing::info!(owner, session, refusal = %printable(&refusal.to_string()), "refused a connection");
    }
}
