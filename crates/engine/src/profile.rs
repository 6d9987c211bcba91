//! A browser's profile: a folder that is removed with the browser, or a persistent one.
//!
//! A persistent profile is closed to other users and belongs to one browser at a time. greenroom's own lock on it is a
//! kernel lock and cannot be left behind; Chromium's is a link that names host and process. Earlier greenrooms, other
//! programs and people leave such links behind, so a link counts only as long as its browser lives. The headless shell
//! has no lock at all.

use std::{
    fs::{self, File},
    io::{Seek, Write},
    path::{Path, PathBuf},
};

use greenroom_core::StartError;
use parking_lot::Mutex;
use rustix::{
    fs::{FlockOperation, flock},
    system::uname,
};

use crate::run_folder::{ScratchFolder, private_file, restrict_to_owner};

/// greenroom's lock, in the profile. It contains the name of the machine that last held it.
const LOCK: &str = "greenroom.lock";

/// The longest content of [`LOCK`]: Linux limits names of machines to 64 bytes.
const HOST_BYTES_MAX: u64 = 256;

/// Chromium's lock, in the profile: a link to `<host>-<pid>`.
const CHROMIUM_LOCK: &str = "SingletonLock";

/// A browser's profile folder.
#[derive(Debug)]
pub(crate) enum Profile {
    /// Removed when dropped.
    Temporary(ScratchFolder),
    /// Persistent, and held by this browser until cleared or dropped.
    Persistent { path: PathBuf, lock: Mutex<Option<File>> },
}

impl Profile {
    /// Takes a persistent profile, and creates it if it does not exist.
    pub(crate) fn open_persistent(path: &Path) -> Result<Self, StartError> {
        let unusable = |error: &dyn std::fmt::Display| unusable_profile(path, error);
        restrict_to_owner(path).map_err(|error| unusable(&error))?;
        let lock = private_file().create(true).truncate(false).read(true).write(true).open(path.join(LOCK));
        let mut lock = lock.map_err(|error| unusable(&error))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(in_use(path, "another instance of greenroom").hint(
                "each instance needs a profile of its own; stop the other one, or choose another `user_data_dir`",
            ));
        }
        let this_host = uname().nodename().to_string_lossy().into_owned();
        if let Some((host, pid)) = lock_owner(path) {
            let last_host =
                greenroom_files::read_opened(&mut lock, HOST_BYTES_MAX).map_err(|error| unusable(&error))?;
            let last_host = String::from_utf8_lossy(&last_host);
            if host != this_host && host == last_host {
                // Chromium's lock belongs to a browser of a greenroom that was killed with its container: that
                // greenroom held greenroom's lock, which is free, so its browser is dead. Chromium cannot know that.
                fs::remove_file(path.join(CHROMIUM_LOCK)).map_err(|error| unusable(&error))?;
            } else if host != this_host {
                let lock = path.join(CHROMIUM_LOCK);
                return Err(in_use(path, &format!("a browser on another machine, `{host}`"))
                    .hint(format!("if that browser has ended, remove `{}`", lock.display())));
            } else if is_browser(pid) {
                return Err(in_use(path, &format!("a running browser, process {pid}"))
                    .hint("close that browser, or choose another `user_data_dir`"));
            }
        }
        let written =
            lock.set_len(0).and_then(|()| lock.rewind()).and_then(|()| lock.write_all(this_host.as_bytes()));
        written.map_err(|error| unusable(&error))?;
        Ok(Self::Persistent { path: path.to_owned(), lock: Mutex::new(Some(lock)) })
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Temporary(folder) => folder.path(),
            Self::Persistent { path, .. } => path,
        }
    }

    /// Removes a temporary profile, or releases a persistent one. Call it when its browser has ended.
    pub(crate) async fn clear(&self) {
        match self {
            Self::Temporary(folder) => folder.clear().await,
            Self::Persistent { lock, .. } => drop(lock.lock().take()),
        }
    }
}

