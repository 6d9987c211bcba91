//! Raw JSON: payloads pass through greenroom byte for byte and are parsed only where something looks inside.
//!
//! [`Raw`] is one JSON value as its sender wrote it. [`Fields`] opens a single level of an object, in order,
//! and leaves everything below raw, so a rewrite of one member cannot lose or reorder another.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

/// One JSON value, exactly as it was written.
pub type Raw = Box<RawValue>;

/// A type that a guarded argument can be read as.
pub trait Argument: DeserializeOwned {
    /// What the argument must be, in the words of an error.
    const MUST_BE: &str;
}

impl Argument for String {
    const MUST_BE: &str = "text";
}

impl Argument for Vec<String> {
    const MUST_BE: &str = "a list of texts";
}

impl Argument for Vec<Fields> {
    const MUST_BE: &str = "a list of objects";
}

/// An argument that is present, but not of the type that it must have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` must be {must_be}, in valid Unicode")]
pub struct UnreadableArgument {
    pub name: String,
    pub must_be: &'static str,
}

/// One level of a JSON object: names in order, values raw.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fields(IndexMap<String, Raw>);

impl Fields {
    /// Opens `raw` one level deep. Anything but an object is an error.
    pub fn open(raw: &RawValue) -> Result<Self, serde_json::Error> {
        serde_json::from_str(raw.get())
    }

    pub fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.get(name).map(|value| &**value)
    }

    /// The member as a typed value; `None` when it is absent.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, serde_json::Error> {
        self.get(name).map(|value| serde_json::from_str(value.get())).transpose()
    }

    /// The argument that a guard has to judge. `None` if it is absent or `null`, which no tool takes for a value; an
    /// error if it is present and not of the type that the guard judges. The guard then refuses the call, because an
    /// engine may be able to read what greenroom cannot.
    pub fn guarded<T: Argument>(&self, name: &str) -> Result<Option<T>, UnreadableArgument> {
        match self.get(name).filter(|value| value.get() != "null") {
            None => Ok(None),
            Some(value) => serde_json::from_str(value.get())
                .map(Some)
                .map_err(|_| UnreadableArgument { name: name.to_owned(), must_be: T::MUST_BE }),
        }
    }

    /// Replaces the member at its position, or adds it at the end.
    pub fn set(&mut self, name: &str, value: Raw) {
        self.0.insert(name.to_owned(), value);
    }

    /// Adds the member in front of all others, or replaces it where it is.
    pub fn set_first(&mut self, name: &str, value: Raw) {
        if self.0.contains_key(name) {
            self.set(name, value);
        } else {
            self.0.shift_insert(0, name.to_owned(), value);
        }
    }

    pub fn remove(&mut self, name: &str) -> Option<Raw> {
        self.0.shift_remove(name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), &**value))
    }

    pub fn to_raw(&self) -> Raw {
        encode(self)
    }
}

/// Encodes a value that greenroom made. Such values (structs, maps with string keys) always encode. A value that did
/// not would become `null`, so that callers need no error for a case that does not happen.
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Raw {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Parses a complete JSON text into [`Raw`].
pub fn parse(text: String) -> Result<Raw, serde_json::Error> {
    RawValue::from_string(text)
}

/// The whole value as a tree. `None` for a text that [`crate::json_check`] refuses: a string that is not valid Unicode,
/// nesting without end, a number beyond the range of a 64-bit float.
pub fn tree(raw: &RawValue) -> Option<Value> {
    serde_json::from_str(raw.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rewrite of one member keeps the order, spelling and number format of all others.
    #[test]
    fn rewriting_a_field_keeps_the_others() {
        let raw = parse(r#"{"b": 1.50, "a": [1,  2], "x-new": {"k": 1e400}}"#.to_owned()).unwrap();
        let mut fields = Fields::open(&raw).unwrap();
        fields.set("a", encode(&7));
        fields.set_first("first", encode("1"));
        assert_eq!(fields.to_raw().get(), r#"{"first":"1","b":1.50,"a":7,"x-new":{"k": 1e400}}"#);
        assert!(fields.remove("b").is_some());
        assert!(Fields::open(&encode(&[1])).is_err());
    }

    /// A guarded argument is absent, readable, or an error that names it; it is never absent because it is unreadable.
    #[test]
    fn unreadable_guarded_arguments_are_errors() {
        let text = r#"{"url":"a","n":5,"lone":"\ud800","none":null,"paths":["a","b"],"mixed":["a",1]}"#;
        let fields = Fields::open(&parse(text.to_owned()).unwrap()).unwrap();
        assert_eq!(fields.guarded::<String>("url"), Ok(Some("a".to_owned())));
        assert_eq!(fields.guarded::<Vec<String>>("paths"), Ok(Some(vec!["a".to_owned(), "b".to_owned()])));
        for absent in ["none", "nothing"] {
            assert_eq!(fields.guarded::<String>(absent), Ok(None));
        }
        for name in ["n", "lone", "paths"] {
            let error = fields.guarded::<String>(name).unwrap_err();
            assert_eq!(error.to_string(), format!("`{name}` must be text, in valid Unicode"));
        }
        assert_eq!(fields.guarded::<Vec<String>>("mixed").unwrap_err().must_be, "a list of texts");
    }

    /// A text that passes the check of requests becomes a tree; another text does not.
    #[test]
    fn only_checked_texts_become_trees() {
        let tree = |text: &str| tree(&parse(text.to_owned()).unwrap());
        let expected = serde_json::json!({ "a": [1e308, 0.0], "b": { "c": "x" } });
        assert_eq!(tree(r#"{"a":[1e308,1e-400],"b":{"c":"x"}}"#), Some(expected));
        let deep = format!("{}1{}", "[".repeat(1_000), "]".repeat(1_000));
        for odd in [r#"["\ud800"]"#, "[1e400]", &deep] {
            assert_eq!(tree(odd), None);
        }
    }
}
