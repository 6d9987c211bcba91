//! Makes foreign text, such as a session id or a page's title, harmless where people read it: in the log, in tables, in
//! errors. It writes characters that would begin a new line, move the cursor, colour the terminal or turn the writing
//! direction as escapes: `\n`, `\u{1b}`. All code that writes to stderr or to a terminal calls it; JSON has its own
//! escapes.

use std::borrow::Cow;

/// The text on one line, with harmful characters as escapes.
pub fn printable(text: &str) -> Cow<'_, str> {
    escape(text, |_| false)
}

/// The same, but line breaks and tabs stay: for texts of several lines that greenroom has put together itself.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escape(text, |character| matches!(character, '\n' | '\t'))
}

fn escape(text: &str, keep: fn(char) -> bool) -> Cow<'_, str> {
    let harmful = |character: char| (character.is_control() || is_invisible(character)) && !keep(character);
    if !text.contains(harmful) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if harmful(character) {
            escaped.extend(character.escape_default());
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

/// Whether a character shows only by its effect on its neighbours: direction marks, joiners, line separators, tags.
fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{61c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No character that a page or an agent chose can drive a terminal or begin a line; harmless text stays as it is.
    #[test]
    fn control_characters_are_escaped() {
        for (text, shown) in [
            ("Tee & Kekse – 茶 🍵", "Tee & Kekse – 茶 🍵"),
            ("a\x1b[2J\nb\r\tc\u{7f}\u{9b}", r"a\u{1b}[2J\nb\r\tc\u{7f}\u{9b}"),
            ("a\u{202e}b\u{200b}\u{2028}\u{e0041}", r"a\u{202e}b\u{200b}\u{2028}\u{e0041}"),
        ] {
            assert_eq!(printable(text), shown);
        }
        assert_eq!(printable_lines("a\n\tb\r\x1bc"), "a\n\tb\\r\\u{1b}c");
        for code in 0..=0x9f_u32 {
            let text = char::from_u32(code).unwrap().to_string();
            assert!(!printable(&text).contains(char::is_control), "{code:x}");
        }
    }
}
