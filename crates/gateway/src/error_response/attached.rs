//! Errors about attached browsers, and about tools that a pool or browser does not have.

use greenroom_core::{excerpt::echoed, plural};
use greenroom_fleet::FleetError;

use super::ErrorResponse;
use crate::{Gateway, attach::NotAttached, catalog::SourceName};

impl ErrorResponse {
    /// The pool or browser that the call names has other tools.
    pub(crate) fn tool_not_there(tool: &str, source: &SourceName, others: &[&SourceName]) -> Self {
        let names =
            |others: &[&SourceName]| others.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        if source.is_pool() && others.iter().all(|other| other.is_pool()) {
            // If there are only pools, write the word "pool" once.
            let others = names(others).replace("pool ", "");
            return Self::new(
                "tool_not_in_pool",
                format!("{source} has no tool \"{tool}\"; it is in {others}"),
            )
            .hint(
                "name such a pool with `browser_pool`, and a `sessionId` that does not live in another one",
            );
        }
        let code = if source.is_pool() { "tool_not_in_pool" } else { "tool_not_in_browser" };
        let message =
            format!("{source} has no tool \"{tool}\": its engine is another one; it is in {}", names(others));
        Self::new(code, message).hint(
            "name a browser that has it with `browserIndex`, or a pool with `browser_pool`, and a `sessionId` that does not live elsewhere",
        )
    }

    /// There are no pools, and the last browser was removed.
    pub(crate) fn nothing_attached(tool: &str) -> Self {
        Self::new("no_browser", format!("no browser is attached, so there is no tool \"{}\"", echoed(tool)))
            .hint("connect_browser attaches one, where that is allowed")
    }

    /// No browser has such a tag.
    pub(crate) fn no_such_tag(tag: &str, known: &[&str]) -> Self {
        let known: Vec<_> = known.iter().map(|tag| format!("\"{tag}\"")).collect();
        let there_is = match known.as_slice() {
            [] => "no browser has a tag".to_owned(),
            some => plural::there(some),
        };
        Self::new("no_such_tag", format!("no such tag: \"{}\"; {there_is}", echoed(tag)))
            .hint("list_browsers shows them")
    }

    /// A tag and another selector both name browsers.
    pub(crate) fn tag_and_selector(selector: &str) -> Self {
        Self::new(
            "invalid_arguments",
            format!("`browserTag` and `{selector}` name browsers in two ways: give one of them"),
        )
    }

    /// A caller asked to reconnect this browser, and it still cannot be reached.
    pub(crate) fn not_reconnected(gateway: &Gateway, error: &FleetError) -> Self {
        let failure = Self::from_fleet_error(gateway, error);
        match error {
            FleetError::BrowserDown { .. } => {
                failure.hint("start that browser with its debugger on, at this address, then reconnect it")
            }
            _ => failure,
        }
    }

    /// Why a browser was not attached, or not detached.
    pub(crate) fn not_attached(gateway: &Gateway, error: &NotAttached) -> Self {
        let failure = |code| Self::new(code, error.to_string());
        match error {
            NotAttached::NotAllowed => failure("changes_refused").hint(
                "the operator decides who may, with `attach.changes`, or adds browsers to the configuration",
            ),
            NotAttached::Refused(refused) if refused.down => {
                let message = format!("{refused}; it was not attached");
                let hint = refused
                    .hint
                    .as_deref()
                    .unwrap_or("start that browser with its debugger on, at this address");
                Self::new("browser_down", message).hint(hint).retryable()
            }
            NotAttached::Refused(refused) => match &refused.hint {
                Some(hint) => failure("bad_browser").hint(hint),
                None => failure("bad_browser"),
            },
            NotAttached::TooMany => failure("too_many_browsers").hint("disconnect_browser removes one"),
            NotAttached::Fleet(error) => {
                let failure = Self::not_reconnected(gateway, error);
                match error {
                    FleetError::BrowserDown { .. } => Self {
                        message: format!("{}; it was not attached", failure.message),
                        hint: Some("start that browser with its debugger on, at this address".to_owned()),
                        ..failure
                    },
                    _ => failure,
                }
            }
        }
    }
}
