//! Checks that a JSON text means the same to every program that reads it.
//!
//! greenroom judges a request's arguments, and an engine written in another language reads them again. This module refuses
//! what the two could read differently, before any guard judges it: strings that are not valid Unicode (`"\ud800"`: Rust
//! refuses them, JavaScript keeps them), names that occur twice in an object, the name `__proto__`, which JavaScript may
//! take for an object's prototype, nesting deeper than some readers follow, more values than clients send, and numbers
//! beyond the range of a 64-bit float (`1e400`: Rust refuses them, JavaScript reads `Infinity`).
//!
//! The fronts call [`check`] for every request, REST for every body, and the engines' guards again for the arguments
//! that they judge. Answers of engines are not checked: a page may show anything; [`mended`] makes them readable. The
//! check copies and decodes nothing except names with escapes; it skips white space and strings without escapes byte
//! by byte.

use std::{borrow::Cow, collections::HashSet, fmt};

use serde_json::value::RawValue;

/// How deep values may be nested. Real arguments have fewer than ten levels. `serde_json` reads 127 levels, and must be
/// able to read a text that passes even with a few levels around it.
pub const DEPTH_MAX: usize = 100;

/// How many values a text may have, names not counted. The longest lists in real arguments have some thousands. A
/// parsed value takes up to a hundred times the bytes of its text, and some readers parse a text several times.
pub const VALUES_MAX: usize = 100_000;

/// How many bytes of [`Ambiguous::place`] an error shows.
const PATH_BYTES_MAX: usize = 200;

/// A number of fewer bytes than this, and without an exponent, is within the range of a 64-bit float, whose greatest has 309
/// digits.
const LONG_NUMBER_BYTES: usize = 300;

/// From this many members on, the check looks an object's names up by hash instead of one by one.
const LINEAR_SEARCH_MAX: usize = 16;

/// Why readers could disagree about a text, and at which place in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{place}` {why}")]
pub struct Ambiguous {
    /// A path such as `arguments.commands[2].args.url`.
    pub place: String,
    pub why: AmbiguityKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AmbiguityKind {
    LoneSurrogate,
    SecondOfItsName,
    Prototype,
    TooDeep,
    TooMany,
    NumberOutOfRange,
}

impl fmt::Display for AmbiguityKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LoneSurrogate => f.write_str("is not valid Unicode: it has half of a surrogate pair"),
            Self::SecondOfItsName => f.write_str("is given twice"),
            Self::Prototype => f.write_str("is a name that arguments must not have"),
            Self::TooDeep => write!(f, "is nested too deep: at most {DEPTH_MAX} levels are taken"),
            Self::TooMany => write!(f, "is one value too many: at most {VALUES_MAX} are taken"),
            Self::NumberOutOfRange => f.write_str("is a number beyond the range of a 64-bit float"),
        }
    }
}

/// Checks a text that `serde_json` has accepted as JSON.
pub fn check(raw: &RawValue) -> Result<(), Ambiguous> {
    JsonWalk { text: raw.get(), at: 0, values: 0, open: Vec::new() }.run()
}

/// An answer's text with half surrogate pairs replaced by U+FFFD, as browsers show them, so that Rust can read the rest of
/// it. The length stays the same, so byte positions in the text stay valid.
pub fn mended(text: &str) -> Cow<'_, str> {
    if !text.contains("\\ud") && !text.contains("\\uD") {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut mended = String::new();
    let mut at = 0;
    let mut done = 0;
    while let Some(found) = text.get(at..).and_then(|rest| rest.find('\\')) {
        at += found;
        match escape(bytes, at) {
            Escape::Unit { length } => at += length,
            Escape::Half => {
                mended.push_str(text.get(done..at).unwrap_or_default());
                mended.push_str("\\ufffd");
                at += 6;
                done = at;
            }
        }
    }
    mended.push_str(text.get(done..).unwrap_or_default());
    Cow::Owned(mended)
}

/// An object or array whose end has not been read yet.
enum OpenContainer<'a> {
    Object {
        names: MemberNames<'a>,
        /// The last name that was read, in quotes, as it is written.
        name: &'a str,
        /// Whether the next string is a name.
        expects_name: bool,
    },
    Array {
        index: usize,
    },
}

#[derive(Default)]
struct MemberNames<'a> {
    few: Vec<MemberName<'a>>,
    many: HashSet<MemberName<'a>>,
}

type MemberName<'a> = Cow<'a, str>;

