//! Which arguments of the engine's tools are addresses and files, and how each is handled. [`crate::page_url`] judges
//! addresses. Files are copied into the session's folder, or out of it when the engine has written them;
//! [`crate::workspace`] says which may pass.
//!
//! The engine chooses the extensions of its files, and one tool writes several into a folder. So each result gets an empty
//! folder of its own, and all files in it afterwards are the result.

use std::{
    collections::HashSet,
    ffi::OsString,
    path::{Path, PathBuf},
};

use greenroom_core::{Agent, Call, Fields, raw::encode};

use crate::{
    arguments::Arguments,
    file_copies::Budget,
    page_url,
    workspace::{Place, Refused, Roots, Target},
};

/// The folder for files from the agent, below the session's folder.
const INBOX: &str = "inbox";
/// The folder for results before they are copied out.
const OUTBOX: &str = "outbox";
/// The folder for the browser's downloads.
pub(super) const DOWNLOADS: &str = "downloads";

/// The extension of a file that is still being downloaded.
const UNFINISHED: &str = "crdownload";
/// How many downloads of one answer are read; a page can start any number.
const DOWNLOADS_MAX: usize = 64;

/// Arguments that name a file to be written, and those that name a folder for several.
const WRITTEN: [&str; 3] = ["filePath", "requestFilePath", "responseFilePath"];
const WRITTEN_FOLDER: &str = "outputDirPath";
/// Arguments that name a file, or files, to be read.
const READ: &str = "sourcePath";
const READ_MANY: &str = "filePaths";

/// Tools that write a file even if none is named.
const WRITE: [&str; 2] = ["screencast_start", "take_screenshot"];

/// Whether a call adds files to the session's folder: results, or files from the agent.
pub(super) fn writes(call: &Call) -> bool {
    let is_named = || match Arguments::open(call) {
        Ok(Some(arguments)) => WRITTEN
            .into_iter()
            .chain([WRITTEN_FOLDER, READ, READ_MANY])
            .any(|name| arguments.fields.get(name).is_some()),
        Ok(None) => false,
        Err(_) => true,
    };
    WRITE.contains(&&*call.tool) || is_named()
}

/// A result that the agent gets once the engine has written it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outgoing {
    /// The folder in which the engine writes it.
    folder: PathBuf,
    /// The agent's name for it.
    agent_name: String,
    /// Where to write it.
    target: Target,
    /// Whether the agent named a folder, for several files.
    several: bool,
}

/// A file that the engine wrote and that was copied to the agent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Written {
    /// Where the engine wrote it.
    pub(super) file: PathBuf,
    /// The agent's name for it.
    pub(super) agent_name: String,
}

/// Rewrites a call so that it names only files in the session's folder. Returns what to copy out afterwards. `serial`
/// differs for each call of a session.
pub(crate) async fn bring_in(
    call: &mut Call,
    place: &Place<'_>,
    serial: u64,
    agent: &dyn Agent,
) -> Result<Vec<Outgoing>, Refused> {
    let Some(mut arguments) = Arguments::open(call)? else { return Ok(Vec::new()) };
    let given = &mut arguments.fields;
    if let Some(url) = given.guarded::<String>("url")? {
        page_url::judge(&url)?;
    }
    let named = |name: &str| given.get(name).is_some();
    if !WRITTEN.into_iter().chain([WRITTEN_FOLDER, READ, READ_MANY]).any(named) {
        return Ok(Vec::new());
    }
    let roots = Roots::of(agent, place.data).await;
    let inbox = place.folder.join(INBOX).join(serial.to_string());
    let budget = &mut Budget::of_a_call();
    match given.guarded::<String>(READ)? {
        // Models that fill in every argument give an empty name to mean no file; the engine would refuse it.
        Some(path) if path.is_empty() => {
            given.remove(READ);
        }
        Some(path) => given.set(READ, encode(&roots.copy_in(&path, &inbox, budget).await?)),
        None => {}
    }
    if let Some(paths) = given.guarded::<Vec<String>>(READ_MANY)? {
        given.set(READ_MANY, encode(&roots.copy_all_in(&paths, &inbox, budget).await?));
    }
    let mut outgoing = Vec::new();
    for (n, name) in WRITTEN.into_iter().chain([WRITTEN_FOLDER]).enumerate() {
        let Some(agent_name) = given.guarded::<String>(name)? else { continue };
        // The engine treats an empty name as none.
        if agent_name.is_empty() {
            given.remove(name);
            continue;
        }
        let target = roots.admit_out(&agent_name).await?;
        let folder = place.folder.join(OUTBOX).join(format!("{serial}-{n}"));
        let failed = |error| Refused::Copy { path: agent_name.clone(), error };
        tokio::fs::create_dir_all(&folder).await.map_err(failed)?;
        // The engine names files by their real paths.
        let folder = tokio::fs::canonicalize(&folder).await.map_err(failed)?;
        let several = name == WRITTEN_FOLDER;
        let engine_name = if several {
            folder.clone()
        } else {
            // A path without a file name is refused here; the engine's own error is less clear.
            let file = target.file_name().ok_or_else(|| Refused::NotAFile { path: agent_name.clone() })?;
            folder.join(file)
        };
        given.set(name, encode(&engine_name));
        outgoing.push(Outgoing { folder, agent_name, target, several });
    }
    call.params = arguments.params();
    Ok(outgoing)
}

