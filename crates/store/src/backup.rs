//! `greenroom backup` and `greenroom restore`: a copy of the records, the blobs and the operator's files in one folder.
//!
//! A backup is a folder with `records.db`, `blobs/`, the operator's files and `backup.json`, which lists the others with
//! their SHA-256. [`backup`] may be called while greenroom processes write: SQLite copies the database as it is at one
//! moment, and then the blobs that this copy names are copied. The folder gets its name last, so a folder of that name is
//! whole.
//!
//! [`restore`] checks every file before it writes the first, and writes into a folder without records only. The database
//! comes last: if it is there, everything else is.

use std::{
    fs::{self, DirBuilder, File},
    io::{self, Read as _, Write as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

use greenroom_core::time::timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    blob_files::{self, BlobFiles, hex},
    sqlite::{
        Failure,
        copy::{self, CopiedBlob},
        open, schema,
    },
};

/// The list of a backup's files.
const MANIFEST: &str = "backup.json";

/// The layout of the folder that this program writes and reads.
const FORMAT: u32 = 1;

/// The list names a handful of files: a longer one is not ours.
const MANIFEST_BYTES_MAX: u64 = 64 << 10;

/// An operator's file, such as the list of keys, is never longer.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The bytes that are read at once of a database.
const CHUNK_BYTES: usize = 1 << 20;

/// Why a backup cannot be made or restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("there are no records in `{}`", .0.display())]
    NoRecords(PathBuf),
    #[error("`{}` exists", .0.display())]
    TargetExists(PathBuf),
    #[error("`{}` is not a backup: {why}", .folder.display())]
    NoBackup { folder: PathBuf, why: String },
    #[error("the backup is damaged: `{}` {why}", .path.display())]
    Damaged { path: PathBuf, why: String },
    #[error("the backup is of a newer greenroom: its {what} is {found}, this greenroom knows up to {known}")]
    Newer { what: &'static str, found: u64, known: u64 },
    #[error("`{}`", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cannot use {}", .path.display())]
    Database { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
}

/// A backup, as it was made or restored.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct BackupSummary {
    pub folder: PathBuf,
    /// When the backup was made.
    pub made_at: String,
    pub records: u64,
    pub blobs: u64,
    pub blob_bytes: u64,
    /// Blobs that the records name and that were removed or damaged before they could be copied.
    pub missing_blobs: u64,
    /// The operator's files in it, by name.
    pub files: Vec<String>,
}

/// The contents of [`MANIFEST`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    format: u32,
    made_at: String,
    /// The version of the database's tables.
    schema: u64,
    records: u64,
    blobs: u64,
    blob_bytes: u64,
    missing_blobs: u64,
    database: FileEntry,
    files: Vec<FileEntry>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEntry {
    name: String,
    bytes: u64,
    sha256: String,
}

/// Copies the records and blobs of `folder`, and those of `files` that exist, to the new folder `target`.
pub fn backup(folder: &Path, files: &[PathBuf], target: &Path) -> Result<BackupSummary, BackupError> {
    if !open::exists(folder) {
        return Err(BackupError::NoRecords(folder.to_owned()));
    }
    if target.symlink_metadata().is_ok() {
        return Err(BackupError::TargetExists(target.to_owned()));
    }
    let unfinished = unfinished_name(target);
    make_private_folder(parent(&unfinished))?;
    // A folder that another user has made under this name is refused: that user could read the records.
    DirBuilder::new().mode(0o700).create(&unfinished).map_err(|source| file_failed(&unfinished, source))?;
    let written = fill(folder, files, &unfinished).and_then(|summary| {
        sync_folder(&unfinished)?;
        // A folder that another program makes meanwhile must not be replaced, empty or not.
        if target.symlink_metadata().is_ok() {
            return Err(BackupError::TargetExists(target.to_owned()));
        }
        fs::rename(&unfinished, target).map_err(|source| file_failed(target, source))?;
        sync_folder(parent(target))?;
        Ok(BackupSummary { folder: target.to_owned(), ..summary })
    });
    if written.is_err() {
        // If this fails too, the name of what stays says that it is unfinished.
        let _ = fs::remove_dir_all(&unfinished);
    }
    written
}

/// Writes the files of a backup into an empty folder.
fn fill(folder: &Path, files: &[PathBuf], target: &Path) -> Result<BackupSummary, BackupError> {
    let database = target.join(open::FILE);
    let made_at = timestamp(SystemTime::now());
    let copied = copy::snapshot(folder, &database).map_err(|source| BackupError::Database {
        path: folder.join(open::FILE),
        source: Box::new(source),
    })?;
    let (from, to) = (BlobFiles::new(folder, "backup"), BlobFiles::new(target, "backup"));
    let (mut blobs, mut blob_bytes, mut missing_blobs) = (0, 0, 0);
    for CopiedBlob { id, pool, is_named } in &copied.blobs {
        let data = from.read(pool, id).map_err(|source| file_failed(folder, source))?;
        match data.filter(|data| blob_files::name(data).as_ref() == Some(id)) {
            Some(data) => {
                to.write(pool, id, &data).map_err(|source| file_failed(target, source))?;
                blobs += 1;
                blob_bytes += data.len() as u64;
            }
            // Retention removes blobs at any time, and readers of records know that.
            None => missing_blobs += u64::from(*is_named),
        }
    }
    let mut entries = Vec::new();
    for path in files {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let data = match greenroom_files::read(path, FILE_BYTES_MAX) {
            Ok(data) => data,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(file_failed(path, source)),
        };
        write_private(&target.join(name), &data)?;
        entries.push(FileEntry { name: name.to_owned(), bytes: data.len() as u64, sha256: hex(&data) });
    }
    let manifest = Manifest {
        format: FORMAT,
        made_at,
        schema: copied.version as u64,
        records: copied.records,
        blobs,
        blob_bytes,
        missing_blobs,
        database: entry_of(&database)?,
        files: entries,
    };
    let text = serde_json::to_vec_pretty(&manifest)
        .map_err(|error| file_failed(&target.join(MANIFEST), error.into()))?;
    write_private(&target.join(MANIFEST), &text)?;
    Ok(manifest.into_summary(target))
}

/// Copies a backup into `folder`, and its other files to those of `files` that have their names. `folder` must have no
/// records, and no path of `files` may exist; no greenroom may run on the folder.
pub fn restore(from: &Path, folder: &Path, files: &[PathBuf]) -> Result<BackupSummary, BackupError> {
    let manifest = Manifest::read(from)?;
    let targets = manifest.targets(from, files)?;
    for path in std::iter::once(&folder.join(open::FILE)).chain(targets.iter().map(|(_, path)| *path)) {
        if path.symlink_metadata().is_ok() {
            return Err(BackupError::TargetExists(path.clone()));
        }
    }
    let blobs = manifest.check(from)?;
    make_private_folder(folder)?;
    // A greenroom that starts now waits for this lock before it opens, or creates, the database.
    let _lock = open::lock_folder(folder).map_err(|source| BackupError::Database {
        path: folder.join(open::FILE),
        source: Box::new(source),
    })?;
    if open::exists(folder) {
        return Err(BackupError::TargetExists(folder.join(open::FILE)));
    }
    let (blobs_from, blobs_to) = (BlobFiles::new(from, "restore"), BlobFiles::new(folder, "restore"));
    for blob in &blobs {
        let data = read_blob(&blobs_from, from, blob)?;
        let data = data.ok_or_else(|| damaged(&blob_path(from, blob), MISSING))?;
        blobs_to.write(&blob.pool, &blob.id, &data).map_err(|source| file_failed(folder, source))?;
    }
    for (entry, path) in targets {
        let data = read_entry(from, entry)?;
        make_private_folder(parent(path))?;
        write_private(path, &data)?;
    }
    copy_database(&from.join(open::FILE), &folder.join(open::FILE))?;
    sync_folder(folder)?;
    Ok(manifest.into_summary(folder))
}

impl Manifest {
    fn read(folder: &Path) -> Result<Self, BackupError> {
        let no_backup = |why: String| BackupError::NoBackup { folder: folder.to_owned(), why };
        let text = match greenroom_files::read(&folder.join(MANIFEST), MANIFEST_BYTES_MAX) {
            Ok(text) => text,
            Err(error) => return Err(no_backup(format!("`{MANIFEST}`: {error}"))),
        };
        // The version is read first: other fields may be other ones in a later format.
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let unreadable = |error: serde_json::Error| no_backup(format!("`{MANIFEST}`: {error}"));
        let Version { format } = serde_json::from_slice(&text).map_err(unreadable)?;
        if format > FORMAT {
            return Err(BackupError::Newer { what: "format", found: format.into(), known: FORMAT.into() });
        }
        let manifest: Self = serde_json::from_slice(&text).map_err(unreadable)?;
        if manifest.schema > schema::VERSION as u64 {
            let known = schema::VERSION as u64;
            return Err(BackupError::Newer { what: "database version", found: manifest.schema, known });
        }
        Ok(manifest)
    }

    /// Where each of the operator's files goes. A name that this program does not know is refused: it could lead anywhere.
    fn targets<'a>(
        &'a self,
        from: &Path,
        files: &'a [PathBuf],
    ) -> Result<Vec<(&'a FileEntry, &'a PathBuf)>, BackupError> {
        let target_of = |entry: &'a FileEntry| {
            let known = files.iter().find(|path| path.file_name().is_some_and(|name| name == &*entry.name));
            let unknown = || BackupError::NoBackup {
                folder: from.to_owned(),
                why: format!("`{MANIFEST}` names an unknown file `{}`", entry.name),
            };
            Ok((entry, known.ok_or_else(unknown)?))
        };
        self.files.iter().map(target_of).collect()
    }

    /// Reads every file of the backup, and returns the blobs that it has.
    fn check(&self, from: &Path) -> Result<Vec<CopiedBlob>, BackupError> {
        let database = from.join(open::FILE);
        let found = entry_of(&database)?;
        if (found.bytes, &found.sha256) != (self.database.bytes, &self.database.sha256) {
            return Err(damaged(&database, "is not the file that was backed up"));
        }
        let copied = copy::check(&database).map_err(|failure| match failure {
            Failure::Newer { version } => {
                let known = schema::VERSION as u64;
                BackupError::Newer { what: "database version", found: version as u64, known }
            }
            failure => damaged(&database, &failure.to_string()),
        })?;
        for entry in &self.files {
            read_entry(from, entry)?;
        }
        let files = BlobFiles::new(from, "restore");
        let mut blobs = Vec::new();
        for blob in copied.blobs {
            if read_blob(&files, from, &blob)?.is_some() {
                blobs.push(blob);
            }
        }
        if blobs.len() as u64 != self.blobs {
            let why = format!("has {} of {} blobs", blobs.len(), self.blobs);
            return Err(damaged(&from.join("blobs"), &why));
        }
        Ok(blobs)
    }

    fn into_summary(self, folder: &Path) -> BackupSummary {
        BackupSummary {
            folder: folder.to_owned(),
            made_at: self.made_at,
            records: self.records,
            blobs: self.blobs,
            blob_bytes: self.blob_bytes,
            missing_blobs: self.missing_blobs,
            files: self.files.into_iter().map(|entry| entry.name).collect(),
        }
    }
}

