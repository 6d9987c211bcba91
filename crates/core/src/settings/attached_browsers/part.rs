//! The parts that only an attached browser has, as kinds of values: its label, its tags, its headers and the command that
//! starts it. Each is read from TOML and from text in the same way.

use crate::settings::{
    list::{Argv, items, split_at_commas},
    server_url::ServerUrl,
    value_type::{FlagShape, GivenForm, GivenValue, InvalidValue, ValueType},
};

use super::Header;

/// The longest label and the longest tag. They stand in lists, errors and metrics.
pub const LABEL_BYTES_MAX: usize = 64;

/// How many tags a browser may have: more do not help to tell browsers apart.
pub const TAGS_MAX: usize = 16;

/// How many headers greenroom sends to a debugger, and how long a name and a value may be. Servers refuse lines of more
/// than about 8 KiB, and no header in use has a name of more than a few dozen letters.
pub const HEADERS_MAX: usize = 32;
const NAME_BYTES_MAX: usize = 256;
const HEADER_BYTES_MAX: usize = 8 * 1024;

/// Headers that the connection sets itself. A second header of the same name would break the handshake.
const HANDSHAKE: [&str; 5] =
    ["connection", "upgrade", "content-length", "transfer-encoding", "sec-websocket-"];

/// The only placeholder of a start command.
const PLACEHOLDER: &str = "url";

/// Reads a debugger's address into its normal form. The error says what is expected and why this is not it.
pub fn browser_url(text: &str) -> Result<String, String> {
    let kind = ServerUrl::DEBUGGER;
    kind.read(text).map_err(|wrong| message(&kind, wrong))
}

/// Reads a label, by the same rules as in the configuration.
pub fn browser_label(text: &str) -> Result<String, String> {
    name(text, true).map_err(|wrong| message(&BrowserLabel, wrong))
}

/// Reads tags, by the same rules as in the configuration.
pub fn browser_tags<'a>(tags: impl IntoIterator<Item = &'a str>) -> Result<Vec<String>, String> {
    BrowserTags::read(tags).map_err(|wrong| message(&BrowserTags, wrong))
}

fn message(kind: &impl ValueType, InvalidValue(why): InvalidValue) -> String {
    let why = why.map_or_else(String::new, |why| format!(" ({why})"));
    format!("expected {}{why}", kind.allowed())
}

/// A second name besides the index.
pub(super) struct BrowserLabel;

impl ValueType for BrowserLabel {
    type Value = String;

    fn parse(&self, given: GivenValue<'_>) -> Result<String, InvalidValue> {
        name(given.text().ok_or(InvalidValue(None))?, true)
    }

    fn show(&self, value: &String) -> String {
        value.clone()
    }

    fn allowed(&self) -> String {
        format!("a name of at most {LABEL_BYTES_MAX} bytes that is no number")
    }

    fn shape(&self) -> FlagShape {
        FlagShape::One("LABEL".to_owned())
    }
}

/// Names that several browsers may share. A tag that is given twice counts once.
pub(super) struct BrowserTags;

impl BrowserTags {
    fn read<'a>(tags: impl IntoIterator<Item = &'a str>) -> Result<Vec<String>, InvalidValue> {
        let mut read: Vec<String> = Vec::new();
        for tag in tags {
            let tag = name(tag, false)
                .map_err(|_| InvalidValue(Some(format!("`{}` is not one of them", tag.escape_debug()))))?;
            if !read.contains(&tag) {
                read.push(tag);
            }
        }
        if read.len() > TAGS_MAX {
            return Err(InvalidValue(Some(format!("there are {}", read.len()))));
        }
        Ok(read)
    }
}

impl ValueType for BrowserTags {
    type Value = Vec<String>;

    fn parse(&self, given: GivenValue<'_>) -> Result<Vec<String>, InvalidValue> {
        let tags = items(given, |text| Ok(split_at_commas(text)))?;
        Self::read(tags.iter().map(String::as_str))
    }

    fn show(&self, value: &Vec<String>) -> String {
        value.join(", ")
    }

    fn allowed(&self) -> String {
        format!("a list of at most {TAGS_MAX} names of at most {LABEL_BYTES_MAX} bytes each")
    }

    fn shape(&self) -> FlagShape {
        FlagShape::Many("TAG".to_owned())
    }
}

