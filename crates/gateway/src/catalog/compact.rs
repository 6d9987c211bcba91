//! Tool definitions in fewer tokens. [`compact`] removes what a model does not need to choose a tool and to
//! fill its parameters: annotations that say what the protocol assumes without them, titles for people, the
//! default JSON Schema dialect, limits that no value reaches, and `additionalProperties: false`, which
//! greenroom checks itself against the engine's own definition. The engine's adapter gives shorter texts for
//! the descriptions that it knows.

use greenroom_core::{EngineFormat, Raw, raw};
use serde_json::{Map, Value, json, value::RawValue};

/// The dialect that MCP assumes.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The largest integer that JavaScript can represent: engines write it where they have no limit.
const UNLIMITED: i64 = 9_007_199_254_740_991;

/// The definition in fewer tokens. One that is not an object stays as it is.
pub(super) fn compact(definition: &RawValue, format: &dyn EngineFormat) -> Raw {
    let Some(Value::Object(mut tool)) = raw::tree(definition) else { return definition.to_owned() };
    if let Some(Value::Object(annotations)) = tool.get_mut("annotations") {
        shorten_annotations(annotations);
        if annotations.is_empty() {
            tool.remove("annotations");
        }
    }
    describe(&mut tool, format);
    if let Some(Value::Object(schema)) = tool.get_mut("inputSchema") {
        if schema.get("$schema") == Some(&json!(DIALECT)) {
            schema.shift_remove("$schema");
        }
        shorten_schema(schema, format);
    }
    raw::encode(&tool)
}

/// Removes the hints that have their default value, those that mean nothing for a tool that only reads, and the title.
fn shorten_annotations(annotations: &mut Map<String, Value>) {
    let only_reads = annotations.get("readOnlyHint") == Some(&json!(true));
    annotations.retain(|name, value| match name.as_str() {
        "title" => false,
        "destructiveHint" => !only_reads && *value != json!(true),
        "idempotentHint" => !only_reads && *value != json!(false),
        "readOnlyHint" => *value != json!(false),
        "openWorldHint" => *value != json!(true),
        _ => true,
    });
}

/// Gives a tool or a schema the adapter's shorter description.
fn describe(object: &mut Map<String, Value>, format: &dyn EngineFormat) {
    let Some(brief) = object.get("description").and_then(Value::as_str).and_then(|text| format.brief(text))
    else {
        return;
    };
    if brief.is_empty() {
        object.shift_remove("description");
    } else {
        object.insert("description".to_owned(), json!(brief));
    }
}

fn shorten_schema(schema: &mut Map<String, Value>, format: &dyn EngineFormat) {
    describe(schema, format);
    schema.retain(|keyword, value| match keyword.as_str() {
        "additionalProperties" => *value != json!(false),
        "propertyNames" => *value != json!({ "type": "string" }),
        "minimum" => *value != json!(-UNLIMITED),
        "maximum" => *value != json!(UNLIMITED),
        _ => true,
    });
    for (keyword, value) in schema.iter_mut() {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                properties
                    .values_mut()
                    .filter_map(Value::as_object_mut)
                    .for_each(|one| shorten_schema(one, format));
            }
            ("items" | "additionalProperties", Value::Object(inner)) => shorten_schema(inner, format),
            ("anyOf" | "oneOf" | "allOf", Value::Array(choices)) => {
                choices
                    .iter_mut()
                    .filter_map(Value::as_object_mut)
                    .for_each(|one| shorten_schema(one, format));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An adapter that knows one description.
    struct Format;

    impl EngineFormat for Format {
        fn brief(&self, text: &str) -> Option<&'static str> {
            match text {
                "A long text" => Some("short"),
                "The name again" => Some(""),
                _ => None,
            }
        }
    }

    fn check(definition: &Value, expected: &Value) {
        assert_eq!(compact(&raw::encode(definition), &Format).get(), expected.to_string());
    }

    /// What a model does not need is gone, everything else stays, in its order.
    #[test]
    fn compact_schema_drops_only_unneeded_keys() {
        check(
            &json!({
                "name": "t", "description": "A long text", "x-new": { "additionalProperties": false },
                "inputSchema": {
                    "$schema": DIALECT, "type": "object",
                    "properties": {
                        "name": { "type": "string", "description": "The name again" },
                        "additionalProperties": { "type": "integer", "minimum": -UNLIMITED, "maximum": UNLIMITED },
                        "list": { "type": "array", "items": { "type": "object", "properties": {}, "additionalProperties": false } },
                        "either": { "anyOf": [{ "type": "number", "minimum": 0, "description": "A long text" }, true] },
                    },
                    "required": ["name"], "additionalProperties": false,
                },
                "annotations": { "title": "T", "readOnlyHint": false, "destructiveHint": true, "openWorldHint": true },
            }),
            &json!({
                "name": "t", "description": "short", "x-new": { "additionalProperties": false },
                "inputSchema": {
                    "type": "object",
                    "properties": {
                        "name": { "type": "string" },
                        "additionalProperties": { "type": "integer" },
                        "list": { "type": "array", "items": { "type": "object", "properties": {} } },
                        "either": { "anyOf": [{ "type": "number", "minimum": 0, "description": "short" }, true] },
                    },
                    "required": ["name"],
                },
            }),
        );
    }

    /// Hints that differ from what the protocol assumes stay, and so does another dialect.
    #[test]
    fn compact_schema_keeps_meaningful_hints() {
        check(
            &json!({
                "name": "t", "inputSchema": { "$schema": "http://json-schema.org/draft-07/schema#" },
                "annotations": { "readOnlyHint": true, "destructiveHint": false, "openWorldHint": false, "new": 1 },
            }),
            &json!({
                "name": "t", "inputSchema": { "$schema": "http://json-schema.org/draft-07/schema#" },
                "annotations": { "readOnlyHint": true, "openWorldHint": false, "new": 1 },
            }),
        );
        check(
            &json!({ "name": "t", "annotations": { "destructiveHint": false, "idempotentHint": true } }),
            &json!({ "name": "t", "annotations": { "destructiveHint": false, "idempotentHint": true } }),
        );
        let list = greenroom_core::raw::parse("[1]".to_owned()).unwrap();
        assert_eq!(compact(&list, &Format).get(), "[1]");
    }
}
