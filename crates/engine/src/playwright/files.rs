//! Files in and out of a session's private folder.
//!
//! An agent names files of its own workspace: to upload them, or to have a result written there. The engine may
//! touch the session's folder only. So files that an agent hands over are checked against its roots and copied
//! in, and files that it asked for by name are copied out.

use std::path::{Component, Path, PathBuf};

use greenroom_core::{Agent, Call, Fields, raw::encode};
use serde_json::value::RawValue;

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
    target: PathBuf,
}

/// Why a file cannot pass. Said to the agent as a failed tool.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("file is outside your workspace: `{path}`\n\nhint: allowed folders are {roots}")]
    Outside { path: String, roots: String },
    #[error("cannot read the file: {error}: `{path}`")]
    Unreadable { path: String, error: std::io::Error },
    #[error("not a regular file: `{path}`")]
    NotAFile { path: String },
    #[error("cannot copy the file into the session: {error}: `{path}`")]
    Copy { path: String, error: std::io::Error },
}

/// Rewrites a call so that it speaks of the session's folder only. Returns what has to be copied out after.
pub(super) async fn bring_in(
    call: &mut Call,
    folder: &Path,
    agent: &dyn Agent,
) -> Result<Option<Outgoing>, Refused> {
    let Some((mut params, mut arguments)) = open(&call.params) else { return Ok(None) };
    let mut outgoing = None;
    if HAND_OVER.contains(&&*call.tool)
        && let Ok(Some(paths)) = arguments.read::<Vec<String>>("paths")
    {
        let roots = Roots::of(agent).await;
        let mut copies = Vec::new();
        for (n, path) in paths.iter().enumerate() {
            copies.push(roots.copy_in(path, &folder.join(INBOX).join(n.to_string())).await?);
        }
        arguments.set("paths", encode(&copies));
    } else if let Ok(Some(name)) = arguments.read::<String>("filename") {
        let roots = Roots::of(agent).await;
        if READ_FILENAME.contains(&&*call.tool) {
            let copy = roots.copy_in(&name, &folder.join(INBOX).join("0")).await?;
            arguments.set("filename", encode(&copy));
        } else {
            let plan = roots.plan_out(name).await?;
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

/// The agent's folders, links followed.
struct Roots(Vec<PathBuf>);

impl Roots {
    async fn of(agent: &dyn Agent) -> Self {
        let mut roots = Vec::new();
        for root in agent.roots().await {
            match tokio::fs::canonicalize(&root).await {
                Ok(root) => roots.push(root),
                Err(error) => {
                    tracing::debug!(%error, root = %root.display(), "a root of the client cannot be used")
                }
            }
        }
        Self(roots)
    }

    fn outside(&self, path: &str) -> Refused {
        let roots: Vec<_> = self.0.iter().map(|root| format!("`{}`", root.display())).collect();
        let roots = if roots.is_empty() { "none".to_owned() } else { roots.join(", ") };
        Refused::Outside { path: path.to_owned(), roots }
    }

    /// Relative names start at the first root.
    fn absolute(&self, path: &str) -> Result<PathBuf, Refused> {
        let root = self.0.first().ok_or_else(|| self.outside(path))?;
        Ok(root.join(path))
    }

    fn contain(&self, path: &Path) -> bool {
        self.0.iter().any(|root| path.starts_with(root))
    }

    async fn copy_in(&self, path: &str, folder: &Path) -> Result<PathBuf, Refused> {
        let named = self.absolute(path)?;
        let unreadable = |error| Refused::Unreadable { path: path.to_owned(), error };
        let real = tokio::fs::canonicalize(&named).await.map_err(unreadable)?;
        if !self.contain(&real) {
            return Err(self.outside(path));
        }
        if !tokio::fs::metadata(&real).await.map_err(unreadable)?.is_file() {
            return Err(Refused::NotAFile { path: path.to_owned() });
        }
        let failed = |error| Refused::Copy { path: path.to_owned(), error };
        tokio::fs::create_dir_all(folder).await.map_err(failed)?;
        let copy = folder.join(named.file_name().unwrap_or_default());
        tokio::fs::copy(&real, &copy).await.map_err(failed)?;
        Ok(copy)
    }

    /// Where a file goes that the agent named, and what to call it meanwhile.
    async fn plan_out(&self, agent_name: String) -> Result<Outgoing, Refused> {
        let target = normal(&self.absolute(&agent_name)?).ok_or_else(|| self.outside(&agent_name))?;
        // The folder may not exist yet; whatever of its path does, must lie within a root.
        let mut existing = target.parent();
        let real = loop {
            let Some(folder) = existing else { return Err(self.outside(&agent_name)) };
            match tokio::fs::canonicalize(folder).await {
                Ok(real) => break real,
                Err(_) => existing = folder.parent(),
            }
        };
        let link = tokio::fs::symlink_metadata(&target).await.is_ok_and(|meta| meta.is_symlink());
        if !self.contain(&real) || link {
            return Err(self.outside(&agent_name));
        }
        let plain = Path::new(&agent_name).components().all(|part| matches!(part, Component::Normal(_)));
        let engine_name = if plain {
            agent_name.clone()
        } else {
            let name = target.file_name().unwrap_or_default().to_string_lossy();
            format!("{OUTBOX}/{name}")
        };
        Ok(Outgoing { engine_name, agent_name, target })
    }
}

/// The path without `.` and `..`, or nothing when it climbs above the root of the file system.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop().then_some(())?;
            }
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    Some(normal)
}
