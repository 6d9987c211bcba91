//! The agent's workspace: which of its files may be copied into a session's folder, and where results may be written.
//!
//! An agent names files of its own workspace: to upload them, or to have a result written there. An engine may touch the
//! session's folder only. So the agent's files are checked against its roots and copied in, and results that it asked for by
//! name are copied out. An agent on another machine has no folder here: it names blobs of its owner (`greenroom://blobs/…`)
//! instead of files, and gets named results as blobs. greenroom's own data folder is never part of a workspace, even if it lies within one: it contains
//! the private folders of all sessions. Each engine's adapter knows which arguments of which tools are files.

mod output_target;
mod protected;
mod refusal;

use std::{
    ffi::OsStr,
    path::{Component, Path, PathBuf},
};

use greenroom_core::{Agent, BlobId};

pub(crate) use self::{output_target::OutputTarget, refusal::WorkspaceRefusal};
use self::{
    protected::is_protected,
    refusal::{FileNameError, shortened},
};
use crate::file_copies::{CopyBudget, open_to_read};

/// How many files one call may upload: more than any form takes in one step.
const FILES_MAX: usize = 100;

/// The folders by which a session's files are judged.
pub(crate) struct SessionFolders<'a> {
    /// The session's own folder.
    pub(crate) folder: &'a Path,
    /// greenroom's folder, which contains those of all sessions.
    pub(crate) data: &'a Path,
}

/// The agent's folders, links resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkspaceRoots {
    folders: Vec<PathBuf>,
    /// greenroom's data folder, which is never part of a root.
    data: PathBuf,
    /// Whether the agent gets results as blobs.
    keeps_blobs: bool,
}

impl WorkspaceRoots {
    pub(crate) async fn of_agent(agent: &dyn Agent, data: &Path) -> Self {
        let mut folders = Vec::new();
        for root in agent.roots().await {
            match tokio::fs::canonicalize(&root).await {
                Ok(root) => folders.push(root),
                Err(error) => {
                    tracing::debug!(%error, root = %root.display(), "cannot use a root of the client");
                }
            }
        }
        let data = tokio::fs::canonicalize(data).await.unwrap_or_else(|_| data.to_owned());
        Self { folders, data, keeps_blobs: agent.keeps_blobs() }
    }

    fn outside(&self, path: &str) -> WorkspaceRefusal {
        let roots: Vec<_> = self.folders.iter().map(|root| format!("`{}`", root.display())).collect();
        let hint = if roots.is_empty() {
            "greenroom may use no folder of your client: `greenroom mcp` gives it the client's folder, HTTP gives it \
             none; upload a file to /api/blobs and give its `uri`, or leave the name of a result out: the answer has it \
             or a link to it"
                .to_owned()
        } else {
            match roots.as_slice() {
                [root] => format!("the allowed folder is {root}"),
                _ => format!("allowed folders are {}", roots.join(", ")),
            }
        };
        WorkspaceRefusal::OutsideRoots { path: shortened(path), hint }
    }

    /// Relative names start at the first root.
    fn absolute(&self, path: &str) -> Result<PathBuf, WorkspaceRefusal> {
        let root = self.folders.first().ok_or_else(|| self.outside(path))?;
        let absolute = root.join(path);
        match FileNameError::find(&absolute) {
            Some(why) => Err(WorkspaceRefusal::Name { path: shortened(path), why }),
            None => Ok(absolute),
        }
    }

    /// Judges a file, given as `path`, that is really at `real`.
    fn check_inside_roots(&self, path: &str, real: &Path) -> Result<(), WorkspaceRefusal> {
        if real.starts_with(&self.data) {
            return Err(WorkspaceRefusal::GreenroomFile { path: shortened(path) });
        }
        let inside = self.folders.iter().any(|root| real.starts_with(root));
        if inside { Ok(()) } else { Err(self.outside(path)) }
    }

    /// Judges where a result, given as `path`, would be written. Only names below a root count: a root may lie anywhere.
    fn check_unprotected(&self, path: &str, target: &Path) -> Result<(), WorkspaceRefusal> {
        let below = self.folders.iter().filter_map(|root| target.strip_prefix(root).ok());
        // Roots may contain each other.
        let shortest = below.min_by_key(|below| below.components().count()).unwrap_or(target);
        let name = shortest.iter().filter_map(OsStr::to_str).find(|name| is_protected(name));
        match name {
            Some(name) => {
                Err(WorkspaceRefusal::ProtectedFile { path: shortened(path), name: name.to_owned() })
            }
            None => Ok(()),
        }
    }

