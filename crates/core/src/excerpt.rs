//! Texts in lists: a list shows the beginning of a long text, and says how long the whole is and where to read it.
//!
//! Errors, URLs, titles and console lines come from pages and engines, and each may have megabytes. Everything that lists
//! them (the store, REST, tools and the control socket) cuts them here.

use std::borrow::Cow;

/// How much of a text a list shows, in bytes. Real URLs, titles and errors are shorter; a list of a thousand calls
/// whose texts all reach this limit has some megabytes.
pub const FIELD_BYTES_MAX: usize = 2048;

/// A text as a list shows it. `whole` says where to read all of it, such as "read the call by its ref_id".
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

/// How much of a client's name or value an error repeats, in bytes. Real names of tools, pools and sessions are
/// shorter; a client that sends a megabyte does not get it back.
const ECHO_BYTES_MAX: usize = 200;

/// A name or value from outside, as an error repeats it. All errors cut such names here.
pub fn echoed(name: &str) -> Cow<'_, str> {
    let shown = &name[..name.floor_char_boundary(ECHO_BYTES_MAX)];
    match shown.len() < name.len() {
        true => Cow::Owned(format!("{shown}… ({} bytes in all)", name.len())),
        false => Cow::Borrowed(name),
    }
}

/// How long the message of a parser may be, in bytes. A message that names a field and all its valid values is shorter.
const PARSER_BYTES_MAX: usize = 1024;

/// The message of a parser, which may repeat a name or value from outside. Of a long message both ends stay.
pub fn shortened(message: &str) -> Cow<'_, str> {
    if message.len() <= PARSER_BYTES_MAX {
        return Cow::Borrowed(message);
    }
    let head = &message[..message.floor_char_boundary(ECHO_BYTES_MAX)];
    let tail = &message[message.ceil_char_boundary(message.len() - (PARSER_BYTES_MAX - ECHO_BYTES_MAX))..];
    Cow::Owned(format!("{head}… ({} bytes left out) …{tail}", message.len() - head.len() - tail.len()))
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

    /// An error repeats a name of usual length whole, and of a longer one the beginning.
    #[test]
    fn long_names_are_cut() {
        let name = "x".repeat(ECHO_BYTES_MAX);
        assert_eq!(echoed(&name), name);
        let cut = echoed(&format!("x{}", "ä".repeat(500_000))).into_owned();
        assert!(cut.ends_with("ä… (1000001 bytes in all)") && cut.len() < ECHO_BYTES_MAX + 64, "{cut}");
        let message = format!("unknown field `{}`, expected `a`", "ä".repeat(500_000));
        let cut = shortened(&message);
        assert!(cut.starts_with("unknown field `ä") && cut.ends_with("ä`, expected `a`"), "{cut}");
        assert!(cut.len() < PARSER_BYTES_MAX + 64, "{cut}");
    }
}
