//! Blobs as files: `blobs/ab/cd/<sha256>` in the data folder, or `blobs/<POOL>/ab/cd/<sha256>`.
//!
//! A file is written under another name, synced to disk and then renamed, so a file with a blob's name is whole. Equal
//! bytes have one name and are kept once. The database says which files there are and who may read them.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::SystemTime,
};

use greenroom_core::BlobId;
use sha2::{Digest, Sha256};

/// The folder of files that are being written. Names of declared pools are in upper case, so no pool's folder has this
/// name.
const UNFINISHED: &str = "unfinished";

/// The largest blob. Every blob passes through the queue, which holds no more bytes.
const FILE_BYTES_MAX: u64 = crate::queue::BYTES_MAX as u64;

/// The folder of the blobs.
pub(crate) struct BlobFiles {
    folder: PathBuf,
    /// The tag of this process, in the names of files that are not whole yet.
    process_tag: String,
    next: AtomicU64,
}

/// The id of the blob with these bytes: their SHA-256.
pub(crate) fn name(data: &[u8]) -> Option<BlobId> {
    BlobId::parse(&hex(data))
}

/// The SHA-256 of these bytes in hexadecimal digits.
pub(crate) fn hex(data: &[u8]) -> String {
    hex_of(&Sha256::digest(data))
}

/// A hash in hexadecimal digits.
pub(crate) fn hex_of(hash: &[u8]) -> String {
    use std::fmt::Write as _;
    hash.iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

impl BlobFiles {
    pub(crate) fn new(data: &Path, process_tag: &str) -> Self {
        Self { folder: data.join("blobs"), process_tag: process_tag.to_owned(), next: AtomicU64::new(0) }
    }

    /// Writes a blob, unless it exists.
    pub(crate) fn write(&self, pool: &str, id: &BlobId, data: &[u8]) -> io::Result<()> {
        let path = self.path(pool, id);
        if path.exists() {
            return Ok(());
        }
        let folder = path.parent().unwrap_or(&self.folder);
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let unfinished = self.unfinished();
        DirBuilder::new().recursive(true).mode(0o700).create(&unfinished)?;
        let part =
            unfinished.join(format!("{}-{}", self.process_tag, self.next.fetch_add(1, Ordering::Relaxed)));
        let written = write_whole(&part, data).and_then(|()| fs::rename(&part, &path));
        if written.is_err() {
            // Remove the half-written file. If this fails, the next start removes it.
            let _ = fs::remove_file(&part);
            return written;
        }
        // The rename survives a power cut only if the folder is synced too.
        File::open(folder)?.sync_all()
    }

    /// Reads a blob's file. `None` if a process has removed it.
    pub(crate) fn read(&self, pool: &str, id: &BlobId) -> io::Result<Option<Vec<u8>>> {
        match greenroom_files::read(&self.path(pool, id), FILE_BYTES_MAX) {
            Ok(data) => Ok(Some(data)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes a blob's file; a missing file is no error.
    pub(crate) fn remove(&self, pool: &str, id: &BlobId) -> io::Result<()> {
        match fs::remove_file(self.path(pool, id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes files of processes that ended while they wrote.
    pub(crate) fn remove_unfinished(&self, older_than: SystemTime) {
        let Ok(parts) = fs::read_dir(self.unfinished()) else { return };
        for part in parts.flatten() {
            let modified = part.metadata().and_then(|metadata| metadata.modified());
            if modified.is_ok_and(|modified| modified < older_than) {
                // Another process may have removed it already.
                let _ = fs::remove_file(part.path());
            }
        }
    }

    /// Every blob's file: its name, its pool, its bytes and when it was written.
    pub(crate) fn all(&self) -> Vec<(BlobId, String, u64, SystemTime)> {
        let mut found = Vec::new();
        let mut folders = vec![(self.folder.clone(), Vec::new())];
        while let Some((folder, names)) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let Ok(name) = entry.file_name().into_string() else { continue };
                let Ok(metadata) = entry.metadata() else { continue };
                if metadata.is_dir() && names.len() < 3 && name != UNFINISHED {
                    folders.push((entry.path(), [names.as_slice(), &[name]].concat()));
                } else if metadata.is_file()
                    && let Some(id) = BlobId::parse(&name)
                {
                    let pool = if names.len() == 3 { names[0].clone() } else { String::new() };
                    let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    found.push((id, pool, metadata.len(), modified));
                }
            }
        }
        found
    }

    fn path(&self, pool: &str, id: &BlobId) -> PathBuf {
        let hex = id.as_str();
        let mut path = self.folder.clone();
        if !pool.is_empty() {
            path.push(folder_of(pool));
        }
        path.extend([&hex[..2], &hex[2..4], hex]);
        path
    }

    fn unfinished(&self) -> PathBuf {
        self.folder.join(UNFINISHED)
    }
}

fn write_whole(path: &Path, data: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(data)?;
    file.sync_all()
}

/// A pool's folder. Names of pools are letters, digits and underscores; any other character is written as a number, so
/// that no name leads out of the folder.
fn folder_of(pool: &str) -> OsString {
    use std::fmt::Write as _;
    let mut folder = String::with_capacity(pool.len());
    for letter in pool.chars() {
        if letter.is_ascii_alphanumeric() || letter == '_' || letter == '-' {
            folder.push(letter);
        } else {
            let _ = write!(folder, "%{:x}", u32::from(letter));
        }
    }
    folder.into()
}
