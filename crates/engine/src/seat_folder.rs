//! A seat's private folder: the engine's only root, into which it writes its files.
//!
//! It is removed with its seat, or stays in the user's output folder.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use greenroom_core::StartError;

use crate::run_folder::{RunFolder, ScratchFolder, make_private, unwritable_error};

#[derive(Debug)]
pub(crate) enum SeatFolder {
    /// Removed when dropped.
    Temporary(ScratchFolder),
    /// Stays.
    Persistent(PathBuf),
}

impl SeatFolder {
    pub(crate) fn make(run: &RunFolder, output_dir: Option<&Path>) -> Result<Self, StartError> {
        let Some(output) = output_dir else {
            return run
                .new_folder("seats")
                .map(Self::Temporary)
                .map_err(|error| unwritable_error(run, &error));
        };
        // The path must be absolute, because the engine has another working directory.
        let folder = std::path::absolute(output).map(|output| output.join(unused_name()));
        let created = folder.and_then(|folder| make_private(&folder).map(|()| folder));
        created.map(Self::Persistent).map_err(|error| {
            StartError::new(format!("cannot write to the output folder: {error}: `{}`", output.display()))
                .hint("make it a folder that this user can write, or set `output_dir` to another")
        })
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Temporary(folder) => folder.path(),
            Self::Persistent(path) => path,
        }
    }

    /// Empties a temporary folder, except one path in it.
    pub(crate) async fn clear_except(&self, excluded: &str) {
        let Self::Temporary(folder) = self else { return };
        let folder = folder.path().to_owned();
        let excluded = folder.join(excluded);
        let removed = tokio::task::spawn_blocking(move || remove_except(&folder, &excluded)).await;
        if let Ok(Err(error)) = removed {
            tracing::debug!(%error, "cannot empty a seat's folder");
        }
    }

    /// Removes a temporary folder.
    pub(crate) async fn clear(&self) {
        if let Self::Temporary(folder) = self {
            folder.clear().await;
        }
    }
}

/// Removes everything in a folder except one path and its parents.
fn remove_except(folder: &Path, excluded: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if path == excluded {
            continue;
        }
        match (excluded.starts_with(&path), entry.file_type()?.is_dir()) {
            (true, _) => remove_except(&path, excluded)?,
            (false, true) => fs::remove_dir_all(&path)?,
            (false, false) => fs::remove_file(&path)?,
        }
    }
    Ok(())
}

/// Milliseconds, process and number: later names sort later, and no two are the same, even of several processes.
fn unused_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("session-{now:013}-{}-{next:04}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Folders in an output folder stay and sort by time; the error for a folder that cannot be made names it.
    #[tokio::test]
    async fn output_folders_stay() {
        let data = tempfile::tempdir().unwrap();
        let run = RunFolder::claim(data.path()).unwrap();
        let output = data.path().join("output");
        let folders: Vec<_> = (0..12).map(|_| SeatFolder::make(&run, Some(&output)).unwrap()).collect();
        assert!(folders.is_sorted_by(|one, next| one.path() < next.path()));
        let first = folders[0].path().to_owned();
        for folder in folders {
            folder.clear().await;
        }
        assert!(first.is_dir());

        let fresh = SeatFolder::make(&run, None).unwrap();
        fresh.clear().await;
        assert!(!fresh.path().exists());

        std::fs::write(data.path().join("file"), "").unwrap();
        let refused = SeatFolder::make(&run, Some(&data.path().join("file"))).unwrap_err();
        assert!(refused.message.contains("cannot write to the output folder") && refused.hint.is_some());
    }
}
