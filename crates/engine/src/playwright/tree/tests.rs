//! The grammar against recorded snapshots, and against a model of the engine's writer.

use proptest::prelude::*;
use serde_json::{Value, json};

use greenroom_core::port::Field;

use super::{DEPTH_MAX, parse};

/// Recorded from the engine, version 0.0.83: a page with forms, lists and an iframe.
const PAGE: &str = r#"- generic [active] [ref=e1]:
  - 'heading "Head: \"one\"" [level=1] [ref=e2]'
  - generic [ref=e3]:
    - generic [ref=e4]:
      - text: Name
      - textbox "Name" [ref=e5]:
        - /placeholder: "Your: name"
        - text: Ada
    - textbox "Plain" [ref=e7]: x
    - checkbox "Ok" [checked] [ref=e11]
    - combobox [ref=e12]:
      - option "A"
      - option "B" [selected]
    - button "Go" [disabled] [ref=e14]
    - 'button "it''s: \"q\"" [expanded] [pressed=mixed] [ref=e15]'
  - list [ref=e16] [box=8,139,1264.5,38]:
    - listitem [ref=e17]: one
    - listitem [ref=e18]:
      - 'link "two: 2" [ref=e19] [cursor=pointer]':
        - /url: /x?a=1#f
  - paragraph [ref=e20]: "12"
  - paragraph [ref=e21]: "back`tick {b}\n\x9f\\"
  - iframe [ref=e23]:
    - button "in" [ref=f1e2]
  - slider"#;

