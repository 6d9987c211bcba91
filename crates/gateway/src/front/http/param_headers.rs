//! Headers that repeat a tool's arguments (`Mcp-Param-…`, revision 2026-07-28).
//!
//! A tool's input schema names them with `x-mcp-header`, so that a proxy can route a call without reading its body. The
//! engine must get what the proxy read, so the front refuses a header that is missing, cannot be read or differs from
//! the body.

use std::borrow::Cow;

use axum::http::{HeaderMap, HeaderName};
use greenroom_core::{Fields, excerpt::echoed, raw::tree};
use greenroom_mcp::RpcError;
use serde_json::{Number, Value, value::RawValue};

use super::headers::{header_value, mismatch};
use crate::Gateway;

/// The schema key with which a parameter names its header.
const ANNOTATION: &str = "x-mcp-header";

/// Compares the headers of a `tools/call` with its arguments, by the tool's listed schema. The call itself refuses a
/// tool that is not in the list.
pub(super) async fn check(
    gateway: &Gateway,
    headers: &HeaderMap,
    params: Option<&RawValue>,
) -> Result<(), RpcError> {
    let Some(params) = params.and_then(|params| Fields::open(params).ok()) else { return Ok(()) };
    let Ok(Some(name)) = params.read::<Cow<'_, str>>("name") else { return Ok(()) };
    let Ok(listed) = gateway.catalog.list().await else { return Ok(()) };
    match listed.get(&name) {
        Some((_, entry)) => compare(&entry.shown, headers, params.get("arguments")),
        None => Ok(()),
    }
}

fn compare(tool: &RawValue, headers: &HeaderMap, arguments: Option<&RawValue>) -> Result<(), RpcError> {
    // Few tools have such parameters: do not parse the others.
    if !tool.get().contains(ANNOTATION) {
        return Ok(());
    }
    let Some(tool) = tree(tool) else { return Ok(()) };
    let arguments = match arguments.map(tree) {
        None => Value::Null,
        Some(Some(arguments)) => arguments,
        Some(None) => return Err(mismatch("the arguments cannot be compared with the headers".to_owned())),
    };
    compare_properties(&tool["inputSchema"], headers, &arguments)
}

/// Compares the annotated parameters at this level and below: only a chain of `properties` leads to a value.
fn compare_properties(schema: &Value, headers: &HeaderMap, arguments: &Value) -> Result<(), RpcError> {
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        let argument = &arguments[name];
        // Ignore an annotation that is not a header name, or whose parameter does not fit into a header.
        let suffix = schema[ANNOTATION].as_str().filter(|_| is_primitive(schema));
        let header = suffix.and_then(|suffix| format!("mcp-param-{suffix}").parse::<HeaderName>().ok());
        if let Some(header) = header {
            compare_one(headers, header.as_str(), name, argument)?;
        }
        compare_properties(schema, headers, argument)?;
    }
    Ok(())
}

fn is_primitive(schema: &Value) -> bool {
    matches!(schema["type"].as_str(), Some("string" | "integer" | "boolean"))
}

fn compare_one(headers: &HeaderMap, header: &str, name: &str, argument: &Value) -> Result<(), RpcError> {
    let header_value = header_value(headers, header)?;
    match (header_value, argument) {
        (None, Value::Null) => Ok(()),
        (Some(header_value), argument) if says(&header_value, argument) => Ok(()),
        (Some(header_value), Value::Null) => Err(mismatch(format!(
            "the header `{header}` says `{}`, the body has no argument `{name}`",
            echoed(&header_value)
        ))),
        (Some(header_value), argument) => Err(mismatch(format!(
            "the header `{header}` says `{}`, the body says `{}` in `{name}`",
            echoed(&header_value),
            echoed(&argument.to_string())
        ))),
        (None, _) => {
            Err(mismatch(format!("the header `{header}` is missing; the body has the argument `{name}`")))
        }
    }
}

fn says(header_value: &str, argument: &Value) -> bool {
    match argument {
        Value::String(text) => header_value == text,
        Value::Bool(flag) => header_value == if *flag { "true" } else { "false" },
        // `42` and `42.0` are one number.
        Value::Number(number) => header_value.parse::<Number>().is_ok_and(|given| {
            given == *number || given.as_f64().is_some_and(|given| Some(given) == number.as_f64())
        }),
        // The argument check reports what is wrong with such a value.
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use greenroom_core::raw::encode;
    use serde_json::json;

    use super::*;

    /// Compares these headers with these arguments; the error says what is wrong.
    fn judge(given: &[(&str, &str)], arguments: &Value) -> Result<(), String> {
        let tool = encode(&json!({ "name": "t", "inputSchema": { "type": "object", "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "count": { "type": "integer", "x-mcp-header": "Count" },
            "dry": { "type": "boolean", "x-mcp-header": "Dry" },
            "deep": { "type": "object", "properties": { "x": { "type": "string", "x-mcp-header": "Deep" } } },
            "odd": { "type": "string", "x-mcp-header": "not a name" },
            "list": { "type": "array", "x-mcp-header": "List" },
            "plain": { "type": "string" },
        } } }));
        let headers = given
            .iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()))
            .collect();
        compare(&tool, &headers, Some(&encode(arguments))).map_err(|error| error.message)
    }

    /// Headers repeat the arguments, as text, number or boolean, wrapped or not, at any depth; other arguments are not
    /// compared.
    #[test]
    fn matching_parameter_headers_are_accepted() {
        for (given, arguments) in [
            (&[][..], json!({})),
            (&[], json!({ "region": null, "plain": "p", "odd": "o", "list": [1] })),
            (&[("Mcp-Param-Region", "eu"), ("mcp-param-other", "x")], json!({ "region": "eu" })),
            (&[("mcp-param-region", "=?base64?SGVsbG8=?=")], json!({ "region": "Hello" })),
            (&[("mcp-param-region", "=?base64?SGVsbG8=")], json!({ "region": "=?base64?SGVsbG8=" })),
            (&[("mcp-param-count", "42.0"), ("mcp-param-dry", "true")], json!({ "count": 42, "dry": true })),
            (&[("mcp-param-deep", "x")], json!({ "deep": { "x": "x" } })),
        ] {
            assert_eq!(judge(given, &arguments), Ok(()), "{given:?} {arguments}");
        }
    }

    /// A header that is missing, cannot be read, differs from its argument, or has none is refused by name.
    #[test]
    fn mismatched_parameter_headers_are_refused() {
        for (given, arguments, says) in [
            (&[][..], json!({ "region": "eu" }), "`mcp-param-region` is missing"),
            (&[("mcp-param-region", "us")], json!({ "region": "eu" }), "says `us`"),
            (&[("mcp-param-region", "=?base64?SGVsbG8?=")], json!({ "region": "Hello" }), "cannot be read"),
            (&[("mcp-param-region", "=?base64?SG!!bG8=?=")], json!({ "region": "Hello" }), "cannot be read"),
            (&[("mcp-param-region", "eu")], json!({}), "no argument `region`"),
            (&[("mcp-param-count", "43")], json!({ "count": 42 }), "the body says `42`"),
            (&[("mcp-param-dry", "True")], json!({ "dry": true }), "says `True`"),
            (&[], json!({ "deep": { "x": "x" } }), "`mcp-param-deep` is missing"),
            (&[("mcp-param-dry", "true"), ("mcp-param-dry", "true")], json!({ "dry": true }), "twice"),
        ] {
            let why = judge(given, &arguments).unwrap_err();
            assert!(why.contains(says), "{why}");
        }
    }
}
