//! Which tools of the playwright engine carry out the commands of the command line.

use greenroom_core::port::{BrowserCommand, FieldInput};
use serde_json::{Value, json};

use crate::script::as_function;

const FIND: &str = "browser_find";

/// The tool and its arguments for a command.
pub(super) fn call(command: &BrowserCommand) -> (&'static str, Value) {
    match command {
        BrowserCommand::Open { url } => ("browser_navigate", json!({ "url": url })),
        BrowserCommand::Snapshot {} => ("browser_snapshot", json!({})),
        BrowserCommand::Click { target } => ("browser_click", json!({ "target": target })),
        BrowserCommand::Type { target, text, submit: false } => {
            ("browser_type", json!({ "target": target, "text": text }))
        }
        BrowserCommand::Type { target, text, submit: true } => {
            ("browser_type", json!({ "target": target, "text": text, "submit": true }))
        }
        BrowserCommand::Fill { fields } => {
            ("browser_fill_form", json!({ "fields": fields.iter().map(field).collect::<Vec<_>>() }))
        }
        BrowserCommand::Press { key } => ("browser_press_key", json!({ "key": key })),
        BrowserCommand::Select { target, values } => {
            ("browser_select_option", json!({ "target": target, "values": values }))
        }
        BrowserCommand::WaitText { text } => ("browser_wait_for", json!({ "text": text })),
        BrowserCommand::WaitGone { text } => ("browser_wait_for", json!({ "textGone": text })),
        BrowserCommand::WaitTime { seconds } => ("browser_wait_for", json!({ "time": seconds })),
        BrowserCommand::Eval { script } => ("browser_evaluate", json!({ "function": as_function(script) })),
        BrowserCommand::Screenshot { full_page, annotate: false } => {
            ("browser_take_screenshot", json!({ "type": "png", "fullPage": full_page }))
        }
        BrowserCommand::Screenshot { full_page, annotate: true } => {
            ("browser_take_screenshot", json!({ "type": "png", "fullPage": full_page, "annotate": true }))
        }
        BrowserCommand::TabList {} => ("browser_tabs", json!({ "action": "list" })),
        BrowserCommand::TabNew { url: None } => ("browser_tabs", json!({ "action": "new" })),
        BrowserCommand::TabNew { url: Some(url) } => ("browser_tabs", json!({ "action": "new", "url": url })),
        BrowserCommand::TabClose { tab: None } => ("browser_tabs", json!({ "action": "close" })),
        BrowserCommand::TabClose { tab: Some(tab) } => {
            ("browser_tabs", json!({ "action": "close", "index": tab }))
        }
        BrowserCommand::TabSelect { tab } => ("browser_tabs", json!({ "action": "select", "index": tab })),
        BrowserCommand::Back {} => ("browser_navigate_back", json!({})),
        BrowserCommand::Find { text } => (FIND, json!({ "text": text })),
    }
}

/// The engine wants to know the kind of each field. `true` and `false` are for checkboxes and radio buttons; every other
/// value is text. Lists are for `select`.
fn field(FieldInput { target, value }: &FieldInput) -> Value {
    let kind = if matches!(value.as_str(), "true" | "false") { "checkbox" } else { "textbox" };
    json!({ "target": target, "name": target, "type": kind, "value": value })
}

/// Whether the text says that the search found nothing.
pub(super) fn found_nothing(tool: &str, text: &str) -> bool {
    tool == FIND && text.lines().any(|line| line.starts_with("No matches found for "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields with `true` or `false` are checkboxes, others are texts; only a search can find nothing.
    #[test]
    fn fields_have_types_and_only_searches_find_nothing() {
        let input = |value: &str| FieldInput { target: "e5".to_owned(), value: value.to_owned() };
        let (tool, arguments) = call(&BrowserCommand::Fill { fields: vec![input("true"), input("True")] });
        assert_eq!(tool, "browser_fill_form");
        let kinds: Vec<_> = (0..2).map(|index| &arguments["fields"][index]["type"]).collect();
        assert_eq!(kinds, ["checkbox", "textbox"]);
        let nothing = "### Find results\nNo matches found for \"x\".";
        assert!(found_nothing(FIND, nothing) && !found_nothing("browser_snapshot", nothing));
    }
}
