//! How bytes reach a server: [`child`] speaks lines over a process's pipes, [`http`] streamable HTTP.

pub mod child;
pub mod http;

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::peer::{Dispatch, PeerError};

pub(crate) enum PeerLink {
    Child(mpsc::Sender<Vec<u8>>),
    Http(Arc<http::HttpLink>),
}

impl PeerLink {
    /// Sends one message. Over HTTP the answer to the request `expects` comes back on the same exchange, so
    /// this returns once that answer has been dispatched.
    pub(crate) async fn send(
        &self,
        line: Vec<u8>,
        expects: Option<u64>,
        to: &Arc<Dispatch>,
    ) -> Result<(), PeerError> {
        match self {
            Self::Child(stdin) => stdin.send(line).await.map_err(|_| PeerError::Closed),
            Self::Http(http) => http.post(line, expects, to).await,
        }
    }

    /// Sends a request of the revision without a handshake. Only HTTP sends the headers.
    pub(crate) async fn send_stateless(
        &self,
        line: Vec<u8>,
        expects: u64,
        headers: impl FnOnce() -> Vec<(String, String)>,
        to: &Arc<Dispatch>,
    ) -> Result<(), PeerError> {
        match self {
            Self::Child(stdin) => stdin.send(line).await.map_err(|_| PeerError::Closed),
            Self::Http(http) => http.post_stateless(line, expects, headers(), to).await,
        }
    }

    pub(crate) fn initialized(&self, revision: String) {
        if let Self::Http(http) = self {
            http.initialized(revision);
        }
    }

    pub(crate) async fn listen(&self, to: &Arc<Dispatch>) -> Result<(), PeerError> {
        match self {
            Self::Child(_) => Ok(()),
            Self::Http(http) => http.listen(to).await,
        }
    }

    pub(crate) async fn end_session(&self) {
        if let Self::Http(http) = self {
            http.delete().await;
        }
    }
}
