//! How much disk space the files in a session's folder take, and how much the engine's logs there may take.
//!
//! The engine writes a new console log with each navigation, and a page can navigate for ever. So the oldest logs are
//! removed. All other files in the folder belong to the agent, and stay.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// How often greenroom measures a session's folder, besides before each call that writes files.
pub(crate) const MEASURE_EVERY: Duration = Duration::from_secs(2);

/// How many files and folders of a session are measured. A session that has more may write no more of them.
const ENTRIES_MAX: usize = 20_000;

/// How many console logs a session keeps, and how many bytes of them beyond the newest. Each of its tabs, at most 64, writes
/// one, and answers quote the new lines.
const LOGS_MAX: usize = 64;
const LOGS_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The result of measuring a session's folder.
#[derive(Debug)]
pub(crate) enum DiskUse {
    /// The size of its files.
    Bytes(u64),
    /// It has more than [`ENTRIES_MAX`] files. The measured ones take this much.
    TooManyFiles {
        bytes_min: u64,
    },
    Unreadable(io::Error),
}

impl DiskUse {
    /// Passes the size of the files to an account, which returns their size including its downloads. A session with too many
    /// files must download no more, since their size is unknown. For an unreadable folder the account keeps the last known
    /// size.
    pub(crate) fn counted_in(self, note: impl FnOnce(u64) -> u64) -> Self {
        match self {
            Self::Bytes(bytes) => Self::Bytes(note(bytes)),
            Self::TooManyFiles { bytes_min } => {
                note(u64::MAX);
                Self::TooManyFiles { bytes_min }
            }
            Self::Unreadable(error) => Self::Unreadable(error),
        }
    }

    /// Refuses a tool that writes files, unless they are known to fit.
    pub(crate) fn check(self, bytes_max: u64) -> Result<(), WriteRefusal> {
        match self {
            Self::Bytes(used) if used < bytes_max => Ok(()),
            Self::Bytes(used) => Err(WriteRefusal::Full { used, bytes_max }),
            Self::TooManyFiles { .. } => Err(WriteRefusal::TooManyFiles),
            Self::Unreadable(error) => Err(WriteRefusal::Unreadable(error)),
        }
    }
}

/// Why a tool that writes files is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteRefusal {
    #[error(
        "the files of this session take {used} bytes, and {bytes_max} are allowed\n\nhint: go on in a new session, which starts with no files, or raise `sessions.disk_bytes_max`"
    )]
    Full { used: u64, bytes_max: u64 },
    #[error(
        "this session has more than {ENTRIES_MAX} files\n\nhint: go on in a new session, which starts with no files"
    )]
    TooManyFiles,
    #[error("cannot read this session's folder: {0}")]
    Unreadable(#[source] io::Error),
}

impl WriteRefusal {
    /// A stable code for programs.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Full { .. } | Self::TooManyFiles => "disk_full",
            Self::Unreadable(_) => "file_refused",
        }
    }
}

struct ConsoleLog {
    path: PathBuf,
    written: SystemTime,
    bytes: u64,
}

/// The size of the files in a folder, except those at one path in it. Removes surplus logs first.
pub(crate) async fn measure_folder(folder: &Path, excluded: Option<&str>) -> DiskUse {
    let excluded = excluded.map(|excluded| folder.join(excluded));
    let folder = folder.to_owned();
    let measured =
        tokio::task::spawn_blocking(move || measure(&folder, excluded.as_deref(), ENTRIES_MAX)).await;
    measured.map_err(io::Error::from).flatten().unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot read a session's folder");
        DiskUse::Unreadable(error)
    })
}

fn measure(folder: &Path, excluded: Option<&Path>, entries_max: usize) -> io::Result<DiskUse> {
    let mut bytes = 0_u64;
    let mut logs = Vec::new();
    let is_complete = visit_files(folder, excluded, entries_max, |file, metadata, taken| {
        bytes = bytes.saturating_add(taken);
        if is_log(&file.file_name().to_string_lossy()) {
            logs.push(ConsoleLog { path: file.path(), written: metadata.modified()?, bytes: taken });
        }
        Ok(())
    })?;
    let bytes = bytes.saturating_sub(remove_old(logs));
    Ok(if is_complete { DiskUse::Bytes(bytes) } else { DiskUse::TooManyFiles { bytes_min: bytes } })
}

/// The size of the first `entries_max` files in a folder, none of which is changed.
pub(crate) fn folder_bytes(folder: &Path, entries_max: usize) -> io::Result<u64> {
    let mut bytes = 0_u64;
    visit_files(folder, None, entries_max, |_, _, taken| {
        bytes = bytes.saturating_add(taken);
        Ok(())
    })?;
    Ok(bytes)
}

/// Visits the files in a folder, except those at one path in it, with the disk space that each takes. Returns whether there
/// were no more than `entries_max` files and folders; it stops after these.
fn visit_files(
    folder: &Path,
    excluded: Option<&Path>,
    entries_max: usize,
    mut visit: impl FnMut(&fs::DirEntry, &fs::Metadata, u64) -> io::Result<()>,
) -> io::Result<bool> {
    let mut entries = 0_usize;
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
                return Ok(false);
            }
            // `metadata` of an entry does not follow links. The file may be gone by now.
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if metadata.is_dir() {
                if Some(entry.path().as_path()) != excluded {
                    folders.push(entry.path());
                }
                continue;
            }
            // `blocks` counts units of 512 bytes on every file system.
            let taken = metadata.blocks().saturating_mul(512).max(metadata.len().min(4096));
            visit(&entry, &metadata, taken)?;
        }
    }
    Ok(true)
}

