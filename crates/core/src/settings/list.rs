//! Settings with several values. In TOML they are arrays. As text they are separated by commas, the command by
//! spaces; each also accepts a JSON array, which is how lists are shown.

use globset::Glob;
use serde_json::Value as Json;

use super::value_type::{FlagShape, GivenForm, GivenValue, InvalidValue, ValueType};

/// Several values of one kind.
pub(super) struct Many<K>(pub K);

impl<K: ValueType> ValueType for Many<K> {
    type Value = Vec<K::Value>;

    fn parse(&self, given: GivenValue<'_>) -> Result<Self::Value, InvalidValue> {
        items(given, |text| Ok(split_at_commas(text)))?
            .iter()
            .map(|item| {
                let parsed = self.0.parse(GivenValue { written: GivenForm::Text(item), base: given.base });
                parsed.map_err(|InvalidValue(why)| {
                    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
                    InvalidValue(Some(format!("`{}` is not one of them{why}", item.escape_debug())))
                })
            })
            .collect()
    }

    fn show(&self, value: &Self::Value) -> String {
        self.json(value).to_string()
    }

    fn json(&self, value: &Self::Value) -> Json {
        value.iter().map(|item| self.0.json(item)).collect()
    }

    fn allowed(&self) -> String {
        format!("a list; each entry is {}", self.0.allowed())
    }

    fn shape(&self) -> FlagShape {
        match self.0.shape() {
            FlagShape::One(name) | FlagShape::Many(name) => FlagShape::Many(name),
            FlagShape::Switch => FlagShape::Many("BOOL".to_owned()),
            FlagShape::None => FlagShape::None,
        }
    }
}

/// Patterns over tool names, checked here so that an invalid one stops the start and not the first call.
pub(super) struct Globs;

impl ValueType for Globs {
    type Value = Vec<String>;

    fn parse(&self, given: GivenValue<'_>) -> Result<Vec<String>, InvalidValue> {
        let patterns = items(given, |text| Ok(split_at_commas(text)))?;
        for pattern in &patterns {
            Glob::new(pattern).map_err(|error| InvalidValue(Some(error.to_string())))?;
        }
        Ok(patterns)
    }

    fn show(&self, value: &Vec<String>) -> String {
        self.json(value).to_string()
    }

    fn json(&self, value: &Vec<String>) -> Json {
        Json::from(value.clone())
    }

    fn allowed(&self) -> String {
        "a list of globs such as `browser_*`".to_owned()
    }

    fn shape(&self) -> FlagShape {
        FlagShape::Many("GLOB".to_owned())
    }
}

/// A program and its arguments.
pub(super) struct Argv;

impl ValueType for Argv {
    type Value = Vec<String>;

    fn parse(&self, given: GivenValue<'_>) -> Result<Vec<String>, InvalidValue> {
        let argv = items(given, split_command)?;
        if argv.first().is_some_and(String::is_empty) {
            return Err(InvalidValue(Some("the program's name is empty".to_owned())));
        }
        if argv.iter().any(|word| word.contains('\0')) {
            return Err(InvalidValue(None));
        }
        Ok(argv)
    }

    fn show(&self, value: &Vec<String>) -> String {
        self.json(value).to_string()
    }

    fn json(&self, value: &Vec<String>) -> Json {
        Json::from(value.clone())
    }

    fn allowed(&self) -> String {
        "a program and its arguments, as a list or as text such as `node \"my server.js\"`".to_owned()
    }

    fn shape(&self) -> FlagShape {
        FlagShape::One("COMMAND".to_owned())
    }
}

/// The items of a TOML array or a JSON array of strings; any other text is split.
pub(super) fn items(
    given: GivenValue<'_>,
    split: fn(&str) -> Result<Vec<String>, InvalidValue>,
) -> Result<Vec<String>, InvalidValue> {
    match given.written {
        GivenForm::Toml(value) => value
            .as_array()
            .and_then(|array| array.iter().map(|item| item.as_str().map(str::to_owned)).collect())
            .ok_or(InvalidValue(Some("in TOML a list is an array of strings".to_owned()))),
        GivenForm::Text(text) => serde_json::from_str(text).or_else(|_| split(text)),
    }
}

