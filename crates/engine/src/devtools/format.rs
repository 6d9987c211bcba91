//! What the devtools engine's answers mean: snapshots with their fields, and data, which is the tree of a snapshot or the
//! value of a script.

use greenroom_core::{
    EngineFormat,
    port::{BrowserCommand, Field},
};
use serde_json::Value;

use super::{browser_command, text, tree};
use crate::tool_answer::first_text;

const EVALUATE: &str = "evaluate_script";
const SNAPSHOT: &str = "take_snapshot";

pub(super) struct DevtoolsFormat;

impl EngineFormat for DevtoolsFormat {
    fn gives_snapshots(&self, tool: &str) -> bool {
        text::gives_snapshots(tool)
    }

    fn fields(&self, snapshot: &str, is_wanted: &dyn Fn(&str) -> bool) -> Vec<Field> {
        tree::fields(snapshot, is_wanted)
    }

    /// The first line is the document: `uid=1_0 RootWebArea "Shop" url="http://shop/#tea"`.
    fn document(&self, _: &str, snapshot: &str) -> Option<String> {
        let (_, url) = snapshot.lines().next()?.rsplit_once(" url=\"")?;
        Some(url.split(['#', '"']).next()?.to_owned())
    }

    fn is_missing_ref(&self, error: &str) -> bool {
        error.contains("Please take a new snapshot with take_snapshot")
            || error.contains("Use take_snapshot to capture one")
            || (error.contains("Element uid \"") && error.contains(" not found on page "))
    }

    fn core_tools(&self) -> &'static [&'static str] {
        &["navigate_page", SNAPSHOT, "click", "fill", "fill_form", "press_key", "wait_for", "take_screenshot"]
    }

    fn snapshot_tool(&self) -> Option<&'static str> {
        Some(SNAPSHOT)
    }

    fn screenshot_tool(&self) -> Option<&'static str> {
        Some("take_screenshot")
    }

    fn gives_data(&self, tool: &str) -> bool {
        [EVALUATE, SNAPSHOT].contains(&tool)
    }

    fn data(&self, tool: &str, result: &str, snapshot: Option<&str>) -> Option<Value> {
        match tool {
            EVALUATE => value(&first_text(result)?),
            SNAPSHOT => snapshot.map(tree::parse),
            _ => None,
        }
    }

    fn command(&self, command: &BrowserCommand) -> Option<(&'static str, Value)> {
        browser_command::call(command)
    }
}

/// The value in an answer to a script: JSON in a fence. JSON has no `undefined`, which is also the value of functions: these
/// become `null`, as in an array.
fn value(text: &str) -> Option<Value> {
    let (_, rest) = text.split_once("Script ran on page and returned:\n```json\n")?;
    let json = rest.split("\n```").next()?;
    if json == "undefined" { Some(Value::Null) } else { serde_json::from_str(json).ok() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn evaluated(text: &str) -> Option<Value> {
        DevtoolsFormat.data(
            EVALUATE,
            &json!({ "content": [{ "type": "text", "text": text }] }).to_string(),
            None,
        )
    }

    /// Recorded from the engine, version 1.11.0: values, answers without one, and other text around them.
    #[test]
    fn recorded_values_become_data() {
        for (printed, expected) in [
            ("undefined", json!(null)),
            ("[1280,720]", json!([1280, 720])),
            ("\"```\\n## Latest page snapshot\\nx\"", json!("```\n## Latest page snapshot\nx")),
        ] {
            let text = format!("Script ran on page and returned:\n```json\n{printed}\n```");
            assert_eq!(evaluated(&text), Some(expected), "{printed}");
        }
        let more = "Script ran on page and returned:\n```json\n1\n```\nEmulating color scheme: dark";
        assert_eq!(evaluated(more), Some(json!(1)));
        for none in ["Error: nope", "Script ran on page. Output saved to /s/r.json."] {
            assert_eq!(evaluated(none), None);
        }
    }

    /// A snapshot is a tree; tools that only add the page to their answer give no data.
    #[test]
    fn only_snapshots_become_trees() {
        let tree = DevtoolsFormat.data(SNAPSHOT, "{}", Some("uid=1_0 button \"Go\""));
        assert_eq!(tree, Some(json!([{ "role": "button", "name": "Go", "ref": "1_0" }])));
        assert_eq!(DevtoolsFormat.data("click", "{}", Some("uid=1_0 button")), None);
    }

    /// The address without its fragment identifies a document; errors about elements that are gone are
    /// recognised.
    #[test]
    fn documents_and_missing_refs_are_recognised() {
        let document = |url: &str| {
            DevtoolsFormat.document(
                "{}",
                &format!(
                    "uid=1_0 RootWebArea \"A \" url=\"x\" url=\"{url}\"\n  uid=1_1 link url=\"http://b/\""
                ),
            )
        };
        assert_eq!(document("http://a/#1"), document("http://a/#2"));
        assert_eq!(document("http://a/"), Some("http://a/".to_owned()));
        assert_ne!(document("http://a/"), document("http://a/b"));
        assert!(DevtoolsFormat.is_missing_ref("Element uid \"9_9\" not found on page 1."));
        assert!(
            DevtoolsFormat.is_missing_ref("No snapshot found for page 1. Use take_snapshot to capture one.")
        );
        assert!(!DevtoolsFormat.is_missing_ref("Navigation timed out"));
    }
}
