//! Files that come with an answer: the engine wrote them into the session's folder, and its answer names them.
//!
//! A page can make an answer name any file. So a file is read only if it lies in the session's own folder, and once per
//! answer, and the bytes per answer are limited. Each engine's adapter knows where an answer names files.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use greenroom_core::port::Content;

/// Files up to this size are put into answers. An answer may have 64 MiB; this leaves room for the escapes
/// that JSON adds, and is fifty times the largest page seen. The record keeps no larger file either:
/// pictures, PDFs and most downloads are far smaller, and a file is in memory until the store has written it.
pub(crate) const FILE_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// How many bytes of files are kept of one answer: two of the largest files.
const ANSWER_BYTES_MAX: u64 = 2 * FILE_BYTES_MAX;

/// The files that an answer has brought so far.
#[derive(Default)]
pub(crate) struct OutputFiles {
    files: HashSet<PathBuf>,
    bytes: u64,
}

impl OutputFiles {
    /// The bytes of a file, under the agent's name for it or else its own. No bytes if the file is too large, or was read
    /// before.
    pub(crate) async fn keep(&mut self, file: &Path, name: Option<&str>) -> Content {
        let Some(own_name) = file.file_name() else { return Content::Nothing };
        let Ok(metadata) = tokio::fs::metadata(file).await else { return Content::Nothing };
        let bytes = metadata.len();
        let fits = bytes <= FILE_BYTES_MAX && self.bytes + bytes <= ANSWER_BYTES_MAX;
        if !metadata.is_file() || !fits || !self.files.insert(file.to_owned()) {
            return Content::Nothing;
        }
        let data = match greenroom_files::unblocked::read(file, FILE_BYTES_MAX).await {
            Ok(data) => data,
            Err(error) => {
                tracing::debug!(%error, "cannot read a file of the engine");
                return Content::Nothing;
            }
        };
        self.bytes += data.len() as u64;
        let own_name = own_name.to_string_lossy();
        let name =
            name.and_then(|name| Path::new(name).file_name()).map_or(own_name, |name| name.to_string_lossy());
        Content::File { mime: mime(&name, &data), name: name.into_owned(), data }
    }
}

/// The MIME type of a file: by its name, or by its first bytes when the name says nothing.
fn mime(name: &str, data: &[u8]) -> &'static str {
    const OCTETS: &str = "application/octet-stream";
    const MAGIC_BYTES: [(&[u8], &str); 5] = [
        (b"\x89PNG\r\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"RIFF", "image/webp"),
        (b"%PDF-", "application/pdf"),
        (b"PK\x03\x04", "application/zip"),
    ];
    let by_name = mime_guess::from_path(name).first_raw().filter(|mime| *mime != OCTETS);
    let by_magic_bytes = || MAGIC_BYTES.into_iter().find(|(begins, _)| data.starts_with(begins));
    by_name.or_else(|| by_magic_bytes().map(|(_, mime)| mime)).unwrap_or(OCTETS)
}

/// The file behind a link, if it lies in the session's folder, links followed.
pub(crate) async fn file_in_folder(folder: &Path, path: &str) -> Option<PathBuf> {
    // JSON escapes in a path come from odd file names; those stay links.
    if path.contains('\\') {
        return None;
    }
    let folder = tokio::fs::canonicalize(folder).await.ok()?;
    let file = tokio::fs::canonicalize(folder.join(path)).await.ok()?;
    file.starts_with(&folder).then_some(file)
}

/// A file as text, or its size in bytes if it is too large.
pub(crate) async fn read_text_file(file: &Path) -> Option<Result<String, u64>> {
    let metadata = tokio::fs::metadata(file).await.ok().filter(std::fs::Metadata::is_file)?;
    let bytes = metadata.len();
    if bytes > FILE_BYTES_MAX {
        return Some(Err(bytes));
    }
    greenroom_files::unblocked::read_text(file, FILE_BYTES_MAX).await.ok().map(Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MIME types by name and by first bytes.
    #[test]
    fn mime_types_by_name_and_content() {
        for (name, data, kind) in [
            ("a.pdf", &b""[..], "application/pdf"),
            ("a.csv", b"", "text/csv"),
            ("shot", b"\x89PNG\r\n", "image/png"),
            ("x", b"", "application/octet-stream"),
        ] {
            assert_eq!(mime(name, data), kind, "{name}");
        }
    }
}