/// Splits at commas, but not at those within the braces of a glob. Empty items are dropped.
pub(super) fn split_at_commas(text: &str) -> Vec<String> {
    let mut depth = 0_usize;
    text.split(|c| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(|item| item.trim().to_owned())
    .filter(|item| !item.is_empty())
    .collect()
}

/// Splits at white space. Single quotes keep everything; double quotes keep everything but `\"` and `\\`.
fn split_command(text: &str) -> Result<Vec<String>, InvalidValue> {
    if text.trim_start().starts_with('[') {
        return Err(InvalidValue(Some("it starts as a JSON array, but is no array of strings".to_owned())));
    }
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (Some(open), c) if c == open => quote = None,
            (Some('"'), '\\') if matches!(chars.peek(), Some('"' | '\\')) => {
                word.get_or_insert_default().extend(chars.next());
            }
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(InvalidValue(Some("a quote is not closed".to_owned())));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{
        choice::{Cap, Choice},
        value_type::tests::{text, toml},
    };

    fn strings(items: &[&str]) -> Result<Vec<String>, InvalidValue> {
        Ok(items.iter().map(|item| (*item).to_owned()).collect())
    }

    /// Globs are split at commas outside braces, and a bad one is refused with its reason.
    #[test]
    fn globs_are_split_at_commas_outside_braces() {
        assert_eq!(text(&Globs, "browser_*, -x ,"), strings(&["browser_*", "-x"]));
        assert_eq!(text(&Globs, "browser_{click,type},other"), strings(&["browser_{click,type}", "other"]));
        assert_eq!(text(&Globs, ""), strings(&[]));
        assert_eq!(text(&Globs, "[ab]*"), strings(&["[ab]*"]), "a class is no JSON array");
        assert_eq!((text(&Globs, "[\"a\",\"b\"]"), text(&Globs, "[]")), (strings(&["a", "b"]), strings(&[])));
        assert_eq!(toml(&Globs, "[\"a\", \"b,c\"]"), strings(&["a", "b,c"]));
        assert!(text(&Globs, "a[").unwrap_err().0.unwrap().contains("a["));
        for wrong in ["\"a,b\"", "[1]", "true"] {
            assert!(toml(&Globs, wrong).is_err(), "{wrong}");
        }
    }

    /// The error for a list of words names the item that is not allowed.
    #[test]
    fn word_list_errors_name_the_item() {
        let kind = Many(Choice::<Cap>::ANY);
        assert_eq!(text(&kind, "pdf,vision"), Ok(vec![Cap::Pdf, Cap::Vision]));
        assert_eq!(toml(&kind, "[\"pdf\"]"), Ok(vec![Cap::Pdf]));
        assert_eq!(
            text(&kind, "pdf,bogus"),
            Err(InvalidValue(Some("`bogus` is not one of them".to_owned())))
        );
        assert_eq!(kind.show(&vec![Cap::Pdf, Cap::Vision]), r#"["pdf","vision"]"#);
    }

    /// A command is split as a shell does it, without a shell; a JSON array is taken as it is.
    #[test]
    fn commands_are_split_as_by_a_shell() {
        assert_eq!(
            text(&Argv, r#"node  "my server.js" --x='a "b"' ''"#),
            strings(&["node", "my server.js", "--x=a \"b\"", ""])
        );
        assert_eq!(text(&Argv, r#"a "b\"c\\d\e" f\g"#), strings(&["a", r#"b"c\d\e"#, r"f\g"]));
        assert_eq!(text(&Argv, r#"["a b", "c"]"#), strings(&["a b", "c"]));
        assert_eq!(text(&Argv, "$HOME/x | y"), strings(&["$HOME/x", "|", "y"]));
        assert_eq!(toml(&Argv, r#"["a", "b c"]"#), strings(&["a", "b c"]));
        for (wrong, why) in [("node 'x", "not closed"), ("[\"a\", 1]", "JSON array"), ("'' x", "empty")] {
            assert!(text(&Argv, wrong).unwrap_err().0.unwrap().contains(why), "{wrong}");
        }
        assert!(toml(&Argv, "\"node x\"").is_err());
    }
}
