//! Who sends a request, and until when it may be answered.

use greenroom_core::{ApiScope, ApiScopes, Owner};
use tokio_util::sync::CancellationToken;

use crate::error_response::STOPPING;

/// What a client is told whose key has become invalid while a request ran.
pub(super) const KEY_ENDED: &str = "the API key is no longer valid: it has expired, or was revoked or replaced; whether running calls took effect is unknown";

/// Who sends a request. The layer that authenticates requests makes one for each.
#[derive(Debug, Clone)]
pub struct Requester {
    pub owner: Owner,
    pub scopes: ApiScopes,
    pub end: RequestEnd,
}

impl Requester {
    /// The requester where no key is needed.
    pub fn local(end: RequestEnd) -> Self {
        Self { owner: Owner::local(), scopes: ApiScopes::all(), end }
    }

    /// Whether it may change pools and attached browsers.
    pub(crate) fn is_admin(&self) -> bool {
        self.scopes.has(ApiScope::Admin)
    }
}

/// Ends the answers to a requester: when the server stops, or when the requester's key becomes invalid.
#[derive(Debug, Clone)]
pub struct RequestEnd {
    /// Cancelled in both cases.
    ended: CancellationToken,
    server: CancellationToken,
}

impl RequestEnd {
    /// Ends with the server only.
    pub fn with_server(server: &CancellationToken) -> Self {
        Self { ended: server.clone(), server: server.clone() }
    }

    /// Ends with the server, or earlier, by [`RequestEnd::end_now`].
    pub(super) fn before_server(server: &CancellationToken) -> Self {
        Self { ended: server.child_token(), server: server.clone() }
    }

    pub(super) fn end_now(&self) {
        self.ended.cancel();
    }

    pub(crate) fn token(&self) -> &CancellationToken {
        &self.ended
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Whether the requester's key has ended, and not the server.
    pub(crate) fn is_of_key(&self) -> bool {
        self.has_ended() && !self.server.is_cancelled()
    }

    pub(crate) fn message(&self) -> &'static str {
        if self.is_of_key() { KEY_ENDED } else { STOPPING }
    }
}
