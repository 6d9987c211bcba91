//! Which addresses a tool may make a browser open.
//!
//! An allow-list: pages of the web, `about:blank`, `data:` and `blob:`. Everything else is refused by its scheme, because
//! it shows files of this machine (`file:`, also behind `view-source:`), the browser's own pages (`chrome:`, `devtools:`,
//! `about:version`), or runs code (`javascript:`). The engines' adapters call [`judge`] before a call reaches its
//! engine.
//!
//! The address that counts is the one that the browser will parse. Browsers and JavaScript's `URL` drop blanks and control
//! characters at both ends, and tabs and newlines everywhere (WHATWG URL standard, "basic URL parser"), and only then read
//! the scheme. An address without a scheme is one of the web: an engine puts `https://` or `http://` before it, or refuses
//! it.

/// How many characters of a scheme an error shows.
const SCHEME_CHARS_MAX: usize = 40;

/// The scheme of an address that may not be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RefusedScheme(pub(crate) String);

/// Judges an address in the form that a tool gets.
pub(crate) fn judge(url: &str) -> Result<(), RefusedScheme> {
    judge_normalized(&as_url_standard_reads(url))?;
    // An engine or a browser may also drop characters that the standard keeps.
    judge_normalized(&url.chars().filter(|c| !is_invisible(*c)).collect::<String>())
}

/// The address as the URL standard reads it before it splits it.
fn as_url_standard_reads(url: &str) -> String {
    let trimmed = url.trim_matches(|c: char| c <= ' ');
    trimmed.chars().filter(|c| !matches!(c, '\t' | '\n' | '\r')).collect()
}

/// Invisible characters: blanks, control characters, marks of direction and width, byte order marks.
fn is_invisible(c: char) -> bool {
    let is_mark =
        matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}');
    c.is_whitespace() || c.is_control() || is_mark || c == '\u{feff}'
}

fn judge_normalized(url: &str) -> Result<(), RefusedScheme> {
    let Some((scheme, rest)) = split_scheme(url) else { return Ok(()) };
    let is_allowed = match scheme.as_str() {
        // `localhost:3000` has the form of an address with a scheme; no browser knows a scheme of this name.
        "http" | "https" | "data" | "localhost" => true,
        "about" => {
            let page = rest.split(['?', '#']).next().unwrap_or_default();
            matches!(page, "blank" | "srcdoc")
        }
        // A `blob:` address contains the address of the page that made it, which is judged.
        "blob" => {
            rest.starts_with("null/")
                || matches!(split_scheme(rest), Some((of, _)) if of == "http" || of == "https")
        }
        _ => false,
    };
    if is_allowed { Ok(()) } else { Err(RefusedScheme(scheme_for_message(&scheme, rest))) }
}

/// The scheme in lower case, and the text after its colon.
fn split_scheme(url: &str) -> Option<(String, &str)> {
    let (scheme, rest) = url.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    is_scheme.then(|| (scheme.to_ascii_lowercase(), rest))
}

/// The scheme for the error, with the page if only some pages of the scheme are allowed.
fn scheme_for_message(scheme: &str, rest: &str) -> String {
    let page = if scheme == "about" { rest } else { "" };
    format!("{scheme}:{page}").chars().filter(|c| !c.is_control()).take(SCHEME_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of the web pass in every common spelling, with and without a scheme.
    #[test]
    fn web_addresses_pass() {
        for url in [
            "https://a/file:",
            "HTTP://a",
            " http://a\n",
            "ht\ttp://a",
            "example.com",
            "example.com/path?x=file:///y",
            "localhost:3000",
            "localhost",
            "127.0.0.1:8080/x",
            "[::1]:80",
            "//example.com",
            "",
            "about:blank",
            "about:blank#x",
            "about:srcdoc",
            "data:text/html,<p>x",
            "blob:https://a/1-2",
            "blob:null/1-2",
            "file.example",
            "search words",
        ] {
            assert_eq!(judge(url), Ok(()), "{url:?}");
        }
    }

    /// Everything else is refused by its scheme, in every spelling that a browser accepts.
    #[test]
    fn other_schemes_are_refused() {
        for (url, scheme) in [
            ("file:///etc/passwd", "file:"),
            ("FiLe:/etc/passwd", "file:"),
            ("\u{0}\u{1f} fi\tl\r\ne:///etc/passwd", "file:"),
            ("\u{feff}file:///etc/passwd", "file:"),
            ("\u{a0}file:///etc/passwd", "file:"),
            ("fi\u{200b}le:///etc/passwd", "file:"),
            ("view-source:file:///etc/passwd", "view-source:"),
            ("view-source:https://a/", "view-source:"),
            ("View-Source:view-source:file:///x#\u{fffd}", "view-source:"),
            ("chrome://version", "chrome:"),
            ("devtools://devtools/bundled/inspector.html", "devtools:"),
            ("filesystem:file:///x", "filesystem:"),
            ("chrome-extension://abc/x", "chrome-extension:"),
            ("chrome-untrusted://x", "chrome-untrusted:"),
            ("javascript:alert(1)", "javascript:"),
            ("about:version", "about:version"),
            ("about:Blank", "about:Blank"),
            ("about:blank/x", "about:blank/x"),
            ("blob:file:///1", "blob:"),
            ("blob:blob:null/1", "blob:"),
            ("ftp://a", "ftp:"),
            ("ws://a", "ws:"),
            ("mailto:a@b", "mailto:"),
            ("isolated-app://x", "isolated-app:"),
        ] {
            assert_eq!(judge(url), Err(RefusedScheme(scheme.to_owned())), "{url:?}");
        }
        let long = format!("{}:x", "a".repeat(1_000_000));
        assert_eq!(judge(&long).unwrap_err().0.len(), SCHEME_CHARS_MAX);
    }
}
