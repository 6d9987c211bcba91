//! Paths of this machine as `file:` URIs, as MCP names roots and files.

use std::path::{Path, PathBuf};

use url::Url;

/// The path that a `file:` URI names, if it is on this machine. The path decides which files an agent may use, so this
/// returns `None` for a URI that the standard would repair (`file:`, `file:a`) or that a client forgot to escape (`#`,
/// `?`, `%`).
pub fn path(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    let is_whole =
        path.starts_with('/') && path.bytes().all(|byte| !matches!(byte, b'#' | b'?' | b'\\' | ..=b' '));
    let digits = |part: &str| part.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    if !is_whole || !path.split('%').skip(1).all(digits) {
        return None;
    }
    Url::parse(uri).ok()?.to_file_path().ok()
}

/// The `file:` URI of an absolute path; `None` for a relative path.
pub fn uri(path: &Path) -> Option<String> {
    Url::from_file_path(path).ok().map(String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blanks and other odd bytes of a path survive the way through a URI.
    #[test]
    fn paths_survive_a_round_trip() {
        for (text, given) in [("/a b/ü#1", "file:///a%20b/%C3%BC%231"), ("/100%/a?b", "file:///100%25/a%3Fb")]
        {
            assert_eq!(uri(Path::new(text)).as_deref(), Some(given));
            assert_eq!(path(given), Some(PathBuf::from(text)));
        }
        assert_eq!(uri(Path::new("a/b")), None);
    }

    /// A URI that names no file of this machine has no path.
    #[test]
    fn uris_of_other_machines_have_no_path() {
        assert_eq!(path("file://localhost/a"), Some(PathBuf::from("/a")));
        for odd in ["https://a/b", "file://elsewhere/a", "a", "", "file:", "file://", "file:a", "file:/a"] {
            assert_eq!(path(odd), None, "{odd}");
        }
        for unescaped in
            ["file:///a%2", "file:///%zz", "file:///a/#b", "file:///a/?b", "file:///a b", "file:///a\\b"]
        {
            assert_eq!(path(unescaped), None, "{unescaped}");
        }
    }
}