/// A label or a tag: a line of text without spaces around it.
fn name(text: &str, label: bool) -> Result<String, InvalidValue> {
    let text = text.trim();
    if text.is_empty() || text.len() > LABEL_BYTES_MAX || text.contains(char::is_control) {
        return Err(InvalidValue(None));
    }
    // Refuse anything that a program might take for a number, so that no index is ever mistaken for a label.
    if label && text.contains(|c: char| c.is_ascii_digit()) && text.parse::<f64>().is_ok() {
        return Err(InvalidValue(Some("numbers are the indices of browsers".to_owned())));
    }
    Ok(text.to_owned())
}

/// Headers of requests to the debugger, by name. Their values are secrets: no message repeats one.
pub(super) struct HeaderTable;

impl ValueType for HeaderTable {
    type Value = Vec<Header>;

    fn parse(&self, given: GivenValue<'_>) -> Result<Vec<Header>, InvalidValue> {
        let GivenForm::Toml(toml::Value::Table(table)) = given.written else {
            return Err(InvalidValue(None));
        };
        if table.len() > HEADERS_MAX {
            return Err(InvalidValue(Some(format!("there are {}", table.len()))));
        }
        let mut headers: Vec<Header> = Vec::new();
        for (name, value) in table {
            let of = |why: &str| InvalidValue(Some(format!("`{}`: {why}", name.escape_debug())));
            let own = |start: &&str| match start.strip_suffix('-') {
                Some(_) => name.to_ascii_lowercase().starts_with(*start),
                None => name.eq_ignore_ascii_case(start),
            };
            let value = value.as_str().ok_or_else(|| of("its value must be text"))?.trim();
            if !is_header_name(name) {
                return Err(of("this is not a header's name"));
            }
            if HANDSHAKE.iter().any(own) {
                return Err(of("the connection sets it itself"));
            }
            if headers.iter().any(|other| other.name.eq_ignore_ascii_case(name)) {
                return Err(of("it is given twice"));
            }
            // An empty value is valid: some servers want a header without a value.
            if value.len() > HEADER_BYTES_MAX || !value.chars().all(is_printable) {
                return Err(of("its value must be one line of plain letters, digits and signs"));
            }
            headers.push(Header { name: name.clone(), value: value.to_owned() });
        }
        Ok(headers)
    }

