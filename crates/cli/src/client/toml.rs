//! Puts greenroom's entry into a TOML file of a client. Comments, order and spelling of everything else stay.
//!
//! A merge that would lose a comment, or that does not read back as intended, is refused.

use serde_json::Value as Json;
use toml_edit::{Array, DocumentMut, Item, Table, TableLike, Value, value};

use super::{BrokenFile, EntryScope, MergeOutcome, NAME, ServerEntry, replacement};

/// The text of a file with nothing but the entry.
pub fn new_file_text(section: &str, entry: &ServerEntry) -> String {
    let mut servers = Table::new();
    // `[mcp_servers.greenroom]` is enough; the outer table needs no header of its own.
    servers.set_implicit(true);
    servers.insert(NAME, Item::Table(table(entry)));
    let mut document = DocumentMut::new();
    document.insert(section, Item::Table(servers));
    document.to_string()
}

/// Puts the entry into the table of that name.
pub fn merge(
    text: &str,
    section: &str,
    scope: EntryScope,
    entry: &ServerEntry,
) -> Result<MergeOutcome, BrokenFile> {
    if text.trim_start_matches('\u{feff}').trim().is_empty() {
        return Ok(MergeOutcome::Changed { text: new_file_text(section, entry), replaced: false });
    }
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        // The library's message may have several lines.
        let message = error.message().split('\n').collect::<Vec<_>>().join("; ");
        BrokenFile::at(text, error.span().map_or(0, |span| span.start), message)
    })?;
    let before = to_json(document.as_item());
    let servers = servers(&mut document, text, section)?;
    let (entry, replaced) = match servers.get_mut(NAME) {
        None => {
            let mut table = table(entry);
            table.decor_mut().set_prefix("\n");
            servers.insert(NAME, Item::Table(table));
            (entry.clone(), false)
        }
        Some(old) => {
            let was = to_json(old);
            let entry = was.as_object().map_or_else(|| entry.clone(), |was| replacement(was, entry, scope));
            if was == Json::Object(entry.clone()) {
                return Ok(MergeOutcome::Same);
            }
            if old.to_string().contains('#') {
                return Ok(MergeOutcome::Refused(
                    "the entry that is there has comments, which could be lost",
                ));
            }
            rewrite(old, &entry);
            (entry, true)
        }
    };
    let text = with_line_ends_of(text, document.to_string());
    Ok(checked(text, before, section, &entry, replaced))
}

/// The table of all servers, made if there is none.
fn servers<'a>(
    document: &'a mut DocumentMut,
    text: &str,
    section: &str,
) -> Result<&'a mut dyn TableLike, BrokenFile> {
    let item = document.entry(section).or_insert_with(|| {
        let mut servers = Table::new();
        servers.set_implicit(true);
        Item::Table(servers)
    });
    let at = item.span().map_or(0, |span| span.start);
    item.as_table_like_mut()
        .ok_or_else(|| BrokenFile::at(text, at, format!("`{section}` is not a table of servers")))
}

/// Changes only the values that differ, so that the rest keeps its spelling.
fn rewrite(old: &mut Item, entry: &ServerEntry) {
    let Some(old) = old.as_table_like_mut() else {
        *old = Item::Table(table(entry));
        return;
    };
    let removed: Vec<_> =
        old.iter().map(|(key, _)| key.to_owned()).filter(|key| !entry.contains_key(key)).collect();
    for key in removed {
        old.remove(&key);
    }
    for (key, new) in entry {
        if old.get(key).map(to_json).as_ref() != Some(new)
            && let Some(new) = from_json(new)
        {
            old.insert(key, value(new));
        }
    }
}

fn table(entry: &ServerEntry) -> Table {
    entry.iter().filter_map(|(key, new)| Some((key, value(from_json(new)?)))).collect()
}

/// Reads the result back: it must have the file's former content and the entry.
fn checked(
    text: String,
    mut expected: Json,
    section: &str,
    entry: &ServerEntry,
    replaced: bool,
) -> MergeOutcome {
    if !expected[section].is_object() {
        expected[section] = Json::Object(serde_json::Map::new());
    }
    expected[section][NAME] = Json::Object(entry.clone());
    match text.parse::<DocumentMut>() {
        Ok(after) if to_json(after.as_item()) == expected => MergeOutcome::Changed { text, replaced },
        _ => MergeOutcome::Refused("the file is written in a way that greenroom cannot add to"),
    }
}

/// Converts a value of an entry: a string, a list of strings or variables.
fn from_json(json: &Json) -> Option<Value> {
    match json {
        Json::Object(fields) => {
            let fields = fields.iter().filter_map(|(key, value)| Some((key, from_json(value)?)));
            Some(Value::InlineTable(fields.collect()))
        }
        Json::String(text) => Some(Value::from(text.as_str())),
        Json::Array(items) => Some(Value::Array(items.iter().filter_map(Json::as_str).collect::<Array>())),
        _ => None,
    }
}