impl<'a> MemberNames<'a> {
    /// `false` if the object already has the name.
    fn add(&mut self, name: MemberName<'a>) -> bool {
        if self.many.is_empty() {
            if self.few.contains(&name) {
                return false;
            }
            self.few.push(name);
            if self.few.len() > LINEAR_SEARCH_MAX {
                self.many.extend(self.few.drain(..));
            }
            return true;
        }
        self.many.insert(name)
    }
}

struct JsonWalk<'a> {
    text: &'a str,
    at: usize,
    /// Commas and opening brackets so far. Each stands for one value, so an empty list or object counts twice.
    values: usize,
    open: Vec<OpenContainer<'a>>,
}

impl<'a> JsonWalk<'a> {
    fn run(mut self) -> Result<(), Ambiguous> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b'"' => self.string()?,
                b'{' => self.enter(OpenContainer::Object {
                    names: MemberNames::default(),
                    name: "",
                    expects_name: true,
                })?,
                b'[' => self.enter(OpenContainer::Array { index: 0 })?,
                b'}' | b']' => {
                    self.open.pop();
                    self.at += 1;
                }
                b',' => {
                    match self.open.last_mut() {
                        Some(OpenContainer::Object { expects_name, .. }) => *expects_name = true,
                        Some(OpenContainer::Array { index }) => *index += 1,
                        None => {}
                    }
                    self.count()?;
                    self.at += 1;
                }
                b'-' | b'0'..=b'9' => self.number()?,
                _ => self.at += 1,
            }
        }
        Ok(())
    }

    /// Skips the number that begins here.
    fn number(&mut self) -> Result<(), Ambiguous> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let is_part = |byte: &u8| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
        let length = rest.bytes().take_while(is_part).count();
        let number = rest.get(..length).unwrap_or_default();
        if !is_in_range(number) {
            return Err(self.ambiguous(AmbiguityKind::NumberOutOfRange));
        }
        self.at += length;
        Ok(())
    }

    fn enter(&mut self, open: OpenContainer<'a>) -> Result<(), Ambiguous> {
        if self.open.len() == DEPTH_MAX {
            return Err(self.ambiguous(AmbiguityKind::TooDeep));
        }
        self.open.push(open);
        self.count()?;
        self.at += 1;
        Ok(())
    }

    /// Counts a value by the sign that begins it: a comma before the value, or the bracket around it.
    fn count(&mut self) -> Result<(), Ambiguous> {
        self.values += 1;
        if self.values > VALUES_MAX { Err(self.ambiguous(AmbiguityKind::TooMany)) } else { Ok(()) }
    }

    /// Reads the string that begins here: a name, or a value.
    fn string(&mut self) -> Result<(), Ambiguous> {
        let text = self.text;
        let (end, has_escapes, is_unicode) = string_end(text.as_bytes(), self.at);
        let quoted = text.get(self.at..end).unwrap_or_default();
        self.at = end;
        let Some(OpenContainer::Object { names, name, expects_name }) = self.open.last_mut() else {
            return if is_unicode { Ok(()) } else { Err(self.ambiguous(AmbiguityKind::LoneSurrogate)) };
        };
        if !*expects_name {
            return if is_unicode { Ok(()) } else { Err(self.ambiguous(AmbiguityKind::LoneSurrogate)) };
        }
        *name = quoted;
        *expects_name = false;
        let plain = || quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
        let read = match has_escapes {
            false => Some(MemberName::Borrowed(plain())),
            true => serde_json::from_str::<String>(quoted).ok().filter(|_| is_unicode).map(MemberName::Owned),
        };
        let why = match read {
            None => Some(AmbiguityKind::LoneSurrogate),
            Some(name) if name == "__proto__" => Some(AmbiguityKind::Prototype),
            Some(name) => (!names.add(name)).then_some(AmbiguityKind::SecondOfItsName),
        };
        why.map_or(Ok(()), |why| Err(self.ambiguous(why)))
    }

    fn ambiguous(&self, why: AmbiguityKind) -> Ambiguous {
        let mut place = String::new();
        for open in &self.open {
            if place.len() > PATH_BYTES_MAX {
                break;
            }
            match open {
                OpenContainer::Array { index } => place.push_str(&format!("[{index}]")),
                OpenContainer::Object { name: "", .. } => {}
                OpenContainer::Object { name, .. } => {
                    if !place.is_empty() {
                        place.push('.');
                    }
                    place.push_str(name.trim_matches('"'));
                }
            }
        }
        if place.is_empty() {
            place.push_str("it");
        }
        Ambiguous { place: cut(&place), why }
    }
}

