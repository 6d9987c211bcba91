//! Which tools of the devtools engine carry out the commands of the command line, one tool for a command. The engine
//! cannot search a page, and can wait only for a text to appear.

use greenroom_core::port::{BrowserCommand, FieldInput};
use serde_json::{Value, json};

use crate::script::as_function;

/// The tool and its arguments for a command, if there is one.
pub(super) fn call(command: &BrowserCommand) -> Option<(&'static str, Value)> {
    Some(match command {
        BrowserCommand::Open { url } => ("navigate_page", json!({ "type": "url", "url": url })),
        BrowserCommand::Snapshot {} => ("take_snapshot", json!({})),
        BrowserCommand::Click { target } => ("click", json!({ "uid": target, "includeSnapshot": true })),
        BrowserCommand::Type { target, text, submit: false } => {
            ("fill", json!({ "uid": target, "value": text, "includeSnapshot": true }))
        }
        BrowserCommand::Fill { fields } => {
            let element =
                |FieldInput { target, value }: &FieldInput| json!({ "uid": target, "value": value });
            let elements: Vec<_> = fields.iter().map(element).collect();
            ("fill_form", json!({ "elements": elements, "includeSnapshot": true }))
        }
        BrowserCommand::Press { key } => ("press_key", json!({ "key": key, "includeSnapshot": true })),
        BrowserCommand::Select { target, values } => match values.as_slice() {
            [value] => ("fill", json!({ "uid": target, "value": value, "includeSnapshot": true })),
            _ => return None,
        },
        BrowserCommand::WaitText { text } => ("wait_for", json!({ "text": [text] })),
        BrowserCommand::Eval { script } => ("evaluate_script", json!({ "function": as_function(script) })),
        BrowserCommand::Screenshot { full_page, annotate: false } => {
            ("take_screenshot", json!({ "format": "png", "fullPage": full_page }))
        }
        BrowserCommand::Screenshot { full_page, annotate: true } => {
            ("take_screenshot", json!({ "format": "png", "fullPage": full_page, "annotate": true }))
        }
        BrowserCommand::TabList {} => ("list_pages", json!({})),
        BrowserCommand::TabNew { url } => {
            ("new_page", json!({ "url": url.as_deref().unwrap_or("about:blank") }))
        }
        BrowserCommand::TabClose { tab: Some(tab) } => ("close_page", json!({ "pageId": tab })),
        BrowserCommand::TabSelect { tab } => ("select_page", json!({ "pageId": tab })),
        BrowserCommand::Back {} => ("navigate_page", json!({ "type": "back" })),
        BrowserCommand::Type { submit: true, .. }
        | BrowserCommand::WaitGone { .. }
        | BrowserCommand::WaitTime { .. }
        | BrowserCommand::TabClose { tab: None }
        | BrowserCommand::Find { .. } => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One option of a list can be selected, several cannot; there is no search.
    #[test]
    fn unsupported_commands_have_no_call() {
        let select = |values: &[&str]| {
            let values = values.iter().map(|value| (*value).to_owned()).collect();
            call(&BrowserCommand::Select { target: "1_2".to_owned(), values })
        };
        let (tool, arguments) = select(&["Garden"]).unwrap();
        assert_eq!((tool, &arguments["uid"], &arguments["value"]), ("fill", &json!("1_2"), &json!("Garden")));
        assert_eq!(select(&["Garden", "House"]), None);
        assert_eq!(call(&BrowserCommand::Find { text: "x".to_owned() }), None);
    }
}
