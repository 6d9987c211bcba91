//! Puts greenroom's entry into a JSON file of a client. Only the text of the entry changes: comments, order,
//! indentation, line ends and whatever else stands in the file stay as they are, to the byte.
//!
//! A merge that would lose a comment, or that does not read back as meant, is refused.

use serde_json::{
    Map, Value, json,
    ser::{PrettyFormatter, Serializer},
};

use super::{
    Broken, Entry, Merge, NAME, joined,
    jsonc::{self, Kind, Node, Object},
};

/// The indentation of a file that has none to go by.
const INDENT: &str = "  ";

/// What a file would be that has nothing but the entry.
pub fn alone(section: &str, entry: &Entry) -> String {
    pretty(&json!({ section: { NAME: entry } }), INDENT) + "\n"
}

/// Puts the entry into the section of that name.
pub fn merge(text: &str, section: &str, entry: &Entry) -> Result<Merge, Broken> {
    if text.trim_start_matches('\u{feff}').trim().is_empty() {
        return Ok(Merge::Changed { text: alone(section, entry), replaced: false });
    }
    let root = jsonc::parse(text)?;
    let members = object(text, &root, "the file")?;
    let style = Style::of(text, members);
    let Some(servers) = members.get(section) else {
        let text = style.insert(&root, members, section, &json!({ NAME: entry }));
        return Ok(checked(text, &root, section, entry, false));
    };
    let named = object(text, servers, &format!("`{section}`"))?;
    let Some(old) = named.get(NAME) else {
        let text = style.insert(servers, named, NAME, &Value::Object(entry.clone()));
        return Ok(checked(text, &root, section, entry, false));
    };
    let entry = match &old.kind {
        Kind::Object(object) => joined(&object.to_map(), entry),
        _ => entry.clone(),
    };
    let new = Value::Object(entry.clone());
    if old.to_value() == new {
        return Ok(Merge::Same);
    }
    if jsonc::has_comment(&text[old.span.clone()]) {
        return Ok(Merge::Refused("the entry that is there has comments, which would be lost"));
    }
    Ok(checked(style.replace(old, &new), &root, section, &entry, true))
}

fn object<'a>(text: &str, node: &'a Node, what: &str) -> Result<&'a Object, Broken> {
    match &node.kind {
        Kind::Object(object) => Ok(object),
        _ => Err(Broken::at(text, node.span.start, format!("{what} is not an object"))),
    }
}

/// Reads the result back: it must say what the file said before, and the entry.
fn checked(text: String, before: &Node, section: &str, entry: &Entry, replaced: bool) -> Merge {
    let mut meant = before.to_value();
    if !meant[section].is_object() {
        meant[section] = Value::Object(Map::new());
    }
    meant[section][NAME] = Value::Object(entry.clone());
    match jsonc::parse(&text) {
        Ok(after) if after.to_value() == meant => Merge::Changed { text, replaced },
        _ => Merge::Refused("the file is written in a way that greenroom cannot add to"),
    }
}

/// How a file is written.
struct Style<'a> {
    text: &'a str,
    indent: &'a str,
    line_end: &'static str,
}

impl<'a> Style<'a> {
    fn of(text: &'a str, root: &Object) -> Self {
        let indent = root.members.first().and_then(|member| alone_before(text, member.start));
        Self {
            text,
            indent: indent.filter(|indent| !indent.is_empty()).unwrap_or(INDENT),
            line_end: if text.contains("\r\n") { "\r\n" } else { "\n" },
        }
    }

    /// The file with one more member at the end of an object.
    fn insert(&self, node: &Node, object: &Object, name: &str, value: &Value) -> String {
        let text = self.text;
        let close = node.span.end - 1;
        let outer = line_indent(text, node.span.start);
        // Where the object's content ends: with a member, its comma, or a comment.
        let end = text[..close].trim_end().len();
        let Some(last) = object.members.last() else {
            let inner = format!("{outer}{}", self.indent);
            let member = self.member(name, value, &inner);
            let line_end = self.line_end;
            return format!("{}{line_end}{inner}{member}{line_end}{outer}{}", &text[..end], &text[close..]);
        };
        let value_end = last.value.span.end;
        let (comma, own_comma) = if object.trailing_comma { ("", ",") } else { (",", "") };
        let (before, between) = (&text[..value_end], &text[value_end..end]);
        if !text[node.span.clone()].contains('\n') {
            let name = Value::String(name.to_owned());
            return format!("{before}{comma}{between} {name}: {value}{own_comma}{}", &text[end..]);
        }
        let inner = object.members.iter().rev().find_map(|member| alone_before(text, member.start));
        let inner = inner.map_or_else(|| format!("{outer}{}", self.indent), str::to_owned);
        let member = self.member(name, value, &inner);
        let line_end = self.line_end;
        let tail = if text[end..close].contains('\n') {
            text[end..].to_owned()
        } else {
            format!("{line_end}{outer}{}", &text[close..])
        };
        format!("{before}{comma}{between}{line_end}{inner}{member}{own_comma}{tail}")
    }

    /// The file with another value in the place of one that is there.
    fn replace(&self, node: &Node, value: &Value) -> String {
        let old = &self.text[node.span.clone()];
        let new = if old.contains('\n') {
            self.lines(value, line_indent(self.text, node.span.start))
        } else {
            value.to_string()
        };
        format!("{}{new}{}", &self.text[..node.span.start], &self.text[node.span.end..])
    }

