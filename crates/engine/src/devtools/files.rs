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

use super::reply::START_RECORDING;
use crate::{
    arguments::CallArguments,
    file_copies::CopyBudget,
    page_url,
    workspace::{OutputTarget, SessionFolders, WorkspaceRefusal, WorkspaceRoots},
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
const WRITTEN_FILES: [&str; 3] = ["filePath", "requestFilePath", "responseFilePath"];
const WRITTEN_FOLDER: &str = "outputDirPath";
/// Arguments that name a file, or files, to be read.
const READ_FILE: &str = "sourcePath";
const READ_FILES: &str = "filePaths";

/// Tools that write a file even if none is named.
const ALWAYS_WRITE: [&str; 2] = ["screencast_start", "take_screenshot"];

/// Whether a call adds files to the session's folder: results, or files from the agent.
pub(super) fn writes(call: &Call) -> bool {
    let is_named = || match CallArguments::parse(call) {
        Ok(Some(arguments)) => WRITTEN_FILES
            .into_iter()
            .chain([WRITTEN_FOLDER, READ_FILE, READ_FILES])
            .any(|name| arguments.fields.get(name).is_some()),
        Ok(None) => false,
        Err(_) => true,
    };
    ALWAYS_WRITE.contains(&&*call.tool) || is_named()
}

/// A result that the agent gets once the engine has written it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DevtoolsOutput {
    /// The folder in which the engine writes it.
    folder: PathBuf,
    /// The agent's name for it.
    agent_name: String,
    /// Where to write it.
    target: OutputTarget,
    /// Whether the agent named a folder, for several files.
    several: bool,
}

/// A file that the engine wrote and that was copied to the agent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CopiedResult {
    /// Where the engine wrote it.
    pub(super) file: PathBuf,
    /// The agent's name for it.
    pub(super) agent_name: String,
}

/// Rewrites a call so that it names only files in the session's folder. Returns what to copy out afterwards. `serial`
/// differs for each call of a session.
pub(crate) async fn rewrite_files(
    call: &mut Call,
    folders: &SessionFolders<'_>,
    serial: u64,
    agent: &dyn Agent,
) -> Result<Vec<DevtoolsOutput>, WorkspaceRefusal> {
    let Some(mut arguments) = CallArguments::parse(call)? else { return Ok(Vec::new()) };
    let given = &mut arguments.fields;
    if let Some(url) = given.guarded::<String>("url")? {
        page_url::judge(&url)?;
    }
    let named = |name: &str| given.get(name).is_some();
    if !WRITTEN_FILES.into_iter().chain([WRITTEN_FOLDER, READ_FILE, READ_FILES]).any(named) {
        return Ok(Vec::new());
    }
    let roots = WorkspaceRoots::of_agent(agent, folders.data).await;
    let inbox = folders.folder.join(INBOX).join(serial.to_string());
    let budget = &mut CopyBudget::for_call();
    match given.guarded::<String>(READ_FILE)? {
        // Models that fill in every argument give an empty name to mean no file; the engine would refuse it.
        Some(path) if path.is_empty() => {
            given.remove(READ_FILE);
        }
        Some(path) => given.set(READ_FILE, encode(&roots.copy_in(agent, &path, &inbox, budget).await?)),
        None => {}
    }
    if let Some(paths) = given.guarded::<Vec<String>>(READ_FILES)? {
        given.set(READ_FILES, encode(&roots.copy_all_in(agent, &paths, &inbox, budget).await?));
    }
    let mut outgoing = Vec::new();
    for (n, name) in WRITTEN_FILES.into_iter().chain([WRITTEN_FOLDER]).enumerate() {
        let Some(agent_name) = given.guarded::<String>(name)? else { continue };
        // The engine treats an empty name as none.
        if agent_name.is_empty() {
            given.remove(name);
            continue;
        }
        let is_kept = &*call.tool != START_RECORDING;
        let target = match is_kept {
            true => roots.output_target(&agent_name).await?,
            false => roots.without_blobs().output_target(&agent_name).await?,
        };
        let folder = folders.folder.join(OUTBOX).join(format!("{serial}-{n}"));
        let failed = |error| WorkspaceRefusal::Copy { path: agent_name.clone(), error };
        tokio::fs::create_dir_all(&folder).await.map_err(failed)?;
        // The engine names files by their real paths.
        let folder = tokio::fs::canonicalize(&folder).await.map_err(failed)?;
        let several = name == WRITTEN_FOLDER;
        let engine_name = if several {
            folder.clone()
        } else {
            // A path without a file name is refused here; the engine's own error is less clear.
            let file =
                target.file_name().ok_or_else(|| WorkspaceRefusal::NotAFile { path: agent_name.clone() })?;
            folder.join(file)
        };
        given.set(name, encode(&engine_name));
        outgoing.push(DevtoolsOutput { folder, agent_name, target, several });
    }
    call.params = arguments.params();
    Ok(outgoing)
}

