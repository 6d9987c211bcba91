//! Raw JSON: payloads pass through greenroom byte for byte and are parsed only where something looks inside.
//!
//! [`Raw`] is one JSON value as its sender wrote it. [`Fields`] opens a single level of an object, in order,
//! and leaves everything below raw, so a rewrite of one member cannot lose or reorder another.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

/// One JSON value, exactly as it was written.
pub type Raw = Box<RawValue>;

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

    /// Replaces the member in its place, or adds it at the end.
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

/// Encodes a value of our own making. Such values (structs, maps with string keys) always encode; `null`
/// stands in for one that cannot, so that no caller has to invent an error for what does not happen.
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Raw {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Parses a complete JSON text into [`Raw`].
pub fn parse(text: String) -> Result<Raw, serde_json::Error> {
    RawValue::from_string(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rewrite of one member keeps the order, spelling and number format of all others.
    #[test]
    fn fields_keep_what_they_do_not_touch() {
        let raw = parse(r#"{"b": 1.50, "a": [1,  2], "x-new": {"k": 1e400}}"#.to_owned()).unwrap();
        let mut fields = Fields::open(&raw).unwrap();
        fields.set("a", encode(&7));
        fields.set_first("first", encode("1"));
        assert_eq!(fields.to_raw().get(), r#"{"first":"1","b":1.50,"a":7,"x-new":{"k": 1e400}}"#);
        assert!(fields.remove("b").is_some());
        assert!(Fields::open(&encode(&[1])).is_err());
    }
}
