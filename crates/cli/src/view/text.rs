//! Values for people: spans of time, sizes, and texts of agents and pages, escaped.

pub use greenroom_core::plural::{count, count_of, there};
use greenroom_core::printable::printable;
use unicode_width::UnicodeWidthStr;

/// A span of time with useful precision: `42 s`, `4 min 56 s`, `12 min`, `3 h 20 min`, `2 d 4 h`.
pub fn span(seconds: u64) -> String {
    let minutes = seconds / 60;
    let hours = seconds / 3_600;
    let days = seconds / 86_400;
    let two = |large: u64, unit: &str, small: u64, sub: &str| match small {
        0 => format!("{large} {unit}"),
        _ => format!("{large} {unit} {small} {sub}"),
    };
    match seconds {
        0..60 => format!("{seconds} s"),
        60..600 => two(minutes, "min", seconds % 60, "s"),
        600..3_600 => format!("{minutes} min"),
        3_600..86_400 => two(hours, "h", minutes % 60, "min"),
        _ => two(days, "d", hours % 24, "h"),
    }
}

/// `812 bytes`, `1.4 MiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.iter().find(|(_, unit)| bytes >= *unit) {
        None if bytes == 1 => "1 byte".to_owned(),
        None => format!("{bytes} bytes"),
        Some((name, unit)) => {
            // In tenths, rounded down: the size is at least what is shown.
            let tenths = bytes / (unit / 10).max(1);
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
    }
}

/// A text that an agent or a page chose, such as a title, escaped.
pub fn escape(text: &str) -> String {
    printable(text).into_owned()
}

/// An id in a table: in quotes if it is empty, escaped, or begins or ends with a space or quote.
pub fn id(id: &str) -> String {
    let cleaned = escape(id);
    let plain = cleaned == id && id.trim() == id && !id.starts_with('"') && width(id) > 0;
    if plain { cleaned } else { format!("\"{cleaned}\"") }
}

/// How many columns of a terminal a text takes.
pub fn width(text: &str) -> usize {
    text.width()
}

/// The text, or as much of it as fits into this many columns, with a mark if it was cut.
pub fn shorten(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut shortened = String::new();
    for character in text.chars() {
        // Measure the whole: the width of a character depends on the one before it.
        shortened.push(character);
        if width(&shortened) >= columns {
            shortened.pop();
            break;
        }
    }
    if columns > 0 {
        shortened.push('…');
    }
    shortened
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longer a span, the less its small units matter.
    #[test]
    fn spans_have_at_most_two_units() {
        for (seconds, text) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (296, "4 min 56 s"),
            (600, "10 min"),
            (3_599, "59 min"),
            (3_600, "1 h"),
            (12_000, "3 h 20 min"),
            (86_400, "1 d"),
            (187_300, "2 d 4 h"),
        ] {
            assert_eq!(span(seconds), text);
        }
    }

    /// Sizes have the unit that suits them.
    #[test]
    fn sizes_have_a_fitting_unit() {
        for (size, text) in
            [(0, "0 bytes"), (1, "1 byte"), (1_023, "1023 bytes"), (1_536, "1.5 KiB"), (3 << 30, "3.0 GiB")]
        {
            assert_eq!(bytes(size), text);
        }
    }

    /// An id is quoted if a reader could not see where it begins and ends.
    #[test]
    fn unclear_ids_are_quoted() {
        for (given, shown) in [
            ("prices", "prices"),
            ("price check", "price check"),
            (" a", "\" a\""),
            ("\n", "\"\\n\""),
            ("\"a\"", "\"\"a\"\""),
            ("it's", "it's"),
        ] {
            assert_eq!(id(given), shown);
        }
    }

    /// A shortened text never takes more columns than allowed, wide characters included.
    #[test]
    fn shortened_texts_fit() {
        assert_eq!(shorten("kettle", 6), "kettle");
        assert_eq!(shorten("kettles", 6), "kettl…");
        assert_eq!(shorten("茶茶茶茶", 8), "茶茶茶茶");
        assert_eq!(shorten("茶茶茶茶", 7), "茶茶茶…");
        assert_eq!(shorten("茶茶茶茶", 6), "茶茶…");
        assert_eq!(shorten("\u{2764}\u{fe0f}\u{2764}\u{fe0f}", 3), "\u{2764}\u{fe0f}…");
        assert_eq!((shorten("abc", 1), shorten("abc", 0)), ("…".to_owned(), String::new()));
    }
}
