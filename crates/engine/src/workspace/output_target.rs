//! Where a result that the agent named is written: a file in one of its folders, or a blob if it has none.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use super::{
    WorkspaceRoots,
    refusal::{WorkspaceRefusal, shortened},
    run_blocking,
};
use crate::{
    file_copies::{CopyBudget, OpenFolder, open_to_read},
    output_files::FILE_BYTES_MAX,
};

/// Where a result may be written: a file, or a folder for several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutputTarget {
    pub(super) path: PathBuf,
    pub(super) roots: WorkspaceRoots,
}

impl OutputTarget {
    /// A file of this name in a workspace.
    #[cfg(test)]
    pub(crate) fn in_root(root: &Path, name: &str) -> Self {
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        Self {
            path: root.join(name),
            roots: WorkspaceRoots { folders: vec![root], data: "/nowhere".into(), keeps_blobs: false },
        }
    }

    pub(crate) fn file_name(&self) -> Option<&OsStr> {
        self.path.file_name()
    }

    /// The same target with another file name.
    pub(crate) fn with_file_name(&self, name: &OsStr) -> Self {
        Self { path: self.path.with_file_name(name), roots: self.roots.clone() }
    }

    /// A file in this folder.
    pub(crate) fn join(&self, name: &OsStr) -> Self {
        Self { path: self.path.join(name), roots: self.roots.clone() }
    }

    /// Copies a session's file to this target, unless the agent gets it as a blob. The file must lie in `folder`, the real
    /// path of one of the session's folders: an engine's file may be a link to anywhere.
    pub(crate) async fn write(
        &self,
        from: &Path,
        folder: &Path,
        budget: &mut CopyBudget,
    ) -> Result<(), WorkspaceRefusal> {
        if self.roots.folders.is_empty() {
            return self.check_kept(from).await;
        }
        let target = self.clone();
        let from = from.to_owned();
        let folder = folder.to_owned();
        let mut left = *budget;
        *budget =
            run_blocking(move || target.write_blocking(&from, &folder, &mut left).map(|()| left)).await?;
        Ok(())
    }

    /// Refuses a file that is too large to be kept as a blob: the agent would never see it.
    async fn check_kept(&self, from: &Path) -> Result<(), WorkspaceRefusal> {
        let path = shortened(&self.path.to_string_lossy());
        match tokio::fs::metadata(from).await {
            Ok(about) if about.len() <= FILE_BYTES_MAX => Ok(()),
            Ok(_) => Err(WorkspaceRefusal::NotKept { path }),
            Err(error) => Err(WorkspaceRefusal::Copy { path, error }),
        }
    }

    fn write_blocking(
        &self,
        from: &Path,
        session_folder: &Path,
        budget: &mut CopyBudget,
    ) -> Result<(), WorkspaceRefusal> {
        let path = &*self.path.to_string_lossy();
        let failed = |copy_error| WorkspaceRefusal::from_copy_error(copy_error, path);
        let (Some(parent), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return Err(WorkspaceRefusal::NotAFile { path: shortened(path) });
        };
        let result = open_to_read(from).map_err(failed)?;
        if !result.real.starts_with(session_folder) {
            return Err(WorkspaceRefusal::NotAFile { path: shortened(path) });
        }
        std::fs::create_dir_all(parent).map_err(|error| failed(error.into()))?;
        let folder = OpenFolder::open(parent).map_err(failed)?;
        // The path was checked before the engine ran, and may lead elsewhere by now.
        self.roots.check_inside_roots(path, &folder.real)?;
        self.roots.check_unprotected(path, &folder.real.join(name))?;
        result.write_into(&folder, name, budget).map_err(failed)
    }
}
