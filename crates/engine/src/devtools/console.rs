//! How the devtools engine formats a page's console messages.
//!
//! ```text
//! ## Console messages
//! Showing 1-2 of 2 (Page 1 of 1).
//! msgid=1 [log] hello (1 args)
//! msgid=2 [error] same (1 args) [3 times]
//!   at f (index.js:3:320)
//! ```
//!
//! A message may have several lines, and nothing marks those that are not its first. A page that imitates a first line makes
//! one of its messages look like two; that only adds a message to its own console, which it may do anyway.

use greenroom_core::record::{ConsoleLine, Level};

/// The tool that answers with console lines.
const CONSOLE: &str = "list_console_messages";

/// How many console messages of one answer the record keeps. The browser itself remembers a thousand; a page
/// that writes ten times as many writes in a loop, and no agent reads them all.
const LINES_MAX: usize = 10_000;

/// The console lines in the text of an answer.
pub(super) fn lines(tool: &str, text: &str) -> Vec<ConsoleLine> {
    if tool != CONSOLE {
        return Vec::new();
    }
    let mut lines: Vec<ConsoleLine> = Vec::new();
    for line in text.lines() {
        match parse_first_line(line) {
            Some((kind, message)) if lines.len() < LINES_MAX => lines.push(ConsoleLine {
                level: Level::from_word(kind),
                message: message.to_owned(),
                at: None,
                location: None,
            }),
            Some(_) => break,
            None => {
                if let Some(last) = lines.last_mut().filter(|_| !is_stack_trace_note(line)) {
                    last.message.push('\n');
                    last.message.push_str(line);
                }
            }
        }
    }
    for line in &mut lines {
        let message = without_counts(&line.message).len();
        line.message.truncate(message);
    }
    lines
}

/// `msgid=3 [warn] text`: its level and its text.
fn parse_first_line(line: &str) -> Option<(&str, &str)> {
    let (id, rest) = line.strip_prefix("msgid=")?.split_once(" [")?;
    let (kind, message) = rest.split_once("] ")?;
    let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    (is_id && kind.bytes().all(|byte| byte.is_ascii_alphabetic())).then_some((kind, message))
}

fn is_stack_trace_note(line: &str) -> bool {
    line == "Note: stack trace line and column numbers use 1-based indexing"
}

/// A message without its number of arguments and its repeat count. With a stack they stay: they are in the middle.
fn without_counts(message: &str) -> &str {
    let counted = |text: &str, open: &str, close: &str| -> Option<usize> {
        let (before, count) = text.strip_suffix(close)?.rsplit_once(open)?;
        (!count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit())).then_some(before.len())
    };
    let mut end = message.len();
    for (open, close) in [(" [", " times]"), (" (", " args)")] {
        end = message.get(..end).and_then(|text| counted(text, open, close)).unwrap_or(end);
    }
    message.get(..end).unwrap_or(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from the engine, version 1.11.0: levels, repeats and messages of several lines.
    #[test]
    fn recorded_messages_are_parsed() {
        let text = "## Console messages\nShowing 1-6 of 6 (Page 1 of 1).\nmsgid=1 [log] log line (1 args)\nmsgid=2 [warn] warn\nsecond (1 args)\nmsgid=3 [error] bad [object Object] (2 args)\nmsgid=4 [debug] d (1 args)\nmsgid=5 [info] same (1 args) [3 times]\nmsgid=8 [error] Uncaught Error: boom (0 args)";
        let found: Vec<_> = lines(CONSOLE, text).into_iter().map(|line| (line.level, line.message)).collect();
        let expected = [
            (Level::Info, "log line"),
            (Level::Warn, "warn\nsecond"),
            (Level::Error, "bad [object Object]"),
            (Level::Debug, "d"),
            (Level::Info, "same"),
            (Level::Error, "Uncaught Error: boom"),
        ];
        assert_eq!(found, expected.map(|(level, message)| (level, message.to_owned())));
        assert!(lines("evaluate_script", text).is_empty());
    }

    /// Recorded: with stack traces a message has its stack, and the note about them belongs to no message.
    #[test]
    fn stack_traces_belong_to_their_message() {
        let text = "## Console messages\nShowing 1-2 of 6 (Page 1 of 3).\nNext page: 1\nmsgid=1 [log] log line (1 args)\n  at  ((index):3:320)\nNote: stack trace line and column numbers use 1-based indexing";
        let [line] = &lines(CONSOLE, text)[..] else { panic!("one line") };
        assert_eq!(line.message, "log line (1 args)\n  at  ((index):3:320)");
    }
}
