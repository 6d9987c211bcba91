//! JSON as Node reads it (`JSON.parse`): the last of several members of one name counts, strings are UTF-16 and may hold
//! half a surrogate pair, numbers beyond floats are infinite. Tests compare it with what a guard let pass.

/// A value as JavaScript has it.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeValue {
    Null,
    Bool(bool),
    Number(f64),
    String(Vec<u16>),
    Array(Vec<NodeValue>),
    /// Each name once.
    Object(Vec<(Vec<u16>, NodeValue)>),
}

impl NodeValue {
    /// Reads a text that is JSON and nested no deeper than the stack allows.
    pub fn parse(text: &str) -> Self {
        let mut reader = NodeJsonReader { bytes: text.as_bytes(), at: 0 };
        reader.value()
    }

    /// The member of an object.
    pub fn get(&self, name: &str) -> Option<&NodeValue> {
        let name: Vec<u16> = name.encode_utf16().collect();
        match self {
            Self::Object(members) => members.iter().find(|(own, _)| *own == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The names of an object's members.
    pub fn names(&self) -> Vec<String> {
        match self {
            Self::Object(members) => members.iter().map(|(name, _)| String::from_utf16_lossy(name)).collect(),
            _ => Vec::new(),
        }
    }

    /// Every string in it, names of members too.
    pub fn texts(&self) -> Vec<String> {
        match self {
            Self::Array(items) => items.iter().flat_map(Self::texts).collect(),
            Self::Object(members) => {
                members.iter().flat_map(|(_, value)| value.texts()).chain(self.names()).collect()
            }
            other => other.text().into_iter().collect(),
        }
    }

    /// A string, with half a surrogate pair replaced by U+FFFD, as browsers do.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::String(units) => Some(String::from_utf16_lossy(units)),
            _ => None,
        }
    }
}

struct NodeJsonReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl NodeJsonReader<'_> {
    fn skip(&mut self) -> u8 {
        while matches!(self.bytes[self.at], b' ' | b'\t' | b'\n' | b'\r' | b',' | b':') {
            self.at += 1;
        }
        self.bytes[self.at]
    }

    fn value(&mut self) -> NodeValue {
        match self.skip() {
            b'"' => NodeValue::String(self.string()),
            b'[' => {
                self.at += 1;
                let mut items = Vec::new();
                while self.skip() != b']' {
                    items.push(self.value());
                }
                self.at += 1;
                NodeValue::Array(items)
            }
            b'{' => {
                self.at += 1;
                let mut members: Vec<(Vec<u16>, NodeValue)> = Vec::new();
                while self.skip() != b'}' {
                    let name = self.string();
                    let value = self.value();
                    match members.iter_mut().find(|(own, _)| *own == name) {
                        Some((_, old)) => *old = value,
                        None => members.push((name, value)),
                    }
                }
                self.at += 1;
                NodeValue::Object(members)
            }
            _ => self.word(),
        }
    }

    fn word(&mut self) -> NodeValue {
        let start = self.at;
        while self
            .bytes
            .get(self.at)
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
        {
            self.at += 1;
        }
        match std::str::from_utf8(&self.bytes[start..self.at]).unwrap() {
            "null" => NodeValue::Null,
            "true" => NodeValue::Bool(true),
            "false" => NodeValue::Bool(false),
            number => NodeValue::Number(number.parse().unwrap()),
        }
    }

    fn string(&mut self) -> Vec<u16> {
        self.at += 1;
        let mut units = Vec::new();
        let mut plain = self.at;
        loop {
            let byte = self.bytes[self.at];
            if byte == b'"' || byte == b'\\' {
                units.extend(std::str::from_utf8(&self.bytes[plain..self.at]).unwrap().encode_utf16());
            }
            match byte {
                b'"' => {
                    self.at += 1;
                    return units;
                }
                b'\\' => {
                    let (unit, length) = match self.bytes[self.at + 1] {
                        b'u' => {
                            let digits = std::str::from_utf8(&self.bytes[self.at + 2..self.at + 6]).unwrap();
                            (u16::from_str_radix(digits, 16).unwrap(), 6)
                        }
                        b'n' => (0x0a, 2),
                        b't' => (0x09, 2),
                        b'r' => (0x0d, 2),
                        b'b' => (0x08, 2),
                        b'f' => (0x0c, 2),
                        itself => (u16::from(itself), 2),
                    };
                    units.push(unit);
                    self.at += length;
                    plain = self.at;
                }
                _ => self.at += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Duplicates, surrogates and escapes are read as Node 20 reads them.
    #[test]
    fn json_is_read_as_node_reads_it() {
        let value = NodeValue::parse(r#" {"a":1,"\u0061":"x\ud800\n","b":[true,null,-1e400,"é😀"],"c":{}} "#);
        assert_eq!(value.names(), ["a", "b", "c"]);
        assert_eq!(value.get("a"), Some(&NodeValue::String(vec![0x78, 0xd800, 0x0a])));
        let Some(NodeValue::Array(items)) = value.get("b") else { panic!("{value:?}") };
        assert_eq!(items[..2], [NodeValue::Bool(true), NodeValue::Null]);
        assert_eq!(items[2], NodeValue::Number(f64::NEG_INFINITY));
        assert_eq!(items[3].text().as_deref(), Some("é😀"));
    }
}
