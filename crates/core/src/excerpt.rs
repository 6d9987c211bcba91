//! Texts in lists: a list shows the beginning of a long text, and says how long the whole is and where to read it.
//!
//! Errors, URLs, titles and console lines come from pages and engines, and each may have megabytes. Everything that lists
//! them (the store, REST, tools and the control socket) cuts them here.

use std::borrow::Cow;

/// How much of a text a list shows, in bytes. Real URLs, titles and errors are shorter; a list of a thousand calls with
/// nothing but the longest has some megabytes.
pub const FIELD_BYTES_MAX: usize = 2048;

/// A text as a list shows it. `whole` says where to read the whole: "read the call by its ref_id".
pub fn excerpt<'a>(text: &'a str, whole: &str) -> Cow<'a, str> {
    excerpt_of(text, text.len() as u64, FIELD_BYTES_MAX, whole)
}

/// The same for a text of `bytes` bytes of which only the beginning was read.
pub fn excerpt_of<'a>(head: &'a str, bytes: u64, bytes_max: usize, whole: &str) -> Cow<'a, str> {
    let shown = &head[..head.floor_char_boundary(bytes_max)];
    if shown.len() as u64 >= bytes {
        return Cow::Borrowed(head);
    }
    Cow::Owned(format!("{shown}… ({bytes} bytes in all; {whole} for the whole)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text that fits stays as it is; a longer one is cut at a whole character and says how long it was.
    #[test]
    fn long_texts_are_cut() {
        let whole = "x".repeat(FIELD_BYTES_MAX);
        assert_eq!(excerpt(&whole, "ask"), whole);
        let cut = excerpt(&format!("x{}", "ä".repeat(FIELD_BYTES_MAX)), "ask").into_owned();
        assert!(cut.ends_with("ä… (4097 bytes in all; ask for the whole)"), "{cut}");
        assert!(cut.len() < FIELD_BYTES_MAX + 64);
        assert_eq!(excerpt_of("ab", 9, 10, "ask"), "ab… (9 bytes in all; ask for the whole)");
    }
}
