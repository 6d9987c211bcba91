//! Copies files between an agent's workspace and a session's folder: regular files only, of bounded size.
//!
//! A FIFO, a device or a socket is refused without waiting: every path is opened without blocking, and judged when it is
//! open. The same holds for the location: the path of the open file counts, not the requested path, which another process
//! may have replaced by a link in between. [`crate::workspace`] decides which locations are allowed.
//!
//! All functions block on the disk; callers run them on blocking threads.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read, copy},
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags, ftruncate, open, openat};

/// How many bytes the files of one call may have together, copied in or out: more than a user uploads to a page in one step,
/// and little compared to a disk. Larger files need a file transfer, not a tool call.
pub(crate) const CALL_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Why a file is not copied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CopyError {
    #[error("not a regular file")]
    NotRegular,
    #[error("too big: the files of one call may have {CALL_BYTES_MAX} bytes together")]
    TooBig,
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<rustix::io::Errno> for CopyError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// How many bytes a call may still copy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CopyBudget(u64);

impl CopyBudget {
    pub(crate) fn for_call() -> Self {
        Self(CALL_BYTES_MAX)
    }

    #[cfg(test)]
    pub(crate) fn with_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Copies the rest of one file to another, as far as the budget goes.
    fn copy(&mut self, from: File, to: &mut File) -> Result<(), CopyError> {
        // One byte more than is allowed reveals a file that grew while it was read.
        let copied = copy(&mut from.take(self.0.saturating_add(1)), to)?;
        self.0 = self.0.checked_sub(copied).ok_or(CopyError::TooBig)?;
        Ok(())
    }

    /// Counts bytes that are copied from memory.
    pub(crate) fn take(&mut self, bytes: u64) -> Result<(), CopyError> {
        self.0 = self.0.checked_sub(bytes).ok_or(CopyError::TooBig)?;
        Ok(())
    }

    fn has_room_for(&self, bytes: u64) -> Result<(), CopyError> {
        if bytes <= self.0 { Ok(()) } else { Err(CopyError::TooBig) }
    }
}

/// An open regular file, its real path and its length.
pub(crate) struct OpenedFile {
    file: File,
    pub(crate) real: PathBuf,
    bytes: u64,
}

/// Opens a regular file for reading. Links in its path are followed.
pub(crate) fn open_to_read(path: &Path) -> Result<OpenedFile, CopyError> {
    let file = greenroom_files::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory => CopyError::NotRegular,
        _ => CopyError::Io(error),
    })?;
    let metadata = file.metadata()?;
    // The null device reads like an empty file, but the engine would get the device.
    if !metadata.is_file() {
        return Err(CopyError::NotRegular);
    }
    let real = path_of(&file)?;
    Ok(OpenedFile { file, real, bytes: metadata.len() })
}

impl OpenedFile {
    /// Copies it to a new file of this name, and replaces an existing one.
    pub(crate) fn copy_to(self, target: &Path, budget: &mut CopyBudget) -> Result<(), CopyError> {
        budget.has_room_for(self.bytes)?;
        budget.copy(self.file, &mut File::create(target)?)
    }

    /// Writes it to a file in this folder. An existing file is overwritten; a link, a FIFO or a device is not.
    pub(crate) fn write_into(
        self,
        folder: &OpenFolder,
        name: &OsStr,
        budget: &mut CopyBudget,
    ) -> Result<(), CopyError> {
        budget.has_room_for(self.bytes)?;
        let flags = OFlags::WRONLY
            | OFlags::CREATE
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::NOCTTY
            | OFlags::CLOEXEC;
        let opened = openat(&folder.folder, name, flags, Mode::from_raw_mode(0o666));
        let opened = opened.map_err(|errno| match errno {
            // A link, a FIFO without a reader, a socket.
            rustix::io::Errno::LOOP | rustix::io::Errno::NXIO => CopyError::NotRegular,
            other => other.into(),
        })?;
        let mut target = File::from(opened);
        if !target.metadata()?.is_file() {
            return Err(CopyError::NotRegular);
        }
        ftruncate(&target, 0)?;
        budget.copy(self.file, &mut target)
    }
}

/// An open folder, and its real path.
pub(crate) struct OpenFolder {
    folder: OwnedFd,
    pub(crate) real: PathBuf,
}

impl OpenFolder {
    pub(crate) fn open(path: &Path) -> Result<Self, CopyError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = open(path, flags, Mode::empty())?;
        let real = path_of(&folder)?;
        Ok(Self { folder, real })
    }
}

/// The path of an open file.
#[cfg(target_os = "linux")]
fn path_of(file: &impl AsFd) -> io::Result<PathBuf> {
    use std::os::fd::AsRawFd;
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()))
}

/// The path of an open file.
#[cfg(target_vendor = "apple")]
fn path_of(file: &impl AsFd) -> io::Result<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let path = rustix::fs::getpath(file)?;
    Ok(PathBuf::from(std::ffi::OsString::from_vec(path.into_bytes())))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn fifo(path: &Path) {
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0)
            .unwrap();
    }

    /// The copy refuses a FIFO, a device, a socket and a folder without reading or waiting.
    #[test]
    fn only_regular_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        fifo(&folder.path().join("fifo"));
        symlink("/dev/zero", folder.path().join("zero")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
        fs::create_dir(folder.path().join("folder")).unwrap();
        for name in ["fifo", "zero", "socket", "folder"] {
            let opened = open_to_read(&folder.path().join(name));
            assert!(matches!(opened, Err(CopyError::NotRegular)), "{name}");
        }
    }

    /// A copy replaces an existing file, but does not write into a FIFO or a device, nor through a link.
    #[test]
    fn only_regular_files_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("from");
        fs::write(&from, "new").unwrap();
        fs::write(folder.path().join("old"), "something longer").unwrap();
        fs::write(folder.path().join("elsewhere"), "kept").unwrap();
        symlink("elsewhere", folder.path().join("link")).unwrap();
        fifo(&folder.path().join("fifo"));
        let opened = OpenFolder::open(folder.path()).unwrap();
        let write = |name: &str| {
            let mut budget = CopyBudget::for_call();
            open_to_read(&from).unwrap().write_into(&opened, OsStr::new(name), &mut budget)
        };
        write("old").unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("old")).unwrap(), "new");
        for name in ["link", "fifo"] {
            assert!(matches!(write(name), Err(CopyError::NotRegular)), "{name}");
        }
        assert_eq!(fs::read_to_string(folder.path().join("elsewhere")).unwrap(), "kept");
    }

    /// The path of an open file stays known even if its old path leads elsewhere by now; the files of a call share one
    /// limit.
    #[test]
    fn open_files_keep_their_path_and_share_one_limit() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir(root.join("real")).unwrap();
        fs::write(root.join("real/file"), "12345").unwrap();
        symlink("real", root.join("link")).unwrap();
        let mut budget = CopyBudget::with_bytes(7);
        let opened = open_to_read(&root.join("link/file")).unwrap();
        fs::remove_file(root.join("link")).unwrap();
        assert_eq!(opened.real, root.join("real/file"));
        opened.copy_to(&root.join("copy"), &mut budget).unwrap();
        let second = open_to_read(&root.join("real/file")).unwrap().copy_to(&root.join("copy"), &mut budget);
        assert!(matches!(second, Err(CopyError::TooBig)));
        let mut grown = open_to_read(&root.join("real/file")).unwrap();
        grown.bytes = 0;
        assert!(matches!(
            grown.copy_to(&root.join("copy"), &mut CopyBudget::with_bytes(4)),
            Err(CopyError::TooBig)
        ));
    }
}
