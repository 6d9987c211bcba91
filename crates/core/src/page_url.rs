//! Which addresses a page of a browser may have. Pure: nothing is looked up.
//!
//! Pages of the web may be shown, and pages that a document makes itself. Whatever else a browser knows shows files of
//! this machine (`file:`, `view-source:`), the browser's own insides (`chrome:`, `devtools:`) or ends it
//! (`chrome://inducebrowsercrashforrealz`). The list is of what is allowed, so that a scheme nobody thought of is refused.
//! The adapters judge what agents ask for by it, and the CDP proxy what engines ask browsers for.

use url::Url;

/// Why an address is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusedUrl {
    #[error("not an address: {0}")]
    Unreadable(String),
    #[error("no page may be opened at `{0}:` addresses")]
    Scheme(String),
    #[error("the only `about:` page is `about:blank`")]
    About,
}

/// Judges an absolute address as the browser reads it: blanks and control characters around it and tabs and line ends
/// inside it do not count.
pub fn check(address: &str) -> Result<(), RefusedUrl> {
    let url = Url::parse(address).map_err(|error| RefusedUrl::Unreadable(error.to_string()))?;
    match url.scheme() {
        "http" | "https" | "data" | "blob" => Ok(()),
        "about" if matches!(url.path(), "blank" | "srcdoc") => Ok(()),
        // A browser shows its own pages at other addresses of this scheme.
        "about" => Err(RefusedUrl::About),
        other => Err(RefusedUrl::Scheme(other.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of the web and empty pages pass; whatever shows files or the browser's insides does not, in any spelling.
    #[test]
    fn judged() {
        for allowed in [
            "http://127.0.0.1:3000/",
            "https://example.com/file:",
            " HTTPS://example.com",
            "about:blank",
            "about:blank#greenroom",
            "about:srcdoc",
            "data:text/html,<p>view-source:file:///etc/passwd",
            "blob:https://example.com/7",
        ] {
            assert_eq!(check(allowed), Ok(()), "{allowed:?}");
        }
        for (refused, scheme) in [
            ("file:///etc/passwd", "file"),
            ("\u{1}\t fi\nle:///etc/passwd", "file"),
            ("View-Source:https://example.com", "view-source"),
            ("view-source:file:///etc/passwd", "view-source"),
            ("chrome://inducebrowsercrashforrealz", "chrome"),
            ("devtools://devtools/bundled/inspector.html", "devtools"),
            ("filesystem:http://example.com/temporary/x", "filesystem"),
            ("chrome-extension://abc/x.html", "chrome-extension"),
            ("javascript:alert(1)", "javascript"),
            ("wss://example.com/", "wss"),
        ] {
            assert_eq!(check(refused), Err(RefusedUrl::Scheme(scheme.to_owned())), "{refused:?}");
        }
        for refused in ["about:version", "about:blank/../version", "about:"] {
            assert_eq!(check(refused), Err(RefusedUrl::About), "{refused:?}");
        }
        for refused in ["", "example.com", "//example.com", "http://[", "http:"] {
            assert!(matches!(check(refused), Err(RefusedUrl::Unreadable(_))), "{refused:?}");
        }
    }
}
