//! Whether the data folder can be written, is for this user only, and has room.

use std::{fs, io, os::unix::fs::PermissionsExt, path::Path};

use super::{Patient, Verdict};

/// An instance writes some tens of megabytes of profile a session; with less room than this they soon do not fit.
const ROOM_BYTES_MIN: u64 = 512 * 1024 * 1024;

/// Below this not even the engine (20 MB) and one profile fit.
const NO_ROOM_BYTES: u64 = 64 * 1024 * 1024;

pub(super) fn check(patient: &Patient) -> Verdict {
    let folder = &patient.resolved.settings.data_dir;
    let name = folder.display();
    let state = match fs::metadata(folder) {
        Ok(state) => state,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Verdict::warning(format!("not there yet: `{name}`")).fix("run `greenroom setup`");
        }
        Err(error) => {
            return Verdict::failed(format!("cannot be looked at: `{name}`: {error}"))
                .fix("give this user access, or set `data_dir`");
        }
    };
    if !state.is_dir() {
        return Verdict::failed(format!("not a folder: `{name}`")).fix("remove the file, or set `data_dir`");
    }
    if let Err(error) = write(folder) {
        return Verdict::failed(format!("cannot be written: `{name}`: {error}"))
            .fix("make it writable for this user, or set `data_dir`");
    }
    let room = room(folder);
    if room.is_some_and(|room| room < NO_ROOM_BYTES) {
        return Verdict::failed(format!("no room: {}: `{name}`", free(room))).fix("free some disk space");
    }
    let mode = state.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Verdict::warning(format!("open to other users, mode {mode:03o}: `{name}`"))
            .fix(format!("run `chmod 700 '{name}'`"));
    }
    if room.is_some_and(|room| room < ROOM_BYTES_MIN) {
        return Verdict::warning(format!("little free space: {}: `{name}`", free(room)))
            .fix("free some disk space");
    }
    Verdict::ok(format!("writable, private, {}: `{name}`", free(room)))
}

/// Writes a file and removes it: permissions alone do not show a read-only file system.
fn write(folder: &Path) -> io::Result<()> {
    let probe = folder.join(format!(".doctor-{}", std::process::id()));
    fs::write(&probe, "probe")?;
    fs::remove_file(&probe)
}

fn room(folder: &Path) -> Option<u64> {
    let state = rustix::fs::statvfs(folder).ok()?;
    Some(state.f_bavail.saturating_mul(state.f_frsize))
}

fn free(room: Option<u64>) -> String {
    match room {
        Some(bytes) if bytes < 10 << 30 => format!("{} MB free", bytes >> 20),
        Some(bytes) => format!("{} GB free", bytes >> 30),
        None => "free space unknown".to_owned(),
    }
}
