//! Big answers in pages: flattened, queried, cut by `offset` and `limit`, written as YAML or JSON.
//!
//! [`PageParameters`] holds a call's parameters, and [`PageParameters::check`] finds errors in them before anything
//! runs. The first page comes from [`prepare`] and [`page`], every later one from [`cache`] and [`page`], with
//! `cache_key` and `offset` alone, since the cache remembers the query. Nothing here touches a browser.

pub(crate) mod cache;
mod flatten;
mod format;
mod functions;
mod query;

use std::ops::RangeInclusive;

use greenroom_core::{Raw, excerpt::echoed, plural::count, raw::encode};
use serde::Deserialize;
use serde_json::{Value, json};

pub(crate) use format::OutputFormat;
pub(crate) use query::{QueryError, query};

/// How many items a page may have. More than an agent can read in any case.
pub(crate) const LIMITS: RangeInclusive<u64> = 1..=10_000;

/// How many items a page has by default.
pub(crate) const LIMIT: usize = 1_000;

/// The names of the parameters that ask for a page of an answer.
pub(crate) const NAMES: [&str; 7] =
    ["flatten", "jmespath_query", "offset", "limit", "output_format", "silent_mode", "cache_key"];

/// The parameters as a tool shows them. Only a few tools have them, but every conversation carries them.
pub(crate) fn parameters() -> [(&'static str, Raw); 7] {
    let [flatten, query, offset, limit, format, silent, key] = NAMES;
    [
        (flatten, encode(&json!({ "type": "boolean", "description": "Nodes as a flat list" }))),
        (
            query,
            encode(&json!({
                "type": "string",
                "description": "JMESPath on the page's nodes or the result: [?role=='button'].{name: name, ref: ref} with flatten",
            })),
        ),
        (offset, encode(&json!({ "type": "integer" }))),
        (limit, encode(&json!({ "type": "integer" }))),
        (format, encode(&json!({ "type": "string", "enum": ["yaml", "json"] }))),
        (silent, encode(&json!({ "type": "boolean", "description": "Only counts and cache_key, no items" }))),
        (
            key,
            encode(
                &json!({ "type": "string", "description": "From an earlier answer: sends its items from offset on, without running the tool" }),
            ),
        ),
    ]
}

/// A call's parameters, as they came.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct PageParameters {
    pub(crate) flatten: Option<bool>,
    pub(crate) jmespath_query: Option<String>,
    pub(crate) offset: Option<u64>,
    pub(crate) limit: Option<u64>,
    pub(crate) output_format: Option<OutputFormat>,
    pub(crate) silent_mode: Option<bool>,
    pub(crate) cache_key: Option<String>,
}

/// A call's parameters, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageQuery {
    pub(crate) parameters: PageParameters,
    /// Whether the call asks for a page at all: by `flatten`, a query, a key, or an output format.
    pub(crate) is_page: bool,
    pub(crate) flatten: bool,
    pub(crate) offset: usize,
    pub(crate) limit: usize,
    pub(crate) output_format: OutputFormat,
    /// Whether the answer has the page's counts without its items.
    pub(crate) silent_mode: bool,
}

impl PageQuery {
    /// Whether the caller wants no part of the answer, only that it is kept.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent_mode && !self.is_page
    }
}