const MISSING: &str = "is missing";

/// Reads a blob of a backup, and compares its bytes with its name. `None` if the backup does not have it.
fn read_blob(files: &BlobFiles, from: &Path, blob: &CopiedBlob) -> Result<Option<Vec<u8>>, BackupError> {
    match files.read(&blob.pool, &blob.id) {
        Ok(Some(data)) if blob_files::name(&data).as_ref() != Some(&blob.id) => {
            Err(damaged(&blob_path(from, blob), "has other bytes than its name says"))
        }
        Ok(data) => Ok(data),
        Err(source) => Err(file_failed(&blob_path(from, blob), source)),
    }
}

/// A blob as errors name it.
fn blob_path(from: &Path, blob: &CopiedBlob) -> PathBuf {
    from.join("blobs").join(&blob.pool).join(blob.id.as_str())
}

/// Reads one of the operator's files of a backup, and compares it with the list.
fn read_entry(from: &Path, entry: &FileEntry) -> Result<Vec<u8>, BackupError> {
    let path = from.join(&entry.name);
    let data = match greenroom_files::read(&path, FILE_BYTES_MAX) {
        Ok(data) => data,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(damaged(&path, MISSING)),
        Err(source) => return Err(file_failed(&path, source)),
    };
    if hex(&data) == entry.sha256 {
        Ok(data)
    } else {
        Err(damaged(&path, "is not the file that was backed up"))
    }
}