    /// The same folders for a tool whose files greenroom never keeps: an agent without folders cannot name its result.
    pub(crate) fn without_blobs(&self) -> Self {
        Self { keeps_blobs: false, ..self.clone() }
    }

    /// The name of a result that the agent gets as a blob.
    fn blob_target(&self, agent_name: &str) -> Result<OutputTarget, WorkspaceRefusal> {
        let path = PathBuf::from(agent_name);
        if let Some(why) = FileNameError::find(&path) {
            return Err(WorkspaceRefusal::Name { path: shortened(agent_name), why });
        }
        match path.file_name() {
            Some(_) => Ok(OutputTarget { path, roots: self.clone() }),
            None => Err(WorkspaceRefusal::NotAFile { path: shortened(agent_name) }),
        }
    }

    /// Copies an agent's file, or a blob of its owner, into a folder.
    pub(crate) async fn copy_in(
        &self,
        agent: &dyn Agent,
        path: &str,
        folder: &Path,
        budget: &mut CopyBudget,
    ) -> Result<PathBuf, WorkspaceRefusal> {
        if let Some(id) = path.strip_prefix(BlobId::URI) {
            return copy_blob_in(agent, id, folder, budget).await;
        }
        let roots = self.clone();
        let path = path.to_owned();
        let folder = folder.to_owned();
        let mut left = *budget;
        let (copy, left) = run_blocking(move || {
            let copy = roots.copy_in_blocking(&path, &folder, &mut left)?;
            Ok((copy, left))
        })
        .await?;
        *budget = left;
        Ok(copy)
    }

    fn copy_in_blocking(
        &self,
        path: &str,
        folder: &Path,
        budget: &mut CopyBudget,
    ) -> Result<PathBuf, WorkspaceRefusal> {
        let named = self.absolute(path)?;
        let unreadable = |error| WorkspaceRefusal::Unreadable { path: shortened(path), error };
        self.check_inside_roots(path, &std::fs::canonicalize(&named).map_err(unreadable)?)?;
        let opened =
            open_to_read(&named).map_err(|copy_error| WorkspaceRefusal::from_copy_error(copy_error, path))?;
        // The file may have been replaced between the check of its path and the opening.
        self.check_inside_roots(path, &opened.real)?;
        let name = named.file_name().ok_or_else(|| WorkspaceRefusal::NotAFile { path: shortened(path) })?;
        let failed = |error| WorkspaceRefusal::Copy { path: shortened(path), error };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let copy = folder.join(name);
        opened
            .copy_to(&copy, budget)
            .map_err(|copy_error| WorkspaceRefusal::from_copy_error(copy_error, path))?;
        Ok(copy)
    }

    /// Copies several files, each into a folder of its own.
    pub(crate) async fn copy_all_in(
        &self,
        agent: &dyn Agent,
        paths: &[String],
        folder: &Path,
        budget: &mut CopyBudget,
    ) -> Result<Vec<PathBuf>, WorkspaceRefusal> {
        if paths.len() > FILES_MAX {
            return Err(WorkspaceRefusal::TooMany);
        }
        let mut copies = Vec::with_capacity(paths.len());
        for (n, path) in paths.iter().enumerate() {
            copies.push(self.copy_in(agent, path, &folder.join(n.to_string()), budget).await?);
        }
        Ok(copies)
    }

    /// Where to write a file that the agent named. An existing file may be overwritten, but not through a link.
    pub(crate) async fn output_target(&self, agent_name: &str) -> Result<OutputTarget, WorkspaceRefusal> {
        if self.folders.is_empty() && self.keeps_blobs {
            return self.blob_target(agent_name);
        }
        let path = without_dots(&self.absolute(agent_name)?).ok_or_else(|| self.outside(agent_name))?;
        // The folder may not exist yet; the existing part of its path must lie within a root.
        let mut existing = path.parent();
        let real = loop {
            let Some(folder) = existing else { return Err(self.outside(agent_name)) };
            match tokio::fs::canonicalize(folder).await {
                Ok(real) => break real,
                Err(_) => existing = folder.parent(),
            }
        };
        self.check_inside_roots(agent_name, &real)?;
        self.check_unprotected(agent_name, &path)?;
        self.check_unprotected(agent_name, &real)?;
        match tokio::fs::symlink_metadata(&path).await {
            Ok(about) if about.is_symlink() => Err(self.outside(agent_name)),
            // This refuses the path before the engine makes a result that could not be written. A folder is
            // allowed.
            Ok(about) if !about.is_file() && !about.is_dir() => {
                Err(WorkspaceRefusal::NotAFile { path: shortened(agent_name) })
            }
            _ => Ok(OutputTarget { path, roots: self.clone() }),
        }
    }
}

