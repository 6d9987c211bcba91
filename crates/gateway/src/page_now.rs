//! A snapshot of the page for an agent whose call named an element that the page does not have, so that the agent needs no
//! second call to see what is there.

use greenroom_core::{Call, settings::Responses};
use greenroom_fleet::{CallTarget, SessionKey};

use crate::{
    Gateway,
    caller::Caller,
    error_response::ErrorResponse,
    outcome::CallOutcome,
    recall::{CallRecord, ResponseMode, response_options::ResponseOptions},
    route::CallRequest,
};

/// Makes a second call, of the tool that takes a snapshot. `None` if there is no snapshot; the agent then gets the
/// first call's error alone.
pub(crate) async fn page_now(
    gateway: &Gateway,
    caller: &Caller,
    session_key: &SessionKey,
    tool: &str,
) -> Option<CallOutcome> {
    // A call without a session runs in any free browser, so the snapshot might show another page.
    if *session_key == SessionKey::Ephemeral {
        return None;
    }
    let permit = gateway.policy.permit(&caller.owner, tool).ok()?;
    let request = CallRequest::from_parts(tool, None, None).ok()?;
    let call_record = CallRecord::with_new_id(&gateway.recall, &caller.owner, Some(session_key), &request);
    let response_options =
        ResponseOptions { mode: Some(ResponseMode::As(Responses::Inline)), ..Default::default() };
    let call = Call { recorder: call_record.recorder(), ..Call::new(tool, request.into_params()) };
    let running =
        gateway.fleet.call(permit, session_key.clone(), CallTarget::default(), call, caller.agent.clone());
    match running.await {
        Ok((answer, _)) => Some(
            CallOutcome::answered(gateway, call_record, caller, session_key, answer, response_options).await,
        ),
        Err(error) => {
            call_record.failed(None, &ErrorResponse::from_fleet_error(gateway, &error).text()).await;
            None
        }
    }
}
