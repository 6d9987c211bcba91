//! Revision 2026-07-28: every request is complete in itself. There is no handshake, no connection, and no request from
//! server to client: an engine's question becomes an `input_required` answer, the call waits in [`suspended_calls`], and the
//! client's next request brings the answer.

mod exchange;
mod listen;
mod request;
mod suspended_calls;

use std::{path::PathBuf, sync::Arc};

use greenroom_core::{ApiScopes, Fields, Owner, Raw, raw::encode, settings::Scope};
use greenroom_mcp::{RpcError, error::INVALID_PARAMS, revision::SPOKEN};
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use super::protocol::{list_tools, one_page, server_capabilities, server_info};
use crate::{
    Gateway, call,
    call_order::Turn,
    caller::Caller,
    client_sink::ClientSink,
    connection::Connection,
    instructions,
    offload::{offload_if_large_json, offloadable},
    passthrough::{self, Passthrough},
    progress::QueueProgress,
};

use exchange::{Exchange, StatelessAgent};
use suspended_calls::SuspendedCall;

use request::StatelessMethod;
pub(super) use request::{StatelessRequest, is_stateless, revision_of, unsupported_revision};
pub use suspended_calls::SuspendedCalls;

/// How long a client may cache a list, in milliseconds. Lists change with the engine's version, or when a page offers
/// tools; a client that listens is notified at once.
const LIST_FRESH_MS: u64 = 60_000;

/// How long a client may cache the list of blobs: not at all, since any call may add one.
const BLOBS_FRESH_MS: u64 = 0;

/// How long a client may cache a resource. A blob never changes, and a record only while its call runs; resources of
/// custom servers may change at any time.
const READ_FRESH_MS: u64 = 1_000;

/// The client that made a request, as far as the front knows it.
pub(super) struct StatelessClient {
    pub(super) owner: Owner,
    pub(super) scopes: ApiScopes,
    /// The connection, if the request came over a pipe.
    pub(super) connection: Option<Arc<Connection>>,
    pub(super) roots: Vec<PathBuf>,
    /// It is this user on this machine.
    pub(super) is_local: bool,
    /// The request's turn among the calls of its pipe. Only a new call needs a turn; all other requests give it up at
    /// once.
    pub(super) turn: Turn,
}

/// Answers a request. Dropping the future cancels it.
pub(super) async fn answer(
    gateway: Arc<Gateway>,
    stateless_client: StatelessClient,
    request: StatelessRequest,
    sink: ClientSink,
) -> Result<Raw, Raw> {
    let _guard = offload_if_large_json(request.params.as_deref()).await;
    let work = match request.method {
        _ if request.state.is_some() => None,
        StatelessMethod::Call => Some(SuspendableRequest::Call),
        StatelessMethod::Passthrough(method) => Some(SuspendableRequest::Passthrough(
            Passthrough::new(&gateway, method, INVALID_PARAMS).map_err(|error| error.to_raw())?,
        )),
        StatelessMethod::Discover | StatelessMethod::List | StatelessMethod::Listen => None,
    };
    if let Some(work) = work {
        return begin(&gateway, stateless_client, &request, work, sink).round(&gateway.suspended_calls).await;
    }
    let scope = gateway.scope_of(stateless_client.connection.is_some());
    // Only new calls have a turn. Other requests may take long, so no call must wait for them.
    drop(stateless_client.turn);
    match request.method {
        StatelessMethod::Discover => Ok(complete(discovered(&gateway, scope), Some(LIST_FRESH_MS))),
        StatelessMethod::List => {
            one_page(request.params.as_deref()).map_err(|error| error.to_raw())?;
            let list =
                list_tools(&gateway, &stateless_client.owner, stateless_client.is_local, scope).await?;
            Ok(complete(list, Some(LIST_FRESH_MS)))
        }
        StatelessMethod::Listen => Ok(listen::run(&gateway, &request, &sink).await),
        StatelessMethod::Call | StatelessMethod::Passthrough(_) => {
            resume(&gateway, &stateless_client.owner, &request, sink).await
        }
    }
}

