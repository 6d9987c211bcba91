//! What the playwright engine's answers mean: snapshots with their fields, and data, which is the tree of a snapshot or the
//! value of an evaluation. Also lists which tools return which; only this adapter knows their names.

use greenroom_core::{
    EngineFormat,
    port::{BrowserCommand, Field},
};
use serde_json::Value;

use super::{browser_command, short_descriptions, text, tree};
use crate::tool_answer::first_text;

/// Tools that answer with a page snapshot, always or by their arguments: `browser_type` does when it submits,
/// `browser_press_key` for Enter, `browser_tabs` for a new tab with an address. All others show none.
const SNAPSHOTS: [&str; 16] = [
    "browser_click",
    "browser_drag",
    "browser_drop",
    "browser_file_upload",
    "browser_hover",
    "browser_mouse_click_xy",
    "browser_mouse_drag_xy",
    "browser_navigate",
    "browser_navigate_back",
    "browser_press_key",
    "browser_select_option",
    SNAPSHOT,
    "browser_stop_recording",
    "browser_tabs",
    "browser_type",
    "browser_wait_for",
];

/// The tool that only takes a snapshot.
pub(super) const SNAPSHOT: &str = "browser_snapshot";

const SCREENSHOT: &str = "browser_take_screenshot";

pub(super) const EVALUATE: &str = "browser_evaluate";

/// Tools whose answers are data.
const DATA: [&str; 3] = ["browser_navigate", SNAPSHOT, EVALUATE];

pub(super) struct PlaywrightFormat;

impl EngineFormat for PlaywrightFormat {
    fn gives_snapshots(&self, tool: &str) -> bool {
        SNAPSHOTS.contains(&tool)
    }

    fn fields(&self, snapshot: &str, is_wanted: &dyn Fn(&str) -> bool) -> Vec<Field> {
        tree::fields(snapshot, is_wanted)
    }

    /// The engine begins the refs of each document of a tab with another frame number: `e7`, later `f1e7`, then `f2e7`. It
    /// lists the tabs where there are several.
    fn document(&self, result: &str, snapshot: &str) -> Option<String> {
        let (_, reference) = snapshot.split_once("[ref=")?;
        let (frame, _) = reference.split_once(']')?.0.rsplit_once('e')?;
        Some(format!("{} {frame}", text::current_tab(result)))
    }

    fn is_missing_ref(&self, error: &str) -> bool {
        error.lines().any(|line| {
            line.strip_prefix("Error: ").is_some_and(|error| {
                (error.starts_with("Ref ") && error.contains(" not found in the current page snapshot"))
                    || error.ends_with(" does not match any elements.")
            })
        })
    }

    fn brief(&self, description: &str) -> Option<&'static str> {
        short_descriptions::short_description(description)
    }

    fn core_tools(&self) -> &'static [&'static str] {
        short_descriptions::CORE_TOOLS
    }

    fn snapshot_tool(&self) -> Option<&'static str> {
        Some(SNAPSHOT)
    }

    fn screenshot_tool(&self) -> Option<&'static str> {
        Some(SCREENSHOT)
    }

    fn annotates(&self) -> bool {
        true
    }

    fn gives_data(&self, tool: &str) -> bool {
        DATA.contains(&tool)
    }

    fn data(&self, tool: &str, result: &str, snapshot: Option<&str>) -> Option<Value> {
        match tool {
            EVALUATE => value(&first_text(result)?),
            _ if self.gives_data(tool) => snapshot.map(tree::parse),
            _ => None,
        }
    }

    fn command(&self, command: &BrowserCommand) -> Option<(&'static str, Value)> {
        Some(browser_command::call(command))
    }

    fn found_nothing(&self, tool: &str, text: &str) -> bool {
        browser_command::found_nothing(tool, text)
    }
}

