//! JSON with comments and trailing commas, as editors write their configuration, read together with the place
//! of every value in the text. Whoever knows the places can change one value and leave every other byte
//! alone.
//!
//! It reads and changes nothing. [`super::json`] does the changing.

use std::ops::Range;

use serde_json::{Map, Value};

use super::Broken;

/// As deep as serde_json goes: no configuration is deeper, and what is may not take the stack down.
const DEPTH_MAX: usize = 128;

/// A value and where it stands.
#[derive(Debug)]
pub struct Node {
    pub span: Range<usize>,
    pub kind: Kind,
}

#[derive(Debug)]
pub enum Kind {
    Object(Object),
    Array(Vec<Node>),
    Scalar(Value),
}

#[derive(Debug, Default)]
pub struct Object {
    pub members: Vec<Member>,
    /// A comma stands after the last member.
    pub trailing_comma: bool,
}

#[derive(Debug)]
pub struct Member {
    pub name: String,
    /// Where the name begins.
    pub start: usize,
    pub value: Node,
}

impl Node {
    pub fn to_value(&self) -> Value {
        match &self.kind {
            Kind::Scalar(value) => value.clone(),
            Kind::Array(items) => items.iter().map(Self::to_value).collect(),
            Kind::Object(object) => Value::Object(object.to_map()),
        }
    }
}

impl Object {
    pub fn to_map(&self) -> Map<String, Value> {
        self.members.iter().map(|member| (member.name.clone(), member.value.to_value())).collect()
    }

    /// The member of that name; of several the last one, which is the one that counts for every client.
    pub fn get(&self, name: &str) -> Option<&Node> {
        self.members.iter().rfind(|member| member.name == name).map(|member| &member.value)
    }
}

/// Reads a text that is one value, with whatever space and comments around it.
pub fn parse(text: &str) -> Result<Node, Broken> {
    let mut reader = Reader { text, at: 0 };
    // Some editors on other systems begin their files with it.
    reader.take("\u{feff}");
    reader.skip()?;
    let node = reader.value(0)?;
    reader.skip()?;
    if reader.at < text.len() {
        return Err(reader.expected("the end of the file"));
    }
    Ok(node)
}

