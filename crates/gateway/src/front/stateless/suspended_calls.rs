//! Calls that wait for a client's answers between two of its requests.
//!
//! `requestState` is the key to one suspended call: 244 random bits that cannot be guessed, valid once, for the same
//! owner, tool and arguments, and for a limited time. It contains no data, so it needs no signature or encryption.

use std::{collections::HashMap, sync::Arc, time::Duration};

use greenroom_core::{Fields, Owner, Raw, raw::encode};
use greenroom_mcp::{RpcError, error::INTERNAL};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use super::{StatelessRequest, complete, exchange::Exchange, request::RequestFingerprint, unknown_state};

/// How long a client may take to answer. It may have to ask a person; the call's own deadline usually comes first, and
/// then the client's next request gets the outcome.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);

/// How many calls may be suspended. Each holds a browser, so a server has fewer than this; beyond it the oldest
/// call is cancelled.
const SUSPENDED_MAX: usize = 1024;

/// The suspended calls, by key.
#[derive(Default)]
pub struct SuspendedCalls(Mutex<HashMap<String, (Instant, SuspendedCall)>>);

/// A call that has begun, and the owner and request that may continue it. Dropping it cancels the call.
pub(super) struct SuspendedCall {
    pub(super) owner: Owner,
    pub(super) fingerprint: RequestFingerprint,
    /// How long the client may cache the result, if it may.
    pub(super) fresh_ms: Option<u64>,
    pub(super) exchange: Arc<Exchange>,
    pub(super) task: AbortOnDropHandle<Result<Raw, Raw>>,
}

impl Drop for SuspendedCall {
    fn drop(&mut self) {
        self.exchange.abandon();
    }
}

impl SuspendedCall {
    /// Waits until the call is done, or its engine asks a question.
    pub(super) async fn round(mut self, suspended_calls: &SuspendedCalls) -> Result<Raw, Raw> {
        let exchange = self.exchange.clone();
        let body = tokio::select! {
            biased;
            body = &mut self.task => body,
            () = exchange.question_asked() => {
                let mut answer = Fields::default();
                answer.set("resultType", encode("input_required"));
                answer.set("inputRequests", exchange.questions().to_raw());
                answer.set("requestState", encode(&suspended_calls.suspend(self)));
                return Ok(answer.to_raw());
            }
        };
        let body =
            body.unwrap_or_else(|_| Err(RpcError::new(INTERNAL, "the call ended unexpectedly").to_raw()));
        body.map(|result| match Fields::open(&result) {
            Ok(fields) => complete(fields, self.fresh_ms),
            Err(_) => result,
        })
    }
}

impl SuspendedCalls {
    fn suspend(&self, suspended: SuspendedCall) -> String {
        let key = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let mut waiting = self.0.lock();
        let now = Instant::now();
        waiting.retain(|_, (until, _)| *until > now);
        if waiting.len() >= SUSPENDED_MAX
            && let Some(oldest) =
                waiting.iter().min_by_key(|(_, (until, _))| *until).map(|(key, _)| key.clone())
        {
            waiting.remove(&oldest);
        }
        waiting.insert(key.clone(), (now + ANSWER_TIMEOUT, suspended));
        key
    }

    /// Cancels calls whose clients have not come back in time. Otherwise that happens only when the next call is
    /// suspended.
    pub(in crate::front) fn forget_old(&self) {
        let now = Instant::now();
        self.0.lock().retain(|_, (until, _)| *until > now);
    }

    /// The call suspended under this key, if this owner and request may continue it.
    pub(super) fn take(
        &self,
        key: &str,
        owner: &Owner,
        request: &StatelessRequest,
    ) -> Result<SuspendedCall, RpcError> {
        let mut waiting = self.0.lock();
        let unknown = || unknown_state("is unknown, used already, or too old");
        let (until, suspended) = waiting.get(key).ok_or_else(unknown)?;
        if suspended.owner != *owner || *until <= Instant::now() {
            return Err(unknown());
        }
        if suspended.fingerprint != request.fingerprint() {
            return Err(unknown_state("belongs to another call"));
        }
        waiting.remove(key).map(|(_, suspended)| suspended).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_sink::ClientSink;
    use greenroom_mcp::Id;

    fn request(tool: &str) -> StatelessRequest {
        let params = format!(
            r#"{{"name":"{tool}","_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}"#
        );
        let params = greenroom_core::raw::parse(params).unwrap();
        StatelessRequest::parse(Id::number(1), "tools/call", Some(&params)).unwrap()
    }

    fn suspended(owner: &Owner) -> SuspendedCall {
        let sink = ClientSink::Streams { own: Arc::default(), background: None };
        SuspendedCall {
            owner: owner.clone(),
            fresh_ms: None,
            fingerprint: request("t").fingerprint(),
            exchange: Arc::new(Exchange::new(sink)),
            task: AbortOnDropHandle::new(tokio::spawn(std::future::pending())),
        }
    }

    fn refusal(taken: Result<SuspendedCall, RpcError>) -> String {
        taken.map(|_| ()).unwrap_err().message
    }

    /// A key opens one call once, for its owner, for the same tool, in time; any other use is refused and does not
    /// affect the call.
    #[tokio::test(start_paused = true)]
    async fn key_resumes_one_call_once() {
        let suspended_calls = SuspendedCalls::default();
        let owner = Owner::local();
        let key = suspended_calls.suspend(suspended(&owner));
        assert!(refusal(suspended_calls.take("guess", &owner, &request("t"))).contains("unknown"));
        assert!(refusal(suspended_calls.take(&key, &Owner::new("other"), &request("t"))).contains("unknown"));
        assert!(refusal(suspended_calls.take(&key, &owner, &request("u"))).contains("another call"));
        assert!(suspended_calls.take(&key, &owner, &request("t")).is_ok());
        assert!(refusal(suspended_calls.take(&key, &owner, &request("t"))).contains("used already"));
        let late = suspended_calls.suspend(suspended(&owner));
        tokio::time::advance(ANSWER_TIMEOUT).await;
        assert!(refusal(suspended_calls.take(&late, &owner, &request("t"))).contains("too old"));
    }
}