/// Whether a number is finite, both exactly and as `serde_json` rounds it: next to the greatest float the two may differ.
fn is_in_range(number: &str) -> bool {
    if number.len() < LONG_NUMBER_BYTES && !number.contains(['e', 'E']) {
        return true;
    }
    let is_finite = number.parse().is_ok_and(f64::is_finite);
    is_finite && serde_json::from_str::<f64>(number).is_ok_and(f64::is_finite)
}

/// Shortens foreign text that an error repeats.
fn cut(text: &str) -> String {
    let printable = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    let mut shown = String::new();
    for c in printable {
        if shown.len() >= PATH_BYTES_MAX {
            shown.push('…');
            break;
        }
        shown.push(c);
    }
    shown
}

/// Where the string that begins at `start` ends, whether it has escapes, and whether these are valid Unicode.
fn string_end(bytes: &[u8], start: usize) -> (usize, bool, bool) {
    let mut at = start + 1;
    let mut has_escapes = false;
    let mut is_unicode = true;
    loop {
        match bytes.get(at) {
            None => return (bytes.len(), has_escapes, is_unicode),
            Some(b'"') => return (at + 1, has_escapes, is_unicode),
            Some(b'\\') => {
                has_escapes = true;
                match escape(bytes, at) {
                    Escape::Unit { length } => at += length,
                    Escape::Half => {
                        is_unicode = false;
                        at += 6;
                    }
                }
            }
            Some(_) => at += 1,
        }
    }
}

/// What an escape in a JSON string is.
enum Escape {
    /// A character or a whole surrogate pair, written with `length` bytes.
    Unit { length: usize },
    /// Half a surrogate pair.
    Half,
}

/// The escape that begins at `at`.
fn escape(bytes: &[u8], at: usize) -> Escape {
    match unit(bytes, at) {
        Some(0xd800..=0xdbff) if matches!(unit(bytes, at + 6), Some(0xdc00..=0xdfff)) => {
            Escape::Unit { length: 12 }
        }
        Some(0xd800..=0xdfff) => Escape::Half,
        Some(_) => Escape::Unit { length: 6 },
        None => Escape::Unit { length: 2 },
    }
}