/// Why there is no page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PageError {
    #[error("limit is {0}, and must be from 1 to 10,000")]
    Limit(u64),
    #[error("offset is {0}, which is more than any page has")]
    Offset(u64),
    #[error("{0} needs something to count: give it with flatten, jmespath_query or cache_key")]
    NothingToCount(&'static str),
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The query is well formed, but does not fit the call's data.
    #[error("{error}\nThe call has run; the query was given {data}")]
    Unsuited { error: QueryError, data: String },
    #[error("flatten would make more than {} nodes of this answer. The call has run", flatten::NODES_MAX)]
    TooManyNodes,
    #[error("greenroom failed to read this answer as data")]
    Failed,
    #[error("cache_key `{}` is unknown or expired", echoed(.0))]
    Expired(String),
    #[error("{what} is not what the pages of cache_key `{key}` were made with: {cached}")]
    OtherQuery { key: String, what: &'static str, cached: String },
}

impl PageError {
    /// What to do about it.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Limit(_) => "leave limit out for 1,000",
            Self::Offset(_) => "offset counts items, from 0",
            Self::NothingToCount(_) => "flatten: true makes a list of all nodes",
            Self::Query(_) | Self::Unsuited { .. } => {
                "the functions are those of JMESPath, and nvl, int, str, regex_replace"
            }
            Self::TooManyNodes => "return less, or use jmespath_query without flatten",
            Self::Failed => "read it as text, without flatten and jmespath_query",
            Self::Expired(_) => "make the call again without cache_key; its answer has a new one",
            Self::OtherQuery { .. } => {
                "with cache_key give only offset and limit; for another query make the call again without cache_key"
            }
        }
    }
}

impl PageParameters {
    /// Sets one parameter; the error says what it must be.
    pub(crate) fn set(&mut self, name: &str, given: &str) -> Result<(), &'static str> {
        fn read<T: serde::de::DeserializeOwned>(
            given: &str,
            must: &'static str,
        ) -> Result<Option<T>, &'static str> {
            serde_json::from_str(given).map(Some).map_err(|_| must)
        }
        let [flatten, query, offset, limit, format, silent, key] = NAMES;
        let truth = "must be true or false";
        let text = "must be text";
        match name {
            _ if name == flatten => self.flatten = read(given, truth)?,
            _ if name == query => self.jmespath_query = read(given, text)?,
            _ if name == offset => self.offset = whole(given, "must be a whole number from 0")?,
            _ if name == limit => self.limit = whole(given, "must be a whole number from 1 to 10,000")?,
            _ if name == format => self.output_format = read(given, "must be yaml or json")?,
            _ if name == silent => self.silent_mode = read(given, truth)?,
            _ if name == key => self.cache_key = read(given, text)?,
            _ => {}
        }
        Ok(())
    }

    /// The checked parameters, or what is wrong with them.
    pub(crate) fn check(self) -> Result<PageQuery, PageError> {
        let flatten = self.flatten.unwrap_or_default();
        let has_items = flatten || self.jmespath_query.is_some() || self.cache_key.is_some();
        if let Some(limit) = self.limit.filter(|limit| !LIMITS.contains(limit)) {
            return Err(PageError::Limit(limit));
        }
        for (name, given) in [("offset", self.offset), ("limit", self.limit)] {
            if given.is_some() && !has_items {
                return Err(PageError::NothingToCount(name));
            }
        }
        if let Some(expression) = &self.jmespath_query {
            query::check(expression)?;
        }
        let number = |given: u64| usize::try_from(given).map_err(|_| PageError::Offset(given));
        Ok(PageQuery {
            is_page: has_items || self.output_format.is_some(),
            flatten,
            offset: self.offset.map_or(Ok(0), number)?,
            limit: self.limit.map_or(Ok(LIMIT), number)?,
            output_format: self.output_format.unwrap_or_default(),
            silent_mode: self.silent_mode.unwrap_or_default(),
            parameters: self,
        })
    }
}

/// A whole number, also if written as `3.0`.
fn whole(given: &str, must: &'static str) -> Result<Option<u64>, &'static str> {
    let read = crate::rest::whole(&mut serde_json::Deserializer::from_str(given));
    read.map(Some).map_err(|_: serde_json::Error| must)
}

/// A part of a result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResultPage {
    /// The items as a list; or the result itself if it is no list.
    pub(crate) value: Value,
    pub(crate) total: usize,
    pub(crate) offset: usize,
    pub(crate) limit: usize,
    pub(crate) has_more: bool,
}

impl ResultPage {
    /// How many items it has.
    pub(crate) fn count(&self) -> usize {
        self.total.saturating_sub(self.offset).min(self.limit)
    }
}