/// Copies a blob of the agent's owner into a folder, under the name that it has there.
async fn copy_blob_in(
    agent: &dyn Agent,
    id: &str,
    folder: &Path,
    budget: &mut CopyBudget,
) -> Result<PathBuf, WorkspaceRefusal> {
    let uri = shortened(&format!("{}{id}", BlobId::URI));
    let Some(id) = BlobId::parse(id) else { return Err(WorkspaceRefusal::NoBlob { uri }) };
    let blob = match agent.blob(&id).await {
        Ok(Some(blob)) => blob,
        Ok(None) => return Err(WorkspaceRefusal::NoBlob { uri }),
        Err(error) => return Err(WorkspaceRefusal::UnreadableBlob { uri, error: error.to_string() }),
    };
    // The name may come from a page, as a download's does: only its last part counts.
    let named = blob.about.name.as_deref().and_then(|name| Path::new(name).file_name());
    let name = named.filter(|name| FileNameError::find(Path::new(name)).is_none());
    let copy = folder.join(name.unwrap_or(OsStr::new(id.as_str())));
    budget.take(blob.data.len() as u64).map_err(|error| WorkspaceRefusal::from_copy_error(error, &uri))?;
    let folder = folder.to_owned();
    run_blocking(move || {
        let failed = |error| WorkspaceRefusal::Copy { path: uri.clone(), error };
        std::fs::create_dir_all(&folder).map_err(failed)?;
        std::fs::write(&copy, &blob.data).map_err(failed)?;
        Ok(copy)
    })
    .await
}

/// Runs blocking disk access on another thread.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, WorkspaceRefusal> + Send + 'static,
) -> Result<T, WorkspaceRefusal> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => {
            Err(WorkspaceRefusal::Copy { path: String::new(), error: std::io::Error::other(error) })
        }
    }
}