/// Copies what the engine wrote to the agent's path. If the tool failed, there is nothing to copy.
pub(super) async fn copy_out(outgoing: &DevtoolsOutput) -> Result<Vec<CopiedResult>, WorkspaceRefusal> {
    let mut written = Vec::new();
    let mut budget = CopyBudget::for_call();
    let failed = |error| WorkspaceRefusal::Copy { path: outgoing.agent_name.clone(), error };
    let mut entries = tokio::fs::read_dir(&outgoing.folder).await.map_err(failed)?;
    while let Some(entry) = entries.next_entry().await.map_err(failed)? {
        if !entry.file_type().await.map_err(failed)?.is_file() {
            continue;
        }
        let engine_name = entry.file_name();
        let (target, agent_name) = if outgoing.several {
            (outgoing.target.join(&engine_name), Path::new(&outgoing.agent_name).join(&engine_name))
        } else {
            // With the extension that the engine chose.
            (
                outgoing.target.with_file_name(&engine_name),
                Path::new(&outgoing.agent_name).with_file_name(&engine_name),
            )
        };
        target.write(&entry.path(), &outgoing.folder, &mut budget).await?;
        written
            .push(CopiedResult { file: entry.path(), agent_name: agent_name.to_string_lossy().into_owned() });
    }
    // Directories list their files in any order.
    written.sort_by(|left, right| left.agent_name.cmp(&right.agent_name));
    Ok(written)
}

/// Removes a result once it is copied to the agent. Files that cannot be removed go with the session's folder.
pub(super) async fn remove_result(outgoing: &DevtoolsOutput) {
    if let Err(error) = tokio::fs::remove_dir_all(&outgoing.folder).await {
        tracing::debug!(%error, "cannot remove a result after copying it out");
    }
}

