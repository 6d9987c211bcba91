//! The engine's side of a call that may span several requests: its questions wait here until a request brings the
//! answers, its notifications go to the open request.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use greenroom_core::{Agent, BoxFuture, Fields, NoAnswer, Queued, Raw, raw::encode};
use greenroom_mcp::message;
use parking_lot::{Mutex, MutexGuard};
use serde_json::json;
use tokio::sync::{Notify, oneshot};

use crate::{
    client_sink::ClientSink,
    connection::has,
    progress::{self, QueueProgress},
};

pub(super) struct Exchange {
    state: Mutex<ExchangeState>,
    question_asked: Notify,
}

struct ExchangeState {
    /// Where the open request receives messages.
    sink: ClientSink,
    questions: BTreeMap<String, PendingQuestion>,
    next: u64,
    /// No request will bring answers any more.
    abandoned: bool,
}

struct PendingQuestion {
    /// The question's method and parameters, as the client receives them.
    request: Raw,
    answer: oneshot::Sender<Raw>,
}

impl Exchange {
    pub(super) fn new(sink: ClientSink) -> Self {
        let state = ExchangeState { sink, questions: BTreeMap::new(), next: 1, abandoned: false };
        Self { state: Mutex::new(state), question_asked: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, ExchangeState> {
        self.state.lock()
    }

    /// Sends messages to another request of the client from now on.
    pub(super) fn set_sink(&self, sink: ClientSink) {
        self.lock().sink = sink;
    }

    /// Returns when a question is open.
    pub(super) async fn question_asked(&self) {
        loop {
            let question_asked = self.question_asked.notified();
            if !self.lock().questions.is_empty() {
                return;
            }
            question_asked.await;
        }
    }

    /// The open questions, in the form of `inputRequests`.
    pub(super) fn questions(&self) -> Fields {
        let mut requests = Fields::default();
        for (key, question) in &self.lock().questions {
            requests.set(key, question.request.clone());
        }
        requests
    }

    /// Takes the client's answers. Answers to unknown questions are ignored; unanswered questions are asked again.
    pub(super) fn answered(&self, responses: Option<&Fields>) {
        let mut state = self.lock();
        for (key, response) in responses.into_iter().flat_map(Fields::iter) {
            if let Some(question) = state.questions.remove(key) {
                let _ = question.answer.send(response.to_owned());
            }
        }
    }

    /// The client has left: the engine gets an error for its questions instead of waiting.
    pub(super) fn abandon(&self) {
        let mut state = self.lock();
        state.abandoned = true;
        state.questions.clear();
    }

    async fn ask(&self, method: &str, params: Option<Raw>) -> Result<Raw, NoAnswer> {
        let (answer, answered) = oneshot::channel();
        let key = {
            let mut state = self.lock();
            if state.abandoned {
                return Err(NoAnswer::Gone);
            }
            let mut request = Fields::default();
            request.set("method", encode(method));
            request.set("params", params.unwrap_or_else(|| encode(&json!({}))));
            let key = format!("q{}", state.next);
            state.next += 1;
            state.questions.insert(key.clone(), PendingQuestion { request: request.to_raw(), answer });
            key
        };
        self.question_asked.notify_waiters();
        // If the engine withdraws its question, the client must not see it.
        let _open = WithdrawOnDrop { exchange: self, key };
        answered.await.map_err(|_| NoAnswer::Gone)
    }
}

/// A question that the engine waits for. Dropping it withdraws the question.
struct WithdrawOnDrop<'a> {
    exchange: &'a Exchange,
    key: String,
}

impl Drop for WithdrawOnDrop<'_> {
    fn drop(&mut self) {
        self.exchange.lock().questions.remove(&self.key);
    }
}

/// The agent that made a stateless call.
pub(super) struct StatelessAgent {
    pub(super) exchange: Arc<Exchange>,
    pub(super) capabilities: Raw,
    pub(super) log_level: Option<String>,
    pub(super) roots: Vec<PathBuf>,
    pub(super) waiting: QueueProgress,
}

impl Agent for StatelessAgent {
    fn tell(&self, method: &str, params: Option<Raw>) {
        // Without a level the client wants no log lines.
        if method == "notifications/message" && self.log_level.is_none() {
            return;
        }
        let sink = self.exchange.lock().sink.clone();
        if !sink.try_send(message::notification(method, params.as_deref())) {
            tracing::debug!(method, "the client reads too slowly or has left; a notification is dropped");
        }
    }

    fn ask<'a>(
        &'a self,
        method: &'a str,
        params: Option<Raw>,
    ) -> BoxFuture<'a, Result<Result<Raw, Raw>, NoAnswer>> {
        Box::pin(async move {
            let capability = method.split('/').next().unwrap_or(method);
            if !has(Some(&self.capabilities), capability) {
                return Err(NoAnswer::Unsupported(method.to_owned()));
            }
            self.exchange.ask(method, params).await.map(Ok)
        })
    }

    fn capabilities(&self) -> Option<Raw> {
        Some(self.capabilities.clone())
    }

    fn roots(&self) -> BoxFuture<'_, Vec<PathBuf>> {
        Box::pin(std::future::ready(self.roots.clone()))
    }

    fn log_level(&self) -> Option<String> {
        self.log_level.clone()
    }

    fn follows_queue(&self) -> bool {
        self.waiting.is_followed()
    }

    fn queued(&self, queued: Queued<'_>) {
        if let Some(notice) = self.waiting.notice(queued) {
            self.tell(progress::METHOD, Some(notice));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange() -> Arc<Exchange> {
        Arc::new(Exchange::new(ClientSink::Streams { own: Arc::default(), background: None }))
    }

    /// An engine that asks gets the answer that a request brings, and an error once the client has left, whether it
    /// asked before or asks after.
    #[tokio::test]
    async fn questions_fail_when_the_client_has_left() {
        let exchange = exchange();
        let ask = |method: &'static str| {
            let exchange = exchange.clone();
            tokio::spawn(async move { exchange.ask(method, None).await })
        };
        let first = ask("elicitation/create");
        exchange.question_asked().await;
        assert_eq!(
            encode(&exchange.questions()).get(),
            r#"{"q1":{"method":"elicitation/create","params":{}}}"#
        );
        let mut responses = Fields::default();
        responses.set("q1", encode("blue"));
        exchange.answered(Some(&responses));
        assert_eq!(first.await.unwrap().unwrap().get(), "\"blue\"");
        let second = ask("sampling/createMessage");
        exchange.question_asked().await;
        exchange.abandon();
        assert_eq!(second.await.unwrap().unwrap_err(), NoAnswer::Gone);
        assert_eq!(ask("elicitation/create").await.unwrap().unwrap_err(), NoAnswer::Gone);
    }
}