/// A form for comparison: tables, lists and strings as they are, all else by its spelling.
fn to_json(item: &Item) -> Json {
    if let Some(table) = item.as_table_like() {
        table.iter().map(|(key, item)| (key.to_owned(), to_json(item))).collect::<ServerEntry>().into()
    } else if let Some(tables) = item.as_array_of_tables() {
        tables.iter().map(|table| to_json(&Item::Table(table.clone()))).collect()
    } else if let Some(items) = item.as_array() {
        items.iter().map(|value| to_json(&Item::Value(value.clone()))).collect()
    } else if let Some(text) = item.as_str() {
        text.into()
    } else {
        Json::String(format!("={}", item.to_string().trim()))
    }
}

/// Gives added lines the line ends of the file.
fn with_line_ends_of(old: &str, new: String) -> String {
    // A file with mixed line ends keeps them.
    let all = old.contains("\r\n") && old.matches('\n').count() == old.matches("\r\n").count();
    if all { new.replace("\r\n", "\n").replace('\n', "\r\n") } else { new }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry() -> ServerEntry {
        let Json::Object(entry) = json!({"command": "/bin/greenroom", "args": ["mcp"]}) else { panic!() };
        entry
    }

    const LINES: &str = "[mcp_servers.greenroom]\ncommand = \"/bin/greenroom\"\nargs = [\"mcp\"]\n";

    #[track_caller]
    fn check(before: &str, after: &str) {
        match merge(before, "mcp_servers", EntryScope::User, &entry()).unwrap() {
            MergeOutcome::Changed { text, .. } => assert_eq!(text, after),
            other => panic!("{other:?}"),
        }
    }

    /// The table comes after the other servers, and comments, order and line ends stay.
    #[test]
    fn only_the_table_is_added() {
        check("", LINES);
        check("# mine\nmodel = \"x\" # best\n", &format!("# mine\nmodel = \"x\" # best\n\n{LINES}"));
        check("model = \"x\"\r\n", &format!("model = \"x\"\n\n{LINES}").replace('\n', "\r\n"));
        let servers = "[mcp_servers.other]\ncommand = 'a'\n\n[mcp_servers.other.env]\nA = \"b\" # c\n";
        let tail = "\n[profiles.x]\nmodel = \"y\"\n";
        check(&format!("{servers}{tail}"), &format!("{servers}\n{LINES}{tail}"));
    }

    /// Servers on one line or as dotted keys are added to in their own style.
    #[test]
    fn inline_and_dotted_tables_are_added_to() {
        check(
            "mcp_servers = { other = { command = \"a\" } }\n",
            "mcp_servers = { other = { command = \"a\" } , greenroom = { command = \"/bin/greenroom\", args = [\"mcp\"] } }\n",
        );
        check(
            "mcp_servers.other.command = \"a\"\n",
            &format!("mcp_servers.other.command = \"a\"\n\n{LINES}"),
        );
    }

    /// Replacing keeps what the user added and how it is written; an entry with comments is left alone.
    #[test]
    fn replacing_keeps_what_the_user_added() {
        check(
            "[mcp_servers.greenroom]\nstartup_timeout_sec = 0x10\ncommand = 'old'\n\n[mcp_servers.greenroom.env]\nA = 'b'\n",
            "[mcp_servers.greenroom]\nstartup_timeout_sec = 0x10\ncommand = \"/bin/greenroom\"\nargs = [\"mcp\"]\n\n\
             [mcp_servers.greenroom.env]\nA = 'b'\n",
        );
        check("[mcp_servers.greenroom]\nurl = \"http://x/mcp\"\n", LINES);
        let same = format!("{LINES}enabled = true\n");
        assert!(matches!(merge(&same, "mcp_servers", EntryScope::User, &entry()), Ok(MergeOutcome::Same)));
        let comment = "[mcp_servers.greenroom]\n# mine\ncommand = 'old'\n";
        assert!(matches!(
            merge(comment, "mcp_servers", EntryScope::User, &entry()),
            Ok(MergeOutcome::Refused(_))
        ));
    }

    /// The error for a broken file or one of another shape names it; the file is not overwritten.
    #[test]
    fn broken_files_are_named() {
        let message = |text| merge(text, "mcp_servers", EntryScope::User, &entry()).unwrap_err().to_string();
        assert!(message("a = 1\nb = \n").starts_with("line 2, column 5: "), "{}", message("a = 1\nb = \n"));
        assert!(message("mcp_servers = 3").contains("`mcp_servers` is not a table of servers"));
    }
}
