//! Where a browser keeps what it knows: in a folder that goes with it, or in one that stays.
//!
//! A profile that stays is closed to other users and belongs to one browser at a time. greenroom's own lock on it is the kernel's and cannot be
//! left behind; Chromium's is a link that names host and process, which greenrooms of old, other programs and people
//! leave there, so it counts only as long as that browser lives. The headless shell has no lock at all.

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

use crate::run_folder::{Scratch, close_to_others, private_file};

/// greenroom's lock, in the profile. It holds the name of the machine that last had it.
const LOCK: &str = "greenroom.lock";

/// What [`LOCK`] may hold: Linux allows names of machines 64 bytes.
const HOST_BYTES_MAX: u64 = 256;

/// Chromium's lock, in the profile: a link to `<host>-<pid>`.
const CHROMIUM_LOCK: &str = "SingletonLock";

/// A browser's profile folder.
#[derive(Debug)]
pub(crate) enum Profile {
    /// Gone when dropped.
    Fresh(Scratch),
    /// Stays, and belongs to this browser until cleared or dropped.
    Kept { path: PathBuf, lock: Mutex<Option<File>> },
}

impl Profile {
    /// Takes a profile that stays, and makes it if there is none yet.
    pub(crate) fn keep(path: &Path) -> Result<Self, StartError> {
        let unusable = |error: &dyn std::fmt::Display| unusable(path, error);
        close_to_others(path).map_err(|error| unusable(&error))?;
        let lock = private_file().create(true).truncate(false).read(true).write(true).open(path.join(LOCK));
        let mut lock = lock.map_err(|error| unusable(&error))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(in_use(path, "another instance of greenroom").hint(
                "each instance needs a profile of its own; stop the other one, or choose another `user_data_dir`",
            ));
        }
        let here = uname().nodename().to_string_lossy().into_owned();
        if let Some((host, pid)) = owner(path) {
            let last =
                greenroom_files::read_opened(&mut lock, HOST_BYTES_MAX).map_err(|error| unusable(&error))?;
            let last = String::from_utf8_lossy(&last);
            if host != here && host == last {
                // The browser of a greenroom that was killed with its container: it had our lock, so it is dead. Chromium
                // would not know that.
                fs::remove_file(path.join(CHROMIUM_LOCK)).map_err(|error| unusable(&error))?;
            } else if host != here {
                let lock = path.join(CHROMIUM_LOCK);
                return Err(in_use(path, &format!("a browser on another machine, `{host}`"))
                    .hint(format!("if that browser has ended, remove `{}`", lock.display())));
            } else if is_browser(pid) {
                return Err(in_use(path, &format!("a running browser, process {pid}"))
                    .hint("close that browser, or choose another `user_data_dir`"));
            }
        }
        let noted =
            lock.set_len(0).and_then(|()| lock.rewind()).and_then(|()| lock.write_all(here.as_bytes()));
        noted.map_err(|error| unusable(&error))?;
        Ok(Self::Kept { path: path.to_owned(), lock: Mutex::new(Some(lock)) })
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Fresh(folder) => folder.path(),
            Self::Kept { path, .. } => path,
        }
    }

    /// Removes a profile that is not to stay; one that stays can be taken again. For when its browser has ended.
    pub(crate) async fn clear(&self) {
        match self {
            Self::Fresh(folder) => folder.clear().await,
            Self::Kept { lock, .. } => drop(lock.lock().take()),
        }
    }
}

pub(crate) fn unusable(path: &Path, error: &dyn std::fmt::Display) -> StartError {
    StartError::new(format!("cannot use the profile folder: {error}: `{}`", path.display()))
        .hint("make it a folder of this user's own, or choose another with `user_data_dir`")
}

fn in_use(path: &Path, by: &str) -> StartError {
    StartError::new(format!("the profile is in use by {by}: `{}`", path.display()))
}

/// Host and process that Chromium's lock names.
fn owner(profile: &Path) -> Option<(String, u32)> {
    let link = fs::read_link(profile.join(CHROMIUM_LOCK)).ok()?;
    let (host, pid) = link.to_str()?.rsplit_once('-')?;
    Some((host.to_owned(), pid.parse().ok()?))
}

/// Whether this process lives and is a browser, as far as can be seen: the number of a browser that was killed may be
/// another program's by now.
fn is_browser(pid: u32) -> bool {
    let process = PathBuf::from(format!("/proc/{pid}"));
    match fs::read_link(process.join("exe")) {
        Ok(program) => {
            let name = program.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
            ["chrom", "edge", "headless_shell", "brave"].iter().any(|part| name.contains(part))
        }
        // Another user's program does not say what it is.
        Err(_) => process.exists(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A profile is made for this user only, belongs to one at a time, and can be taken again afterwards.
    #[tokio::test]
    async fn one_owner_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profiles/POOL/0");
        let first = Profile::keep(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        let refused = Profile::keep(&path).unwrap_err();
        assert!(refused.message.contains("in use by another instance of greenroom"), "{refused}");
        assert!(refused.message.contains(path.to_str().unwrap()) && refused.hint.is_some());
        first.clear().await;
        drop(Profile::keep(&path).unwrap());
        drop(first);
        Profile::keep(&path).unwrap();
    }

    /// Chromium's own lock counts on another machine, and here only while its process is a browser that lives.
    #[test]
    fn the_lock_of_a_dead_browser_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let host = uname().nodename().to_string_lossy().into_owned();
        let lock = folder.path().join(CHROMIUM_LOCK);
        for (target, refusal) in [
            (format!("{host}-4194304"), None),
            (format!("{host}-{}", std::process::id()), None),
            ("elsewhere-1".to_owned(), Some("a browser on another machine, `elsewhere`")),
        ] {
            symlink(&target, &lock).unwrap();
            let refused = Profile::keep(folder.path()).err().map(|error| error.message);
            assert_eq!(refused.is_some(), refusal.is_some(), "{target}: {refused:?}");
            assert!(refusal.is_none_or(|refusal| refused.unwrap_or_default().contains(refusal)), "{target}");
            fs::remove_file(&lock).unwrap();
        }
        // A greenroom in a container that is gone had the profile last, so its browser is gone with it.
        fs::write(folder.path().join(LOCK), "container").unwrap();
        symlink("container-7", &lock).unwrap();
        Profile::keep(folder.path()).unwrap();
        assert!(fs::symlink_metadata(&lock).is_err());
        assert_eq!(fs::read_to_string(folder.path().join(LOCK)).unwrap(), host);
    }

    /// A profile that others could open is closed to them; where that cannot be done it is refused.
    #[test]
    fn a_profile_is_for_this_user_only() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Profile::keep(folder.path()).unwrap();
        assert_eq!(fs::metadata(folder.path()).unwrap().permissions().mode() & 0o777, 0o700);

        // Nobody can change this one, as if it were somebody else's.
        let refused = Profile::keep(Path::new("/proc/self/task")).unwrap_err();
        assert!(refused.message.contains("others can open it"), "{refused}");
        assert!(refused.hint.is_some_and(|hint| hint.contains("this user's own")));
    }

    /// A profile that cannot be made says where and what to do.
    #[test]
    fn an_unusable_profile_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let refused = Profile::keep(&file.join("0")).unwrap_err();
        assert!(refused.message.contains("cannot use the profile folder"), "{refused}");
        assert!(refused.hint.is_some());
    }
}
