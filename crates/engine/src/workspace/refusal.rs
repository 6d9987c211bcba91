//! Why a call's files, address or arguments cannot pass, as its agent reads it.

use std::{ffi::OsStr, path::Path};

use greenroom_core::UnreadableArgument;

use super::FILES_MAX;
use crate::{
    file_copies::{CALL_BYTES_MAX, CopyError},
    output_files::FILE_BYTES_MAX,
    page_url::RefusedScheme,
};

/// How many characters of a path errors repeat. No real file has a longer path.
const PATH_CHARS_MAX: usize = 500;

/// How long the name of a file or folder may be, in bytes: Linux and macOS allow no more (`NAME_MAX`).
const NAME_BYTES_MAX: usize = 255;

/// How long a path may be, in bytes: `PATH_MAX` of Linux, without the NUL at its end.
const PATH_BYTES_MAX: usize = 4095;

/// Why a call cannot pass: its arguments, its address or one of its files. The agent gets a failed tool result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkspaceRefusal {
    #[error("file is outside your workspace: `{path}`\n\nhint: {hint}")]
    OutsideRoots { path: String, hint: String },
    #[error("file belongs to greenroom: `{path}`")]
    GreenroomFile { path: String },
    #[error(
        "no result is written to `{name}`, since other programs run or obey what is there: `{path}`\n\nhint: give another name"
    )]
    ProtectedFile { path: String, name: String },
    #[error(
        "browsers do not open `{scheme}` addresses here, only pages of the web\n\nhint: give an address with http:// or https://; about:blank, data: and blob: are open too"
    )]
    Scheme { scheme: String },
    #[error("arguments refused: {0}")]
    Arguments(String),
    #[error("no file can have this name: {why}: `{path}`\n\nhint: give another name")]
    Name { path: String, why: FileNameError },
    #[error("cannot read the file: {error}: `{path}`")]
    Unreadable { path: String, error: std::io::Error },
    #[error(
        "no such blob: `{uri}`\n\nhint: give the `uri` of a file that was uploaded to /api/blobs, or of a result; greenroom removes \
         blobs that are not used"
    )]
    NoBlob { uri: String },
    #[error("cannot read the blob `{uri}`: {error}")]
    UnreadableBlob { uri: String, error: String },
    #[error("not a regular file: `{path}`")]
    NotAFile { path: String },
    #[error("file is too big: `{path}`: the files of one call may have {CALL_BYTES_MAX} bytes together")]
    TooBig { path: String },
    #[error("file is too big to be kept: `{path}`: a result may have {FILE_BYTES_MAX} bytes")]
    NotKept { path: String },
    #[error("too many files: at most {FILES_MAX} in one call")]
    TooMany,
    #[error("cannot copy the file: {error}: `{path}`")]
    Copy { path: String, error: std::io::Error },
}

/// Why no file can have a name. The kernel would say so only after the engine has made the result.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FileNameError {
    #[error("it contains a NUL character")]
    Nul,
    #[error("a part of it has {0} bytes, at most {NAME_BYTES_MAX} are possible")]
    LongPart(usize),
    #[error("the whole path has {0} bytes, at most {PATH_BYTES_MAX} are possible")]
    LongPath(usize),
}

impl FileNameError {
    pub(super) fn find(path: &Path) -> Option<Self> {
        let bytes = path.as_os_str().as_encoded_bytes();
        if bytes.contains(&0) {
            return Some(Self::Nul);
        }
        if bytes.len() > PATH_BYTES_MAX {
            return Some(Self::LongPath(bytes.len()));
        }
        let longest = path.iter().map(OsStr::len).max().unwrap_or_default();
        (longest > NAME_BYTES_MAX).then_some(Self::LongPart(longest))
    }
}

impl WorkspaceRefusal {
    /// A stable code for programs.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Scheme { .. } => "url_refused",
            Self::Arguments(_) => "invalid_arguments",
            _ => "file_refused",
        }
    }

    pub(super) fn from_copy_error(copy_error: CopyError, path: &str) -> Self {
        let path = shortened(path);
        match copy_error {
            CopyError::NotRegular => Self::NotAFile { path },
            CopyError::TooBig => Self::TooBig { path },
            CopyError::Io(error) => Self::Copy { path, error },
        }
    }
}

impl From<UnreadableArgument> for WorkspaceRefusal {
    fn from(unreadable: UnreadableArgument) -> Self {
        Self::Arguments(unreadable.to_string())
    }
}

impl From<RefusedScheme> for WorkspaceRefusal {
    fn from(RefusedScheme(scheme): RefusedScheme) -> Self {
        Self::Scheme { scheme }
    }
}

/// A path as errors show it.
pub(super) fn shortened(path: &str) -> String {
    match path.char_indices().nth(PATH_CHARS_MAX) {
        Some((end, _)) => format!("{}…", path.get(..end).unwrap_or_default()),
        None => path.to_owned(),
    }
}
