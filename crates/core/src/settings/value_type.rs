//! Kinds of values: how each is read from text and from TOML, shown, and described. `table.rs` names the kind of each
//! setting; paths, durations, lists, choices and sizes have files of their own.
//!
//! Environment, `.env` and flags give text, which has no types; so text may be written in more ways than TOML.

use std::{ops::RangeInclusive, path::Path};

use serde_json::Value as Json;

/// One value as it was written.
#[derive(Clone, Copy)]
pub(super) struct GivenValue<'a> {
    pub written: GivenForm<'a>,
    /// The folder that a relative path starts from: the config file's own, else the working directory.
    pub base: &'a Path,
}

#[derive(Clone, Copy)]
pub(super) enum GivenForm<'a> {
    Text(&'a str),
    Toml(&'a toml::Value),
}

impl<'a> GivenValue<'a> {
    /// The value as text, if it is text in either form.
    pub(super) fn text(self) -> Option<&'a str> {
        match self.written {
            GivenForm::Text(text) => Some(text),
            GivenForm::Toml(value) => value.as_str(),
        }
    }

    /// The value for a message, with control characters made visible: it may come from a foreign file.
    pub(super) fn display(self) -> String {
        match self.written {
            GivenForm::Text(text) => {
                text.escape_debug().to_string().replace("\\\"", "\"").replace("\\'", "'")
            }
            GivenForm::Toml(value) => display(value),
        }
    }
}

/// A TOML value for a message. A list of tables is a pool or an instance in the wrong form, which may hold passwords.
pub(super) fn display(value: &toml::Value) -> String {
    let tables = value.as_array().is_some_and(|items| items.iter().any(toml::Value::is_table));
    if tables { "[{ … }]".to_owned() } else { value.to_string() }
}

/// The value is not allowed. Carries the reason where the description of allowed values does not show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InvalidValue(pub Option<String>);

/// How a setting is given on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlagShape {
    /// The flag alone means `true`.
    Switch,
    /// One value, shown under this name.
    One(String),
    /// Several values: the flag may be repeated.
    Many(String),
    /// No flag: every user of a machine can read its command lines, and the value is a secret.
    None,
}

pub(super) trait ValueType {
    type Value;
    fn parse(&self, given: GivenValue<'_>) -> Result<Self::Value, InvalidValue>;
    /// The value as people write it, without its secrets.
    fn show(&self, value: &Self::Value) -> String;
    /// A wrong value for a message, without its secrets.
    fn show_wrong(&self, given: GivenValue<'_>) -> String {
        given.display()
    }
    /// The allowed values, worded to follow "expected" in an error.
    fn allowed(&self) -> String;
    fn shape(&self) -> FlagShape;
    fn json(&self, value: &Self::Value) -> Json {
        Json::String(self.show(value))
    }
    /// The value as a number, if it is one: a lower limit is stricter.
    fn amount(&self, _: &Self::Value) -> Option<u64> {
        None
    }
}

/// Yes or no.
pub(super) struct Switch;

impl ValueType for Switch {
    type Value = bool;

    fn parse(&self, given: GivenValue<'_>) -> Result<bool, InvalidValue> {
        match given.written {
            GivenForm::Toml(value) => value.as_bool(),
            GivenForm::Text(text) => match text.to_ascii_lowercase().as_str() {
                "true" | "1" | "yes" | "on" => Some(true),
                "false" | "0" | "no" | "off" => Some(false),
                _ => None,
            },
        }
        .ok_or(InvalidValue(None))
    }

    fn show(&self, value: &bool) -> String {
        value.to_string()
    }

    fn json(&self, value: &bool) -> Json {
        Json::Bool(*value)
    }

    fn allowed(&self) -> String {
        "`true` or `false`".to_owned()
    }

    fn shape(&self) -> FlagShape {
        FlagShape::Switch
    }
}

/// A whole number within bounds.
pub(super) struct WholeNumber(pub RangeInclusive<usize>);

impl ValueType for WholeNumber {
    type Value = usize;