/// Every form in a recorded snapshot is parsed correctly.
#[test]
fn recorded_page_is_parsed() {
    assert_eq!(
        parse(PAGE),
        json!([{ "role": "generic", "ref": "e1", "active": true, "children": [
            { "role": "heading", "name": "Head: \"one\"", "ref": "e2", "level": 1 },
            { "role": "generic", "ref": "e3", "children": [
                { "role": "generic", "ref": "e4", "children": [
                    { "role": "text", "name": "Name" },
                    { "role": "textbox", "name": "Name", "ref": "e5", "placeholder": "Your: name", "value": "Ada" },
                ] },
                { "role": "textbox", "name": "Plain", "ref": "e7", "value": "x" },
                { "role": "checkbox", "name": "Ok", "ref": "e11", "checked": true },
                { "role": "combobox", "ref": "e12", "children": [
                    { "role": "option", "name": "A" },
                    { "role": "option", "name": "B", "selected": true },
                ] },
                { "role": "button", "name": "Go", "ref": "e14", "disabled": true },
                { "role": "button", "name": "it's: \"q\"", "ref": "e15", "expanded": true, "pressed": "mixed" },
            ] },
            { "role": "list", "ref": "e16", "box": [8, 139, 1264.5, 38], "children": [
                { "role": "listitem", "ref": "e17", "text": "one" },
                { "role": "listitem", "ref": "e18", "children": [
                    { "role": "link", "name": "two: 2", "ref": "e19", "cursor": "pointer", "url": "/x?a=1#f" },
                ] },
            ] },
            { "role": "paragraph", "ref": "e20", "text": "12" },
            { "role": "paragraph", "ref": "e21", "text": "back`tick {b}\n\u{9f}\\" },
            { "role": "iframe", "ref": "e23", "children": [{ "role": "button", "name": "in", "ref": "f1e2" }] },
            { "role": "slider" },
        ] }])
    );
    let first = serde_json::to_string(&parse("- link \"a\" [active] [ref=e1]:\n  - /url: /")).unwrap();
    assert_eq!(first, r#"[{"role":"link","name":"a","ref":"e1","active":true,"url":"/"}]"#);
}

/// Lines that match no form of the grammar are kept, with the lines below them.
#[test]
fn unknown_lines_become_text() {
    assert_eq!(
        parse("- webmcp tools (page-provided, untrusted):\n  - pay [readOnly]: it\n\n- /url: x\nplain"),
        json!([
            { "role": "text", "name": "webmcp tools (page-provided, untrusted):", "children": [
                { "role": "pay", "readOnly": true, "text": "it" },
            ] },
            { "role": "text", "name": "/url: x" },
            { "role": "text", "name": "plain" },
        ])
    );
    assert_eq!(parse(""), json!([]));
}

/// A tree that is too deep becomes a shallower one with as many nodes, which can be written and dropped.
#[test]
fn tree_depth_is_bounded() {
    let deep: String = (0..2_000).map(|n| format!("{}- generic [ref=e{n}]:\n", "  ".repeat(n))).collect();
    let tree = parse(&deep).to_string();
    assert_eq!(tree.matches("\"ref\"").count(), 2_000);
    let mut depth = 0_usize;
    let mut deepest = 0;
    for c in tree.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    assert_eq!(deepest, DEPTH_MAX);
}

/// A node as the engine has it.
#[derive(Debug, Clone)]
enum TestNode {
    Text(String),
    Element { role: String, name: String, flags: Vec<&'static str>, url: Option<String>, inside: NodeContent },
}

#[derive(Debug, Clone)]
enum NodeContent {
    Text(String),
    Children(Vec<TestNode>),
}

impl TestNode {
    /// Writes it as the engine does.
    fn write(&self, depth: usize, to: &mut String) {
        let indent = "  ".repeat(depth);
        match self {
            Self::Text(text) => *to += &format!("{indent}- text: {}\n", value(text)),
            Self::Element { role, name, flags, url, inside } => {
                let mut line = role.clone();
                if !name.is_empty() {
                    line += &format!(" {}", json!(name));
                }
                for flag in flags {
                    line += &format!(" [{flag}]");
                }
                *to += &format!("{indent}- {}", key(&line));
                if let Some(url) = url {
                    *to += &format!(":\n{indent}  - /url: {}", value(url));
                }
                match inside {
                    NodeContent::Text(text) if url.is_none() => *to += &format!(": {}\n", value(text)),
                    NodeContent::Text(text) => *to += &format!("\n{indent}  - text: {}\n", value(text)),
                    NodeContent::Children(children) => {
                        *to += if children.is_empty() || url.is_some() { "\n" } else { ":\n" };
                        children.iter().for_each(|child| child.write(depth + 1, to));
                    }
                }
            }
        }
    }

    /// The expected result of parsing.
    fn expected(&self) -> Value {
        let (role, name, flags, url, inside) = match self {
            Self::Text(text) => return json!({ "role": "text", "name": text }),
            Self::Element { role, name, flags, url, inside } => (role, name, flags, url, inside),
        };
        let mut node = json!({ "role": role });
        if !name.is_empty() {
            node["name"] = json!(name);
        }
        for flag in flags {
            match flag.split_once('=') {
                Some(("level", level)) => node["level"] = json!(level.parse::<u64>().unwrap()),
                Some((name, value)) => node[name] = json!(value),
                None => node[*flag] = json!(true),
            }
        }
        if let Some(url) = url {
            node["url"] = json!(url);
        }
        let text = if role == "textbox" { "value" } else { "text" };
        match inside {
            NodeContent::Text(one) => node[text] = json!(one),
            NodeContent::Children(children) => match &children[..] {
                [] => {}
                [Self::Text(only)] => node[text] = json!(only),
                children => node["children"] = children.iter().map(Self::expected).collect(),
            },
        }
        node
    }
}

fn key(text: &str) -> String {
    if needs_quotes(text) { format!("'{}'", text.replace('\'', "''")) } else { text.to_owned() }
}

fn value(text: &str) -> String {
    if !needs_quotes(text) {
        return text.to_owned();
    }
    let quoted = |c: char| match c {
        '\\' => "\\\\".to_owned(),
        '"' => "\\\"".to_owned(),
        '\u{8}' => "\\b".to_owned(),
        '\u{c}' => "\\f".to_owned(),
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => format!("\\x{:02x}", u32::from(c)),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(quoted).collect::<String>())
}

/// The engine quotes if YAML would read something other than the text.
fn needs_quotes(text: &str) -> bool {
    let spaced = |after: &str| after.is_empty() || after.starts_with(char::is_whitespace);
    text.is_empty()
        || text.starts_with(char::is_whitespace)
        || text.ends_with(char::is_whitespace)
        || text.starts_with(['-', '&', '*', ']', ',', '?', '!', '>', '|', '@', '"', '\'', '#', '%', '['])
        || text.contains(['{', '}', '`', '\n', '\r'])
        || text.chars().any(|c| c.is_control() && c != '\t')
        || text.match_indices(':').any(|(at, _)| spaced(&text[at + 1..]))
        || text.match_indices('#').any(|(at, _)| text[..at].ends_with(char::is_whitespace))
        || text.trim().parse::<f64>().is_ok()
        || ["y", "n", "yes", "no", "true", "false", "on", "off", "null"].contains(&&*text.to_lowercase())
}

fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,12}",
        "[a\"'\\\\: \\[\\]#\\-\n\t\u{85}\u{2028}ü]{0,8}",
        any::<String>(),
        Just("- text: x".to_owned()),
        Just("a: ".to_owned()),
    ]
}