pub(crate) fn unusable_profile(path: &Path, error: &dyn std::fmt::Display) -> StartError {
    StartError::new(format!("cannot use the profile folder: {error}: `{}`", path.display()))
        .hint("make it a folder of this user's own, or choose another with `user_data_dir`")
}

fn in_use(path: &Path, by: &str) -> StartError {
    StartError::new(format!("the profile is in use by {by}: `{}`", path.display()))
}

/// Host and process in Chromium's lock.
fn lock_owner(profile: &Path) -> Option<(String, u32)> {
    let link = fs::read_link(profile.join(CHROMIUM_LOCK)).ok()?;
    let (host, pid) = link.to_str()?.rsplit_once('-')?;
    Some((host.to_owned(), pid.parse().ok()?))
}

/// Whether this process lives and is a browser, as far as can be seen: another program may have the number of a killed
/// browser by now.
fn is_browser(pid: u32) -> bool {
    let process = PathBuf::from(format!("/proc/{pid}"));
    match fs::read_link(process.join("exe")) {
        Ok(program) => {
            let name = program.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
            ["chrom", "edge", "headless_shell", "brave"].iter().any(|part| name.contains(part))
        }
        // Another user's program cannot be examined.
        Err(_) => process.exists(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A profile is created for this user only, belongs to one browser at a time, and can be taken again afterwards.
    #[tokio::test]
    async fn profile_has_one_owner_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profiles/POOL/0");
        let first = Profile::open_persistent(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        let refused = Profile::open_persistent(&path).unwrap_err();
        assert!(refused.message.contains("in use by another instance of greenroom"), "{refused}");
        assert!(refused.message.contains(path.to_str().unwrap()) && refused.hint.is_some());
        first.clear().await;
        drop(Profile::open_persistent(&path).unwrap());
        drop(first);
        Profile::open_persistent(&path).unwrap();
    }

    /// Chromium's own lock counts on another machine, and here only while its process is a living browser.
    #[test]
    fn lock_of_a_dead_browser_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let host = uname().nodename().to_string_lossy().into_owned();
        let lock = folder.path().join(CHROMIUM_LOCK);
        for (target, refusal) in [
            (format!("{host}-4194304"), None),
            (format!("{host}-{}", std::process::id()), None),
            ("elsewhere-1".to_owned(), Some("a browser on another machine, `elsewhere`")),
        ] {
            symlink(&target, &lock).unwrap();
            let refused = Profile::open_persistent(folder.path()).err().map(|error| error.message);
            assert_eq!(refused.is_some(), refusal.is_some(), "{target}: {refused:?}");
            assert!(refusal.is_none_or(|refusal| refused.unwrap_or_default().contains(refusal)), "{target}");
            fs::remove_file(&lock).unwrap();
        }
        // A greenroom in a removed container held the profile last, so its browser is gone, too.
        fs::write(folder.path().join(LOCK), "container").unwrap();
        symlink("container-7", &lock).unwrap();
        Profile::open_persistent(folder.path()).unwrap();
        assert!(fs::symlink_metadata(&lock).is_err());
        assert_eq!(fs::read_to_string(folder.path().join(LOCK)).unwrap(), host);
    }

    /// A profile that other users could open is closed to them; if that fails it is refused.
    #[test]
    fn profile_is_closed_to_other_users() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Profile::open_persistent(folder.path()).unwrap();
        assert_eq!(fs::metadata(folder.path()).unwrap().permissions().mode() & 0o777, 0o700);

        // This folder's permissions cannot be changed, as if it belonged to another user.
        let refused = Profile::open_persistent(Path::new("/proc/self/task")).unwrap_err();
        assert!(refused.message.contains("other users can open it"), "{refused}");
        assert!(refused.hint.is_some_and(|hint| hint.contains("this user's own")));
    }

    /// The error for a profile that cannot be created says where and what to do.
    #[test]
    fn unusable_profile_error_names_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let refused = Profile::open_persistent(&file.join("0")).unwrap_err();
        assert!(refused.message.contains("cannot use the profile folder"), "{refused}");
        assert!(refused.hint.is_some());
    }
}
