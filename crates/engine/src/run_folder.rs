//! One folder per greenroom process, for everything that must not outlive it: profiles, seats' private
//! folders, the list of ports.
//!
//! It is in the data folder's `run/` and is named after its owner: pid and start time. Many greenrooms share a data folder;
//! [`reap`] removes the processes and folders of dead owners, and never touches those of a living one. An owner is dead when
//! no living process has its pid *and* start time *and* its lock is free: the lock works across containers, where pids mean
//! something else, and the pid protects an owner that has made its folder but not yet its lock.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use greenroom_core::StartError;
use rustix::{
    fs::{FlockOperation, flock},
    process::{Pid, Signal, kill_process, kill_process_group},
};

use crate::{launcher::TAG, orphan_tabs};

/// The file that lists an owner's ports, one per line.
pub const PORTS: &str = "ports";
const LOCK: &str = "lock";

/// This process's folder. Dropping this removes the folder.
pub struct RunFolder {
    path: PathBuf,
    tag: String,
    next: AtomicU64,
    /// Locked as long as this process lives; the kernel releases it in any case.
    _lock: File,
}

impl RunFolder {
    /// Makes this process's folder.
    pub fn claim(data_folder: &Path) -> io::Result<Self> {
        /// Distinguishes several claims of one process (tests make them).
        static CLAIMS: AtomicU64 = AtomicU64::new(0);
        let pid = std::process::id();
        let start = start_time_if_running(pid).unwrap_or_default();
        let claim = CLAIMS.fetch_add(1, Ordering::Relaxed);
        let tag = format!("{pid}-{start}-{claim}");
        let path = data_folder.join("run").join(&tag);
        make_private(&path)?;
        let lock = private_file().create(true).write(true).truncate(true).open(path.join(LOCK))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { path, tag, next: AtomicU64::new(0), _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The mark of this process's children; see [`TAG`].
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// A new, empty, private folder below this one. Names are never used twice.
    pub fn new_folder(&self, kind: &str) -> io::Result<ScratchFolder> {
        let path = self.path.join(kind).join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        make_private(&path)?;
        Ok(ScratchFolder(path))
    }
}

/// A folder of one browser, engine or seat. Dropping this removes the folder, so that a failed or cancelled start
/// leaves nothing behind.
#[derive(Debug)]
pub struct ScratchFolder(PathBuf);

impl ScratchFolder {
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Removes the folder without blocking this thread: a profile has hundreds of files.
    pub async fn clear(&self) {
        let path = self.0.clone();
        let _ = tokio::task::spawn_blocking(move || remove(&path)).await;
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// A folder that cannot be removed now is removed with the run folder.
fn remove(path: &Path) {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::debug!(%error, path = %path.display(), "cannot remove a folder");
        }
        _ => {}
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::debug!(%error, path = %self.path.display(), "the next start will remove the run folder");
        }
    }
}

/// What [`reap`] has removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    pub folders: usize,
    pub processes: usize,
}

/// Ends the processes and removes the folders that dead owners left behind.
pub fn reap(data_folder: &Path) -> Reaped {
    let mut reaped = Reaped::default();
    let Ok(runs) = fs::read_dir(data_folder.join("run")) else { return reaped };
    for run in runs.flatten() {
        let path = run.path();
        let Some(tag) = run.file_name().to_str().map(ToOwned::to_owned) else { continue };
        // The lock is held until the folder is removed, so that two starting greenrooms do not both clean it.
        let Some(_lock) = lock_if_owner_dead(&path, &tag) else { continue };
        for pid in processes_with_tag(&tag) {
            tracing::info!(?pid, tag, "ending a process that a dead greenroom left behind");
            // The process leads a group, so the group is killed: a browser's helpers in it have no tag, since they
            // overwrite their environment with their titles.
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = kill_process(pid, Signal::KILL);
            reaped.processes += 1;
        }
        orphan_tabs::keep_lists_of_dead(&path);
        match fs::remove_dir_all(&path) {
            Ok(()) => reaped.folders += 1,
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "cannot remove the run folder of a dead greenroom");
            }
        }
    }
    reaped
}

/// The run folders that dead owners left behind and [`reap`] would remove.
pub fn leftover_run_folders(data_folder: &Path) -> Vec<PathBuf> {
    let Ok(runs) = fs::read_dir(data_folder.join("run")) else { return Vec::new() };
    let dead = |run: &fs::DirEntry| {
        run.file_name().to_str().is_some_and(|tag| lock_if_owner_dead(&run.path(), tag).is_some())
    };
    runs.flatten().filter(dead).map(|run| run.path()).collect()
}

/// A running greenroom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningGreenroom {
    pub pid: u32,
    /// Its run folder.
    pub path: PathBuf,
}

/// The greenrooms that run with this data folder, lowest pid first. A folder whose name has another form is ignored.
pub fn running_greenrooms(data_folder: &Path) -> Vec<RunningGreenroom> {
    let Ok(runs) = fs::read_dir(data_folder.join("run")) else { return Vec::new() };
    let running = |run: fs::DirEntry| {
        let name = run.file_name();
        let (pid, _) = owner_of_tag(name.to_str()?)?;
        lock_if_owner_dead(&run.path(), name.to_str()?)
            .is_none()
            .then(|| RunningGreenroom { pid, path: run.path() })
    };
    let mut found: Vec<_> = runs.flatten().filter_map(running).collect();
    found.sort_by(|left, right| (left.pid, &left.path).cmp(&(right.pid, &right.path)));
    found
}