/// The value in an answer to an evaluation. It is JSON over several lines, followed by the code that was run. JSON has no
/// `undefined`, which is also the value of functions: these become `null`, as in an array.
fn value(text: &str) -> Option<Value> {
    let result = text.strip_prefix("### Result\n")?;
    if result.lines().next() == Some("undefined") {
        return Some(Value::Null);
    }
    serde_json::Deserializer::from_str(result).into_iter().next()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn evaluated(text: &str) -> Option<Value> {
        let text = format!("{text}\n### Ran Playwright code\n```js\nawait page.evaluate('() => 1');\n```");
        let result = json!({ "content": [{ "type": "text", "text": text }] });
        PlaywrightFormat.data(EVALUATE, &result.to_string(), None)
    }

    /// Values as the engine printed them, recorded from version 0.0.83.
    #[test]
    fn recorded_values_become_data() {
        for (printed, value) in [
            ("undefined", json!(null)),
            ("null", json!(null)),
            ("2", json!(2)),
            ("1.5", json!(1.5)),
            ("true", json!(true)),
            ("\"a\\n### Snapshot\\n```yaml\\n- x\\n```\"", json!("a\n### Snapshot\n```yaml\n- x\n```")),
            ("\"ref: <Node>\"", json!("ref: <Node>")),
            (
                "{\n  \"a\": [\n    1,\n    {\n      \"b\": null\n    }\n  ]\n}",
                json!({ "a": [1, { "b": null }] }),
            ),
            ("{}", json!({})),
        ] {
            assert_eq!(evaluated(&format!("### Result\n{printed}")), Some(value), "{printed}");
        }
        for none in [
            "### Error\nDo not know how to serialize a BigInt",
            "### Result\n- [Evaluation result](./r.json)",
        ] {
            assert_eq!(evaluated(none), None, "{none}");
        }
        assert_eq!(PlaywrightFormat.data(EVALUATE, "{", None), None);
    }

    /// Snapshots are trees, whatever the answer's text is; other tools give no data.
    #[test]
    fn only_snapshots_become_trees() {
        let tree = Some(json!([{ "role": "button", "name": "Go" }]));
        assert_eq!(PlaywrightFormat.data("browser_navigate", "{}", Some("- button \"Go\"")), tree);
        assert_eq!(PlaywrightFormat.data("browser_snapshot", "{}", None), None);
        assert_eq!(PlaywrightFormat.data("browser_click", "{}", Some("- button \"Go\"")), None);
        assert!(
            DATA.iter().all(|tool| PlaywrightFormat.gives_data(tool))
                && PlaywrightFormat.gives_snapshots("browser_click")
        );
    }

    /// The frame number in its refs and the tab identify a document. Recorded from version 0.0.83.
    #[test]
    fn documents_are_identified_by_frame_and_tab() {
        let page =
            |reference: &str| format!("- generic [active] [ref={reference}]:\n  - heading \"e\" [ref=e2]");
        let document = |reference: &str| PlaywrightFormat.document("{}", &page(reference));
        assert_eq!(document("e1"), document("e77"));
        assert_ne!(document("e1"), document("f1e1"));
        assert_ne!(document("f1e1"), document("f2e1"));
        let second = r####"{"content":[{"type":"text","text":"### Open tabs\n- 0: [](http://a/)\n- 1: (current) [](http://a/two)\n### Page"}]}"####;
        assert_ne!(PlaywrightFormat.document(second, &page("e1")), document("e1"));
        assert_eq!(PlaywrightFormat.document("{}", "- text: no ref"), None);
    }

    /// Errors about refs that the page does not have, recorded from version 0.0.83.
    #[test]
    fn errors_about_missing_refs_are_recognised() {
        for (error, is_missing) in [
            (
                "### Error\nError: Ref e3 not found in the current page snapshot. Try capturing new snapshot.",
                true,
            ),
            ("### Error\nError: \"zz99\" does not match any elements.", true),
            ("### Error\nTimeoutError: locator.click: Timeout 5000ms exceeded.", false),
            ("### Error\nError: page.goto: net::ERR_CONNECTION_REFUSED at http://127.0.0.1:1/", false),
        ] {
            assert_eq!(PlaywrightFormat.is_missing_ref(error), is_missing, "{error}");
        }
    }
}
