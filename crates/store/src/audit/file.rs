//! The file of the audit log. Several processes append to it at once.
//!
//! A line is one write to a file that is open for appending, so that lines of two processes do not mix. A process looks
//! before each line whether the path still leads to the file that it has open; if another process has moved the file
//! aside, it opens the new one. A line that is written just then goes to the moved file, where readers find it. Only the
//! holder of the lock `audit.lock` moves and removes files.

use std::{
    fs::{self, File, Metadata, Permissions},
    io::{self, ErrorKind, Write},
    os::unix::fs::{FileExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use greenroom_core::{
    audit::AuditLine,
    time::{parse, timestamp_ms},
};

use super::{AuditSettings, LINE_BYTES_MAX};

const CURRENT: &str = "audit.jsonl";
const LOCK: &str = "audit.lock";

/// A file of the log is moved aside when its first line is this old, so that lines go in portions of a day at most. Else
/// a log with few lines would keep them for years.
const FILE_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

pub(super) struct AuditFile {
    settings: AuditSettings,
    opened: Option<File>,
    /// Whether the file ends in the middle of a line: a disk was full, or a process was killed.
    torn: bool,
}

impl AuditFile {
    pub(super) fn new(settings: AuditSettings) -> Self {
        Self { settings, opened: None, torn: false }
    }

    /// Appends a line, after it has moved a full file aside.
    pub(super) fn append(&mut self, line: &AuditLine, now: SystemTime) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.open_current()?;
        let size = self.size()?;
        if size > 0 && size + text.len() as u64 > self.settings.file_bytes_max {
            self.rotate(now)?;
            self.open_current()?;
        }
        if self.torn {
            text.insert(0, b'\n');
        }
        let Some(file) = &mut self.opened else { return Err(ErrorKind::NotFound.into()) };
        let written = write_once(file, &text)?;
        // A disk that takes a part of the line is full. The next line must not continue this one.
        self.torn = written < text.len();
        if self.torn { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    /// Moves an old file aside, and removes those that are too old or too many.
    pub(super) fn maintain(&mut self, now: SystemTime) -> io::Result<()> {
        let age_max = self.settings.max_age.min(FILE_AGE_MAX);
        match first_line_time(&current_path(&self.settings.folder)) {
            Ok(Some(began)) if now.duration_since(began).is_ok_and(|age| age > age_max) => self.rotate(now),
            Ok(_) => self.remove_old(now),
            Err(error) if error.kind() == ErrorKind::NotFound => self.remove_old(now),
            Err(error) => Err(error),
        }
    }

    /// Opens the file at the path, unless it is open already.
    fn open_current(&mut self) -> io::Result<()> {
        let path = current_path(&self.settings.folder);
        if let Some(file) = &self.opened
            && fs::metadata(&path).is_ok_and(|there| is_same(&there, &file.metadata().ok()))
        {
            return Ok(());
        }
        self.opened = None;
        let file = greenroom_files::private().create(true).read(true).append(true).open(&path)?;
        let about = file.metadata()?;
        greenroom_files::regular(&about)?;
        if about.mode() & 0o077 != 0 {
            file.set_permissions(Permissions::from_mode(0o600))?;
        }
        self.torn = about.len() > 0 && last_byte(&file, about.len())? != b'\n';
        self.opened = Some(file);
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        self.opened.as_ref().map_or(Ok(0), |file| Ok(file.metadata()?.len()))
    }

    /// Moves the current file aside, unless another process is about to do so.
    fn rotate(&mut self, now: SystemTime) -> io::Result<()> {
        let Some(_lock) = lock(&self.settings.folder)? else { return Ok(()) };
        // Another process may have moved the file, before this one had the lock.
        let path = current_path(&self.settings.folder);
        let there = fs::metadata(&path)?;
        let is_known = self.opened.as_ref().is_none_or(|file| is_same(&there, &file.metadata().ok()));
        self.opened = None;
        if is_known {
            fs::rename(&path, rotated_path(&self.settings.folder, now))?;
        }
        self.remove_old_locked(now)
    }

    fn remove_old(&self, now: SystemTime) -> io::Result<()> {
        match rotated_files(&self.settings.folder)?.is_empty() {
            true => Ok(()),
            false => match lock(&self.settings.folder)? {
                Some(_lock) => self.remove_old_locked(now),
                None => Ok(()),
            },
        }
    }

    /// Removes files that are too old, then the oldest while all together are too large. The current file counts with the
    /// size that it may reach. The caller has the lock.
    fn remove_old_locked(&self, now: SystemTime) -> io::Result<()> {
        let mut kept_bytes = self.settings.file_bytes_max;
        // The newest first.
        for path in rotated_files(&self.settings.folder)?.into_iter().rev() {
            let about = fs::metadata(&path)?;
            let age = now.duration_since(about.modified()?).unwrap_or_default();
            kept_bytes = kept_bytes.saturating_add(about.len());
            if age > self.settings.max_age || kept_bytes > self.settings.bytes_max {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    }
}

pub(super) fn current_path(folder: &Path) -> PathBuf {
    folder.join(CURRENT)
}

/// The files that were moved aside, the oldest first. Their names have the time at which that happened.
pub(super) fn rotated_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_one = path
            .file_name()
            .and_then(|name| name.to_str()?.strip_prefix("audit-")?.strip_suffix(".jsonl"))
            .is_some_and(|time| parse(&time.replace('_', ":")).is_some());
        if is_one {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// A free path for a file that is moved aside now.
fn rotated_path(folder: &Path, now: SystemTime) -> PathBuf {
    let mut time = now;
    loop {
        let path = folder.join(format!("audit-{}.jsonl", timestamp_ms(time).replace(':', "_")));
        if !path.exists() {
            return path;
        }
        time += Duration::from_millis(1);
    }
}

/// The right to move and remove files; `None` if another process has it. It ends when the file is dropped.
fn lock(folder: &Path) -> io::Result<Option<File>> {
    let file = greenroom_files::private().create(true).truncate(false).write(true).open(folder.join(LOCK))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

pub(super) fn is_same(there: &Metadata, opened: &Option<Metadata>) -> bool {
    opened.as_ref().is_some_and(|own| (own.dev(), own.ino()) == (there.dev(), there.ino()))
}

/// When the file's first line was written; when the file was changed if that is unknown, `None` if it is empty.
fn first_line_time(path: &Path) -> io::Result<Option<SystemTime>> {
    let file = greenroom_files::open(path)?;
    let about = file.metadata()?;
    if about.len() == 0 {
        return Ok(None);
    }
    let mut beginning = vec![0; LINE_BYTES_MAX];
    let length = file.read_at(&mut beginning, 0)?;
    let line = beginning[..length].split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line: Option<AuditLine> = serde_json::from_slice(line).ok();
    match line.and_then(|line| parse(&line.time)) {
        Some(time) => Ok(Some(time)),
        None => about.modified().map(Some),
    }
}

fn last_byte(file: &File, length: u64) -> io::Result<u8> {
    let mut byte = [0];
    file.read_exact_at(&mut byte, length - 1)?;
    Ok(byte[0])
}

/// One write. Returns how many bytes the file took.
fn write_once(file: &mut File, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match file.write(bytes) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            written => return written,
        }
    }
}

#[cfg(test)]
mod tests {
    use greenroom_core::audit::{AuditActor, AuditEvent, AuditKind};
    use tempfile::TempDir;

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn fixture(file_bytes_max: u64, bytes_max: u64) -> (TempDir, AuditFile) {
        let folder = tempfile::tempdir().unwrap();
        let settings =
            AuditSettings { folder: folder.path().to_owned(), file_bytes_max, max_age: 10 * DAY, bytes_max };
        (folder, AuditFile::new(settings))
    }

    fn line(time: SystemTime) -> AuditLine {
        let event = AuditEvent { actor: AuditActor::default(), kind: AuditKind::EventsLost };
        AuditLine { time: timestamp_ms(time), until: None, pid: 1, event, count: 1 }
    }

    /// Each line has this many bytes.
    fn line_bytes() -> u64 {
        serde_json::to_vec(&line(SystemTime::now())).unwrap().len() as u64 + 1
    }

    fn sizes(folder: &TempDir) -> Vec<u64> {
        let rotated = rotated_files(folder.path()).unwrap();
        rotated.iter().map(|path| fs::metadata(path).unwrap().len()).collect()
    }

    /// A full file is moved aside under a name that sorts by time, and the oldest files go when there are too many bytes.
    #[test]
    fn full_files_are_rotated_and_the_oldest_removed() {
        let bytes = line_bytes();
        let (folder, mut file) = fixture(2 * bytes, 6 * bytes);
        let now = SystemTime::now();
        for _ in 0..5 {
            file.append(&line(now), now).unwrap();
        }
        assert_eq!(sizes(&folder), [2 * bytes; 2]);
        let first = rotated_files(folder.path()).unwrap()[0].clone();
        for _ in 0..4 {
            file.append(&line(now), now).unwrap();
        }
        assert_eq!(sizes(&folder), [2 * bytes; 2], "with the current file there are six lines");
        assert!(!first.exists());
    }

    /// Files whose last line is too old are removed, also if nothing is written any more; a file with an old first line is
    /// moved aside so that it can be.
    #[test]
    fn old_lines_are_removed() {
        let (folder, mut file) = fixture(1 << 20, 1 << 30);
        let now = SystemTime::now();
        file.append(&line(now), now).unwrap();
        file.maintain(now + DAY / 2).unwrap();
        assert!(sizes(&folder).is_empty());
        file.maintain(now + 2 * DAY).unwrap();
        assert_eq!(sizes(&folder), [line_bytes()]);
        assert!(!current_path(folder.path()).exists());
        file.maintain(now + 9 * DAY).unwrap();
        assert_eq!(sizes(&folder), [line_bytes()]);
        file.maintain(now + 11 * DAY).unwrap();
        assert!(sizes(&folder).is_empty());
        file.append(&line(now), now).unwrap();
        assert_eq!(file.size().unwrap(), line_bytes());
    }

    /// A process that holds the lock rotates; another one goes on with the file as it is, and uses the new one afterwards.
    #[test]
    fn one_process_rotates() {
        let (folder, mut file) = fixture(line_bytes(), 1 << 30);
        let now = SystemTime::now();
        file.append(&line(now), now).unwrap();
        let held = lock(folder.path()).unwrap().unwrap();
        file.append(&line(now), now).unwrap();
        assert_eq!((sizes(&folder), file.size().unwrap()), (vec![], 2 * line_bytes()));
        let rotated = rotated_path(folder.path(), now);
        fs::rename(current_path(folder.path()), &rotated).unwrap();
        drop(held);
        file.append(&line(now), now).unwrap();
        assert_eq!((sizes(&folder), file.size().unwrap()), (vec![2 * line_bytes()], line_bytes()));
    }

    /// Files with other names are nobody's to remove.
    #[test]
    fn other_files_are_left_alone() {
        let (folder, mut file) = fixture(1, 1);
        let names =
            ["audit-mine.jsonl", "audit-2026.jsonl", "audit.jsonl.old", "audit-2026-01-01T00_00_00Z.txt"];
        for name in names {
            fs::write(folder.path().join(name), "mine").unwrap();
        }
        let now = SystemTime::now();
        for _ in 0..3 {
            file.append(&line(now), now).unwrap();
        }
        assert!(names.iter().all(|name| folder.path().join(name).exists()));
    }
}