/// Copies what the engine wrote to the agent's path. If the tool failed, there is nothing to copy.
pub(super) async fn take_out(outgoing: &Outgoing) -> Result<Vec<Written>, Refused> {
    let mut written = Vec::new();
    let mut budget = Budget::of_a_call();
    let failed = |error| Refused::Copy { path: outgoing.agent_name.clone(), error };
    let mut entries = tokio::fs::read_dir(&outgoing.folder).await.map_err(failed)?;
    while let Some(entry) = entries.next_entry().await.map_err(failed)? {
        if !entry.file_type().await.map_err(failed)?.is_file() {
            continue;
        }
        let own = entry.file_name();
        let (target, agent_name) = if outgoing.several {
            (outgoing.target.join(&own), Path::new(&outgoing.agent_name).join(&own))
        } else {
            // With the extension that the engine chose.
            (outgoing.target.with_file_name(&own), Path::new(&outgoing.agent_name).with_file_name(&own))
        };
        target.write(&entry.path(), &outgoing.folder, &mut budget).await?;
        written.push(Written { file: entry.path(), agent_name: agent_name.to_string_lossy().into_owned() });
    }
    // Directories list their files in any order.
    written.sort_by(|one, other| one.agent_name.cmp(&other.agent_name));
    Ok(written)
}

/// Removes a result once it is copied to the agent. Files that cannot be removed go with the session's folder.
pub(super) async fn clear(outgoing: &Outgoing) {
    if let Err(error) = tokio::fs::remove_dir_all(&outgoing.folder).await {
        tracing::debug!(%error, "cannot remove a result after copying it out");
    }
}

/// Downloads that finished since the last call, by real paths.
pub(super) async fn downloads(folder: &Path, known: &mut HashSet<OsString>) -> Vec<PathBuf> {
    let mut new = Vec::new();
    // Without downloads there is no folder.
    let Ok(mut entries) = tokio::fs::read_dir(folder.join(DOWNLOADS)).await else { return new };
    while let Ok(Some(entry)) = entries.next_entry().await {
        let is_whole = entry.path().extension().is_none_or(|end| end != UNFINISHED);
        let is_file = entry.file_type().await.is_ok_and(|kind| kind.is_file());
        if new.len() < DOWNLOADS_MAX && is_whole && is_file && known.insert(entry.file_name()) {
            new.push(entry.path());
        }
    }
    new.sort();
    new
}

