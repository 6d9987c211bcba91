//! Reads files that other programs or users can write: configuration, lists of other processes, files that a user names.
//!
//! A path says nothing about what is behind it. Opening a FIFO without a writer blocks for good, `/dev/zero` never ends,
//! and opening a device can have effects. So every function here reads regular files only, up to a number of bytes that
//! its caller names, and refuses other kinds by name ("not a regular file: a FIFO"). Links are followed, and their targets
//! judged. The null device reads as an empty file, because people name it to say "no file".
//!
//! [`open`], [`read`] and [`read_text`] are for threads that may wait for the disk; [`unblocked`] has the same for async
//! code. [`private`] is for files that greenroom writes itself in folders that it shares. Every crate that reads such a
//! file uses these functions, none uses `std::fs::read`.

pub mod unblocked;

use std::{
    fs::{self, File, FileType, Metadata, OpenOptions},
    io::{self, Read},
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    path::Path,
};

use rustix::fs::OFlags;

/// Opens a regular file for reading. Never waits for the other end of a FIFO.
///
/// The first check keeps devices and FIFOs from being opened at all. The second check is of the opened file, since
/// another process may have replaced the path meanwhile.
pub fn open(path: &Path) -> io::Result<File> {
    regular(&fs::metadata(path)?)?;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    regular(&file.metadata()?)?;
    Ok(file)
}

/// Options to open one of greenroom's own files for writing: other users cannot read a file that this creates, and if
/// there is a FIFO at the path, opening it does not wait for a reader.
pub fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    options
}

/// The bytes of a regular file. A file with more than `bytes_max` is refused, whatever size its metadata claims.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    read_opened(&mut file, bytes_max)
}

/// The text of a regular file, in UTF-8. See [`read`].
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    String::from_utf8(read(path, bytes_max)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8 text"))
}

/// The rest of an open file, up to `bytes_max`; a longer rest is refused.
pub fn read_opened(file: &mut File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let size = file.metadata()?.len();
    if size > bytes_max {
        return Err(too_large(bytes_max));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    // One byte more tells a file of exactly this size from one that grows.
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(too_large(bytes_max));
    }
    Ok(bytes)
}

/// Refuses anything but a regular file, and names its kind.
pub fn regular(about: &Metadata) -> io::Result<()> {
    if about.is_file() || is_null_device(about) {
        return Ok(());
    }
    let kind = if about.is_dir() { io::ErrorKind::IsADirectory } else { io::ErrorKind::InvalidInput };
    Err(io::Error::new(kind, format!("not a regular file: {}", name_of(about.file_type()))))
}

fn too_large(bytes_max: u64) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {bytes_max} bytes"))
}

/// `/dev/null` has this number on every Linux.
fn is_null_device(about: &Metadata) -> bool {
    about.file_type().is_char_device() && about.rdev() == rustix::fs::makedev(1, 3)
}

fn name_of(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a FIFO",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_char_device() => "a character device",
        kind if kind.is_block_device() => "a block device",
        kind if kind.is_symlink() => "a link",
        _ => "of an unknown kind",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        os::unix::{fs::symlink, net::UnixListener},
        path::PathBuf,
    };

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    fn fifo(folder: &Path) -> PathBuf {
        let path = folder.join("fifo");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        path
    }

    /// Other kinds of files are refused by name, at once, also behind a link; `/dev/null` is an empty file.
    #[test]
    fn only_regular_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let _socket = UnixListener::bind(at("socket")).unwrap();
        symlink(fifo(folder.path()), at("link")).unwrap();
        symlink("/dev/zero", at("zero")).unwrap();
        for (path, expected) in [
            (at("fifo"), "not a regular file: a FIFO"),
            (at("link"), "not a regular file: a FIFO"),
            (at("zero"), "not a regular file: a character device"),
            (at("socket"), "not a regular file: a socket"),
            (folder.path().to_owned(), "not a regular file: a directory"),
        ] {
            assert_eq!(read(&path, 10).unwrap_err().to_string(), expected, "{}", path.display());
        }
        assert_eq!(read(Path::new("/dev/null"), 0).unwrap(), b"");
        assert_eq!(read(&at("none"), 10).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    /// A file is read up to its limit and refused beyond it, also when its metadata says nothing of its size, as in `/proc`.
    #[test]
    fn reading_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read_text(&path, 5).unwrap(), "12345");
        let refused = read(&path, 4).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(refused.to_string(), "larger than 4 bytes");
        assert_eq!(read(Path::new("/proc/self/maps"), 16).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        fs::write(&path, b"\xff").unwrap();
        assert_eq!(read_text(&path, 5).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    /// Async code reads on other threads than the runtime's, with the same refusals.
    #[tokio::test]
    async fn async_code_has_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let refused = unblocked::read(&fifo(folder.path()), 10).await.unwrap_err();
        assert_eq!(refused.to_string(), "not a regular file: a FIFO");
        let path = folder.path().join("file");
        fs::write(&path, "text").unwrap();
        assert_eq!(unblocked::read_text(&path, 10).await.unwrap(), "text");
    }
}
