//! A page snapshot of the devtools engine as a tree: what its lines mean.
//!
//! Each line is a node; two blanks deeper is one level deeper.
//!
//! ```text
//! uid=1_0 RootWebArea "Shop" url="http://127.0.0.1:80/"
//!   uid=1_1 heading "Shop" level="1"
//!   uid=1_2 "Some text"
//!   uid=1_3 textbox "Name" focusable focused value="Ann"
//! ```
//!
//! A node becomes an object: `role`, `name`, `ref`, its attributes, `children`. Missing ones are absent. Nothing is escaped
//! in a line: it contains a page's quotes and newlines unchanged. So a name or value ends at the first quote after
//! which only attributes or nothing follow, and a line that does not begin as a node continues the one above. A page
//! that imitates either is misread there; none of its text is lost.

use greenroom_core::port::Field;
use serde_json::{Map, Value};

/// The depth limit of trees. Deeper nodes become siblings of their parent. Ordinary pages have some 30 levels; a script can
/// make any number, and values are written, read and dropped recursively.
const DEPTH_MAX: usize = 200;

/// Roles of fields for text input.
const FIELDS: [&str; 5] = ["textbox", "searchbox", "spinbutton", "combobox", "slider"];

/// The mask for each letter of a password.
const MASK: char = '•';

/// The nodes of a snapshot.
pub(super) fn parse(snapshot: &str) -> Value {
    let mut done = Vec::new();
    let mut open: Vec<(usize, Map<String, Value>, Vec<Value>)> = Vec::new();
    let mut close_to = |open: &mut Vec<(usize, Map<String, Value>, Vec<Value>)>, depth: usize| {
        while open.last().is_some_and(|(indent, ..)| *indent >= depth) || open.len() >= DEPTH_MAX {
            let Some((_, mut members, children)) = open.pop() else { return };
            if !children.is_empty() {
                members.insert("children".to_owned(), Value::Array(children));
            }
            let siblings = open.last_mut().map_or(&mut done, |(_, _, children)| children);
            siblings.push(Value::Object(members));
        }
    };
    for (depth, node) in nodes(snapshot) {
        close_to(&mut open, depth);
        open.push((depth, node.members(), Vec::new()));
    }
    close_to(&mut open, 0);
    Value::Array(done)
}

/// Fields whose names match.
pub(super) fn fields(snapshot: &str, is_wanted: &dyn Fn(&str) -> bool) -> Vec<Field> {
    let field = |(_, node): (usize, SnapshotNode<'_>)| {
        node.role.filter(|role| FIELDS.contains(role))?;
        node.name.filter(|name| is_wanted(name))?;
        let value = node.attributes.iter().find(|(name, _)| *name == "value").and_then(|(_, value)| *value);
        let value = value.filter(|value| !value.chars().all(|c| c == MASK)).map(ToOwned::to_owned);
        Some(Field { reference: node.uid.to_owned(), value })
    };
    nodes(snapshot).filter_map(field).collect()
}

/// One line, or several if it contains newlines.
struct SnapshotNode<'a> {
    uid: &'a str,
    role: Option<&'a str>,
    name: Option<&'a str>,
    attributes: Vec<(&'a str, Option<&'a str>)>,
}