/// A call's arguments, for code that guards nothing. Arguments that cannot be parsed count as none.
pub(super) fn arguments_of(call: &Call) -> Fields {
    Arguments::open(call).ok().flatten().map(|opened| opened.fields).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc};

    use greenroom_core::{BoxFuture, NoAnswer, Raw};
    use serde_json::{Value, json};

    use super::*;

    /// An agent with a workspace.
    struct Local(PathBuf);

    impl Agent for Local {
        fn tell(&self, _: &str, _: Option<Raw>) {}

        fn ask<'a>(
            &'a self,
            method: &'a str,
            _: Option<Raw>,
        ) -> BoxFuture<'a, Result<Result<Raw, Raw>, NoAnswer>> {
            Box::pin(async move { Err(NoAnswer::Unsupported(method.to_owned())) })
        }

        fn capabilities(&self) -> Option<Raw> {
            None
        }

        fn roots(&self) -> BoxFuture<'_, Vec<PathBuf>> {
            Box::pin(std::future::ready(vec![self.0.clone()]))
        }

        fn log_level(&self) -> Option<String> {
            None
        }
    }

    struct Stage {
        folder: tempfile::TempDir,
        workspace: tempfile::TempDir,
    }

    impl Stage {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().unwrap(), workspace: tempfile::tempdir().unwrap() }
        }

        async fn bring_in(&self, tool: &str, arguments: Value) -> Result<(Value, Vec<Outgoing>), Refused> {
            let params = encode(&json!({ "name": tool, "arguments": arguments }));
            let mut call = Call::new(Arc::<str>::from(tool), params);
            let place = Place { folder: self.folder.path(), data: Path::new("/nowhere") };
            let agent = Local(self.workspace.path().to_owned());
            let outgoing = bring_in(&mut call, &place, 7, &agent).await?;
            let params: Value = serde_json::from_str(call.params.get()).unwrap();
            Ok((params["arguments"].clone(), outgoing))
        }
    }

    /// A result gets a folder of its own, and is copied out with the extension that the engine chose.
    #[tokio::test]
    async fn results_come_out() {
        let stage = Stage::new();
        let asked = json!({ "pageId": 1, "filePath": "shots/a.png" });
        let (arguments, outgoing) = stage.bring_in("take_screenshot", asked).await.unwrap();
        let told = PathBuf::from(arguments["filePath"].as_str().unwrap());
        assert!(told.starts_with(stage.folder.path().canonicalize().unwrap()) && told.ends_with("a.png"));
        assert_eq!(arguments["pageId"], 1);

        fs::write(told.with_extension("jpeg"), "bytes").unwrap();
        let written = take_out(&outgoing[0]).await.unwrap();
        let names: Vec<_> = written.iter().map(|written| &*written.agent_name).collect();
        assert_eq!(names, ["shots/a.jpeg"]);
        assert_eq!(fs::read_to_string(stage.workspace.path().join("shots/a.jpeg")).unwrap(), "bytes");
        clear(&outgoing[0]).await;
        assert!(!told.parent().unwrap().exists());
    }

    /// Several results of one call are copied out, each to its own path; those of a folder under their own names.
    #[tokio::test]
    async fn several_results() {
        let stage = Stage::new();
        let asked = json!({ "requestFilePath": "q", "responseFilePath": "r" });
        let (arguments, outgoing) = stage.bring_in("get_network_request", asked).await.unwrap();
        assert_eq!(outgoing.len(), 2);
        assert_ne!(arguments["requestFilePath"], arguments["responseFilePath"]);

        let (arguments, outgoing) =
            stage.bring_in("lighthouse_audit", json!({ "outputDirPath": "audit" })).await.unwrap();
        let told = PathBuf::from(arguments["outputDirPath"].as_str().unwrap());
        for name in ["report.html", "report.json"] {
            fs::write(told.join(name), name).unwrap();
        }
        let written = take_out(&outgoing[0]).await.unwrap();
        let names: Vec<_> = written.iter().map(|written| &*written.agent_name).collect();
        assert_eq!(names, ["audit/report.html", "audit/report.json"]);
        assert!(stage.workspace.path().join("audit/report.json").is_file());
    }

    /// The agent's files are copied in; files outside of its workspace are refused, as are results there, and pages of this
    /// machine's files.
    #[tokio::test]
    async fn only_the_workspace() {
        let stage = Stage::new();
        fs::write(stage.workspace.path().join("cv.txt"), "cv").unwrap();
        let asked = json!({ "filePaths": ["cv.txt"] });
        let (arguments, _) = stage.bring_in("upload_file", asked).await.unwrap();
        let copy = PathBuf::from(arguments["filePaths"][0].as_str().unwrap());
        assert!(copy.starts_with(stage.folder.path()) && copy.ends_with("cv.txt"), "{copy:?}");
        assert_eq!(fs::read_to_string(copy).unwrap(), "cv");

        for (tool, asked) in [
            ("upload_file", json!({ "filePaths": ["/etc/passwd"] })),
            ("evaluate_script", json!({ "sourcePath": "/etc/passwd" })),
            ("take_screenshot", json!({ "filePath": "/etc/shot.png" })),
            ("take_screenshot", json!({ "filePath": "../shot.png" })),
            ("lighthouse_audit", json!({ "outputDirPath": "/tmp" })),
        ] {
            let refused = stage.bring_in(tool, asked).await.unwrap_err();
            assert!(matches!(refused, Refused::Outside { .. }), "{tool}: {refused}");
        }
        let refused = stage.bring_in("new_page", json!({ "url": "view-source:file:///etc/passwd" })).await;
        assert!(matches!(refused, Err(Refused::Scheme { .. })));
    }

    /// An empty name is none: nothing is read, nothing is written, and the engine does not get it.
    #[tokio::test]
    async fn empty_names_are_none() {
        let stage = Stage::new();
        for name in WRITTEN.into_iter().chain([WRITTEN_FOLDER, READ]) {
            let asked = json!({ "pageId": 1, name: "" });
            let (arguments, outgoing) = stage.bring_in("evaluate_script", asked).await.unwrap();
            assert_eq!((arguments, outgoing.len()), (json!({ "pageId": 1 }), 0), "{name}");
        }
        let asked = json!({ "requestFilePath": "", "responseFilePath": "r" });
        let (arguments, outgoing) = stage.bring_in("get_network_request", asked).await.unwrap();
        assert_eq!((arguments.get("requestFilePath"), outgoing.len()), (None, 1));
    }

    /// Each download is reported once, when it is complete.
    #[tokio::test]
    async fn downloads_come_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut known = HashSet::new();
        assert!(downloads(folder.path(), &mut known).await.is_empty());
        let there = folder.path().join(DOWNLOADS);
        fs::create_dir(&there).unwrap();
        fs::write(there.join("a.txt"), "a").unwrap();
        fs::write(there.join("b.txt.crdownload"), "b").unwrap();
        assert_eq!(downloads(folder.path(), &mut known).await, [there.join("a.txt")]);
        fs::rename(there.join("b.txt.crdownload"), there.join("b.txt")).unwrap();
        assert_eq!(downloads(folder.path(), &mut known).await, [there.join("b.txt")]);
        assert!(downloads(folder.path(), &mut known).await.is_empty());
    }
}
