//! The arguments of a call, parsed for the code that guards an engine: the adapters' `files` modules.
//!
//! A guard refuses arguments that it cannot parse, and never passes them on unread: the engine may be able to read them. It
//! also refuses arguments that two programs could read differently ([`greenroom_core::json_check`]). The fronts refuse both
//! already; a guard does not rely on that.

use greenroom_core::{Call, Fields, Raw, json_check};
use serde::Deserialize;

use crate::workspace::WorkspaceRefusal;

/// The key under which an engine takes options among a tool's arguments that no tool declares. With some of them the
/// playwright engine answers in another form; with `cwd` it would look for files with relative names in another folder.
const META_OPTIONS: &str = "_meta";

/// The options that may pass.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MetaOptions {
    #[serde(default, rename = "json")]
    _json: bool,
    #[serde(default, rename = "raw")]
    _raw: bool,
}

/// A call's parameters, and its arguments if it has any.
pub(crate) struct CallArguments {
    params: Fields,
    /// The arguments, parsed one level deep.
    pub(crate) fields: Fields,
}

impl CallArguments {
    /// Parses a call's arguments for a guard. `None` for a call without arguments.
    pub(crate) fn parse(call: &Call) -> Result<Option<Self>, WorkspaceRefusal> {
        json_check::check(&call.params)
            .map_err(|ambiguous| WorkspaceRefusal::Arguments(ambiguous.to_string()))?;
        let params = Fields::open(&call.params).map_err(|_| {
            WorkspaceRefusal::Arguments("the parameters of a call must be an object".to_owned())
        })?;
        match params.get("arguments").filter(|arguments| arguments.get() != "null") {
            None => Ok(None),
            Some(arguments) => {
                let fields = Fields::open(arguments)
                    .map_err(|_| WorkspaceRefusal::Arguments("`arguments` must be an object".to_owned()))?;
                if fields.read::<MetaOptions>(META_OPTIONS).is_err() {
                    let why = format!("`{META_OPTIONS}` may say `json` or `raw`, and nothing else");
                    return Err(WorkspaceRefusal::Arguments(why));
                }
                Ok(Some(Self { params, fields }))
            }
        }
    }

    /// The parameters with the arguments as they are now.
    pub(crate) fn params(&mut self) -> Raw {
        self.params.set("arguments", self.fields.to_raw());
        self.params.to_raw()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_arguments(params: &str) -> Result<bool, String> {
        let call = Call::new("t", greenroom_core::raw::parse(params.to_owned()).unwrap());
        CallArguments::parse(&call).map(|opened| opened.is_some()).map_err(|refused| refused.to_string())
    }

    /// Arguments are absent or parsed; arguments that cannot be parsed, or not in one way only, are refused by name.
    #[test]
    fn unreadable_arguments_are_refused() {
        assert_eq!(has_arguments(r#"{"name":"t","arguments":{"url":"a"}}"#), Ok(true));
        assert_eq!(has_arguments(r#"{"name":"t","arguments":{"_meta":{"json":true}}}"#), Ok(true));
        assert_eq!(has_arguments(r#"{"name":"t"}"#), Ok(false));
        assert_eq!(has_arguments(r#"{"name":"t","arguments":null}"#), Ok(false));
        for (params, says) in [
            (r#"{"arguments":[{"url":"file:///x"}]}"#, "`arguments` must be an object"),
            (r#"{"arguments":{"_meta":{"cwd":"/"}}}"#, "`_meta` may say `json` or `raw`, and nothing else"),
            (r#"{"arguments":"x"}"#, "`arguments` must be an object"),
            ("[]", "the parameters of a call must be an object"),
            (r#"{"arguments":{"url":"\ud800"}}"#, "`arguments.url` is not valid Unicode"),
            (r#"{"arguments":{},"arguments":{"url":"file:///x"}}"#, "`arguments` is given twice"),
            (r#"{"arguments":{"url":"a","\u0075rl":"b"}}"#, "is given twice"),
        ] {
            let refused = has_arguments(params).unwrap_err();
            assert!(refused.contains(says), "{params}: {refused}");
        }
    }
}
