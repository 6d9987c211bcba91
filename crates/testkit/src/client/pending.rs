//! A request on its way: sent by [`Client::start`](super::Client::start), awaited when the test wants its answer.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::oneshot;

use super::ServerConnection;
use crate::deadline::TEST_TIMEOUT;

/// A request that has been sent. Dropping it discards the answer; it cancels nothing.
pub struct Pending {
    pub(super) id: u64,
    pub(super) what: String,
    pub(super) answer: oneshot::Receiver<String>,
    pub(super) connection: Arc<ServerConnection>,
}

impl Pending {
    /// The id that the request was sent with, for [`cancel`](super::Client::cancel).
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The whole JSON-RPC response.
    pub async fn response(self) -> Value {
        parsed(&self.line().await)
    }

    /// The response line as the server wrote it.
    pub async fn line(self) -> String {
        let Self { what, answer, connection, .. } = self;
        match tokio::time::timeout(TEST_TIMEOUT, answer).await {
            Ok(Ok(line)) => line,
            Ok(Err(_)) => connection.inbox.fail(&format!("the server closed its stdout: waited for {what}")),
            Err(_) => {
                connection.inbox.fail(&format!("nothing came within {TEST_TIMEOUT:?}: waited for {what}"))
            }
        }
    }

    /// The response, or `None` when the server closed its stdout without one.
    pub async fn response_or_end(self) -> Option<Value> {
        match tokio::time::timeout(TEST_TIMEOUT, self.answer).await {
            Ok(line) => line.ok().map(|line| parsed(&line)),
            Err(_) => self
                .connection
                .inbox
                .fail(&format!("nothing came within {TEST_TIMEOUT:?}: waited for {}", self.what)),
        }
    }

    /// The response if it is already here.
    pub fn response_now(&mut self) -> Option<Value> {
        self.answer.try_recv().ok().map(|line| parsed(&line))
    }
}

fn parsed(line: &str) -> Value {
    serde_json::from_str(line).expect("a response was parsed before it was delivered")
}
