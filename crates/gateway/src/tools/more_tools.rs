//! `more_tools`: describes and runs the tools that the profile `core` does not list.
//!
//! A call with `arguments` is a call of the tool that it names: [`inner_call`] unwraps it before the walk of a call
//! begins, so that permit, record, session and answer are those of that tool.

use greenroom_core::{Fields, excerpt::echoed, settings::ToolProfile};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{OwnTool, ToolContext, ToolOutput, definitions};
use crate::{
    argument_check::suggestion,
    catalog::SESSION_ID,
    error_response::ErrorResponse,
    route::{CallRequest, Unroutable},
};

const NAME: &str = "more_tools";

pub(super) const TOOL: OwnTool = OwnTool {
    name: NAME,
    description: "Other tools: tabs, back, hover, drag, drop, upload, dialogs, wait, JavaScript, console, network, resize, sessions, several calls at once. Without tool: their names; with tool: its parameters; with tool and arguments: runs it",
    session: Some("Your own browser, by any id"),
    is_core: true,
    schema: || {
        json!({
            "properties": { "tool": { "type": "string" }, "arguments": { "type": "object" } },
        })
    },
    runs_others: true,
    usable: |gateway, _| gateway.catalog.profile() == ToolProfile::Core,
    run: |context| Box::pin(describe(context)),
    ..OwnTool::DEFAULTS
};

#[derive(Deserialize)]
struct Arguments {
    tool: Option<String>,
}

/// The call that a call of `more_tools` wraps, if it is one and has `arguments`.
pub(crate) fn inner_call(request: &CallRequest) -> Option<Result<CallRequest, Unroutable>> {
    if &*request.tool != NAME {
        return None;
    }
    let outer = Fields::open(request.arguments()?).ok()?;
    let tool: String = outer.read("tool").ok()??;
    if tool == NAME {
        return Some(Err(Unroutable::MoreToolsInItself));
    }
    let mut arguments = outer.read::<Fields>("arguments").ok()??;
    if let (Some(session), None) = (outer.get(SESSION_ID), arguments.get(SESSION_ID)) {
        arguments.set(SESSION_ID, session.to_owned());
    }
    Some(
        CallRequest::from_parts(&tool, Some(arguments.to_raw()), request.meta())
            .map(|inner| inner.on_behalf_of(request)),
    )
}

/// The names of the tools that are not listed, or the definition of one.
async fn describe(context: ToolContext<'_>) -> Result<ToolOutput, ErrorResponse> {
    let Arguments { tool } = context.arguments()?;
    if tool.as_deref() == Some(NAME) {
        let mut output = ToolOutput::text(Unroutable::MoreToolsInItself.to_string());
        output.failed = true;
        return Ok(output);
    }
    let gateway = context.gateway;
    let listed = gateway.catalog.list().await?;
    let allowed = listed.iter().filter(|(name, _)| gateway.policy.shows(context.owner(), name));
    let own = definitions(gateway, context.owner(), context.caller.is_local, gateway.scope, false);
    let mut definitions: Vec<Value> = allowed
        .filter(|(name, entry)| tool.is_some() || (!entry.is_listed && !name.is_empty()))
        .map(|(_, entry)| &*entry.shown)
        .chain(own.iter().map(|tool| &**tool))
        .filter_map(greenroom_core::raw::tree)
        .collect();
    let Some(tool) = tool else {
        let line =
            |tool: &Value| Some(format!("{}: {}", tool["name"].as_str()?, tool["description"].as_str()?));
        return Ok(ToolOutput::text(definitions.iter().filter_map(line).collect::<Vec<_>>().join("\n")));
    };
    definitions.retain(|definition| definition["name"] == json!(tool));
    match definitions.into_iter().next() {
        Some(definition) => Ok(definition.into()),
        None => {
            let near = suggestion(gateway, context.caller, &listed, &tool);
            let hint = near.unwrap_or_else(|| "call more_tools without `tool` for the names".to_owned());
            let mut output = ToolOutput::text(format!("no such tool: `{}`\n\nhint: {hint}", echoed(&tool)));
            output.failed = true;
            Ok(output)
        }
    }
}

#[cfg(test)]
mod tests {
    use greenroom_core::SessionId;

    use super::*;
    use crate::recall::ResponseMode;

    fn inner(arguments: &Value) -> Option<(String, String)> {
        let request =
            CallRequest::from_parts(NAME, Some(greenroom_core::raw::encode(arguments)), None).unwrap();
        let inner = inner_call(&request)?.unwrap();
        Some((inner.tool.to_string(), inner.arguments().unwrap().get().to_owned()))
    }

    /// A call with arguments is a call of the named tool, in the session that either names; one without describes.
    #[test]
    fn calls_with_arguments_are_unwrapped() {
        let call = |tool: &str, arguments: &str| Some((tool.to_owned(), arguments.to_owned()));
        assert_eq!(inner(&json!({ "tool": "t", "arguments": {} })), call("t", "{}"));
        assert_eq!(
            inner(&json!({ "tool": "t", "arguments": { "a": 1 }, "sessionId": "s" })),
            call("t", r#"{"a":1,"sessionId":"s"}"#)
        );
        assert_eq!(
            inner(&json!({ "tool": "t", "arguments": { "sessionId": "own" }, "sessionId": "s" })),
            call("t", r#"{"sessionId":"own"}"#)
        );
        for described in [
            json!({}),
            json!({ "tool": "t" }),
            json!({ "arguments": {} }),
            json!({ "tool": 7, "arguments": {} }),
        ] {
            assert_eq!(inner(&described), None);
        }
        let nested = json!({ "tool": NAME, "arguments": { "tool": "t", "arguments": {} } });
        let nested = CallRequest::from_parts(NAME, Some(greenroom_core::raw::encode(&nested)), None).unwrap();
        let error = inner_call(&nested).unwrap().unwrap_err();
        assert!(error.to_string().contains("cannot run itself"), "{error}");
        let outer = json!({ "tool": "t", "arguments": {} });
        let outer = CallRequest::from_parts(NAME, Some(greenroom_core::raw::encode(&outer)), None).unwrap();
        let outer = outer.in_session(SessionId::new("s").unwrap(), Some(ResponseMode::Diff));
        let inner = inner_call(&outer).unwrap().unwrap();
        assert_eq!(inner.session, outer.session, "the command line names its session outside the arguments");
        assert_eq!(inner.response_options.mode, Some(ResponseMode::Diff));
        let other = CallRequest::from_parts("t", None, None).unwrap();
        assert!(inner_call(&other).is_none());
    }
}
