//! Which arguments of the engine's tools are addresses and files, and how each is handled. [`crate::page_url`] judges
//! addresses. Files are copied into the session's private folder, or out of it when the engine has written them;
//! [`crate::workspace`] says which may pass.

use std::path::{Component, Path};

use greenroom_core::{Agent, Call, raw::encode};

use super::selectors;
pub(super) use crate::workspace::{Place, Refused};
use crate::{
    arguments::Arguments,
    disk_use::DiskUse,
    file_copies::Budget,
    page_url,
    refused_call::{self, RefusedCall},
    workspace::{Roots, Target},
};

/// The folder for files from the agent, below the session's folder.
const INBOX: &str = "inbox";
/// The folder for files with an absolute name before they are copied out.
const OUTBOX: &str = "outbox";

/// Tools whose `filename` is read, not written.
const READ_FILENAME: &[&str] = &["browser_set_storage_state", "browser_run_code_unsafe"];

/// Tools that write a file even without a `filename`.
const WRITE: &[&str] = &[
    "browser_take_screenshot",
    "browser_pdf_save",
    "browser_storage_state",
    "browser_start_tracing",
    "browser_start_video",
    "browser_start_recording",
];

/// Whether a call adds files to the session's folder: a result, or files from the agent. Snapshots to which the engine links
/// are few, and are removed automatically.
fn writes(call: &Call) -> bool {
    let is_named = || match Arguments::open(call) {
        Ok(Some(arguments)) => ["filename", "paths"].iter().any(|name| arguments.fields.get(name).is_some()),
        Ok(None) => false,
        Err(_) => true,
    };
    WRITE.contains(&&*call.tool) || is_named()
}

/// A file that the agent gets once the engine has written it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outgoing {
    /// The engine's name for it, relative to the session's folder.
    pub(super) engine_name: String,
    /// The agent's name for it.
    pub(super) agent_name: String,
    /// Where to write it.
    pub(super) target: Target,
}

/// Checks a call, its files and the disk space left for them, and then calls [`bring_in`].
pub(super) async fn check_and_bring_in(
    call: &mut Call,
    place: &Place<'_>,
    disk_used: impl Future<Output = DiskUse>,
    bytes_max: u64,
    agent: &dyn Agent,
) -> Result<Option<Outgoing>, RefusedCall> {
    refused_call::check(call, writes(call), disk_used, bytes_max).await?;
    Ok(bring_in(call, place, agent).await?)
}

/// Rewrites a call so that it names only files in the session's folder and pages of the web. Returns what to copy out
/// afterwards. A guarded argument that cannot be read is refused.
pub(crate) async fn bring_in(
    call: &mut Call,
    place: &Place<'_>,
    agent: &dyn Agent,
) -> Result<Option<Outgoing>, Refused> {
    let Some(mut arguments) = Arguments::open(call)? else { return Ok(None) };
    let given = &mut arguments.fields;
    if let Some(url) = given.guarded::<String>("url")? {
        page_url::judge(&url)?;
    }
    selectors::judge(given)?;
    let (paths, mut filename) =
        (given.guarded::<Vec<String>>("paths")?, given.guarded::<String>("filename")?);
    // The engine treats an empty name as none.
    if filename.as_ref().is_some_and(String::is_empty) {
        given.remove("filename");
        filename = None;
        call.params = arguments.params();
    }
    let given = &mut arguments.fields;
    if paths.is_none() && filename.is_none() {
        return Ok(None);
    }
    let roots = Roots::of(agent, place.data).await;
    let inbox = place.folder.join(INBOX);
    let budget = &mut Budget::of_a_call();
    if let Some(paths) = paths {
        given.set("paths", encode(&roots.copy_all_in(&paths, &inbox, budget).await?));
    }
    let outgoing = match filename {
        None => None,
        Some(name) if READ_FILENAME.contains(&&*call.tool) => {
            given.set("filename", encode(&roots.copy_in(&name, &inbox.join("0"), budget).await?));
            None
        }
        Some(name) => {
            let plan = plan_out(&roots, name).await?;
            given.set("filename", encode(&plan.engine_name));
            Some(plan)
        }
    };
    call.params = arguments.params();
    Ok(outgoing)
}

/// Copies what the engine wrote to the agent's path. If the tool failed, there is nothing to copy.
pub(super) async fn take_out(outgoing: &Outgoing, folder: &Path) -> Result<(), Refused> {
    let written = folder.join(&outgoing.engine_name);
    let failed = |error| Refused::Copy { path: outgoing.agent_name.clone(), error };
    if !tokio::fs::try_exists(&written).await.map_err(failed)? {
        return Ok(());
    }
    let folder = tokio::fs::canonicalize(folder).await.map_err(failed)?;
    outgoing.target.write(&written, &folder, &mut Budget::of_a_call()).await?;
    tokio::fs::remove_file(&written).await.map_err(failed)
}

/// Where to write a file that the agent named, and its name until then.
async fn plan_out(roots: &Roots, agent_name: String) -> Result<Outgoing, Refused> {
    let target = roots.admit_out(&agent_name).await?;
    let plain = Path::new(&agent_name).components().all(|part| matches!(part, Component::Normal(_)));
    let engine_name = if plain {
        agent_name.clone()
    } else {
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        format!("{OUTBOX}/{name}")
    };
    Ok(Outgoing { engine_name, agent_name, target })
}