/// Pid and start time in a run folder's name.
fn owner_of_tag(tag: &str) -> Option<(u32, u64)> {
    let mut parts = tag.split('-');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// A run folder whose owner is dead, locked until this is dropped.
struct DeadRunFolder {
    /// `None` if the folder has no lock file.
    _lock: Option<File>,
}

/// Locks a run folder whose owner is dead. `None` if the owner runs, or another process holds the lock.
fn lock_if_owner_dead(path: &Path, tag: &str) -> Option<DeadRunFolder> {
    let (pid, start) = owner_of_tag(tag)?;
    if start_time_if_running(pid) == Some(start) {
        return None;
    }
    match private_file().write(true).open(path.join(LOCK)) {
        Ok(lock) => flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .is_ok()
            .then_some(DeadRunFolder { _lock: Some(lock) }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(DeadRunFolder { _lock: None }),
        Err(_) => None,
    }
}

/// Processes that carry this tag in their environment.
fn processes_with_tag(tag: &str) -> Vec<Pid> {
    let mark = format!("{TAG}={tag}");
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        })
        .filter_map(Pid::from_raw)
        .collect()
}

/// The start time of a living process, in clock ticks since boot. A process that has ended but was not reaped (a zombie)
/// still has a stat line; its files and locks are gone.
///
/// State and start are fields 3 and 22 of that line, counted from the last parenthesis because the name before it may
/// contain anything.
fn start_time_if_running(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    match fields.next()? {
        "Z" | "X" => None,
        _ => fields.nth(18)?.parse().ok(),
    }
}

/// The error if the data folder is not writable.
pub(crate) fn unwritable_error(run: &RunFolder, error: &io::Error) -> StartError {
    StartError::new(format!("cannot write to the data folder: {error}: `{}`", run.path().display()))
        .hint("free some space or set GREENROOM_DATA_DIR to a folder that can be written")
}

/// Makes a folder, and those above it, for this user only.
pub fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes a folder for this user only, and restricts an existing one.
pub(crate) fn restrict_to_owner(path: &Path) -> io::Result<()> {
    make_private(path)?;
    if fs::metadata(path)?.permissions().mode() & 0o077 == 0 {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("other users can open it, and greenroom cannot change that: {error}"),
        )
    })
}

pub fn private_file() -> OpenOptions {
    greenroom_files::private()
}

/// Writes a file atomically, for this user only.
pub fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(part);
    let mut file = private_file().create(true).write(true).truncate(true).open(&part)?;
    file.write_all(content).and_then(|()| fs::rename(&part, path)).inspect_err(|_| {
        let _ = fs::remove_file(&part);
    })
}

#[cfg(test)]
mod tests {
    use rustix::process::{WaitId, WaitIdOptions, waitid};

    use super::*;

    /// A dead owner's folder is removed, a living one's never, and everything is for this user only.
    #[test]
    fn only_dead_owners_are_reaped() {
        let data = tempfile::tempdir().unwrap();
        let run = RunFolder::claim(data.path()).unwrap();
        let profile = run.new_folder("profiles").unwrap();
        let dead = data.path().join("run/4194304-1-0");
        fs::create_dir_all(dead.join("profiles/0")).unwrap();
        let recycled = data.path().join(format!("run/{}-1-0", std::process::id()));
        fs::create_dir_all(&recycled).unwrap();
        let foreign = data.path().join("run/notes");
        fs::create_dir_all(&foreign).unwrap();

        assert_eq!(leftover_run_folders(data.path()).len(), 2);
        let expected = RunningGreenroom { pid: std::process::id(), path: run.path().to_owned() };
        assert_eq!(super::running_greenrooms(data.path()), [expected]);
        assert_eq!(reap(data.path()), Reaped { folders: 2, processes: 0 });
        assert_eq!(leftover_run_folders(data.path()), Vec::<PathBuf>::new());
        assert!(profile.path().exists() && foreign.exists() && !dead.exists() && !recycled.exists());
        assert_eq!(fs::metadata(run.path()).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(run.path().join(LOCK)).unwrap().permissions().mode() & 0o777, 0o600);

        let path = run.path().to_owned();
        drop(run);
        assert!(!path.exists());
    }

    /// An owner that has ended is dead even before its parent has reaped it.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "the test needs a child without a supervisor")]
    fn owner_that_ended_is_dead_before_it_is_reaped() {
        let data = tempfile::tempdir().unwrap();
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let start = start_time_if_running(child.id()).unwrap();
        let path = data.path().join(format!("run/{}-{start}-0", child.id()));
        fs::create_dir_all(&path).unwrap();
        assert_eq!(super::running_greenrooms(data.path()).len(), 1);

        let pid = Pid::from_child(&child);
        child.kill().unwrap();
        // Waits for its end without reaping it.
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), how).unwrap();
        assert!(fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap().contains(") Z "));
        assert_eq!(super::running_greenrooms(data.path()), []);
        assert_eq!(leftover_run_folders(data.path()), [path]);
        child.wait().unwrap();
    }

    /// An owner elsewhere (another container) whose pid means nothing here is protected by its lock.
    #[test]
    fn held_lock_protects_the_folder() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join("run/4194304-1-0");
        fs::create_dir_all(&path).unwrap();
        let lock = File::create(path.join(LOCK)).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert_eq!(reap(data.path()), Reaped::default());
        drop(lock);
        assert_eq!(reap(data.path()), Reaped { folders: 1, processes: 0 });
    }
}
