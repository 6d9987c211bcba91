//! Adds greenroom's own parameters to a tool's input schema. Everything else in the definition stays as it is.

use greenroom_core::{Fields, Raw, raw::encode, settings::Scope};
use serde_json::{json, value::RawValue};

pub(super) const SESSION_ID: &str = "sessionId";

/// Every tool carries this, so every token counts: at most 20 of them.
const DESCRIPTION: &str = "Your browser; each agent picks its own id";

/// The definition with `sessionId`, and whether it was added. A tool that has a parameter of that name keeps it.
pub(super) fn session_id(definition: &RawValue, scope: Scope) -> (Raw, bool) {
    add(definition, scope).map_or_else(|| (definition.to_owned(), false), |shown| (shown, true))
}

fn add(definition: &RawValue, scope: Scope) -> Option<Raw> {
    let mut tool = Fields::open(definition).ok()?;
    let mut schema = tool.read::<Fields>("inputSchema").ok()?.unwrap_or_default();
    let mut properties = schema.read::<Fields>("properties").ok()?.unwrap_or_default();
    if properties.get(SESSION_ID).is_some() {
        return None;
    }
    properties.set_first(SESSION_ID, encode(&json!({ "type": "string", "description": DESCRIPTION })));
    if schema.get("type").is_none() {
        schema.set_first("type", encode("object"));
    }
    schema.set("properties", properties.to_raw());
    if scope == Scope::Explicit {
        let mut required = vec![encode(SESSION_ID)];
        required.extend(schema.read::<Vec<Raw>>("required").ok()?.unwrap_or_default());
        schema.set("required", encode(&required));
    }
    tool.set("inputSchema", schema.to_raw());
    Some(tool.to_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(definition: &str, scope: Scope, expected: &str) {
        let definition = greenroom_core::raw::parse(definition.to_owned()).unwrap();
        let (shown, _) = session_id(&definition, scope);
        let description = DESCRIPTION;
        let expected = expected
            .replace("ID", &format!(r#""sessionId":{{"type":"string","description":"{description}"}}"#));
        assert_eq!(shown.get(), expected);
    }

    /// The parameter comes first, everything else stays as it was written, and only `explicit` requires it.
    #[test]
    fn injection() {
        let tool = r#"{"name":"t","x-new":{"n": 1.50},"inputSchema":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},"icons":[]}"#;
        check(
            tool,
            Scope::Connection,
            r#"{"name":"t","x-new":{"n": 1.50},"inputSchema":{"type":"object","properties":{ID,"a":{"type":"string"}},"required":["a"]},"icons":[]}"#,
        );
        check(
            tool,
            Scope::Explicit,
            r#"{"name":"t","x-new":{"n": 1.50},"inputSchema":{"type":"object","properties":{ID,"a":{"type":"string"}},"required":["sessionId","a"]},"icons":[]}"#,
        );
        check(
            r#"{"name":"t","inputSchema":{}}"#,
            Scope::Call,
            r#"{"name":"t","inputSchema":{"type":"object","properties":{ID}}}"#,
        );
        let own = r#"{"name":"t","inputSchema":{"properties":{"sessionId":{}}}}"#;
        check(own, Scope::Connection, own);
    }
}
