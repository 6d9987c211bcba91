//! Paths of this machine as `file:` URIs, as MCP names roots and files.

use std::path::{Path, PathBuf};

use url::Url;

/// The path that a `file:` URI names, if it names one of this machine.
pub fn path(uri: &str) -> Option<PathBuf> {
    let uri = Url::parse(uri).ok().filter(|uri| uri.scheme() == "file")?;
    uri.to_file_path().ok()
}

/// The `file:` URI of an absolute path; a relative one has none.
pub fn uri(path: &Path) -> Option<String> {
    Url::from_file_path(path).ok().map(String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blanks and other odd bytes of a path survive the way through a URI.
    #[test]
    fn there_and_back() {
        for (text, given) in [("/a b/ü#1", "file:///a%20b/%C3%BC%231"), ("/100%/a?b", "file:///100%25/a%3Fb")]
        {
            assert_eq!(uri(Path::new(text)).as_deref(), Some(given));
            assert_eq!(path(given), Some(PathBuf::from(text)));
        }
        assert_eq!(uri(Path::new("a/b")), None);
    }

    /// What names no file of this machine has no path.
    #[test]
    fn only_of_this_machine() {
        assert_eq!(path("file://localhost/a"), Some(PathBuf::from("/a")));
        for odd in ["https://a/b", "file://elsewhere/a", "a", ""] {
            assert_eq!(path(odd), None, "{odd}");
        }
    }
}
