//! What becomes of an answer on its way to the agent, whoever started the browser: linked files are read, files that
//! the agent asked for are handed out. And what an answer of greenroom's own looks like.

use std::{path::Path, sync::Arc, time::Duration};

use greenroom_core::{Artifact, ArtifactKind, Call, Fields, Raw, Reply, port::Content, raw::encode};
use serde_json::json;

use super::{
    files::{self, Outgoing},
    linked::{self, Answer, Found},
};

/// A call may ask for a longer wait than the deadline, but not for one that would hold its slot for ever.
const OWN_WAIT_MAX: Duration = Duration::from_secs(3600);

/// The tool whose named file is a snapshot.
const SNAPSHOT: &str = "browser_snapshot";

/// Reads what the answer links to, and hands out the file that the agent asked for.
pub(super) async fn shape(
    tool: &str,
    body: Result<Raw, Raw>,
    outgoing: Option<Outgoing>,
    folder: &Path,
) -> Reply {
    let reply = Reply::from(body);
    let Ok(result) = &reply.body else { return reply };
    let answer = Answer { tool, body: result.get(), failed: reply.is_failure(), folder };
    let mut found = linked::read(answer, outgoing.is_some()).await;
    if let Some(outgoing) = outgoing {
        name(&mut found, answer, &outgoing).await;
        if let Err(error) = files::take_out(&outgoing, folder).await {
            let name = outgoing.agent_name;
            return failed(
                "file_refused",
                &format!("the result was made but cannot be written: {error}: `{name}`"),
            );
        }
    }
    Reply { artifacts: found.artifacts, console: found.console, ..reply }
}

/// Puts the agent's name for its file where the engine's stands, and adds the file itself.
async fn name(found: &mut Found, answer: Answer<'_>, outgoing: &Outgoing) {
    let Answer { tool, body, folder, .. } = answer;
    let Outgoing { engine_name, agent_name, .. } = outgoing;
    let (kind, content) = match linked::inside(folder, engine_name).await {
        None => (ArtifactKind::Path, Content::Nothing),
        Some(file) if tool == SNAPSHOT => match linked::text_of(&file).await {
            Some(Ok(text)) => (ArtifactKind::Snapshot, Content::Text(Arc::from(text.trim_end()))),
            _ => (ArtifactKind::Path, Content::Nothing),
        },
        Some(file) => (ArtifactKind::Path, found.keep(tool, &file, Some(agent_name)).await),
    };
    let escaped = encode(engine_name);
    let escaped = escaped.get().trim_matches('"');
    let linked = |open: &str| {
        let start = body.find(&format!("{open}{escaped})"))? + open.len();
        Some(start..start + escaped.len())
    };
    // A file that the answer does not link to has its place before everything.
    let place = linked("](").or_else(|| linked("](./")).unwrap_or(0..0);
    found.artifacts.retain(|one| !one.place.contains(&place.start));
    let renamed = engine_name != agent_name;
    if renamed {
        // The name may also stand elsewhere, as in the code that was run.
        let elsewhere = body.match_indices(escaped).filter(|(at, _)| *at != place.start);
        found.artifacts.extend(elsewhere.map(|(at, name)| Artifact {
            kind: ArtifactKind::Path,
            place: at..at + name.len(),
            instead: Some(agent_name.clone()),
            content: Content::Nothing,
        }));
    }
    let instead = (renamed && !place.is_empty()).then(|| agent_name.clone());
    // A call that failed has written nothing.
    if instead.is_some() || !matches!(content, Content::Nothing) {
        found.artifacts.push(Artifact { kind, place, instead, content });
    }
    found.artifacts.sort_by_key(|artifact| artifact.place.start);
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
