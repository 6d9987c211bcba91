//! Puts greenroom's entry into a JSON file of a client. Only the entry changes: comments, order, indentation, line ends and
//! the rest of the file stay as they are. An object that is written on one line gets a line for each member.
//!
//! A merge that would lose a comment, or that does not read back as intended, is refused.

use jsonc_parser::{
    ParseOptions,
    cst::{CstInputValue, CstNode, CstObject, CstRootNode},
};
use serde_json::{Map, Value, json};

use super::{BrokenFile, EntryScope, MergeOutcome, NAME, ServerEntry, replacement};

/// The extensions of JSON that editors accept in these files, and no more.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Some editors, mostly on Windows, begin their files with it.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The text of a file with nothing but the entry.
pub fn new_file_text(section: &str, entry: &ServerEntry) -> String {
    let value = json!({ section: { NAME: entry } });
    // Writing a JSON value does not fail; the fallback is the same JSON on one line.
    serde_json::to_string_pretty(&value).unwrap_or_else(|_| value.to_string()) + "\n"
}

/// Puts the entry into the section of that name, or into the section's member `inner`, if the file has that.
pub fn merge(
    text: &str,
    section: &str,
    inner: Option<&str>,
    scope: EntryScope,
    entry: &ServerEntry,
) -> Result<MergeOutcome, BrokenFile> {
    let rest = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let mark = &text[..text.len() - rest.len()];
    if rest.trim().is_empty() {
        return Ok(MergeOutcome::Changed { text: new_file_text(section, entry), replaced: false });
    }
    let root = parse(rest)?;
    let before = root.to_serde_value().unwrap_or_default();
    let members =
        root.value().and_then(|value| value.as_object()).ok_or_else(|| not_an_object("the file"))?;
    let Some(servers) = member(&members, section) else {
        members.append(section, input(&json!({ NAME: entry })));
        return Ok(checked(mark, &root, before, &[section], entry, false));
    };
    let mut servers = servers.as_object().ok_or_else(|| not_an_object(&format!("`{section}`")))?;
    let mut path = vec![section];
    if let Some(inner) = inner
        && let Some(nested) = member(&servers, inner).and_then(|nested| nested.as_object())
        // One with a type is a server that happens to have this name.
        && member(&nested, "type").is_none_or(|kind| kind.as_object().is_some())
    {
        servers = nested;
        path.push(inner);
    }
    let Some(old) = member(&servers, NAME) else {
        servers.append(NAME, input(&Value::Object(entry.clone())));
        return Ok(checked(mark, &root, before, &path, entry, false));
    };
    let entry = match old.to_serde_value() {
        Some(Value::Object(old)) => replacement(&old, entry, scope),
        _ => entry.clone(),
    };
    let new = Value::Object(entry.clone());
    if old.to_serde_value().as_ref() == Some(&new) {
        return Ok(MergeOutcome::Same);
    }
    if has_comment(&old) {
        return Ok(MergeOutcome::Refused("the entry that is there has comments, which would be lost"));
    }
    if let Some(property) = old.parent().and_then(|parent| parent.as_object_prop()) {
        property.set_value(input(&new));
    }
    Ok(checked(mark, &root, before, &path, &entry, true))
}

fn parse(text: &str) -> Result<CstRootNode, BrokenFile> {
    CstRootNode::parse(text, &OPTIONS).map_err(|error| {
        let position = (error.line_display(), error.column_display());
        let mut message = error.kind().to_string();
        if let Some(first) = message.get_mut(..1) {
            first.make_ascii_lowercase();
        }
        BrokenFile { position: Some(position), message }
    })
}

fn not_an_object(what: &str) -> BrokenFile {
    BrokenFile { position: None, message: format!("{what} is not an object") }
}

/// The value of this member; of several the last one, which counts for every client.
fn member(object: &CstObject, name: &str) -> Option<CstNode> {
    let properties = object.properties();
    properties.iter().rfind(|property| property.decoded_name().as_deref() == Some(name))?.value()
}

fn has_comment(node: &CstNode) -> bool {
    node.is_comment() || node.children().iter().any(has_comment)
}

