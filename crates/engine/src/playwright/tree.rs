//! A page snapshot of the playwright engine as a tree: what its lines mean.
//!
//! Each line is a node, or a property of the node that it belongs to; two blanks deeper is one level deeper.
//!
//! ```text
//! - list [ref=e16]:
//!   - listitem [ref=e17]: one
//!   - 'link "two: 2" [ref=e19] [cursor=pointer]':
//!     - /url: /x?a=1#f
//!     - text: "two: 2"
//! ```
//!
//! A node becomes an object: `role`, `name`, `ref`, its other attributes, its properties, `text` (for fields `value`),
//! `children`. Missing ones are absent. The format looks like YAML and mostly is, but has so few forms that a parser of its
//! own reads it in one pass. A line that has none of these forms is a text node, so that nothing is lost.

use std::borrow::Cow;

use greenroom_core::port::Field;
use serde_json::{Map, Value};

/// The depth limit of trees. Deeper nodes become siblings of their parent. Ordinary pages have some 30 levels; a script can
/// make any number, and values are written, read and dropped recursively. Each level is two of JSON, of which common readers
/// allow 500 to 1,000.
const DEPTH_MAX: usize = 200;

/// Roles whose text is a user's input.
const FIELDS: [&str; 5] = ["textbox", "searchbox", "spinbutton", "combobox", "slider"];

/// The nodes of a snapshot.
pub(super) fn parse(snapshot: &str) -> Value {
    let mut tree = SnapshotTree::default();
    for line in snapshot.split('\n').filter(|line| !line.trim_ascii().is_empty()) {
        let item = line.trim_start_matches(' ');
        let indent = line.len() - item.len();
        tree.close_down_to(indent);
        match item.strip_prefix("- ") {
            Some(item) => tree.add(indent, item),
            None => tree.open.push(OpenNode::text(indent, item)),
        }
    }
    tree.close_down_to(0);
    Value::Array(tree.done)
}

#[derive(Default)]
struct SnapshotTree {
    done: Vec<Value>,
    /// From the root to the node of the last line.
    open: Vec<OpenNode>,
}

/// A node to which more may be added.
struct OpenNode {
    indent: usize,
    members: Map<String, Value>,
    children: Vec<Value>,
}

impl SnapshotTree {
    fn add(&mut self, indent: usize, item: &str) {
        let (key, value) = split(item);
        let value = value.map(unquote);
        if let (Some(property), Some(value), Some(parent)) =
            (key.strip_prefix('/'), &value, self.open.last_mut())
        {
            parent.members.entry(property).or_insert_with(|| Value::from(&**value));
            return;
        }
        let node = match (&*key, value) {
            ("text", Some(text)) => OpenNode::text(indent, &text),
            (key, value) => match members(key) {
                Some(members) => {
                    let mut node = OpenNode { indent, members, children: Vec::new() };
                    if let Some(text) = value {
                        node.set_text(&text);
                    }
                    node
                }
                None => OpenNode::text(indent, item),
            },
        };
        self.open.push(node);
    }

    /// Ends all nodes to which a line of this indent does not belong.
    fn close_down_to(&mut self, indent: usize) {
        while self.open.last().is_some_and(|open| open.indent >= indent) || self.open.len() >= DEPTH_MAX {
            let Some(node) = self.open.pop() else { return };
            let siblings = self.open.last_mut().map_or(&mut self.done, |parent| &mut parent.children);
            siblings.push(node.close());
        }
    }
}

impl OpenNode {
    fn text(indent: usize, text: &str) -> Self {
        let members =
            Map::from_iter([("role", "text"), ("name", text)].map(|(k, v)| (k.to_owned(), v.into())));
        Self { indent, members, children: Vec::new() }
    }

    fn set_text(&mut self, text: &str) {
        let is_field =
            self.members.get("role").and_then(Value::as_str).is_some_and(|role| FIELDS.contains(&role));
        self.members.insert((if is_field { "value" } else { "text" }).to_owned(), text.into());
    }

    /// The text of a node that has properties is its only child. Without properties it is in the node's line; both mean the
    /// same.
    fn close(mut self) -> Value {
        if let [Value::Object(only)] = &mut self.children[..]
            && only.len() == 2
            && only.get("role").is_some_and(|role| role == "text")
            && let Some(Value::String(text)) = only.get_mut("name").map(Value::take)
            && self.members.get("role").is_none_or(|role| role != "text")
        {
            self.children.clear();
            self.set_text(&text);
        }
        if !self.children.is_empty() {
            self.members.insert("children".to_owned(), Value::Array(self.children));
        }
        Value::Object(self.members)
    }
}

