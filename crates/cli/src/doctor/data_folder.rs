//! Whether the data folder can be written, is for this user only, and has room.

use std::{fs, io, os::unix::fs::PermissionsExt, path::Path};

use super::{CheckOutcome, Installation};

/// An instance writes some tens of megabytes of profile for each session; with less room than this the disk is soon
/// full.
const FREE_BYTES_WANTED: u64 = 512 * 1024 * 1024;

/// Below this not even the engine (20 MB) and one profile fit.
const FREE_BYTES_MIN: u64 = 64 * 1024 * 1024;

pub(super) fn check(installation: &Installation) -> CheckOutcome {
    let folder = &installation.resolved.settings.data_dir;
    let name = folder.display();
    let metadata = match fs::metadata(folder) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return CheckOutcome::warning(format!("not there yet: `{name}`")).fix("run `greenroom setup`");
        }
        Err(error) => {
            return CheckOutcome::failed(format!("cannot be looked at: `{name}`: {error}"))
                .fix("give this user access, or set `data_dir`");
        }
    };
    if !metadata.is_dir() {
        return CheckOutcome::failed(format!("not a folder: `{name}`"))
            .fix("remove the file, or set `data_dir`");
    }
    if let Err(error) = try_write(folder) {
        return CheckOutcome::failed(format!("cannot be written: `{name}`: {error}"))
            .fix("make it writable for this user, or set `data_dir`");
    }
    let free_bytes = free_bytes(folder);
    if free_bytes.is_some_and(|free_bytes| free_bytes < FREE_BYTES_MIN) {
        return CheckOutcome::failed(format!("no room: {}: `{name}`", free_text(free_bytes)))
            .fix("free some disk space");
    }
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return CheckOutcome::warning(format!("open to other users, mode {mode:03o}: `{name}`"))
            .fix(format!("run `chmod 700 '{name}'`"));
    }
    if free_bytes.is_some_and(|free_bytes| free_bytes < FREE_BYTES_WANTED) {
        return CheckOutcome::warning(format!("little free space: {}: `{name}`", free_text(free_bytes)))
            .fix("free some disk space");
    }
    CheckOutcome::ok(format!("writable, private, {}: `{name}`", free_text(free_bytes)))
}

/// Writes a file and removes it: permissions alone do not show a read-only file system.
fn try_write(folder: &Path) -> io::Result<()> {
    let probe = folder.join(format!(".doctor-{}", std::process::id()));
    fs::write(&probe, "probe")?;
    fs::remove_file(&probe)
}

fn free_bytes(folder: &Path) -> Option<u64> {
    let metadata = rustix::fs::statvfs(folder).ok()?;
    Some(metadata.f_bavail.saturating_mul(metadata.f_frsize))
}

fn free_text(free_bytes: Option<u64>) -> String {
    match free_bytes {
        Some(bytes) if bytes < 10 << 30 => format!("{} MB free", bytes >> 20),
        Some(bytes) => format!("{} GB free", bytes >> 30),
        None => "free space unknown".to_owned(),
    }
}