/// The whole result of which pages are parts: flattened, then queried.
pub(crate) fn prepare(value: Value, flatten: bool, jmespath_query: Option<&str>) -> Result<Value, PageError> {
    let value = if flatten { flatten::flatten(value).ok_or(PageError::TooManyNodes)? } else { value };
    Ok(match jmespath_query {
        Some(expression) => {
            query(expression, &value).map_err(|error| PageError::Unsuited { error, data: outline(&value) })?
        }
        None => value,
    })
}

/// How many keys of an object an error names, and how long a key may be in it, in letters.
const KEYS_SHOWN: usize = 20;
const KEY_CHARS_SHOWN: usize = 40;

/// Describes the top of a value: its type, and the keys or the length that a query meets first.
fn outline(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "a boolean".to_owned(),
        Value::Number(_) => "a number".to_owned(),
        Value::String(text) => format!("a string of {}", count(text.chars().count(), "letter")),
        Value::Array(items) => match items.first() {
            None => "an empty array".to_owned(),
            Some(first) => {
                format!("an array of {}, the first of which is {}", items.len(), outline_of_item(first))
            }
        },
        Value::Object(_) => outline_of_item(value),
    }
}

fn outline_of_item(value: &Value) -> String {
    let Value::Object(fields) = value else {
        return if value.is_array() { "an array".to_owned() } else { outline(value) };
    };
    if fields.is_empty() {
        return "an empty object".to_owned();
    }
    let short = |key: &String| format!("`{}`", key.chars().take(KEY_CHARS_SHOWN).collect::<String>());
    let mut keys: Vec<_> = fields.keys().take(KEYS_SHOWN).map(short).collect();
    if fields.len() > KEYS_SHOWN {
        keys.push(format!("{} more", fields.len() - KEYS_SHOWN));
    }
    format!("an object with the keys {}", keys.join(", "))
}

