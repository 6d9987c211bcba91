//! The path of a control socket, and how to name it to the kernel.
//!
//! The kernel accepts socket addresses of 107 bytes at most, and a data folder's path can be longer. greenroom then
//! opens the folder and names the socket as `/proc/self/fd/N/control.sock`.

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

/// A socket address that the kernel accepts, valid for as long as this is held.
#[derive(Debug)]
pub struct SocketAddress {
    path: PathBuf,
    _folder: Option<File>,
}

impl SocketAddress {
    #[cfg(target_os = "linux")]
    pub fn new(socket: &Path) -> io::Result<Self> {
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

    /// Other platforms have no `/proc`; there the kernel refuses a path that is too long.
    #[cfg(not(target_os = "linux"))]
    pub fn new(socket: &Path) -> io::Result<Self> {
        Ok(Self { path: socket.to_owned(), _folder: None })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}