    fn parse(&self, given: GivenValue<'_>) -> Result<usize, InvalidValue> {
        match given.written {
            GivenForm::Toml(value) => value.as_integer().and_then(|number| usize::try_from(number).ok()),
            GivenForm::Text(text) => text.parse().ok(),
        }
        .filter(|number| self.0.contains(number))
        .ok_or(InvalidValue(None))
    }

    fn show(&self, value: &usize) -> String {
        value.to_string()
    }

    fn json(&self, value: &usize) -> Json {
        Json::from(*value)
    }

    fn allowed(&self) -> String {
        format!("a whole number from {} to {}", self.0.start(), self.0.end())
    }

    fn amount(&self, value: &usize) -> Option<u64> {
        u64::try_from(*value).ok()
    }

    fn shape(&self) -> FlagShape {
        FlagShape::One("NUMBER".to_owned())
    }
}

/// A line of text, with the name its value has in `--help`.
pub(super) struct TextLine(pub &'static str);

impl ValueType for TextLine {
    type Value = String;

    fn parse(&self, given: GivenValue<'_>) -> Result<String, InvalidValue> {
        match given.text() {
            Some(text) if !text.trim().is_empty() && !text.contains(char::is_control) => Ok(text.to_owned()),
            _ => Err(InvalidValue(None)),
        }
    }

    fn show(&self, value: &String) -> String {
        value.clone()
    }

    fn allowed(&self) -> String {
        "one line of text".to_owned()
    }

    fn shape(&self) -> FlagShape {
        FlagShape::One(self.0.to_owned())
    }
}

/// What is logged: a level, or levels by module.
pub(super) struct LogFilter;

impl LogFilter {
    /// Whether a part of a filter is valid. A word that is neither a level nor a module of greenroom's is a mistyped level,
    /// which would silence everything else.
    fn is_part(part: &str) -> bool {
        let is_level = |word: &str| {
            ["off", "error", "warn", "info", "debug", "trace"]
                .iter()
                .any(|level| word.eq_ignore_ascii_case(level))
        };
        match part.trim().rsplit_once('=') {
            Some((module, level)) => !module.is_empty() && is_level(level),
            None => is_level(part.trim()) || part.trim().starts_with("greenroom"),
        }
    }
}

impl ValueType for LogFilter {
    type Value = String;

    fn parse(&self, given: GivenValue<'_>) -> Result<String, InvalidValue> {
        match given.text() {
            Some(text) if text.split(',').all(Self::is_part) && !text.contains(char::is_control) => {
                Ok(text.to_owned())
            }
            _ => Err(InvalidValue(None)),
        }
    }

    fn show(&self, value: &String) -> String {
        value.clone()
    }

    fn allowed(&self) -> String {
        "a level (`off`, `error`, `warn`, `info`, `debug`, `trace`), or a filter such as `info,greenroom_fleet=debug`"
            .to_owned()
    }

    fn shape(&self) -> FlagShape {
        FlagShape::One("FILTER".to_owned())
    }
}

/// A value that may be absent, and the word for that. Empty text says the same, so that `NAME=` in a compose file
/// unsets what a lower source has set.
pub(super) struct OrWord<K>(pub &'static str, pub K);

impl<K: ValueType> ValueType for OrWord<K> {
    type Value = Option<K::Value>;

    fn parse(&self, given: GivenValue<'_>) -> Result<Self::Value, InvalidValue> {
        match given.text() {
            Some(text) if text.is_empty() || text == self.0 => Ok(None),
            _ => self.1.parse(given).map(Some),
        }
    }

    fn show(&self, value: &Self::Value) -> String {
        value.as_ref().map_or_else(|| self.0.to_owned(), |value| self.1.show(value))
    }

    fn show_wrong(&self, given: GivenValue<'_>) -> String {
        self.1.show_wrong(given)
    }

    fn json(&self, value: &Self::Value) -> Json {
        value.as_ref().map_or(Json::Null, |value| self.1.json(value))
    }

    fn allowed(&self) -> String {
        format!("{}, or `{}`", self.1.allowed(), self.0)
    }

    fn amount(&self, value: &Self::Value) -> Option<u64> {
        value.as_ref().and_then(|value| self.1.amount(value))
    }

    fn shape(&self) -> FlagShape {
        self.1.shape()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Reads text as the environment and flags give it, from the folder `/base`.
    pub(in crate::settings) fn text<K: ValueType>(kind: &K, text: &str) -> Result<K::Value, InvalidValue> {
        kind.parse(GivenValue { written: GivenForm::Text(text), base: Path::new("/base") })
    }

    /// Reads a TOML value.
    pub(in crate::settings) fn toml<K: ValueType>(kind: &K, value: &str) -> Result<K::Value, InvalidValue> {
        let table: toml::Table = format!("value = {value}").parse().unwrap();
        kind.parse(GivenValue { written: GivenForm::Toml(&table["value"]), base: Path::new("/base") })
    }

    /// Switches take the usual words as text, and booleans only in TOML.
    #[test]
    fn switches_accept_the_usual_words() {
        for (written, value) in
            [("true", true), ("1", true), ("Yes", true), ("FALSE", false), ("0", false), ("off", false)]
        {
            assert_eq!(text(&Switch, written), Ok(value), "{written}");
        }
        assert_eq!(text(&Switch, "maybe"), Err(InvalidValue(None)));
        assert_eq!(text(&Switch, ""), Err(InvalidValue(None)));
        assert_eq!(toml(&Switch, "true"), Ok(true));
        assert_eq!(toml(&Switch, "\"true\""), Err(InvalidValue(None)));
        assert_eq!(toml(&Switch, "1"), Err(InvalidValue(None)));
    }

    /// Levels and filters are accepted; a mistyped level is not taken for a module's name, which would silence the log.
    #[test]
    fn mistyped_log_levels_are_refused() {
        for filter in
            ["warn", "OFF", "info,greenroom_fleet=debug", "greenroom_mcp", "hyper::client=trace, error"]
        {
            assert_eq!(text(&LogFilter, filter), Ok(filter.to_owned()));
        }
        for odd in ["inffo", "verbose", "nonsense=,,", "info,", "", "=info", "info,greenroom=loud", "info\n"]
        {
            assert_eq!(text(&LogFilter, odd), Err(InvalidValue(None)), "{odd}");
        }
    }

    /// Both ends of a range are exact; signs, fractions and TOML strings are not whole numbers.
    #[test]
    fn whole_numbers_are_checked_against_their_range() {
        let kind = WholeNumber(1..=256);
        assert_eq!((text(&kind, "1"), text(&kind, "256")), (Ok(1), Ok(256)));
        for wrong in ["0", "257", "-1", "1.5", "", "many"] {
            assert_eq!(text(&kind, wrong), Err(InvalidValue(None)), "{wrong}");
        }
        assert_eq!(toml(&kind, "16"), Ok(16));
        for wrong in ["-1", "\"16\"", "16.0", "true"] {
            assert_eq!(toml(&kind, wrong), Err(InvalidValue(None)), "{wrong}");
        }
    }

    /// Text is one line with something on it.
    #[test]
    fn text_is_one_nonempty_line() {
        assert_eq!(text(&TextLine("X"), "Mozilla/5.0 (X11)"), Ok("Mozilla/5.0 (X11)".to_owned()));
        for wrong in ["", "  ", "two\nlines", "bell\u{7}"] {
            assert_eq!(text(&TextLine("X"), wrong), Err(InvalidValue(None)), "{wrong:?}");
        }
        assert_eq!(toml(&TextLine("X"), "3"), Err(InvalidValue(None)));
    }

    /// An optional value is absent by its word or by empty text, and otherwise as strict as its kind.
    #[test]
    fn optional_value_is_absent_by_its_word_or_empty_text() {
        let kind = OrWord("auto", Switch);
        assert_eq!(
            (text(&kind, "auto"), text(&kind, ""), text(&kind, "true")),
            (Ok(None), Ok(None), Ok(Some(true)))
        );
        assert_eq!((toml(&kind, "\"auto\""), toml(&kind, "false")), (Ok(None), Ok(Some(false))));
        assert_eq!(toml(&kind, "\"false\""), Err(InvalidValue(None)));
        assert_eq!((kind.show(&None), kind.json(&None)), ("auto".to_owned(), Json::Null));
        assert_eq!(kind.allowed(), "`true` or `false`, or `auto`");
    }
}
