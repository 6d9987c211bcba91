//! Where a control socket lies, and how to name it to the kernel.
//!
//! The kernel takes socket addresses of 107 bytes and no more, and data folders can be deeper. A deep socket is named
//! through its opened folder instead, as `/proc/self/fd/N/control.sock`.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

/// The socket's file in a run folder.
const SOCKET: &str = "control.sock";

/// The longest path in a socket address: `sun_path` has 108 bytes on Linux, the last one a zero.
#[cfg(target_os = "linux")]
const ADDRESS_BYTES_MAX: usize = 107;

/// The socket of a run folder.
pub fn socket(run_folder: &Path) -> PathBuf {
    run_folder.join(SOCKET)
}

/// A name of a socket that the kernel takes, good for as long as this is held.
#[derive(Debug)]
pub struct Address {
    path: PathBuf,
    _folder: Option<File>,
}

impl Address {
    #[cfg(target_os = "linux")]
    pub fn of(socket: &Path) -> io::Result<Self> {
        use std::os::fd::AsRawFd;
        let (Some(folder), Some(name)) = (socket.parent(), socket.file_name()) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no socket has such a path"));
        };
        if socket.as_os_str().len() <= ADDRESS_BYTES_MAX {
            return Ok(Self { path: socket.to_owned(), _folder: None });
        }
        let folder = File::open(folder)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
        Ok(Self { path, _folder: Some(folder) })
    }

    /// Elsewhere there is no such way; a path that is too long is the kernel's to refuse.
    #[cfg(not(target_os = "linux"))]
    pub fn of(socket: &Path) -> io::Result<Self> {
        Ok(Self { path: socket.to_owned(), _folder: None })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}
