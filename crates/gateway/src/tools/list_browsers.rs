//! `list_browsers`: the attached browsers with their names and the state of their connections. Listed where a browser
//! is attached or can be; answered everywhere.

use std::fmt::Write as _;

use greenroom_core::raw::encode;

use super::{OwnTool, ToolOutput, has_browsers};
use crate::browser_json::{Browser, Browsers};

pub(super) const TOOL: OwnTool = OwnTool {
    name: "list_browsers",
    description: "List attached browsers: index, state, label",
    read_only: true,
    usable: has_browsers,
    run: |context| {
        Box::pin(async move {
            let all = Browsers::list(&context.gateway.fleet);
            Ok(ToolOutput {
                structured: Some(encode(&all)),
                notes: all.browsers.iter().filter_map(Browser::connection_problem).collect(),
                ..ToolOutput::text(text(&all.browsers))
            })
        })
    },
    ..OwnTool::DEFAULTS
};

/// All browsers, one a line, and whether a call must name one.
fn text(browsers: &[Browser]) -> String {
    let mut text = format!("Total browsers: {}\n\n", browsers.len());
    for browser in browsers {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", browser.line());
    }
    text + match browsers.len() {
        0 => "No browser is attached.",
        1 => "\nSingle browser mode: browserIndex parameter must NOT be specified.",
        _ => {
            "\nMultiple browsers detected. You MUST specify browserIndex parameter in all tool calls to target a specific browser."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn browser(index: u32, state: &str) -> Browser {
        let url = format!("http://127.0.0.1:{}", 9221 + index);
        Browser { index, url, state: state.to_owned(), ..Browser::default() }
    }

    /// The list has the documented text, word for word, for one browser and for several, in every state.
    #[test]
    fn list_has_the_documented_text() {
        assert_eq!(
            text(&[browser(1, "connected")]),
            "Total browsers: 1\n\n[1] http://127.0.0.1:9222 - connected\n\nSingle browser mode: browserIndex parameter must NOT be specified."
        );
        assert_eq!(
            text(&[browser(1, "connected"), browser(2, "connected")]),
            "Total browsers: 2\n\n[1] http://127.0.0.1:9222 - connected\n[2] http://127.0.0.1:9223 - connected\n\nMultiple browsers detected. You MUST specify browserIndex parameter in all tool calls to target a specific browser."
        );
        for state in ["pending", "connecting", "disconnected"] {
            let list = text(&[browser(3, state)]);
            assert!(list.contains(&format!("\n[3] http://127.0.0.1:9224 - {state}\n")), "{list}");
        }
        assert_eq!(text(&[]), "Total browsers: 0\n\nNo browser is attached.");
    }
}
