//! Which arguments of the engine's tools are addresses and files, and how each is handled. [`crate::page_url`] judges
//! addresses. Files are copied into the session's private folder, or out of it when the engine has written them;
//! [`crate::workspace`] says which may pass.

use std::path::{Component, Path};

use greenroom_core::{Agent, Call, raw::encode};

use super::{file_links, selectors};
pub(super) use crate::workspace::{SessionFolders, WorkspaceRefusal};
use crate::{
    arguments::CallArguments,
    call_refusal::{self, CallRefusal},
    disk_use::DiskUse,
    file_copies::CopyBudget,
    page_url,
    workspace::{OutputTarget, WorkspaceRoots},
};

/// The folder for files from the agent, below the session's folder.
const INBOX: &str = "inbox";
/// The folder for files with an absolute name before they are copied out.
const OUTBOX: &str = "outbox";

/// Tools whose `filename` is read, not written.
const READ_FILENAME: &[&str] = &["browser_set_storage_state", "browser_run_code_unsafe"];

/// Tools that write a file even without a `filename`.
const ALWAYS_WRITE: &[&str] = &[
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
    let is_named = || match CallArguments::parse(call) {
        Ok(Some(arguments)) => ["filename", "paths"].iter().any(|name| arguments.fields.get(name).is_some()),
        Ok(None) => false,
        Err(_) => true,
    };
    ALWAYS_WRITE.contains(&&*call.tool) || is_named()
}

/// A file that the agent gets once the engine has written it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PlaywrightOutput {
    /// The engine's name for it, relative to the session's folder.
    pub(super) engine_name: String,
    /// The agent's name for it.
    pub(super) agent_name: String,
    /// Where to write it.
    pub(super) target: OutputTarget,
}

/// Checks a call, its files and the disk space left for them, and then calls [`rewrite_files`].
pub(super) async fn check_and_rewrite_files(
    call: &mut Call,
    folders: &SessionFolders<'_>,
    disk_used: impl Future<Output = DiskUse>,
    bytes_max: u64,
    agent: &dyn Agent,
) -> Result<Option<PlaywrightOutput>, CallRefusal> {
    call_refusal::check(call, writes(call), disk_used, bytes_max).await?;
    Ok(rewrite_files(call, folders, agent).await?)
}

/// Rewrites a call so that it names only files in the session's folder and pages of the web. Returns what to copy out
/// afterwards. A guarded argument that cannot be read is refused.
pub(crate) async fn rewrite_files(
    call: &mut Call,
    folders: &SessionFolders<'_>,
    agent: &dyn Agent,
) -> Result<Option<PlaywrightOutput>, WorkspaceRefusal> {
    let Some(mut arguments) = CallArguments::parse(call)? else { return Ok(None) };
    let fields = &mut arguments.fields;
    if let Some(url) = fields.guarded::<String>("url")? {
        page_url::judge(&url)?;
    }
    selectors::judge(fields)?;
    let paths = fields.guarded::<Vec<String>>("paths")?;
    let mut filename = fields.guarded::<String>("filename")?;
    // The engine treats an empty name as none.
    if filename.as_ref().is_some_and(String::is_empty) {
        fields.remove("filename");
        filename = None;
        call.params = arguments.params();
    }
    let fields = &mut arguments.fields;
    if paths.is_none() && filename.is_none() {
        return Ok(None);
    }
    let roots = WorkspaceRoots::of_agent(agent, folders.data).await;
    let inbox = folders.folder.join(INBOX);
    let budget = &mut CopyBudget::for_call();
    if let Some(paths) = paths {
        fields.set("paths", encode(&roots.copy_all_in(agent, &paths, &inbox, budget).await?));
    }
    let outgoing = match filename {
        None => None,
        Some(name) if READ_FILENAME.contains(&&*call.tool) => {
            fields.set("filename", encode(&roots.copy_in(agent, &name, &inbox.join("0"), budget).await?));
            None
        }
        Some(name) => {
            let is_kept = !file_links::NOT_KEPT.contains(&&*call.tool);
            let roots = if is_kept { roots } else { roots.without_blobs() };
            let plan = plan_output(&roots, name).await?;
            fields.set("filename", encode(&plan.engine_name));
            Some(plan)
        }
    };
    call.params = arguments.params();
    Ok(outgoing)
}

/// Copies what the engine wrote to the agent's path. If the tool failed, there is nothing to copy.
pub(super) async fn copy_out(outgoing: &PlaywrightOutput, folder: &Path) -> Result<(), WorkspaceRefusal> {
    let written = folder.join(&outgoing.engine_name);
    let failed = |error| WorkspaceRefusal::Copy { path: outgoing.agent_name.clone(), error };
    if !tokio::fs::try_exists(&written).await.map_err(failed)? {
        return Ok(());
    }
    let folder = tokio::fs::canonicalize(folder).await.map_err(failed)?;
    outgoing.target.write(&written, &folder, &mut CopyBudget::for_call()).await?;
    tokio::fs::remove_file(&written).await.map_err(failed)
}

/// Where to write a file that the agent named, and its name until then.
async fn plan_output(
    roots: &WorkspaceRoots,
    agent_name: String,
) -> Result<PlaywrightOutput, WorkspaceRefusal> {
    let target = roots.output_target(&agent_name).await?;
    let is_plain = Path::new(&agent_name).components().all(|part| matches!(part, Component::Normal(_)));
    let engine_name = if is_plain {
        agent_name.clone()
    } else {
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        format!("{OUTBOX}/{name}")
    };
    Ok(PlaywrightOutput { engine_name, agent_name, target })
}