/// `key`, `key:` or `key: value`. A key that could be mistaken for more than that is in single quotes.
fn split(item: &str) -> (Cow<'_, str>, Option<&str>) {
    if let Some(quoted) = item.strip_prefix('\'')
        && let Some((key, rest)) = single_quoted(quoted)
    {
        return (key, rest.strip_prefix(": "));
    }
    match item.split_once(": ") {
        Some((key, value)) => (key.into(), Some(value)),
        None => (item.strip_suffix(':').unwrap_or(item).into(), None),
    }
}

/// The text before the quote that ends it, and the rest. Two quotes are an escaped one.
fn single_quoted(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let mut from = 0;
    loop {
        let end = from + text.get(from..)?.find('\'')?;
        let before = text.get(..end)?;
        let after = text.get(end + 1..)?;
        if !after.starts_with('\'') {
            let key = if from == 0 { before.into() } else { before.replace("''", "'").into() };
            return Some((key, after));
        }
        from = end + 2;
    }
}

/// A value without the engine's quotes, if it has any.
fn unquote(value: &str) -> Cow<'_, str> {
    let Some(inner) = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')) else {
        return value.into();
    };
    let Some((plain, _)) = inner.split_once('\\') else { return inner.into() };
    let mut text = String::with_capacity(inner.len());
    text.push_str(plain);
    let mut rest = inner.get(plain.len()..).unwrap_or_default().chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match rest.next() {
            Some('b') => text.push('\u{8}'),
            Some('f') => text.push('\u{c}'),
            Some('n') => text.push('\n'),
            Some('r') => text.push('\r'),
            Some('t') => text.push('\t'),
            Some('x') => {
                let digits = rest.as_str().get(..2).unwrap_or_default();
                match u8::from_str_radix(digits, 16) {
                    Ok(code) => {
                        text.push(char::from(code));
                        rest = rest.as_str().get(2..).unwrap_or_default().chars();
                    }
                    Err(_) => text.push_str("\\x"),
                }
            }
            Some(other) => text.push(other),
            None => text.push('\\'),
        }
    }
    text.into()
}

/// `role "name" [attribute] [attribute=value]`.
fn members(key: &str) -> Option<Map<String, Value>> {
    let (role, mut rest) = key.split_once(' ').unwrap_or((key, ""));
    if role.is_empty() || !role.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return None;
    }
    let mut members = Map::with_capacity(6);
    members.insert("role".to_owned(), role.into());
    if rest.starts_with('"') {
        let (name, after) = rest.split_at_checked(string_end(rest)?)?;
        // A name with half a surrogate pair cannot be parsed as JSON; it is shown in its escaped form.
        let plain = || name.trim_matches('"').to_owned();
        members.insert("name".to_owned(), serde_json::from_str(name).unwrap_or_else(|_| plain()).into());
        rest = after.strip_prefix(' ').unwrap_or(after);
    }
    let mut others = Vec::new();
    while !rest.is_empty() {
        let (attribute, after) = rest.strip_prefix('[')?.split_once(']')?;
        let (name, value) =
            attribute.split_once('=').map_or((attribute, None), |(name, value)| (name, Some(value)));
        let value = attribute_value(name, value);
        if name == "ref" {
            members.insert(name.to_owned(), value);
        } else {
            others.push((name, value));
        }
        rest = after.strip_prefix(' ').unwrap_or(after);
    }
    for (name, value) in others {
        members.entry(name).or_insert(value);
    }
    Some(members)
}

/// Fields whose names match. Only lines that can be fields are parsed.
pub(super) fn fields(snapshot: &str, is_wanted: &dyn Fn(&str) -> bool) -> Vec<Field> {
    let field = |line: &str| {
        let item = line.trim_start().strip_prefix("- ")?;
        FIELDS.iter().find(|role| item.trim_start_matches('\'').starts_with(**role))?;
        let (key, value) = split(item);
        let members = members(&key)?;
        let text = |name: &str| members.get(name).and_then(Value::as_str);
        text("name").filter(|name| is_wanted(name))?;
        let value = value.map(|value| unquote(value).into_owned()).filter(|value| !value.is_empty());
        Some(Field { reference: text("ref")?.to_owned(), value })
    };
    snapshot.lines().filter_map(field).collect()
}

/// The end of the JSON string at the start of the text.
fn string_end(text: &str) -> Option<usize> {
    let mut escaped = true;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })?;
    Some(end + 1)
}

fn attribute_value(name: &str, value: Option<&str>) -> Value {
    let Some(value) = value else { return Value::Bool(true) };
    let numbers = || value.split(',').map(|number| serde_json::from_str::<serde_json::Number>(number).ok());
    match name {
        "level" => value.parse::<u64>().map_or_else(|_| value.into(), Value::from),
        // `x,y,width,height`.
        "box" => numbers().collect::<Option<Vec<_>>>().map_or_else(|| value.into(), Value::from),
        _ => value.into(),
    }
}

#[cfg(test)]
mod tests;