fn discovered(gateway: &Gateway, scope: Scope) -> Fields {
    let mut answer = Fields::default();
    answer.set("supportedVersions", encode(&SPOKEN));
    let mut capabilities = server_capabilities(gateway);
    passthrough::declare_stateless(gateway, &mut capabilities);
    answer.set("capabilities", encode(&capabilities));
    answer.set("instructions", encode(&instructions::text(gateway, scope)));
    answer.set("_meta", encode(&json!({ "io.modelcontextprotocol/serverInfo": server_info() })));
    answer
}

/// A result in this revision's form: its type first, and how long the client may cache it, if it may.
fn complete(mut result: Fields, fresh_ms: Option<u64>) -> Raw {
    if result.get("resultType").is_none() {
        result.set_first("resultType", encode("complete"));
    }
    if let Some(fresh_ms) = fresh_ms {
        result.set("ttlMs", encode(&fresh_ms));
        result.set("cacheScope", encode("private"));
    }
    result.to_raw()
}

/// Continues a suspended call with the answers that this request brings.
async fn resume(
    gateway: &Gateway,
    owner: &Owner,
    request: &StatelessRequest,
    sink: ClientSink,
) -> Result<Raw, Raw> {
    let state = request.state.as_deref().unwrap_or_default();
    let suspended = gateway.suspended_calls.take(state, owner, request).map_err(|error| error.to_raw())?;
    suspended.exchange.set_sink(sink);
    suspended.exchange.answered(request.responses.as_ref());
    suspended.round(&gateway.suspended_calls).await
}

/// The kinds of request that can be suspended.
#[derive(Clone, Copy)]
enum SuspendableRequest {
    Call,
    Passthrough(Passthrough),
}

impl SuspendableRequest {
    /// How long the client may cache its result, if it may.
    fn fresh_ms(self, gateway: &Gateway) -> Option<u64> {
        let Self::Passthrough(passthrough) = self else { return None };
        match passthrough.name() {
            "resources/list" => Some(BLOBS_FRESH_MS),
            "prompts/list" | "resources/templates/list" => Some(LIST_FRESH_MS),
            "resources/read" if passthrough.is_passed_on(gateway) => Some(0),
            "resources/read" => Some(READ_FRESH_MS),
            _ => None,
        }
    }
}

fn begin(
    gateway: &Arc<Gateway>,
    stateless_client: StatelessClient,
    request: &StatelessRequest,
    work: SuspendableRequest,
    sink: ClientSink,
) -> SuspendedCall {
    let exchange = Arc::new(Exchange::new(sink));
    let agent = StatelessAgent {
        exchange: exchange.clone(),
        capabilities: request.capabilities.clone(),
        log_level: request.log_level.clone(),
        roots: stateless_client.roots,
        waiting: QueueProgress::from_params(request.params.as_deref()),
    };
    let owner = stateless_client.owner.clone();
    let connection = stateless_client.connection;
    let is_local = stateless_client.is_local;
    let caller = Caller {
        owner,
        scopes: stateless_client.scopes,
        source: connection.into(),
        agent: Arc::new(agent),
        is_program: false,
        is_local,
        knows_resource_links: true,
    };
    let fresh_ms = work.fresh_ms(gateway);
    let gateway = gateway.clone();
    let params = request.params.clone();
    let turn = stateless_client.turn;
    let work = async move {
        let params = params.as_deref();
        match work {
            SuspendableRequest::Call => call::run(&gateway, &caller, params, turn).await,
            SuspendableRequest::Passthrough(passthrough) => {
                passthrough.run(&gateway, &caller, params, turn).await
            }
        }
    };
    SuspendedCall {
        owner: stateless_client.owner,
        fingerprint: request.fingerprint(),
        fresh_ms,
        exchange,
        task: AbortOnDropHandle::new(tokio::spawn(offloadable(work))),
    }
}

/// The error for an unknown or unusable `requestState`.
fn unknown_state(why: &str) -> RpcError {
    let after =
        "whether its call took effect is unknown: look at the page before making it again, without it";
    RpcError::new(INVALID_PARAMS, format!("`requestState` {why}; {after}"))
}