/// Reads the result back: it must have the file's former content and the entry.
fn checked(
    mark: &str,
    root: &CstRootNode,
    before: Value,
    path: &[&str],
    entry: &ServerEntry,
    replaced: bool,
) -> MergeOutcome {
    let mut expected = before;
    let mut servers = &mut expected;
    for name in path {
        servers = &mut servers[*name];
        if !servers.is_object() {
            *servers = Value::Object(Map::new());
        }
    }
    servers[NAME] = Value::Object(entry.clone());
    let text = root.to_string();
    match parse(&text) {
        Ok(after) if after.to_serde_value().as_ref() == Some(&expected) => {
            MergeOutcome::Changed { text: format!("{mark}{text}"), replaced }
        }
        _ => MergeOutcome::Refused("the file is written in a way that greenroom cannot add to"),
    }
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(members) => {
            CstInputValue::Object(members.iter().map(|(name, value)| (name.clone(), input(value))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> ServerEntry {
        let Value::Object(entry) = json!({"command": "/bin/greenroom", "args": ["mcp"]}) else { panic!() };
        entry
    }

    #[track_caller]
    fn check(before: &str, after: &str) {
        match merge(before, "servers", None, EntryScope::User, &entry()).unwrap() {
            MergeOutcome::Changed { text, .. } => assert_eq!(text, after),
            other => panic!("{other:?}"),
        }
    }

    /// Comments, tabs, trailing commas and a comment in the last line are kept where they are.
    #[test]
    fn only_the_entry_is_added() {
        check(
            "// mine\n{\n\t\"inputs\": [],\n\t\"servers\": {\n\t\t\"a\": {}, // first\n\t\t\"b\": {} // last\n\t},\n}\n",
            "// mine\n{\n\t\"inputs\": [],\n\t\"servers\": {\n\t\t\"a\": {}, // first\n\t\t\"b\": {}, // last\n\t\t\"greenroom\": {\n\
             \t\t\t\"command\": \"/bin/greenroom\",\n\t\t\t\"args\": [\"mcp\"]\n\t\t}\n\t},\n}\n",
        );
        check(
            "{\n    \"servers\": {\n        \"a\": 1e400,\n    }\n}".replace("1e400", "1").as_str(),
            "{\n    \"servers\": {\n        \"a\": 1,\n        \"greenroom\": {\n            \"command\": \"/bin/greenroom\",\n            \
             \"args\": [\"mcp\"],\n        },\n    }\n}",
        );
    }

    /// The entry is added to objects without members or with only a comment; an object on one line gets a line per member.
    #[test]
    fn empty_and_one_line_objects_are_added_to() {
        let entry =
            "\"greenroom\": {\n      \"command\": \"/bin/greenroom\",\n      \"args\": [\"mcp\"]\n    }";
        let lines = format!("{{\"servers\":{{\n    \"a\":1,\n    {entry}\n  }}}}");
        check("{\"servers\":{\"a\":1}}", &lines);
        check("\u{feff}{\"servers\":{\"a\":1}}", &format!("\u{feff}{lines}"));
        check("{\"servers\":{\"a\":1,}}", &lines.replace("]", "],").replace("    }\n", "    },\n"));
        let lines = format!("\n  \"servers\": {{\n    {entry}\n  }}\n");
        check("{}", &format!("{{{lines}}}"));
        check("{\r\n}", &format!("{{{lines}}}").replace('\n', "\r\n"));
        let commented = merge("{ /* none */ }\n", "servers", None, EntryScope::User, &self::entry()).unwrap();
        let MergeOutcome::Changed { text, .. } = commented else { panic!("{commented:?}") };
        assert!(text.contains("/* none */"), "{text}");
        let MergeOutcome::Changed { text, .. } =
            merge(" \n", "servers", None, EntryScope::User, &self::entry()).unwrap()
        else {
            panic!()
        };
        assert_eq!(text, new_file_text("servers", &self::entry()));
    }

    /// Replacing keeps what the user added to the entry, unless it belongs to the other transport; an entry with a comment
    /// is not replaced.
    #[test]
    fn replacing_keeps_what_the_user_added() {
        let one = "\n      \"command\": \"/bin/greenroom\",\n      \"args\": [\"mcp\"]";
        check(
            "{\"servers\": {\"greenroom\": {\"command\":\"old\",\"args\":[],\"env\":{\"A\":\"b\"}}}}",
            &format!(
                "{{\"servers\": {{\"greenroom\": {{{one},\n      \"env\": {{\n        \"A\": \"b\"\n      }}\n    }}}}}}"
            ),
        );
        check(
            "{\"servers\": {\"greenroom\": {\"url\":\"http://x/mcp\",\"headers\":{}}}}",
            &format!("{{\"servers\": {{\"greenroom\": {{{one}\n    }}}}}}"),
        );
        let same = "{\"servers\": {\"greenroom\": {\"args\":[\"mcp\"],\"command\":\"/bin/greenroom\",\"disabled\":false}}}";
        assert!(matches!(merge(same, "servers", None, EntryScope::User, &entry()), Ok(MergeOutcome::Same)));
        let foreign = "{\"servers\": {\"greenroom\": {\"command\":\"old\",\"env\":{\"GREENROOM_POOL_COMMAND\":\"touch x\"}}}}";
        let project = merge(foreign, "servers", None, EntryScope::Project, &entry()).unwrap();
        let MergeOutcome::Changed { text, replaced: true } = project else { panic!("{project:?}") };
        assert!(!text.contains("env"), "what came with a project does not stay: {text}");
        let comment = "{\"servers\": {\"greenroom\": {\"command\":\"old\" /* mine */}}}";
        assert!(matches!(
            merge(comment, "servers", None, EntryScope::User, &entry()),
            Ok(MergeOutcome::Refused(_))
        ));
    }

    /// The error for a file of another shape or with a mistake names it; the file is not overwritten, and nothing panics.
    #[test]
    fn broken_files_are_named_and_kept() {
        for (text, message) in [
            ("[]", "the file is not an object"),
            ("{\n\"servers\": null}", "`servers` is not an object"),
            ("// nothing", "the file is not an object"),
            ("{\n  \"a\": 1\n  \"b\": 2\n}", "line 2, column 9: expected comma"),
            ("{a: 1}", "line 1, column 2: expected string for object property"),
            ("{'a': 1}", "line 1, column 2: single-quoted strings are not allowed"),
            ("{\"a\": 0x1}", "line 1, column 7: hexadecimal numbers are not allowed"),
            ("{} /* x", "line 1, column 4: unterminated comment block"),
            ("{} {}", "line 1, column 4: text cannot contain more than one JSON value"),
            ("{\"a\": 1", "line 1, column 1: unterminated object"),
        ] {
            assert_eq!(
                merge(text, "servers", None, EntryScope::User, &entry()).unwrap_err().to_string(),
                message,
                "{text}"
            );
        }
        let deep = "[".repeat(100_000);
        assert!(
            merge(&deep, "servers", None, EntryScope::User, &entry())
                .unwrap_err()
                .to_string()
                .contains("nesting")
        );
    }

    /// Of several members with one name the last one counts, and a string that looks like a comment is not one.
    #[test]
    fn the_last_member_of_a_name_counts() {
        let twice = "{\"servers\": 1, \"servers\": {\"greenroom\": {\"command\": \"http://x /* y */\"}}}";
        let MergeOutcome::Changed { replaced, .. } =
            merge(twice, "servers", None, EntryScope::User, &entry()).unwrap()
        else {
            panic!()
        };
        assert!(replaced);
    }

    /// The entry goes into the inner section where the file has one; a server of that name is none.
    #[test]
    fn inner_section_is_used_where_it_exists() {
        let merged =
            |text: &str| match merge(text, "mcp", Some("servers"), EntryScope::User, &entry()).unwrap() {
                MergeOutcome::Changed { text, .. } => serde_json::from_str::<Value>(&text).unwrap(),
                other => panic!("{other:?}"),
            };
        let entry = Value::Object(entry());
        assert_eq!(merged("{}")["mcp"], json!({"greenroom": entry}));
        let nested = merged(r#"{"mcp": {"servers": {"a": {}}, "timeout": 1}}"#);
        assert_eq!(nested["mcp"], json!({"servers": {"a": {}, "greenroom": entry}, "timeout": 1}));
        let server = merged(r#"{"mcp": {"servers": {"type": "local"}}}"#);
        assert_eq!(server["mcp"], json!({"servers": {"type": "local"}, "greenroom": entry}));
    }
}