fn node() -> impl Strategy<Value = TestNode> {
    let flags = proptest::sample::subsequence(
        vec!["checked=mixed", "disabled", "active", "level=3", "selected", "ref=f1e22", "cursor=pointer"],
        0..4,
    );
    let role =
        || proptest::sample::select(vec!["button", "textbox", "generic", "link"]).prop_map(str::to_owned);
    let leaf = prop_oneof![
        words().prop_map(TestNode::Text),
        (role(), words(), flags.clone(), proptest::option::of(words()), words()).prop_map(
            |(role, name, flags, url, text)| TestNode::Element {
                role,
                name,
                flags,
                url,
                inside: NodeContent::Text(text)
            }
        ),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        (
            role(),
            words(),
            flags.clone(),
            proptest::option::of(words()),
            proptest::collection::vec(inner, 0..5),
        )
            .prop_map(|(role, name, flags, url, children)| TestNode::Element {
                role,
                name,
                flags,
                url,
                inside: NodeContent::Children(children),
            })
    })
}

proptest! {
    /// Every tree that the engine writes is parsed to the same tree.
    #[test]
    fn written_nodes_are_parsed_back(nodes in proptest::collection::vec(node(), 0..4)) {
        let mut text = String::new();
        nodes.iter().for_each(|node| node.write(0, &mut text));
        let expected: Value = nodes.iter().map(TestNode::expected).collect();
        prop_assert_eq!(parse(&text), expected, "{}", text);
    }

    /// No text makes the parser fail.
    #[test]
    fn any_text_is_parsed(text in any::<String>(), lines in "( {0,6}(- )?['\"a\\[\\]=:/\\\\x ]{0,12}\n){0,12}") {
        parse(&text);
        parse(&lines);
    }
}

/// Fields are found by their names, quoted or not, with the references that calls use for them.
#[test]
fn fields_are_found_by_name() {
    let snapshot = "- generic [ref=e1]:\n  - textbox \"Name\" [ref=e5]\n  - 'textbox \"Password: new\" [active] [ref=f2e7]': x\n  - button \"Password\" [ref=e9]\n  - textbox [ref=e8]\n";
    let field = |reference: &str, value: Option<&str>| Field {
        reference: reference.to_owned(),
        value: value.map(ToOwned::to_owned),
    };
    let such = super::fields(snapshot, &|name| name.starts_with("Password"));
    assert_eq!(such, [field("f2e7", Some("x"))]);
    assert_eq!(super::fields(snapshot, &|_| true), [field("e5", None), field("f2e7", Some("x"))]);
}
