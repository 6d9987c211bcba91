//! Removes greenroom's own functions from the stacks that an engine gets: those of `playwright/settle/page.js`, which track
//! a page's callbacks. They mean nothing to the reader of a page's error.

use greenroom_cdp::message_stream::Text;

/// The script's name in stacks. It has no scheme, unlike all scripts of the web.
const SETTLE_SCRIPT: &str = "settle.js:";

/// How a line of a stack begins in the text of a message, with the preceding newline escaped.
const STACK_LINE_START: &str = "\\n    at ";

/// Whether an event has stacks in it.
pub(super) fn may_have_stack(event: &str) -> bool {
    matches!(event, "Runtime.exceptionThrown" | "Runtime.consoleAPICalled")
}

/// The message without own frames.
pub(super) fn without_own_frames(text: Text) -> Text {
    if !text.contains(SETTLE_SCRIPT) {
        return text;
    }
    let mut parts = text.split(STACK_LINE_START);
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // A frame ends with its line, or with the text; the rest stays.
        let end = part.find(['\\', '"']).unwrap_or(part.len());
        let (frame, rest) = part.split_at(end);
        if !is_own_frame(frame) {
            kept.push_str(STACK_LINE_START);
            kept.push_str(frame);
        }
        kept.push_str(rest);
    }
    kept.into()
}

/// Matches `run (settle.js:23:8)`, also without a name.
fn is_own_frame(frame: &str) -> bool {
    let location = frame
        .strip_suffix(')')
        .and_then(|frame| frame.rsplit_once('('))
        .map_or(frame, |(_, location)| location);
    let numbers = location.strip_prefix(SETTLE_SCRIPT).map(|numbers| numbers.split(':'));
    numbers.is_some_and(|mut numbers| numbers.all(|number| number.parse::<u32>().is_ok()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Own frames are removed wherever they are in a stack; a page's own stay, and everything around them.
    #[test]
    fn own_frames_are_removed_from_stacks() {
        let stack = |frames: &[&str]| {
            let lines: String = frames.iter().map(|frame| format!("\n    at {frame}")).collect();
            json!({ "params": { "description": format!("Error: \"t\"{lines}"), "more": [1] } }).to_string()
        };
        let own = ["run (settle.js:23:8)", "args.<computed> (settle.js:34:8)", "settle.js:3:4"];
        let pages = ["f (http://a/settle.js:1:2)", "http://a/x.js:1:2", "settle.js:x", "new \"x\" (y:1:2)"];
        for frames in
            [vec![pages[0], pages[1], own[0], own[1]], vec![own[2], pages[3], own[0], pages[2]], vec![own[0]]]
        {
            let expected: Vec<_> = frames.iter().copied().filter(|frame| !own.contains(frame)).collect();
            let left: Value = serde_json::from_str(&without_own_frames(stack(&frames).into())).unwrap();
            assert_eq!(left.to_string(), stack(&expected), "{frames:?}");
        }
        let plain: Text = r#"{"description":"settle.js:1"}"#.into();
        assert_eq!(without_own_frames(plain.clone()), plain);
    }
}
