//! What becomes of an answer on its way to the agent, whoever started the browser: linked files are read, files that
//! the agent asked for are handed out. And what an answer of greenroom's own looks like.

use std::{path::Path, time::Duration};

use greenroom_core::{Artifact, ArtifactKind, Call, Fields, Raw, Reply, port::Content, raw::encode};
use serde_json::json;

use super::{
    files::{self, Outgoing},
    text,
};

/// A call may ask for a longer wait than the deadline, but not for one that would hold its slot for ever.
const OWN_WAIT_MAX: Duration = Duration::from_secs(3600);

/// Reads what the answer links to, and hands out the file that the agent asked for.
pub(super) async fn shape(body: Result<Raw, Raw>, outgoing: Option<Outgoing>, folder: &Path) -> Reply {
    let Ok(result) = &body else { return body.into() };
    let keep = outgoing.as_ref().map(|outgoing| outgoing.agent_name.as_str());
    let mut artifacts = text::artifacts(result.get(), folder, keep).await;
    if let Some(outgoing) = outgoing {
        if let Err(error) = files::take_out(&outgoing, folder).await {
            let name = outgoing.agent_name;
            return failed(
                "file_refused",
                &format!("the result was made but cannot be written: {error}: `{name}`"),
            );
        }
        if outgoing.engine_name != outgoing.agent_name {
            for (at, _) in result.get().match_indices(&outgoing.engine_name) {
                artifacts.push(Artifact {
                    kind: ArtifactKind::Path,
                    place: at..at + outgoing.engine_name.len(),
                    instead: Some(outgoing.agent_name.clone()),
                    content: Content::Nothing,
                });
            }
            artifacts.sort_by_key(|artifact| artifact.place.start);
        }
    }
    Reply { artifacts, ..Reply::from(body) }
}

/// The text of a failed answer.
pub(super) fn failure(body: &Result<Raw, Raw>) -> Result<(), String> {
    let result = body.as_ref().map_err(|error| error.get().to_owned())?;
    let is_error = Fields::open(result).ok().and_then(|fields| fields.read::<bool>("isError").ok().flatten());
    if is_error == Some(true) { Err(result.get().to_owned()) } else { Ok(()) }
}

/// A failed tool of our own making, with a code that stays the same.
pub(super) fn failed(code: &str, message: &str) -> Reply {
    let body = encode(&json!({
        "content": [{ "type": "text", "text": format!("### Error\n{message}") }],
        "isError": true,
        "_meta": { "greenroom/error": { "code": code, "retryable": false } },
    }));
    Ok(body).into()
}

/// `browser_wait_for` says itself how long it takes, in seconds.
pub(super) fn own_wait(call: &Call) -> Duration {
    if &*call.tool != "browser_wait_for" {
        return Duration::ZERO;
    }
    let arguments =
        Fields::open(&call.params).ok().and_then(|params| params.read::<Fields>("arguments").ok()?);
    let seconds = arguments.and_then(|arguments| arguments.read::<f64>("time").ok()?).unwrap_or_default();
    Duration::try_from_secs_f64(seconds).unwrap_or_default().min(OWN_WAIT_MAX)
}