/// The path without `.` and `..`, or `None` if it climbs above the root of the file system.
fn without_dots(path: &Path) -> Option<PathBuf> {
    let mut path_without_dots = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                path_without_dots.pop().then_some(())?;
            }
            Component::CurDir => {}
            other => path_without_dots.push(other),
        }
    }
    Some(path_without_dots)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use greenroom_core::{
        BoxFuture, NoAgent,
        record::{Blob, BlobRef, Unreadable},
    };

    use super::*;
    use crate::output_files::FILE_BYTES_MAX;

    /// A copy is judged by the path of the opened file; a FIFO is refused at once, in and out.
    #[tokio::test]
    async fn files_are_judged_after_opening() {
        let root = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let folders = vec![root.path().canonicalize().unwrap()];
        let roots = WorkspaceRoots { folders, data: "/nowhere".into(), keeps_blobs: false };
        let inbox = outside.path().join("inbox");
        fs::write(outside.path().join("secret"), "secret").unwrap();
        fs::write(root.path().join("mine"), "mine").unwrap();
        symlink(outside.path(), root.path().join("out")).unwrap();
        let fifo = root.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let budget = &mut CopyBudget::for_call();
        assert!(roots.copy_in(&NoAgent, "mine", &inbox, budget).await.is_ok());
        assert!(matches!(
            roots.copy_in(&NoAgent, "out/secret", &inbox, budget).await,
            Err(WorkspaceRefusal::OutsideRoots { .. })
        ));
        assert!(matches!(
            roots.copy_in(&NoAgent, "fifo", &inbox, budget).await,
            Err(WorkspaceRefusal::NotAFile { .. })
        ));
        assert!(matches!(roots.output_target("fifo").await, Err(WorkspaceRefusal::NotAFile { .. })));
        let long =
            roots.copy_in(&NoAgent, &"x/".repeat(1_000_000), &inbox, budget).await.unwrap_err().to_string();
        assert!(long.len() < 1_000, "{} bytes", long.len());

        // The folder is replaced by a link between the check and the writing.
        fs::create_dir(root.path().join("deep")).unwrap();
        let target = roots.output_target("deep/result").await.unwrap();
        fs::remove_dir(root.path().join("deep")).unwrap();
        symlink(outside.path(), root.path().join("deep")).unwrap();
        let mine = root.path().join("mine");
        let of_session = &*roots.folders[0];
        let written = target.write(&mine, of_session, budget).await;
        assert!(matches!(written, Err(WorkspaceRefusal::OutsideRoots { .. })), "{written:?}");
        assert!(!outside.path().join("result").exists());
        let target = roots.output_target("fine/result").await.unwrap();
        let written = target.write(&mine, of_session, budget).await;
        assert!(written.is_ok() && root.path().join("fine/result").is_file());

        let many = vec!["mine".to_owned(); FILES_MAX + 1];
        assert!(matches!(
            roots.copy_all_in(&NoAgent, &many, &inbox, budget).await,
            Err(WorkspaceRefusal::TooMany)
        ));
        let small = &mut CopyBudget::with_bytes(7);
        let two = vec!["mine".to_owned(); 2];
        assert!(matches!(
            roots.copy_all_in(&NoAgent, &two, &inbox, small).await,
            Err(WorkspaceRefusal::TooBig { .. })
        ));
    }

    /// An agent whose owner has one blob, and for whom results are kept.
    struct RemoteAgent;

    impl Agent for RemoteAgent {
        fn blob<'a>(&'a self, id: &'a BlobId) -> BoxFuture<'a, Result<Option<Blob>, Unreadable>> {
            let name = Some("../../up/cv.txt".to_owned());
            let about = BlobRef { id: id.clone(), mime: "text/plain".to_owned(), name, bytes: 5 };
            let has = id.as_str().starts_with('a');
            Box::pin(std::future::ready(Ok(has.then(|| Blob { about, data: b"words".to_vec() }))))
        }

        fn keeps_blobs(&self) -> bool {
            true
        }
    }

    /// An agent without folders hands over blobs of its owner, and its results are kept: the last part of a name counts, and
    /// what cannot be kept is refused.
    #[tokio::test]
    async fn an_agent_without_folders_has_blobs() {
        let folder = tempfile::tempdir().unwrap();
        let inbox = folder.path().join("inbox");
        let roots = WorkspaceRoots::of_agent(&RemoteAgent, Path::new("/nowhere")).await;
        let uri = |first: char| format!("{}{}", BlobId::URI, first.to_string().repeat(64));
        let budget = &mut CopyBudget::with_bytes(5);
        let copy = roots.copy_in(&RemoteAgent, &uri('a'), &inbox, budget).await.unwrap();
        assert_eq!(
            (copy, fs::read(inbox.join("cv.txt")).unwrap()),
            (inbox.join("cv.txt"), b"words".to_vec())
        );
        let again = roots.copy_in(&RemoteAgent, &uri('a'), &inbox, budget).await;
        assert!(matches!(again, Err(WorkspaceRefusal::TooBig { .. })), "{again:?}");
        for odd in [uri('b'), uri('g'), format!("{}../x", BlobId::URI), BlobId::URI.to_owned()] {
            let refused = roots.copy_in(&RemoteAgent, &odd, &inbox, budget).await;
            assert!(matches!(refused, Err(WorkspaceRefusal::NoBlob { .. })), "{odd}: {refused:?}");
        }

        let target = roots.output_target("shots/a.png").await.unwrap();
        assert_eq!(target.file_name(), Some(OsStr::new("a.png")));
        let result = folder.path().join("a.png");
        fs::File::create(&result).unwrap().set_len(FILE_BYTES_MAX).unwrap();
        assert!(target.write(&result, folder.path(), budget).await.is_ok());
        fs::File::create(&result).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
        let big = target.write(&result, folder.path(), budget).await;
        assert!(matches!(big, Err(WorkspaceRefusal::NotKept { .. })), "{big:?}");
        assert!(matches!(roots.output_target("..").await, Err(WorkspaceRefusal::NotAFile { .. })));
        let never_kept = roots.without_blobs().output_target("state.json").await;
        assert!(matches!(never_kept, Err(WorkspaceRefusal::OutsideRoots { .. })), "{never_kept:?}");
    }

    /// A name that no file can have is refused before the engine runs, in and out, and the error says what is wrong with it.
    /// The longest possible name passes.
    #[tokio::test]
    async fn impossible_names_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let roots = WorkspaceRoots {
            folders: vec![root.path().canonicalize().unwrap()],
            data: "/nowhere".into(),
            keeps_blobs: false,
        };
        for (name, why) in [
            ("mi\0ne".to_owned(), "it contains a NUL character".to_owned()),
            ("x".repeat(256), "a part of it has 256 bytes, at most 255 are possible".to_owned()),
            (
                format!("ä{}/y", "x".repeat(254)),
                "a part of it has 256 bytes, at most 255 are possible".to_owned(),
            ),
            (
                format!("/{}", "x/".repeat(500_000)),
                "the whole path has 1000001 bytes, at most 4095 are possible".to_owned(),
            ),
        ] {
            let inbox = root.path().join("inbox");
            let copied = roots.copy_in(&NoAgent, &name, &inbox, &mut CopyBudget::for_call()).await.map(drop);
            for refused in [copied, roots.output_target(&name).await.map(drop)] {
                let refused = refused.unwrap_err();
                assert_eq!(refused.code(), "file_refused");
                let said = refused.to_string();
                assert!(said.starts_with(&format!("no file can have this name: {why}: `")), "{said}");
                assert!(said.len() < 1_000, "{} bytes", said.len());
            }
        }
        assert!(roots.output_target(&"x".repeat(255)).await.is_ok());
    }

    /// No result replaces or adds a file that other programs run or obey, however it is spelled, through a link, or by the
    /// name that the engine gives it. Files with similar names are written.
    #[tokio::test]
    async fn protected_files_are_not_written() {
        let root = tempfile::tempdir().unwrap();
        let real_root = root.path().canonicalize().unwrap();
        let hidden_root = real_root.join(".config/project");
        fs::create_dir_all(&hidden_root).unwrap();
        fs::create_dir_all(real_root.join(".git/hooks")).unwrap();
        symlink(real_root.join(".git"), real_root.join("link")).unwrap();
        let roots =
            WorkspaceRoots { folders: vec![real_root.clone()], data: "/nowhere".into(), keeps_blobs: false };
        for name in [
            "greenroom.toml",
            "Greenroom.TOML",
            ".env",
            ".env.local",
            "deep/.ENVRC",
            ".git/hooks/pre-commit",
            "x/../.git/config",
            "link/config",
            "sub/.vscode/tasks.json",
            ".claude/settings.json",
            ".mcp.json",
        ] {
            let refused = roots.output_target(name).await.unwrap_err();
            assert!(matches!(refused, WorkspaceRefusal::ProtectedFile { .. }), "{name}: {refused}");
            assert_eq!(refused.code(), "file_refused");
        }
        for name in
            ["greenroom.toml.png", ".envelope", ".playwright-mcp/page.yml", "git/config", ".gitignore"]
        {
            assert!(roots.output_target(name).await.is_ok(), "{name}");
        }
        let target = roots.output_target("result").await.unwrap().with_file_name(OsStr::new(".env"));
        fs::write(real_root.join("made"), "made").unwrap();
        let written = target.write(&real_root.join("made"), &real_root, &mut CopyBudget::for_call()).await;
        assert!(matches!(written, Err(WorkspaceRefusal::ProtectedFile { .. })), "{written:?}");
        // The user has chosen this folder.
        let roots =
            WorkspaceRoots { folders: vec![hidden_root], data: "/nowhere".into(), keeps_blobs: false };
        assert!(roots.output_target("page.png").await.is_ok());
    }

    /// A file that the engine made as a link, or below one, to a path outside of the session's folder is not copied out; a
    /// link within the session's folder is followed.
    #[tokio::test]
    async fn links_out_of_the_session_folder_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let session = tempfile::tempdir().unwrap();
        let folder = session.path().canonicalize().unwrap();
        fs::write(elsewhere.path().join("secret"), "secret").unwrap();
        fs::write(folder.join("own"), "own").unwrap();
        symlink(elsewhere.path().join("secret"), folder.join("file_link")).unwrap();
        symlink(elsewhere.path(), folder.join("folder_link")).unwrap();
        symlink(folder.join("own"), folder.join("own_link")).unwrap();
        let target = OutputTarget::in_root(root.path(), "result");
        let budget = &mut CopyBudget::for_call();
        for link in ["file_link", "folder_link/secret"] {
            let written = target.write(&folder.join(link), &folder, budget).await;
            assert!(matches!(written, Err(WorkspaceRefusal::NotAFile { .. })), "{link}: {written:?}");
            assert!(!root.path().join("result").exists(), "{link}");
        }
        target.write(&folder.join("own_link"), &folder, budget).await.unwrap();
        assert_eq!(fs::read_to_string(root.path().join("result")).unwrap(), "own");
    }
}
