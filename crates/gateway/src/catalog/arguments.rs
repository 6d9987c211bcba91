//! Checks arguments against a tool's schema, because engines accept nonsense silently.
//!
//! A parameter that has a default is not required, whatever the schema says: some engines publish the schema
//! of their arguments after defaults are filled in.

use greenroom_core::{
    Fields,
    excerpt::{echoed, shortened},
    raw::tree,
};
use jsonschema::{ValidationError, Validator, error::ValidationErrorKind};
use serde_json::{Map, Value, value::RawValue};

/// Why arguments do not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidArguments {
    #[error("arguments are not an object")]
    NotAnObject,
    #[error("unknown argument: `{}`", echoed(.name))]
    Unknown { name: String, known: Vec<String> },
    #[error("missing argument: `{name}`")]
    Missing { name: String },
    #[error("wrong argument: `{}`: {why}", echoed(.name))]
    Wrong { name: String, why: String },
    #[error("arguments cannot be read: they are nested too deep, or hold text that is not valid Unicode")]
    Unreadable,
}

impl InvalidArguments {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let Self::Unknown { known, .. } = self else { return None };
        if known.is_empty() {
            return Some("this tool takes no arguments".to_owned());
        }
        let known: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
        Some(format!("this tool takes {}", known.join(", ")))
    }
}

/// A tool's schema, compiled.
pub(crate) struct ArgumentChecker {
    /// The parameters, if no others are allowed.
    closed: Option<Vec<String>>,
    required: Vec<String>,
    /// `None` for a schema that cannot be compiled: then only the engine checks the arguments.
    validator: Option<Validator>,
}

impl ArgumentChecker {
    pub(crate) fn new(definition: &RawValue) -> Self {
        let schema = Fields::open(definition).ok().and_then(|tool| tool.read::<Value>("inputSchema").ok()?);
        let mut schema = schema.unwrap_or(Value::Bool(true));
        let properties = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
        let closed = (schema.get("additionalProperties") == Some(&Value::Bool(false)))
            .then(|| properties.keys().cloned().collect());
        let required = required(&schema, &properties);
        if let Some(object) = schema.as_object_mut() {
            // `check` tests for both itself, with clearer messages.
            object.remove("required");
            object.remove("additionalProperties");
        }
        let validator = match jsonschema::validator_for(&schema) {
            Ok(validator) => Some(validator),
            Err(error) => {
                tracing::warn!(%error, "a tool's schema cannot be used; its arguments are not checked");
                None
            }
        };
        Self { closed, required, validator }
    }

    pub(crate) fn check(&self, arguments: Option<&RawValue>) -> Result<(), InvalidArguments> {
        let fields = arguments.map(Fields::open).transpose().map_err(|_| InvalidArguments::NotAnObject)?;
        let fields = fields.unwrap_or_default();
        if let Some(known) = &self.closed
            && let Some(name) = fields.names().find(|name| !known.iter().any(|known| known == name))
        {
            return Err(InvalidArguments::Unknown { name: name.to_owned(), known: known.clone() });
        }
        if let Some(name) = self.required.iter().find(|name| fields.get(name).is_none()) {
            return Err(InvalidArguments::Missing { name: name.clone() });
        }
        let Some(validator) = &self.validator else { return Ok(()) };
        let value = match arguments {
            Some(arguments) => tree(arguments).ok_or(InvalidArguments::Unreadable)?,
            None => Value::Object(Map::new()),
        };
        validator.validate(&value).map_err(|error| {
            let place = error.instance_path().to_string();
            let name = place.trim_start_matches('/').replace('/', ".");
            InvalidArguments::Wrong { name, why: why(&error) }
        })
    }
}

/// The validator's message, but with all choices of an enum: the validator names only the first two.
fn why(error: &ValidationError<'_>) -> String {
    let options = match error.kind() {
        ValidationErrorKind::Enum { options } => options.as_array(),
        _ => None,
    };
    match options {
        Some(options) => {
            let options: Vec<_> = options.iter().map(ToString::to_string).collect();
            format!("{} is not one of {}", echoed(&error.instance().to_string()), options.join(", "))
        }
        None => shortened(&error.to_string()).into_owned(),
    }
}

fn required(schema: &Value, properties: &Map<String, Value>) -> Vec<String> {
    let names =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    names
        .filter(|name| properties.get(*name).is_none_or(|property| property.get("default").is_none()))
        .map(ToOwned::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from the engine, version 0.0.83, without descriptions.
    const CONSOLE: &str = r#"{"name":"browser_console_messages","inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"level":{"default":"info","type":"string","enum":["error","warning","info","debug"]},"all":{"type":"boolean"}},"required":["level"],"additionalProperties":false}}"#;
    const CLICK: &str = r#"{"name":"browser_click","inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"target":{"type":"string"},"modifiers":{"type":"array","items":{"type":"string","enum":["Alt"]}}},"required":["target"],"additionalProperties":false}}"#;

    fn check(tool: &str, arguments: &str) -> Result<(), InvalidArguments> {
        let raw = |text: &str| greenroom_core::raw::parse(text.to_owned()).unwrap();
        ArgumentChecker::new(&raw(tool)).check(Some(&raw(arguments)))
    }

    /// Unknown, missing and wrongly typed arguments have different errors, each with the argument's name.
    #[test]
    fn invalid_argument_errors_name_the_argument() {
        assert_eq!(check(CLICK, r#"{"target":"e1","modifiers":["Alt"]}"#), Ok(()));
        assert!(
            matches!(check(CLICK, r#"{"target":"e1","ref":"e1"}"#), Err(InvalidArguments::Unknown { name, .. }) if name == "ref")
        );
        assert_eq!(check(CLICK, "{}"), Err(InvalidArguments::Missing { name: "target".into() }));
        assert!(
            matches!(check(CLICK, r#"{"target":1}"#), Err(InvalidArguments::Wrong { name, .. }) if name == "target")
        );
        assert!(
            matches!(check(CLICK, r#"{"target":"e","modifiers":["x"]}"#), Err(InvalidArguments::Wrong { name, .. }) if name == "modifiers.0")
        );
        assert_eq!(check(CLICK, "[]"), Err(InvalidArguments::NotAnObject));
    }

    /// A parameter with a default may be left out, although the engine's schema lists it as required.
    #[test]
    fn parameters_with_defaults_are_optional() {
        assert_eq!(check(CONSOLE, "{}"), Ok(()));
        let Err(InvalidArguments::Wrong { why, .. }) = check(CONSOLE, r#"{"level":"loud"}"#) else {
            panic!("a wrong level")
        };
        assert_eq!(why, r#""loud" is not one of "error", "warning", "info", "debug""#);
    }

    /// Arguments that cannot be parsed are refused.
    #[test]
    fn unparsable_arguments_are_refused() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for odd in [deep.as_str(), r#""\ud800""#, "1e400"] {
            assert_eq!(check(CLICK, &format!(r#"{{"target":{odd}}}"#)), Err(InvalidArguments::Unreadable));
            assert!(matches!(
                check(CLICK, &format!(r#"{{"x":{odd}}}"#)),
                Err(InvalidArguments::Unknown { .. })
            ));
        }
    }

    /// A tool without a usable schema accepts any arguments.
    #[test]
    fn tools_without_schema_accept_any_arguments() {
        assert_eq!(check(r#"{"name":"t"}"#, r#"{"a":1}"#), Ok(()));
        assert_eq!(check(r#"{"name":"t","inputSchema":{"type":"object"}}"#, r#"{"a":1}"#), Ok(()));
    }
}