/// The UTF-16 unit that is written as `\uXXXX` at `at`.
fn unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(text: &str) -> Result<(), String> {
        let raw = crate::raw::parse(text.to_owned()).unwrap();
        check(&raw).map_err(|ambiguous| ambiguous.to_string())
    }

    /// Half a surrogate pair is found in names and values at any depth, and the error names its place; whole pairs, escapes
    /// that only look like one, and escaped backslashes pass.
    #[test]
    fn lone_surrogates_are_refused_with_their_path() {
        let says = "is not valid Unicode: it has half of a surrogate pair";
        for (text, place) in [
            (r#"{"url":"view-source:file:///s#\ud800"}"#, "url"),
            (r#"{"a":{"commands":[1,{"args":{"url":"\uDC00x"}}]}}"#, "a.commands[1].args.url"),
            (r#"{"a":{"u\udfffrl":1}}"#, r"a.u\udfffrl"),
            (r#"["x","\ud800\ud800\udc00"]"#, "[1]"),
            (r#""\udc00\ud800""#, "it"),
            (r#"{"a":"\\\ud800"}"#, "a"),
        ] {
            assert_eq!(check_text(text), Err(format!("`{place}` {says}")), "{text}");
        }
        for fine in [
            r#"{"a":"\ud83d\ude00","b":"\\ud800","c":"\u0000\u00e9\n\"","d":"😀"}"#,
            r#""""#,
            "{}",
            "[1.50,1e300,null,{\"a\":[]}]",
        ] {
            assert_eq!(check_text(fine), Ok(()), "{fine}");
        }
    }

    /// An object that has a name twice is refused, even if the two are spelt differently; the same name in two objects
    /// is allowed.
    #[test]
    fn duplicate_names_are_refused() {
        let twice = |place: &str| Err(format!("`{place}` is given twice"));
        assert_eq!(check_text(r#"{"url":"a","url":"b"}"#), twice("url"));
        assert_eq!(check_text(r#"{"arguments":{"url":"a","u\u0072l":"b"}}"#), twice(r"arguments.u\u0072l"));
        assert_eq!(check_text(r#"{"a":{"x":1},"b":{"x":1},"c":[{"x":1},{"x":2}]}"#), Ok(()));
        let many: Vec<_> = (0..1_000).map(|n| format!("\"n{n}\":{n}")).collect();
        assert_eq!(check_text(&format!("{{{}}}", many.join(","))), Ok(()));
        assert_eq!(check_text(&format!("{{{},\"n7\":0}}", many.join(","))), twice("n7"));
    }

    /// An answer with half a pair becomes readable; byte positions stay, and whole pairs and backslashes are left alone.
    #[test]
    fn lone_surrogates_in_answers_are_replaced() {
        for (text, expected) in [
            (r#"{"a":"x\ud800y"}"#, r#"{"a":"x\ufffdy"}"#),
            (r#""\uDC00\ud83d\ude00\\ud800""#, r#""\ufffd\ud83d\ude00\\ud800""#),
            (r#""\ud800\ud800\udc00""#, r#""\ufffd\ud800\udc00""#),
            (r#""é\n""#, r#""é\n""#),
        ] {
            assert_eq!(mended(text), expected);
            assert!(serde_json::from_str::<serde_json::Value>(&mended(text)).is_ok());
        }
    }

    /// The name of JavaScript's prototypes is refused however it is spelt.
    #[test]
    fn prototype_names_are_refused() {
        let refused = |place: &str| Err(format!("`{place}` is a name that arguments must not have"));
        assert_eq!(check_text(r#"{"__proto__":{"url":"file:///x"}}"#), refused("__proto__"));
        assert_eq!(check_text(r#"{"a":{"\u005f_proto__":1}}"#), refused(r"a.\u005f_proto__"));
        assert_eq!(check_text(r#"{"a":"__proto__"}"#), Ok(()));
    }

    /// A number that JavaScript reads as `Infinity` is refused with its place; every other number passes and can be
    /// read, even one so small that it is read as 0.
    #[test]
    fn numbers_beyond_a_float_are_refused() {
        let long = |digits: usize| "7".repeat(digits);
        let negative = format!("-{}.5", long(400));
        for number in ["1e400", "-1e999", "1E+309", "0.1e99999999999999999999", &long(400), &negative] {
            let says = "is a number beyond the range of a 64-bit float";
            assert_eq!(check_text(number), Err(format!("`it` {says}")), "{number}");
            let text = format!(r#"{{"a":"1e400","b":[0,{{"c":{number},"d":1}}]}}"#);
            assert_eq!(check_text(&text), Err(format!("`b[1].c` {says}")), "{number}");
        }
        let fraction = format!("0.{}", long(400));
        for number in ["1e308", "-1.5E+308", "0.1", "-0", "1e-400", "0e400", &long(300), &fraction] {
            let text = format!(r#"{{"a":[{number}, {number}]}}"#);
            assert_eq!(check_text(&text), Ok(()), "{number}");
            assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{number}");
        }
    }

    /// A text may have `VALUES_MAX` values and no more, in lists as in objects, however they are written.
    #[test]
    fn too_many_values_are_refused() {
        let list = |count: usize| format!("[{}0]", "0,".repeat(count - 1));
        assert_eq!(check_text(&list(VALUES_MAX)), Ok(()));
        let says = "is one value too many: at most 100000 are taken";
        assert_eq!(check_text(&list(VALUES_MAX + 1)), Err(format!("`[100000]` {says}")));
        let members: Vec<_> = (0..=VALUES_MAX).map(|n| format!("\"{n}\":\"\"")).collect();
        let refused = check_text(&format!("{{{}}}", members.join(","))).unwrap_err();
        assert!(refused.ends_with(says), "{refused}");
        let empty = format!("[{}[]]", "[],".repeat(VALUES_MAX));
        assert!(check_text(&empty).unwrap_err().ends_with(says));
        assert_eq!(check_text(&format!("\"{}\"", ",".repeat(2 * VALUES_MAX))), Ok(()), "a text is one value");
    }

    /// Nesting has a limit, below that of the JSON reader itself.
    #[test]
    fn deep_nesting_is_refused() {
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(check_text(&deep(DEPTH_MAX)), Ok(()));
        assert!(serde_json::from_str::<serde_json::Value>(&deep(DEPTH_MAX)).is_ok());
        let refused = check_text(&deep(100_000)).unwrap_err();
        assert!(refused.ends_with("is nested too deep: at most 100 levels are taken"), "{refused}");
        assert!(refused.len() < 400, "{refused}");
    }
}
