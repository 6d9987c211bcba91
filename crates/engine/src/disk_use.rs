//! How much disk space the files in a session's folder take, and what the engine's logs in it may take.
//!
//! The engine writes a new log of the console with each navigation, and a page can navigate for ever. So the oldest logs
//! go. Everything else in the folder is the agent's, and stays.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// How often a session's folder is looked at, beside the look at each call that writes files.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How many files and folders of a session are looked at. One that has more counts as full.
const ENTRIES_MAX: usize = 20_000;

/// How many logs of the console a session keeps, and how many bytes of them beyond the newest. Each of its tabs, of which
/// there are 64, writes one, and answers quote the lines that are new.
const LOGS_MAX: usize = 64;
const LOGS_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Why a tool that writes files is refused.
#[derive(Debug, thiserror::Error)]
#[error(
    "the files of this session take {used} bytes, and {bytes_max} are allowed\n\nhint: go on in a new session, which starts with no files, or raise `sessions.disk_bytes_max`"
)]
pub(crate) struct DiskFull {
    pub(crate) used: u64,
    pub(crate) bytes_max: u64,
}

impl DiskFull {
    /// A stable word for programs.
    pub(crate) const CODE: &'static str = "disk_full";

    pub(crate) fn check(used: u64, bytes_max: u64) -> Result<(), Self> {
        if used < bytes_max { Ok(()) } else { Err(Self { used, bytes_max }) }
    }
}

struct Log {
    path: PathBuf,
    written: SystemTime,
    bytes: u64,
}

/// What the files in a folder take, but for those in one place of it. Logs that are too many are removed first. A folder
/// that cannot be looked at counts as full.
pub(crate) async fn of_folder(folder: &Path, but: Option<&str>) -> u64 {
    let (folder, but) = (folder.to_owned(), but.map(|but| folder.join(but)));
    let looked = tokio::task::spawn_blocking(move || look(&folder, but.as_deref(), ENTRIES_MAX)).await;
    match looked {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(error)) => {
            tracing::warn!(%error, "cannot look at a session's folder");
            u64::MAX
        }
        Err(_) => u64::MAX,
    }
}

fn look(folder: &Path, but: Option<&Path>, entries_max: usize) -> io::Result<u64> {
    let (mut bytes, mut entries, mut logs) = (0_u64, 0_usize, Vec::new());
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let listed = match fs::read_dir(&folder) {
            Ok(listed) => listed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in listed {
            let entry = entry?;
            entries += 1;
            if entries > entries_max {
                return Ok(u64::MAX);
            }
            // Links are not followed. A file may be gone by now.
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if metadata.is_dir() {
                if Some(entry.path().as_path()) != but {
                    folders.push(entry.path());
                }
                continue;
            }
            // In units of 512 bytes, whatever the file system's are.
            let taken = metadata.blocks().saturating_mul(512).max(metadata.len().min(4096));
            bytes = bytes.saturating_add(taken);
            if is_log(&entry.file_name().to_string_lossy()) {
                logs.push(Log { path: entry.path(), written: metadata.modified()?, bytes: taken });
            }
        }
    }
    Ok(bytes - remove_old(logs))
}

/// Removes the oldest logs that are too many. Says how many bytes that frees.
fn remove_old(mut logs: Vec<Log>) -> u64 {
    logs.sort_by_key(|log| std::cmp::Reverse(log.written));
    let (mut kept, mut freed) = (0_u64, 0);
    for (n, log) in logs.into_iter().enumerate() {
        kept = kept.saturating_add(log.bytes);
        if n == 0 || (n < LOGS_MAX && kept <= LOGS_BYTES_MAX) {
            continue;
        }
        match fs::remove_file(&log.path) {
            Ok(()) => freed += log.bytes,
            Err(error) => tracing::debug!(%error, "cannot remove a log of the console"),
        }
    }
    freed
}

/// `console-2026-11-16T05-52-17-828Z.log`
fn is_log(name: &str) -> bool {
    name.strip_prefix("console-").is_some_and(|rest| rest.ends_with("Z.log"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All files count, wherever they are, but for those in the place that is left out; links are not followed.
    #[test]
    fn files_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("large"), vec![1; 1 << 20]).unwrap();
        for (name, kib) in [("a", 64), ("deep/er/b", 32), ("deep/left/c", 512)] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, vec![1; kib << 10]).unwrap();
        }
        std::os::unix::fs::symlink(outside.path(), folder.path().join("link")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("large"), folder.path().join("deep/link")).unwrap();
        let left = folder.path().join("deep/left");
        let bytes = look(folder.path(), Some(&left), 100).unwrap();
        assert!((96 << 10..200 << 10).contains(&bytes), "{bytes}");
        assert!(look(folder.path(), None, 100).unwrap() >= 608 << 10);
        assert_eq!(look(folder.path(), None, 5).unwrap(), u64::MAX, "more files than are looked at");
        assert_eq!(look(&folder.path().join("nothing"), None, 5).unwrap(), 0);
    }

    /// The newest logs stay, in a bounded number and size, and files of other names stay whatever their number.
    #[test]
    fn old_logs_go() {
        let folder = tempfile::tempdir().unwrap();
        let log = |n: usize| folder.path().join(format!("console-2026-11-16T05-52-17-{n:03}Z.log"));
        let write = |path: &Path, n: usize, bytes: usize| {
            fs::write(path, vec![1; bytes]).unwrap();
            let written = SystemTime::UNIX_EPOCH + Duration::from_secs(n as u64);
            fs::File::options().write(true).open(path).unwrap().set_modified(written).unwrap();
        };
        for n in 0..LOGS_MAX + 3 {
            write(&log(n), n, 10);
            write(&folder.path().join(format!("mine-{n}.log")), n, 10);
        }
        let there = || (0..1000).filter(|n| log(*n).exists()).collect::<Vec<_>>();
        look(folder.path(), None, 1000).unwrap();
        assert_eq!(there(), (3..LOGS_MAX + 3).collect::<Vec<_>>());
        assert!((0..LOGS_MAX + 3).all(|n| folder.path().join(format!("mine-{n}.log")).exists()));

        for n in 100..103 {
            write(&log(n), n, usize::try_from(LOGS_BYTES_MAX).unwrap() / 2);
        }
        let bytes = look(folder.path(), None, 1000).unwrap();
        assert_eq!(there(), [101, 102], "the oldest ones go until the rest is small enough");
        assert!(bytes <= LOGS_BYTES_MAX + (LOGS_MAX as u64 + 3) * 4096, "{bytes}");
    }

    /// A refusal names what is used, the limit and the setting.
    #[test]
    fn refusals() {
        assert!(DiskFull::check(9, 10).is_ok());
        let refused = DiskFull::check(10, 10).unwrap_err().to_string();
        assert!(
            refused.contains("take 10 bytes") && refused.contains("`sessions.disk_bytes_max`"),
            "{refused}"
        );
    }
}