/// Downloads that finished since the last call, by real paths.
pub(super) async fn new_downloads(folder: &Path, known: &mut HashSet<OsString>) -> Vec<PathBuf> {
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
    CallArguments::parse(call).ok().flatten().map(|opened| opened.fields).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc};

    use greenroom_core::{BoxFuture, NoAnswer, Raw};
    use serde_json::{Value, json};

    use super::*;

    /// An agent with a workspace.
    struct AgentWithWorkspace(PathBuf);

    impl Agent for AgentWithWorkspace {
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

    struct FilesFixture {
        folder: tempfile::TempDir,
        workspace: tempfile::TempDir,
    }

    impl FilesFixture {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().unwrap(), workspace: tempfile::tempdir().unwrap() }
        }

        async fn rewrite_files(
            &self,
            tool: &str,
            arguments: Value,
        ) -> Result<(Value, Vec<DevtoolsOutput>), WorkspaceRefusal> {
            let params = encode(&json!({ "name": tool, "arguments": arguments }));
            let mut call = Call::new(Arc::<str>::from(tool), params);
            let folders = SessionFolders { folder: self.folder.path(), data: Path::new("/nowhere") };
            let agent = AgentWithWorkspace(self.workspace.path().to_owned());
            let outgoing = rewrite_files(&mut call, &folders, 7, &agent).await?;
            let params: Value = serde_json::from_str(call.params.get()).unwrap();
            Ok((params["arguments"].clone(), outgoing))
        }
    }

    /// A result gets a folder of its own, and is copied out with the extension that the engine chose.
    #[tokio::test]
    async fn result_is_copied_out_with_the_engines_extension() {
        let fixture = FilesFixture::new();
        let arguments_given = json!({ "pageId": 1, "filePath": "shots/a.png" });
        let (arguments, outgoing) = fixture.rewrite_files("take_screenshot", arguments_given).await.unwrap();
        let engine_path = PathBuf::from(arguments["filePath"].as_str().unwrap());
        assert!(
            engine_path.starts_with(fixture.folder.path().canonicalize().unwrap())
                && engine_path.ends_with("a.png")
        );
        assert_eq!(arguments["pageId"], 1);

        fs::write(engine_path.with_extension("jpeg"), "bytes").unwrap();
        let written = copy_out(&outgoing[0]).await.unwrap();
        let names: Vec<_> = written.iter().map(|written| &*written.agent_name).collect();
        assert_eq!(names, ["shots/a.jpeg"]);
        assert_eq!(fs::read_to_string(fixture.workspace.path().join("shots/a.jpeg")).unwrap(), "bytes");
        remove_result(&outgoing[0]).await;
        assert!(!engine_path.parent().unwrap().exists());
    }

    /// Several results of one call are copied out, each to its own path; those of a folder under their own names.
    #[tokio::test]
    async fn several_results_are_copied_out() {
        let fixture = FilesFixture::new();
        let arguments_given = json!({ "requestFilePath": "q", "responseFilePath": "r" });
        let (arguments, outgoing) =
            fixture.rewrite_files("get_network_request", arguments_given).await.unwrap();
        assert_eq!(outgoing.len(), 2);
        assert_ne!(arguments["requestFilePath"], arguments["responseFilePath"]);

        let (arguments, outgoing) =
            fixture.rewrite_files("lighthouse_audit", json!({ "outputDirPath": "audit" })).await.unwrap();
        let engine_path = PathBuf::from(arguments["outputDirPath"].as_str().unwrap());
        for name in ["report.html", "report.json"] {
            fs::write(engine_path.join(name), name).unwrap();
        }
        let written = copy_out(&outgoing[0]).await.unwrap();
        let names: Vec<_> = written.iter().map(|written| &*written.agent_name).collect();
        assert_eq!(names, ["audit/report.html", "audit/report.json"]);
        assert!(fixture.workspace.path().join("audit/report.json").is_file());
    }

    /// The agent's files are copied in; files outside of its workspace are refused, as are results there, and pages of this
    /// machine's files.
    #[tokio::test]
    async fn files_outside_the_workspace_are_refused() {
        let fixture = FilesFixture::new();
        fs::write(fixture.workspace.path().join("cv.txt"), "cv").unwrap();
        let arguments_given = json!({ "filePaths": ["cv.txt"] });
        let (arguments, _) = fixture.rewrite_files("upload_file", arguments_given).await.unwrap();
        let copy = PathBuf::from(arguments["filePaths"][0].as_str().unwrap());
        assert!(copy.starts_with(fixture.folder.path()) && copy.ends_with("cv.txt"), "{copy:?}");
        assert_eq!(fs::read_to_string(copy).unwrap(), "cv");

        for (tool, arguments_given) in [
            ("upload_file", json!({ "filePaths": ["/etc/passwd"] })),
            ("evaluate_script", json!({ "sourcePath": "/etc/passwd" })),
            ("take_screenshot", json!({ "filePath": "/etc/shot.png" })),
            ("take_screenshot", json!({ "filePath": "../shot.png" })),
            ("lighthouse_audit", json!({ "outputDirPath": "/tmp" })),
        ] {
            let refused = fixture.rewrite_files(tool, arguments_given).await.unwrap_err();
            assert!(matches!(refused, WorkspaceRefusal::OutsideRoots { .. }), "{tool}: {refused}");
        }
        let refused =
            fixture.rewrite_files("new_page", json!({ "url": "view-source:file:///etc/passwd" })).await;
        assert!(matches!(refused, Err(WorkspaceRefusal::Scheme { .. })));
    }

    /// An empty name is none: nothing is read, nothing is written, and the engine does not get it.
    #[tokio::test]
    async fn empty_names_count_as_none() {
        let fixture = FilesFixture::new();
        for name in WRITTEN_FILES.into_iter().chain([WRITTEN_FOLDER, READ_FILE]) {
            let arguments_given = json!({ "pageId": 1, name: "" });
            let (arguments, outgoing) =
                fixture.rewrite_files("evaluate_script", arguments_given).await.unwrap();
            assert_eq!((arguments, outgoing.len()), (json!({ "pageId": 1 }), 0), "{name}");
        }
        let arguments_given = json!({ "requestFilePath": "", "responseFilePath": "r" });
        let (arguments, outgoing) =
            fixture.rewrite_files("get_network_request", arguments_given).await.unwrap();
        assert_eq!((arguments.get("requestFilePath"), outgoing.len()), (None, 1));
    }

    /// Each download is reported once, when it is complete.
    #[tokio::test]
    async fn downloads_are_reported_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut known = HashSet::new();
        assert!(new_downloads(folder.path(), &mut known).await.is_empty());
        let downloads_folder = folder.path().join(DOWNLOADS);
        fs::create_dir(&downloads_folder).unwrap();
        fs::write(downloads_folder.join("a.txt"), "a").unwrap();
        fs::write(downloads_folder.join("b.txt.crdownload"), "b").unwrap();
        assert_eq!(new_downloads(folder.path(), &mut known).await, [downloads_folder.join("a.txt")]);
        fs::rename(downloads_folder.join("b.txt.crdownload"), downloads_folder.join("b.txt")).unwrap();
        assert_eq!(new_downloads(folder.path(), &mut known).await, [downloads_folder.join("b.txt")]);
        assert!(new_downloads(folder.path(), &mut known).await.is_empty());
    }
}