/// Whether there is a comment in the text of a value, or between two.
pub fn has_comment(text: &str) -> bool {
    let mut reader = Reader { text, at: 0 };
    while let Some(next) = reader.rest().chars().next() {
        if reader.rest().starts_with("//") || reader.rest().starts_with("/*") {
            return true;
        }
        if next != '"' || reader.string().is_err() {
            reader.at += next.len_utf8();
        }
    }
    false
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn take(&mut self, token: &str) -> bool {
        let there = self.rest().starts_with(token);
        if there {
            self.at += token.len();
        }
        there
    }

    fn expected(&self, what: &str) -> Broken {
        let found = match self.rest().chars().next() {
            Some(found) => format!("`{found}`"),
            None => "the end of the file".to_owned(),
        };
        Broken::at(self.text, self.at, format!("expected {what}, found {found}"))
    }

    /// Steps over space and comments.
    fn skip(&mut self) -> Result<(), Broken> {
        loop {
            let rest = self.rest();
            let space = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
            let comment = if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                let end = rest.find("*/");
                end.ok_or_else(|| Broken::at(self.text, self.at, "a comment without its end"))? + "*/".len()
            } else {
                0
            };
            if space + comment == 0 {
                return Ok(());
            }
            self.at += space.max(comment);
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, Broken> {
        let start = self.at;
        if depth > DEPTH_MAX {
            return Err(Broken::at(self.text, start, format!("nested more than {DEPTH_MAX} deep")));
        }
        let kind = match self.rest().as_bytes().first() {
            Some(b'{') => Kind::Object(self.object(depth)?),
            Some(b'[') => Kind::Array(self.array(depth)?),
            Some(b'"') => Kind::Scalar(Value::String(self.string()?)),
            _ => Kind::Scalar(self.word()?),
        };
        Ok(Node { span: start..self.at, kind })
    }

    fn object(&mut self, depth: usize) -> Result<Object, Broken> {
        let mut object = Object::default();
        self.take("{");
        loop {
            self.skip()?;
            if self.take("}") {
                return Ok(object);
            }
            if !object.members.is_empty() && !object.trailing_comma {
                return Err(self.expected("`,` or `}`"));
            }
            let start = self.at;
            if !self.rest().starts_with('"') {
                return Err(self.expected("a name in quotes or `}`"));
            }
            let name = self.string()?;
            self.skip()?;
            if !self.take(":") {
                return Err(self.expected("`:`"));
            }
            self.skip()?;
            object.members.push(Member { name, start, value: self.value(depth + 1)? });
            self.skip()?;
            object.trailing_comma = self.take(",");
        }
    }

    fn array(&mut self, depth: usize) -> Result<Vec<Node>, Broken> {
        let mut items = Vec::new();
        let mut comma = true;
        self.take("[");
        loop {
            self.skip()?;
            if self.take("]") {
                return Ok(items);
            }
            if !comma {
                return Err(self.expected("`,` or `]`"));
            }
            items.push(self.value(depth + 1)?);
            self.skip()?;
            comma = self.take(",");
        }
    }

    fn string(&mut self) -> Result<String, Broken> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut end = start + 1;
        while let Some(byte) = bytes.get(end) {
            match byte {
                b'"' => {
                    let string = serde_json::from_str(&self.text[start..=end]);
                    self.at = end + 1;
                    return string.map_err(|_| Broken::at(self.text, start, "not a valid string"));
                }
                b'\n' => break,
                b'\\' => end += 2,
                _ => end += 1,
            }
        }
        Err(Broken::at(self.text, start, "a string without its end"))
    }

    /// A number, `true`, `false` or `null`.
    fn word(&mut self) -> Result<Value, Broken> {
        let rest = self.rest();
        let end =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c))).unwrap_or(rest.len());
        let value = serde_json::from_str(&rest[..end]).map_err(|_| self.expected("a value"))?;
        self.at += end;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Comments and trailing commas are stepped over, strings that look like them are not, and a place is
    /// where the value stands.
    #[test]
    fn reads_what_editors_write() {
        let text = "\u{feff}// a\n{ \"a\": [1, \"//x\", /* y */ null,], \"a\": {\"b\": \"\\\"é\"}, } // end";
        let node = parse(text).unwrap();
        assert_eq!(node.to_value(), json!({"a": {"b": "\"é"}}));
        let Kind::Object(root) = node.kind else { panic!() };
        assert!(root.trailing_comma);
        assert_eq!(&text[root.get("a").unwrap().span.clone()], "{\"b\": \"\\\"é\"}");
        assert_eq!(root.members[0].value.to_value(), json!([1, "//x", null]));
    }

    /// What is broken is named with its line and column, and nothing panics on the way.
    #[test]
    fn names_the_place_of_a_mistake() {
        for (text, message) in [
            ("{\n  \"a\": 1\n  \"b\": 2\n}", "line 3, column 3: expected `,` or `}`, found `\"`"),
            ("{\"a\" 1}", "line 1, column 6: expected `:`, found `1`"),
            ("{\"a\": tru}", "line 1, column 7: expected a value, found `t`"),
            ("{a: 1}", "line 1, column 2: expected a name in quotes or `}`, found `a`"),
            ("[1,,2]", "line 1, column 4: expected a value, found `,`"),
            ("[1 2]", "line 1, column 4: expected `,` or `]`, found `2`"),
            ("{\"a\": \"x\n\"}", "line 1, column 7: a string without its end"),
            ("\"\\", "line 1, column 1: a string without its end"),
            ("\"\\x\"", "line 1, column 1: not a valid string"),
            ("{} /* x", "line 1, column 4: a comment without its end"),
            ("{} {}", "line 1, column 4: expected the end of the file, found `{`"),
            ("{\"a\": 1", "line 1, column 8: expected `,` or `}`, found the end of the file"),
            ("// nothing", "line 1, column 11: expected a value, found the end of the file"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), message, "{text}");
        }
        let deep = "[".repeat(100_000);
        assert!(parse(&deep).unwrap_err().to_string().contains("nested more than 128 deep"));
    }

    /// A comment is one only outside of strings.
    #[test]
    fn comments_are_found() {
        assert!(has_comment("{\"a\": 1 // x\n}"));
        assert!(has_comment("{/**/}"));
        assert!(!has_comment("{\"a\": \"http://x /* y */\"}"));
    }
}
