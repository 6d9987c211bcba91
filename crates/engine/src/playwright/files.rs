//! Which arguments of the engine's tools are files, and what becomes of these: copied into the session's private folder,
//! or out of it when the engine has written them. [`crate::workspace`] says which may pass.

use std::path::{Component, Path, PathBuf};

use greenroom_core::{Agent, Call, Fields, raw::encode};
use serde_json::value::RawValue;

pub(super) use crate::workspace::{Place, Refused};
use crate::workspace::{Roots, shows_local_files};

/// Where files handed over by the agent are put, below the session's folder.
const INBOX: &str = "inbox";
/// Where files with an absolute name are written before they are copied out.
const OUTBOX: &str = "outbox";

/// Tools whose `filename` is read, not written.
const READ_FILENAME: &[&str] = &["browser_set_storage_state", "browser_run_code_unsafe"];
/// Tools whose `paths` are handed over.
const HAND_OVER: &[&str] = &["browser_file_upload", "browser_drop"];

/// A file that the agent gets once the engine has written it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outgoing {
    /// As the engine was told, relative to the session's folder.
    pub(super) engine_name: String,
    /// As the agent named it.
    pub(super) agent_name: String,
    /// Where that is.
    pub(super) target: PathBuf,
}

/// Rewrites a call so that it speaks of the session's folder only. Returns what has to be copied out after.
pub(super) async fn bring_in(
    call: &mut Call,
    place: &Place<'_>,
    agent: &dyn Agent,
) -> Result<Option<Outgoing>, Refused> {
    let Some((mut params, mut arguments)) = open(&call.params) else { return Ok(None) };
    if let Ok(Some(url)) = arguments.read::<String>("url")
        && shows_local_files(&url)
    {
        return Err(Refused::LocalUrl { url });
    }
    let inbox = place.folder.join(INBOX);
    let mut outgoing = None;
    if HAND_OVER.contains(&&*call.tool)
        && let Ok(Some(paths)) = arguments.read::<Vec<String>>("paths")
    {
        let roots = Roots::of(agent, place.data).await;
        let mut copies = Vec::new();
        for (n, path) in paths.iter().enumerate() {
            copies.push(roots.copy_in(path, &inbox.join(n.to_string())).await?);
        }
        arguments.set("paths", encode(&copies));
    } else if let Ok(Some(name)) = arguments.read::<String>("filename") {
        let roots = Roots::of(agent, place.data).await;
        if READ_FILENAME.contains(&&*call.tool) {
            let copy = roots.copy_in(&name, &inbox.join("0")).await?;
            arguments.set("filename", encode(&copy));
        } else {
            let plan = plan_out(&roots, name).await?;
            arguments.set("filename", encode(&plan.engine_name));
            outgoing = Some(plan);
        }
    } else {
        return Ok(None);
    }
    params.set("arguments", arguments.to_raw());
    call.params = params.to_raw();
    Ok(outgoing)
}

/// Copies what the engine wrote to where the agent wants it. Nothing was written when the tool failed.
pub(super) async fn take_out(outgoing: &Outgoing, folder: &Path) -> std::io::Result<()> {
    let written = folder.join(&outgoing.engine_name);
    if !tokio::fs::try_exists(&written).await? {
        return Ok(());
    }
    if let Some(parent) = outgoing.target.parent() {
        tokio::fs::create_dir_all(parent).await?;
    }
    tokio::fs::copy(&written, &outgoing.target).await?;
    tokio::fs::remove_file(&written).await
}

fn open(params: &RawValue) -> Option<(Fields, Fields)> {
    let params = Fields::open(params).ok()?;
    let arguments = Fields::open(params.get("arguments")?).ok()?;
    Some((params, arguments))
}

/// Where a file goes that the agent named, and what to call it meanwhile.
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
