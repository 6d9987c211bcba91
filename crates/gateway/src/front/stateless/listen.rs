//! `subscriptions/listen`: a request whose answer is a stream of notifications, until the client disconnects.

use greenroom_core::{Fields, Raw, raw::encode};
use greenroom_mcp::message;
use serde_json::json;

use super::{StatelessRequest, complete};
use crate::{Gateway, client_sink::ClientSink};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Notifies the client of the changes it asked for. Ends with the catalog, that is, with the gateway.
pub(super) async fn run(gateway: &Gateway, request: &StatelessRequest, sink: &ClientSink) -> Raw {
    let mut changes = gateway.catalog.changes();
    let wanted = request
        .params
        .as_deref()
        .and_then(|params| Fields::open(params).ok()?.read::<Fields>("notifications").ok()?);
    let tools = wanted.and_then(|wanted| wanted.read::<bool>("toolsListChanged").ok()?).unwrap_or(false);
    let mut mark = Fields::default();
    // An id is a string or a number, which is JSON as it stands.
    if let Ok(id) = greenroom_core::raw::parse(request.id.as_json().to_owned()) {
        mark.set(SUBSCRIPTION, id);
    }
    let granted = if tools { json!({ "toolsListChanged": true }) } else { json!({}) };
    let tell =
        |method: &str, params: serde_json::Value| message::notification(method, Some(&encode(&params)));
    let acknowledged = json!({ "notifications": granted, "_meta": mark });
    if sink.send(tell("notifications/subscriptions/acknowledged", acknowledged)).await.is_ok() {
        while changes.changed().await.is_ok() {
            let changed = tell("notifications/tools/list_changed", json!({ "_meta": mark }));
            if tools && sink.send_unless_pending(changed).await.is_err() {
                break;
            }
        }
    }
    let mut end = Fields::default();
    end.set("_meta", mark.to_raw());
    complete(end, None)
}