    fn show(&self, value: &Vec<Header>) -> String {
        value.iter().map(|header| header.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    fn show_wrong(&self, _: GivenValue<'_>) -> String {
        "…".to_owned()
    }

    fn allowed(&self) -> String {
        format!("a table of at most {HEADERS_MAX} names and texts, such as `{{ Authorization = \"…\" }}`")
    }

    fn shape(&self) -> FlagShape {
        FlagShape::One("HEADERS".to_owned())
    }
}

fn is_header_name(name: &str) -> bool {
    let sign = |c: char| "!#$%&'*+-.^_`|~".contains(c);
    !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && name.chars().all(|c| c.is_ascii_alphanumeric() || sign(c))
}

fn is_printable(c: char) -> bool {
    matches!(c, ' '..='~' | '\t')
}

/// The command that starts a browser: a program and its arguments, in which `{url}` stands for the browser's address.
pub(super) struct StartCommandLine;

impl ValueType for StartCommandLine {
    type Value = Vec<String>;

    fn parse(&self, given: GivenValue<'_>) -> Result<Vec<String>, InvalidValue> {
        let argv = match given.written {
            GivenForm::Toml(toml::Value::String(text)) => {
                Argv.parse(GivenValue { written: GivenForm::Text(text), base: given.base })
            }
            _ => Argv.parse(given),
        }?;
        if argv.is_empty() {
            return Err(InvalidValue(Some("it is empty".to_owned())));
        }
        if let Some(name) = argv.iter().flat_map(|word| placeholders(word)).find(|name| *name != PLACEHOLDER)
        {
            return Err(InvalidValue(Some(format!("`{{{name}}}` means nothing here"))));
        }
        Ok(argv)
    }

    fn show(&self, value: &Vec<String>) -> String {
        Argv.show(value)
    }

    fn allowed(&self) -> String {
        format!("{}; `{{{PLACEHOLDER}}}` is the only placeholder", Argv.allowed())
    }

    fn shape(&self) -> FlagShape {
        Argv.shape()
    }
}

/// The names in braces. Braces around anything but a name belong to the program.
fn placeholders(word: &str) -> impl Iterator<Item = &str> {
    let is_name = |name: &&str| {
        let first = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
        first && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    word.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name).filter(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::value_type::tests::{text, toml};

    /// A label is a short name that cannot be taken for an index; a tag may be a number.
    #[test]
    fn invalid_labels_and_tags_are_refused() {
        assert_eq!(browser_label(" work laptop "), Ok("work laptop".to_owned()));
        assert_eq!(browser_label("x1"), Ok("x1".to_owned()));
        assert_eq!(browser_label("inf"), Ok("inf".to_owned()), "a word is no number");
        assert!(browser_label(&"x".repeat(LABEL_BYTES_MAX)).is_ok());
        for wrong in
            ["", "  ", "1", "-1", "+2", "1.5", "1e3", " 7 ", "a\nb", &"x".repeat(LABEL_BYTES_MAX + 1)]
        {
            assert!(browser_label(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(
            browser_label("2").unwrap_err(),
            "expected a name of at most 64 bytes that is no number (numbers are the indices of browsers)"
        );
        assert_eq!(browser_tags(["qa", " eu", "qa", "3"]), Ok(vec!["qa".into(), "eu".into(), "3".into()]));
        assert!(browser_tags(["qa", ""]).unwrap_err().contains("`` is not one of them"));
        let many: Vec<_> = (0..=TAGS_MAX).map(|n| format!("t{n}")).collect();
        assert!(browser_tags(many.iter().map(String::as_str)).unwrap_err().contains("there are 17"));
        assert_eq!(text(&BrowserTags, "a, b"), Ok(vec!["a".to_owned(), "b".to_owned()]));
    }

    /// Headers are names and texts; a problem names the header and never its value.
    #[test]
    fn header_errors_hide_the_value() {
        let read = toml(&HeaderTable, "{ Authorization = ' Bearer s3cret ', 'X-Key' = 'b' }").unwrap();
        assert_eq!(read[0].value, "Bearer s3cret");
        assert_eq!(format!("{read:?}"), "[Authorization: …, X-Key: …]");
        assert_eq!(HeaderTable.show(&read), "Authorization, X-Key");
        assert_eq!(toml(&HeaderTable, "{ A = '' }").unwrap()[0].value, "");
        for (wrong, why) in [
            ("{ A = 1 }", "`A`: its value must be text"),
            ("{ 'A B' = 's3cret' }", "`A B`: this is not a header's name"),
            ("{ A = \"s3cret\\r\\nB: c\" }", "`A`: its value must be one line"),
            ("{ A = 's3crét' }", "`A`: its value must be one line"),
            ("{ UPGRADE = 's3cret' }", "`UPGRADE`: the connection sets it itself"),
            ("{ Sec-WebSocket-Key = 's3cret' }", "`Sec-WebSocket-Key`: the connection sets it itself"),
            ("{ a = 's3cret', A = 'b' }", "twice"),
        ] {
            let message = toml(&HeaderTable, wrong).unwrap_err().0.unwrap();
            assert!(message.contains(why) && !message.contains("s3c"), "{wrong}: {message}");
        }
        for wrong in ["'Authorization: s3cret'", "['a']", "true"] {
            assert_eq!(toml(&HeaderTable, wrong), Err(InvalidValue(None)), "{wrong}");
        }
    }

    /// A start command is a program with arguments, as a list or as text, and `{url}` is the only placeholder.
    #[test]
    fn start_commands_are_lists_or_text() {
        let argv = |words: &[&str]| Ok(words.iter().map(|word| (*word).to_owned()).collect());
        assert_eq!(
            text(&StartCommandLine, "chrome --remote-debugging-port=9222 'a b'"),
            argv(&["chrome", "--remote-debugging-port=9222", "a b"])
        );
        assert_eq!(toml(&StartCommandLine, "['start', '{url}/x']"), argv(&["start", "{url}/x"]));
        assert_eq!(toml(&StartCommandLine, "'start {url}'"), argv(&["start", "{url}"]));
        assert_eq!(text(&StartCommandLine, "a {} {1} {a-b} }{"), argv(&["a", "{}", "{1}", "{a-b}", "}{"]));
        assert_eq!(text(&StartCommandLine, r#"a {"x":1}"#), argv(&["a", "{x:1}"]));
        for (wrong, why) in [
            ("", "it is empty"),
            ("  ", "it is empty"),
            ("a {port}", "`{port}` means nothing here"),
            ("a {url}{URL}", "`{URL}` means nothing here"),
            ("a 'b", "not closed"),
        ] {
            assert!(text(&StartCommandLine, wrong).unwrap_err().0.unwrap().contains(why), "{wrong}");
        }
        assert!(toml(&StartCommandLine, "[]").is_err());
        assert!(toml(&StartCommandLine, "['a', 1]").is_err());
    }
}