    fn member(&self, name: &str, value: &Value, indent: &str) -> String {
        format!("{}: {}", Value::String(name.to_owned()), self.lines(value, indent))
    }

    /// A value over several lines, all but the first of which begin with `indent`.
    fn lines(&self, value: &Value, indent: &str) -> String {
        pretty(value, self.indent).replace('\n', &format!("{}{indent}", self.line_end))
    }
}

/// The space before a place, if nothing else stands before it on its line.
fn alone_before(text: &str, at: usize) -> Option<&str> {
    let start = text[..at].rfind('\n')? + 1;
    let before = &text[start..at];
    before.trim().is_empty().then_some(before)
}

/// The space that the line of a place begins with.
fn line_indent(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let line = &text[start..at];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

fn pretty(value: &Value, indent: &str) -> String {
    let mut bytes = Vec::new();
    let mut serializer =
        Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(indent.as_bytes()));
    match serde::Serialize::serialize(value, &mut serializer) {
        Ok(()) => String::from_utf8_lossy(&bytes).into_owned(),
        // A value always can be written; one line of it is right too.
        Err(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        let Value::Object(entry) = json!({"command": "/bin/greenroom", "args": ["mcp"]}) else { panic!() };
        entry
    }

    #[track_caller]
    fn check(before: &str, after: &str) {
        match merge(before, "servers", &entry()).unwrap() {
            Merge::Changed { text, .. } => assert_eq!(text, after),
            other => panic!("{other:?}"),
        }
    }

    /// Comments, tabs, trailing commas and a comment in the last line are kept where they are.
    #[test]
    fn only_the_entry_is_added() {
        check(
            "// mine\n{\n\t\"inputs\": [],\n\t\"servers\": {\n\t\t\"a\": {}, // first\n\t\t\"b\": {} // last\n\t},\n}\n",
            "// mine\n{\n\t\"inputs\": [],\n\t\"servers\": {\n\t\t\"a\": {}, // first\n\t\t\"b\": {}, // last\n\t\t\"greenroom\": {\n\
             \t\t\t\"command\": \"/bin/greenroom\",\n\t\t\t\"args\": [\n\t\t\t\t\"mcp\"\n\t\t\t]\n\t\t}\n\t},\n}\n",
        );
        check(
            "{\n    \"servers\": {\n        \"a\": 1e400,\n    }\n}".replace("1e400", "1").as_str(),
            "{\n    \"servers\": {\n        \"a\": 1,\n        \"greenroom\": {\n            \"command\": \"/bin/greenroom\",\n            \
             \"args\": [\n                \"mcp\"\n            ]\n        },\n    }\n}",
        );
    }

    /// Objects without members, with a comment only, or on one line are added to as they are.
    #[test]
    fn odd_objects() {
        let one = "\"greenroom\": {\"command\":\"/bin/greenroom\",\"args\":[\"mcp\"]}";
        check("{\"servers\":{\"a\":1}}", &format!("{{\"servers\":{{\"a\":1, {one}}}}}"));
        check("{\"servers\":{\"a\":1,}}", &format!("{{\"servers\":{{\"a\":1, {one},}}}}"));
        let lines = "\n  \"servers\": {\n    \"greenroom\": {\n      \"command\": \"/bin/greenroom\",\n      \"args\": [\n        \
                     \"mcp\"\n      ]\n    }\n  }\n";
        check("{}", &format!("{{{lines}}}"));
        check("{ /* none */ }\n", &format!("{{ /* none */{lines}}}\n"));
        check("{\r\n}", &format!("{{{lines}}}").replace('\n', "\r\n"));
        check(" \n", &format!("{{{lines}}}\n"));
    }

    /// Replacing keeps what the user added to the entry, unless it belongs to the other transport; a comment
    /// inside is not thrown away.
    #[test]
    fn replacing() {
        check(
            "{\"servers\": {\"greenroom\": {\"command\":\"old\",\"args\":[],\"env\":{\"A\":\"b\"}}}}",
            "{\"servers\": {\"greenroom\": {\"command\":\"/bin/greenroom\",\"args\":[\"mcp\"],\"env\":{\"A\":\"b\"}}}}",
        );
        check(
            "{\"servers\": {\"greenroom\": {\"url\":\"http://x/mcp\",\"headers\":{}}}}",
            "{\"servers\": {\"greenroom\": {\"command\":\"/bin/greenroom\",\"args\":[\"mcp\"]}}}",
        );
        let same = "{\"servers\": {\"greenroom\": {\"args\":[\"mcp\"],\"command\":\"/bin/greenroom\",\"disabled\":false}}}";
        assert!(matches!(merge(same, "servers", &entry()), Ok(Merge::Same)));
        let comment = "{\"servers\": {\"greenroom\": {\"command\":\"old\" /* mine */}}}";
        assert!(matches!(merge(comment, "servers", &entry()), Ok(Merge::Refused(_))));
    }

    /// A file of another shape is named, not overwritten.
    #[test]
    fn other_shapes() {
        for (text, message) in [
            ("[]", "line 1, column 1: the file is not an object"),
            ("{\n\"servers\": null}", "line 2, column 12: `servers` is not an object"),
        ] {
            assert_eq!(merge(text, "servers", &entry()).unwrap_err().to_string(), message);
        }
    }
}