/// A part of a whole result. A value that is no list is one item.
pub(crate) fn page(whole: &Value, offset: usize, limit: usize) -> ResultPage {
    let (total, value) = match whole {
        Value::Array(items) => {
            let from = offset.min(items.len());
            let until = from.saturating_add(limit).min(items.len());
            (items.len(), Value::Array(items[from..until].to_vec()))
        }
        one if offset == 0 => (1, one.clone()),
        _ => (1, Value::Array(Vec::new())),
    };
    ResultPage { value, total, offset, limit, has_more: offset.saturating_add(limit) < total }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_parameters(arguments: Value) -> PageParameters {
        serde_json::from_value(arguments).expect("they are of the right types")
    }

    /// Wrong parameters are refused with a hint.
    #[test]
    fn wrong_parameters_are_refused_with_a_hint() {
        for (arguments, expected) in [
            (json!({"flatten": true, "limit": 0}), PageError::Limit(0)),
            (json!({"flatten": true, "limit": 10_001}), PageError::Limit(10_001)),
            (json!({"offset": 5}), PageError::NothingToCount("offset")),
            (json!({"flatten": false, "limit": 5}), PageError::NothingToCount("limit")),
        ] {
            assert_eq!(page_parameters(arguments.clone()).check(), Err(expected), "{arguments}");
        }
        let half = page_parameters(json!({"jmespath_query": "[?role=="})).check();
        assert!(matches!(half, Err(PageError::Query(QueryError::Wrong { .. }))), "{half:?}");
        let wrong = serde_json::from_value::<PageParameters>(json!({"output_format": "xml"}));
        assert!(wrong.is_err_and(|error| error.to_string().contains("xml")));
    }

    /// A model knows the parameters from their descriptions alone: those whose names are not enough have one, the
    /// example expression works as it stands, and every parameter that a description mentions exists.
    #[test]
    fn parameter_descriptions_are_sufficient() {
        let parameters = parameters().map(|(name, schema)| {
            let schema: Value = serde_json::from_str(schema.get()).expect("it is JSON");
            (name, schema["description"].as_str().unwrap_or_default().to_owned())
        });
        let said = |name: &str| {
            let (_, text) = parameters.iter().find(|(other, _)| *other == name).expect("there is one");
            assert!(!text.is_empty(), "{name}");
            text.as_str()
        };
        let (_, example) = said("jmespath_query").split_once(": ").expect("an example follows");
        let (example, needs) = example.split_once(" with ").expect("and what it needs");
        assert_eq!(needs, "flatten");
        let nodes = json!([{"role": "button", "name": "Buy", "ref": "e1"}, {"role": "link", "name": "x", "ref": "e2"}]);
        assert_eq!(query(example, &nodes), Ok(json!([{"name": "Buy", "ref": "e1"}])));
        assert!(said("silent_mode").contains("cache_key"));
        assert!(said("cache_key").contains("offset") && said("cache_key").contains("earlier answer"));
        assert!(said("flatten").contains("list"));
    }

    /// A missing parameter has its default, and a call without parameters gets no page.
    #[test]
    fn missing_parameters_have_defaults() {
        let plain = page_parameters(json!({"silent_mode": true})).check().expect("it is right");
        assert!(!plain.is_page && plain.silent_mode);
        let next = page_parameters(json!({"cache_key": "k", "offset": 1_000})).check().expect("it is right");
        assert!(next.is_page);
        assert_eq!((next.offset, next.limit, next.output_format), (1_000, LIMIT, OutputFormat::Yaml));
        let written = page_parameters(json!({"output_format": "json"})).check().expect("it is right");
        assert!(written.is_page && written.output_format == OutputFormat::Json);
    }

    fn check(whole: &Value, offset: usize, limit: usize, expected: &Value, more: bool) {
        let page = page(whole, offset, limit);
        assert_eq!((&page.value, page.has_more), (expected, more), "{offset} {limit}");
        assert_eq!(page.count(), expected.as_array().map_or(1, Vec::len));
    }

    /// Pages are parts of the list; a value that is no list is one item, on the first page only.
    #[test]
    fn pages_are_parts_of_the_list() {
        let list = json!([0, 1, 2, 3, 4]);
        check(&list, 0, 2, &json!([0, 1]), true);
        check(&list, 3, 2, &json!([3, 4]), false);
        check(&list, 4, 2, &json!([4]), false);
        check(&list, 9, 2, &json!([]), false);
        check(&list, usize::MAX, usize::MAX, &json!([]), false);
        check(&json!({"a": 1}), 0, 1, &json!({"a": 1}), false);
        check(&json!({"a": 1}), 1, 1, &json!([]), false);
        check(&json!(null), 0, 10, &json!(null), false);
    }

    /// The error of a query that does not fit its data describes the data, briefly however much there is.
    #[test]
    fn unsuited_query_errors_describe_the_data() {
        let long = Value::Object((0..500).map(|n| (format!("{n:0>99}"), json!(n))).collect());
        for (data, outline) in [
            (
                json!([{"role": "list", "ref": "e1"}]),
                "an array of 1, the first of which is an object with the keys `role`, `ref`",
            ),
            (json!({"a": 1}), "an object with the keys `a`"),
            (json!("text"), "a string of 4 letters"),
            (json!([[1]]), "an array of 1, the first of which is an array"),
            (json!([]), "an empty array"),
            (json!(null), "null"),
            (json!({}), "an empty object"),
            (long, "480 more"),
        ] {
            let error = prepare(data, false, Some("abs('a')")).expect_err("`abs` wants a number").to_string();
            assert!(error.ends_with(outline) && error.len() < 2_000, "{error}");
            assert!(error.contains("abs('a')") && error.contains("The call has run"), "{error}");
        }
    }

    /// A page is flattened first and queried then.
    #[test]
    fn page_is_flattened_before_the_query() {
        let tree = json!([{"role": "list", "children": [{"role": "link", "ref": "e1"}, {"role": "link", "ref": "e2"}]}]);
        let links = prepare(tree.clone(), true, Some("[?role=='link' && _depth==`1`].ref"));
        assert_eq!(links, Ok(json!(["e1", "e2"])));
        assert_eq!(prepare(tree.clone(), false, None), Ok(tree));
    }
}