/// Removes the oldest surplus logs. Returns how many bytes that frees.
fn remove_old(mut logs: Vec<ConsoleLog>) -> u64 {
    logs.sort_by_key(|log| std::cmp::Reverse(log.written));
    let mut kept = 0_u64;
    let mut freed = 0;
    for (n, log) in logs.into_iter().enumerate() {
        kept = kept.saturating_add(log.bytes);
        if n == 0 || (n < LOGS_MAX && kept <= LOGS_BYTES_MAX) {
            continue;
        }
        match fs::remove_file(&log.path) {
            Ok(()) => freed += log.bytes,
            Err(error) => tracing::debug!(%error, "cannot remove a console log"),
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

    fn bytes(measured: io::Result<DiskUse>) -> u64 {
        match measured {
            Ok(DiskUse::Bytes(bytes)) => bytes,
            other => panic!("{other:?}"),
        }
    }

    /// All files count, wherever they are, except those at the excluded path; links are not followed.
    #[test]
    fn all_files_but_the_excluded_are_measured() {
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
        let bytes = bytes(measure(folder.path(), Some(&left), 100));
        assert!((96 << 10..200 << 10).contains(&bytes), "{bytes}");
        assert!(self::bytes(measure(folder.path(), None, 100)) >= 608 << 10);
        let many = measure(folder.path(), None, 5).unwrap();
        assert!(matches!(many, DiskUse::TooManyFiles { bytes_min } if bytes_min < 700 << 10), "{many:?}");
        assert_eq!(self::bytes(measure(&folder.path().join("nothing"), None, 5)), 0);
    }

    /// The newest logs stay, in a bounded number and size, and files of other names stay whatever their number.
    #[test]
    fn oldest_surplus_logs_are_removed() {
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
        let remaining = || (0..1000).filter(|n| log(*n).exists()).collect::<Vec<_>>();
        measure(folder.path(), None, 1000).unwrap();
        assert_eq!(remaining(), (3..LOGS_MAX + 3).collect::<Vec<_>>());
        assert!((0..LOGS_MAX + 3).all(|n| folder.path().join(format!("mine-{n}.log")).exists()));

        for n in 100..103 {
            write(&log(n), n, usize::try_from(LOGS_BYTES_MAX).unwrap() / 2);
        }
        let bytes = bytes(measure(folder.path(), None, 1000));
        assert_eq!(remaining(), [101, 102], "the oldest ones go until the rest is small enough");
        assert!(bytes <= LOGS_BYTES_MAX + (LOGS_MAX as u64 + 3) * 4096, "{bytes}");
    }

    /// A path that is no folder cannot be read, and so its size is unknown.
    #[tokio::test]
    async fn unreadable_folder_has_unknown_size() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let measured = measure_folder(file.path(), None).await;
        assert!(matches!(measured, DiskUse::Unreadable(_)), "{measured:?}");
    }

    /// A refusal names the used bytes, the limit and the setting, or the other reason.
    #[test]
    fn refusals_name_bytes_limit_and_setting() {
        assert!(DiskUse::Bytes(9).check(10).is_ok());
        let full = DiskUse::Bytes(10).check(10).unwrap_err();
        let message = full.to_string();
        assert!(
            message.contains("take 10 bytes") && message.contains("`sessions.disk_bytes_max`"),
            "{message}"
        );
        let many = DiskUse::TooManyFiles { bytes_min: 1 }.check(10).unwrap_err();
        assert!(many.to_string().starts_with("this session has more than 20000 files\n"), "{many}");
        let unreadable = DiskUse::Unreadable(io::Error::other("no luck")).check(10).unwrap_err();
        assert_eq!(unreadable.to_string(), "cannot read this session's folder: no luck");
        assert_eq!(
            [&full, &many, &unreadable].map(|why| why.code()),
            ["disk_full", "disk_full", "file_refused"]
        );
    }

    /// An account gets the size of counted files, and no room if there are too many; it gets nothing for an unreadable
    /// folder.
    #[test]
    fn account_gets_measured_size() {
        let noted = |found: DiskUse| {
            let mut noted = None;
            let found = found.counted_in(|bytes| {
                noted = Some(bytes);
                bytes.saturating_add(5)
            });
            (noted, found)
        };
        assert!(matches!(noted(DiskUse::Bytes(10)), (Some(10), DiskUse::Bytes(15))));
        let many = noted(DiskUse::TooManyFiles { bytes_min: 10 });
        assert!(matches!(many, (Some(u64::MAX), DiskUse::TooManyFiles { bytes_min: 10 })), "{many:?}");
        let unreadable = noted(DiskUse::Unreadable(io::Error::other("no luck")));
        assert!(matches!(unreadable, (None, DiskUse::Unreadable(_))), "{unreadable:?}");
    }
}