/// The size and the hash of a file of any length.
fn entry_of(path: &Path) -> Result<FileEntry, BackupError> {
    let failed = |source| file_failed(path, source);
    let mut file = greenroom_files::open(path).map_err(failed)?;
    let mut hash = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut bytes = 0;
    loop {
        let read = file.read(&mut chunk).map_err(failed)?;
        if read == 0 {
            break;
        }
        bytes += read as u64;
        hash.update(&chunk[..read]);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(FileEntry { name, bytes, sha256: blob_files::hex_of(&hash.finalize()) })
}

/// Copies the database under another name first, so that no process ever opens half of it.
fn copy_database(from: &Path, to: &Path) -> Result<(), BackupError> {
    let part = to.with_extension("db.restoring");
    let failed = |source| file_failed(to, source);
    let mut source = greenroom_files::open(from).map_err(failed)?;
    let mut file =
        greenroom_files::private().create(true).truncate(true).write(true).open(&part).map_err(failed)?;
    let copied = io::copy(&mut source, &mut file)
        .and_then(|_| file.sync_all())
        .and_then(|()| fs::rename(&part, to))
        .map_err(failed);
    if copied.is_err() {
        // The next restore replaces it.
        let _ = fs::remove_file(&part);
    }
    copied
}

/// Writes a file that must not exist yet.
fn write_private(path: &Path, data: &[u8]) -> Result<(), BackupError> {
    let failed = |source| file_failed(path, source);
    let mut file = greenroom_files::private().create_new(true).write(true).open(path).map_err(failed)?;
    file.write_all(data).and_then(|()| file.sync_all()).map_err(failed)
}

fn make_private_folder(path: &Path) -> Result<(), BackupError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|source| file_failed(path, source))
}

fn sync_folder(path: &Path) -> Result<(), BackupError> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(|source| file_failed(path, source))
}

/// A backup's name while it is written: next to the target, so that a rename suffices in the end.
fn unfinished_name(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(format!(".unfinished-{}", std::process::id()));
    PathBuf::from(name)
}

/// The folder of a path; the current one if the path is a bare name.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn file_failed(path: &Path, source: io::Error) -> BackupError {
    BackupError::File { path: path.to_owned(), source }
}

fn damaged(path: &Path, why: &str) -> BackupError {
    BackupError::Damaged { path: path.to_owned(), why: why.to_owned() }
}