/// The nodes in order, each with its indentation.
fn nodes(snapshot: &str) -> impl Iterator<Item = (usize, SnapshotNode<'_>)> {
    let mut starts: Vec<usize> = Vec::new();
    let mut at = 0;
    for line in snapshot.split_inclusive('\n') {
        if begins_node(line.trim_start_matches(' ')) {
            starts.push(at);
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([snapshot.len()]).collect::<Vec<_>>();
    starts.into_iter().zip(ends).filter_map(move |(start, end)| {
        let text = snapshot.get(start..end)?;
        let node = text.trim_start_matches(' ');
        Some((text.len() - node.len(), SnapshotNode::read(node.trim_end_matches('\n'))?))
    })
}

/// `uid=12_3`, and then a blank or nothing.
fn begins_node(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("uid=") else { return false };
    let uid = rest.split([' ', '\n']).next().unwrap_or_default();
    uid.split_once('_').is_some_and(|(page, node)| {
        [page, node].iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

impl<'a> SnapshotNode<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let text = text.strip_prefix("uid=")?;
        let (uid, mut rest) = text.split_once(' ').unwrap_or((text, ""));
        let role = rest.split(' ').next().filter(|role| !role.is_empty() && !role.contains(['"', '=']));
        if let Some(role) = role {
            rest = rest.get(role.len()..).unwrap_or_default().trim_start_matches(' ');
        }
        let mut name = None;
        if let Some(quoted) = rest.strip_prefix('"') {
            let (inner, after) = quoted_text(quoted);
            name = Some(inner);
            rest = after;
        }
        let mut attributes = Vec::new();
        loop {
            rest = rest.trim_start_matches(' ');
            let word = word_len(rest);
            if word == 0 {
                break;
            }
            let (key, after) = rest.split_at(word);
            match after.strip_prefix("=\"") {
                Some(quoted) => {
                    let (value, after) = quoted_text(quoted);
                    attributes.push((key, Some(value)));
                    rest = after;
                }
                None => {
                    attributes.push((key, None));
                    rest = after;
                }
            }
        }
        Some(Self { uid, role, name, attributes })
    }

    fn members(self) -> Map<String, Value> {
        let mut members = Map::with_capacity(4 + self.attributes.len());
        members.insert("role".to_owned(), self.role.unwrap_or("text").into());
        if let Some(name) = self.name {
            members.insert("name".to_owned(), name.into());
        }
        members.insert("ref".to_owned(), self.uid.into());
        for (name, value) in self.attributes {
            let value = match (name, value) {
                (_, None) => Value::Bool(true),
                ("level", Some(level)) => level.parse::<u64>().map_or_else(|_| level.into(), Value::from),
                (_, Some(value)) => value.into(),
            };
            members.entry(name).or_insert(value);
        }
        members
    }
}

/// The text before the quote that ends it, and the rest.
fn quoted_text(text: &str) -> (&str, &str) {
    let ends = |at: &usize| {
        let after = text.get(at + 1..).unwrap_or_default();
        match after.strip_prefix(' ') {
            None => after.is_empty(),
            Some(after) => {
                let word = word_len(after);
                let rest = after.get(word..).unwrap_or_default();
                let ends_well = rest.is_empty() || rest.starts_with(' ') || rest.starts_with("=\"");
                (word > 0 && ends_well) || after.starts_with("[selected in the DevTools")
            }
        }
    };
    let end = text.match_indices('"').map(|(at, _)| at).find(ends).unwrap_or(text.len());
    (text.get(..end).unwrap_or_default(), text.get(end + 1..).unwrap_or_default())
}

/// The length of the attribute name at the start of the text.
fn word_len(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_alphabetic).count()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Recorded from the engine, version 1.11.0, of a page that has quotes and newlines wherever it can.
    const RECORDED: &str = "uid=1_0 RootWebArea \"A \"b\" title\" url=\"http://127.0.0.1:37229/\"
  uid=1_1 heading \"Hi \"there\"\" level=\"1\"
  uid=1_3 LineBreak \"
\"
  uid=1_4 \"lines\"
  uid=1_5 form
    uid=1_7 textbox \"Name\" focusable focused value=\"v\"w x=\"y\"
    uid=1_8 textbox \"Pass word\" value=\"•••\"
    uid=1_9 checkbox \"On\" checked disableable disabled
    uid=1_10 combobox \"Pick\" expandable haspopup=\"menu\" value=\"b \"c\"\"
      uid=1_12 option \"b \"c\"\" selected
  uid=1_19 Iframe
    uid=1_20 RootWebArea url=\"about:srcdoc\"";

    /// A recorded snapshot has its roles, names, references and attributes in place, newlines and quotes included.
    #[test]
    fn recorded_snapshot_is_parsed() {
        let expected = json!([{
            "role": "RootWebArea", "name": "A \"b\" title", "ref": "1_0", "url": "http://127.0.0.1:37229/", "children": [
                { "role": "heading", "name": "Hi \"there\"", "ref": "1_1", "level": 1 },
                { "role": "LineBreak", "name": "\n", "ref": "1_3" },
                { "role": "text", "name": "lines", "ref": "1_4" },
                { "role": "form", "ref": "1_5", "children": [
                    { "role": "textbox", "name": "Name", "ref": "1_7", "focusable": true, "focused": true, "value": "v\"w x=\"y" },
                    { "role": "textbox", "name": "Pass word", "ref": "1_8", "value": "•••" },
                    { "role": "checkbox", "name": "On", "ref": "1_9", "checked": true, "disableable": true, "disabled": true },
                    { "role": "combobox", "name": "Pick", "ref": "1_10", "expandable": true, "haspopup": "menu", "value": "b \"c\"",
                      "children": [{ "role": "option", "name": "b \"c\"", "ref": "1_12", "selected": true }] },
                ] },
                { "role": "Iframe", "ref": "1_19", "children": [
                    { "role": "RootWebArea", "ref": "1_20", "url": "about:srcdoc" },
                ] },
            ],
        }]);
        assert_eq!(parse(RECORDED), expected);
    }

    /// Fields with matching names are found with their references; masked text is not taken for the typed text.
    #[test]
    fn fields_are_found_by_name() {
        let found = fields(RECORDED, &|name| name == "Pass word" || name == "Name" || name == "On");
        let name = Field { reference: "1_7".to_owned(), value: Some("v\"w x=\"y".to_owned()) };
        assert_eq!(found, [name, Field { reference: "1_8".to_owned(), value: None }]);
    }

    /// An endlessly deep nesting of nodes becomes a tree that can be written and dropped.
    #[test]
    fn depth_is_bounded() {
        let ladder: String = (0..1_000).map(|n| format!("{}uid=1_{n} generic\n", "  ".repeat(n))).collect();
        let mut node = &parse(&ladder)[0];
        let mut depth = 1;
        while let Some(child) = node.get("children").and_then(|children| children.get(0)) {
            node = child;
            depth += 1;
        }
        assert!(depth <= DEPTH_MAX, "{depth}");
    }

    proptest::proptest! {
        /// Whatever a snapshot contains, every line that begins as a node becomes one.
        #[test]
        fn every_node_line_becomes_a_node(parts in proptest::collection::vec(proptest::sample::select(vec![
            "uid=1_2", "uid=x", " ", "\"", "\n", "  ", "button", "value=\"", "level=\"2\"", "ü", "=",
        ]), 0..40)) {
            let text = parts.concat();
            let lines = text.lines().filter(|line| begins_node(line.trim_start_matches(' '))).count();
            proptest::prop_assert_eq!(nodes(&text).count(), lines);
            parse(&text);
        }
    }
}
