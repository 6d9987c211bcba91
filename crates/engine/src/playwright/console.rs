//! How the playwright engine formats a page's console messages.
//!
//! In a file each entry is `[     114ms] ENTRY`, counted from the time in the file's name. In the answer of
//! `browser_console_messages` entries are below each other. An entry is `[TYPE] text @ url:line`, with lines counted from 0,
//! or, for an uncaught exception, its stack: no type, and lines counted from 1. This module always counts from 1.
//!
//! An entry may have several lines, and nothing marks those that are not its first. An entry with a type ends with a
//! location, and anything like an entry before that is part of it. So a text that happens to look like a log stays in one
//! piece. A page that also imitates the location can make one of its lines look like two, of any level. The format makes
//! these indistinguishable; but the page only adds a message to its own console, which it may do anyway.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use greenroom_core::record::{ConsoleLine, Level, Location};

/// How many lines of one answer are kept one by one. The browser itself remembers a thousand; a page that writes ten times
/// as many between two calls writes in a loop, and no agent reads them all.
const LINES_MAX: usize = 10_000;

/// The lines of a part of a console file, by the file's name.
pub(super) fn parse_file(name: &str, text: &str) -> Vec<ConsoleLine> {
    let start_time = start_time(name);
    let mut lines = ConsoleParser::default();
    for line in text.lines() {
        match split_time(line) {
            Some((ms, entry)) if lines.entry_may_be_complete() => {
                lines.begin(entry, start_time.and_then(|start_time| add_millis(start_time, ms)));
            }
            _ => lines.continue_entry(line),
        }
    }
    lines.end()
}

/// Types of entries of the engine's lowest level, `debug`. By default the engine does not log them; greenroom makes it do
/// so, to keep them.
const DEBUG_TYPES: [&str; 8] =
    ["CLEAR", "DEBUG", "ENDGROUP", "PROFILE", "PROFILEEND", "STARTGROUP", "STARTGROUPCOLLAPSED", "TRACE"];

/// The lines of a part of a console file that the engine would log by default.
pub(super) fn lines_shown_by_default(text: &str) -> Vec<&str> {
    let mut lines = ConsoleParser::default();
    let mut shown = Vec::new();
    let mut is_shown = true;
    for line in text.lines() {
        match split_time(line) {
            Some((_, entry)) if lines.entry_may_be_complete() => {
                is_shown = kind(entry).is_none_or(|(kind, _)| !DEBUG_TYPES.contains(&kind));
                lines.begin(entry, None);
            }
            _ => lines.continue_entry(line),
        }
        if is_shown {
            shown.push(line);
        }
    }
    shown
}

/// The lines in the text of an answer to `browser_console_messages`.
pub(super) fn parse_answer(text: &str) -> Vec<ConsoleLine> {
    let mut lines = ConsoleParser::default();
    // `### Result`, the total count, the count of shown ones, an empty line.
    for line in text.lines().skip_while(|line| !line.is_empty()).skip(1) {
        if !lines.entry_may_be_complete() {
            lines.continue_entry(line);
        } else if line.starts_with("### ") {
            break;
        } else if kind(line).is_some() || lines.exception_begins(line) {
            lines.begin(line, None);
        } else {
            lines.continue_entry(line);
        }
    }
    lines.end()
}

/// Joins the lines that the answer shows and those that are new since the last one. Only the latter have a time.
pub(super) fn merge_lines(mut shown: Vec<ConsoleLine>, new: Vec<ConsoleLine>) -> Vec<ConsoleLine> {
    if shown.is_empty() {
        return new;
    }
    let key = |line: &ConsoleLine| (line.level, line.message.clone());
    let mut known: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    // New lines are the last of the shown ones, so equal lines are matched from the end.
    for (at, line) in shown.iter().enumerate() {
        known.entry(key(line)).or_default().push(at);
    }
    let mut others = Vec::new();
    for line in new.into_iter().rev() {
        match known.get_mut(&key(&line)).and_then(Vec::pop).and_then(|at| shown.get_mut(at)) {
            Some(same) => same.at = line.at,
            None => others.push(line),
        }
    }
    shown.extend(others.into_iter().rev());
    shown
}

/// Entries while they are read line by line.
#[derive(Default)]
struct ConsoleParser {
    done: Vec<ConsoleLine>,
    open: Option<OpenEntry>,
    /// The number of those beyond [`LINES_MAX`], and the highest level among them.
    more: usize,
    highest_level: Option<Level>,
}

struct OpenEntry {
    /// `None` for an exception.
    kind: Option<String>,
    text: String,
    at: Option<SystemTime>,
}

impl ConsoleParser {
    /// Whether the entry so far could be complete.
    fn entry_may_be_complete(&self) -> bool {
        self.open.as_ref().is_none_or(|open| open.kind.is_none() || split_location(&open.text).is_some())
    }

    /// Whether this line is the first of an exception. Exceptions come last, without a mark between them. A line after a
    /// stack begins the next one, and so does a line that names an error.
    fn exception_begins(&self, line: &str) -> bool {
        let Some(open) = &self.open else { return true };
        let is_frame = |line: &str| line.starts_with("    at ");
        let named = line.split_once(": ").is_some_and(|(name, _)| {
            name.ends_with("Error") && name.chars().all(|c| c.is_alphanumeric() || c == '_')
        });
        let after_stack = open.text.lines().next_back().is_some_and(is_frame);
        open.kind.is_some() || named || (after_stack && !is_frame(line))
    }

    fn begin(&mut self, entry: &str, at: Option<SystemTime>) {
        self.close();
        self.open = Some(match kind(entry) {
            Some((kind, text)) => OpenEntry { kind: Some(kind.to_owned()), text: text.to_owned(), at },
            None => OpenEntry { kind: None, text: entry.to_owned(), at },
        });
    }

    /// A further line of the open entry. There is no open entry at the start of a file that was cut.
    fn continue_entry(&mut self, line: &str) {
        if let Some(open) = &mut self.open {
            open.text.push('\n');
            open.text.push_str(line);
        } else if !line.is_empty() {
            self.begin(line, None);
        }
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let level = match open.kind.as_deref() {
            None => Level::Error,
            Some(kind) if DEBUG_TYPES.contains(&kind) => Level::Debug,
            Some(kind) => Level::from_word(kind),
        };
        if self.done.len() >= LINES_MAX {
            self.more += 1;
            self.highest_level = self.highest_level.max(Some(level));
            return;
        }
        let (message, location) = match &open.kind {
            Some(_) => match split_location(&open.text) {
                Some((text, location)) => (text.to_owned(), location),
                None => (open.text, None),
            },
            None => {
                let location = top_of_stack(&open.text);
                (open.text, location)
            }
        };
        self.done.push(ConsoleLine { level, message, at: open.at, location });
    }

    fn end(mut self) -> Vec<ConsoleLine> {
        self.close();
        if let Some(level) = self.highest_level {
            let message = format!("{} more console lines came with this answer and were not kept", self.more);
            self.done.push(ConsoleLine { level, message, at: None, location: None });
        }
        self.done
    }
}

/// `[TYPE] text`.
fn kind(entry: &str) -> Option<(&str, &str)> {
    let (kind, text) = entry.strip_prefix('[')?.split_once("] ")?;
    let is_word = !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_uppercase());
    is_word.then_some((kind, text))
}

/// `text @ url:line`: the text, and the location if it has an address.
fn split_location(text: &str) -> Option<(&str, Option<Location>)> {
    // It is in the last line. Only that is searched: this runs again with every line of an entry.
    let last = text.rfind('\n').map_or(text, |at| text.get(at..).unwrap_or_default());
    let (before, line) = last.rsplit_once(':')?;
    let line: u32 = line.parse().ok()?;
    let (text_before, url) = before.rsplit_once(" @ ")?;
    let text = text.get(..text.len() - last.len() + text_before.len())?;
    let line_number = line.checked_add(1);
    let location = Location { url: url.to_owned(), line_number, column_number: None };
    Some((text, (!url.is_empty()).then_some(location)))
}

/// The first frame of a stack: `    at name (url:3:391)`, or without a name.
fn top_of_stack(stack: &str) -> Option<Location> {
    let frame = stack.lines().find_map(|line| line.strip_prefix("    at "))?;
    let location = frame
        .strip_suffix(')')
        .and_then(|frame| frame.rsplit_once('('))
        .map_or(frame, |(_, location)| location);
    let (before, column) = location.rsplit_once(':')?;
    let (url, line) = before.rsplit_once(':')?;
    let line_number = line.parse().ok();
    let column_number = column.parse().ok();
    line_number?;
    Some(Location { url: url.to_owned(), line_number, column_number })
}

/// `[     114ms] entry`. The number has eight digits or more, and is negative for entries from before the page.
fn split_time(line: &str) -> Option<(i64, &str)> {
    let (ms, entry) = line.strip_prefix('[')?.split_once("ms] ")?;
    if ms.len() < 8 {
        return None;
    }
    Some((ms.trim_start().parse().ok()?, entry))
}

fn add_millis(start_time: SystemTime, ms: i64) -> Option<SystemTime> {
    let offset = Duration::from_millis(ms.unsigned_abs());
    if ms < 0 { start_time.checked_sub(offset) } else { start_time.checked_add(offset) }
}

/// The time in a file's name: `console-2026-11-16T05-52-17-828Z.log`.
fn start_time(name: &str) -> Option<SystemTime> {
    let time = name.strip_prefix("console-")?.strip_suffix("Z.log")?;
    let parts: Vec<u64> = time.split(['-', 'T']).map(str::parse).collect::<Result<_, _>>().ok()?;
    let [year @ 1970..=9999, month @ 1..=12, day @ 1..=31, hour, minute, second, ms] = parts[..] else {
        return None;
    };
    if hour > 23 || minute > 59 || second > 60 || ms > 999 {
        return None;
    }
    // Years begin in March here, so that the leap day comes last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    Some(SystemTime::UNIX_EPOCH + Duration::from_millis(seconds * 1_000 + ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenroom_core::time::timestamp_ms;

    /// Recorded from the engine, version 0.0.83, with a headless Chromium.
    const NAME: &str = "console-2026-11-16T05-52-17-828Z.log";
    const FILE: &str = "[      60ms] [LOG] plain @ http://a/:2\n[      60ms] [INFO] inf @ http://a/:2\n[      60ms] [WARNING] wrn @ http://a/:2\n[      60ms] [ERROR] err @ http://a/:2\n[      61ms] [LOG] a\nb\n[      12ms] [ERROR] forged @ http://x/:3 @ http://a/:2\n[      61ms] [LOG] {a: 1, b: Object} x 3 @ http://a/:2\n[      64ms] [TABLE] [1] @ http://a/:2\n[      64ms] [ASSERT] asserted @ http://a/:2\n[      65ms] [LOG]  @ http://a/:2\n[     114ms] Error: boom\nsecond\n    at http://a/:3:391\n[     114ms] str\n[     114ms] TypeError: rej\n    at http://a/:3:468\n[     111ms] [ERROR] Failed to load resource: the server responded with a status of 404 (Not Found) @ http://a/nope:0\n";
    const ANSWER: &str = "### Result\nTotal messages: 17 (Errors: 5, Warnings: 1)\nReturning 8 messages for level \"debug\"\n\n[LOG] plain @ http://a/:2\n[DEBUG] dbg @ http://a/:2\n[LOG] a\nb\n\n### Page\n[      12ms] [ERROR] forged @ http://x/:3 @ http://a/:2\n[TRACE] tr @ http://a/:2\n[ENDGROUP] console.groupEnd @ :0\nError: boom\nsecond\n    at f (http://a/:3:391)\nstr\nTypeError: rej\n    at http://a/:3:468\n### Page\n- Page URL: http://a/";

    fn levels_and_messages(lines: &[ConsoleLine]) -> Vec<(Level, &str)> {
        lines.iter().map(|line| (line.level, line.message.as_str())).collect()
    }

    /// Of entries that the engine logs only because greenroom asked for them, no line is shown; of others each is.
    #[test]
    fn debug_entries_are_not_shown() {
        let debug =
            "[      12ms] [DEBUG] one\n[LOG] two @ http://a/:2\n[      13ms] [STARTGROUP] g @ http://a/:2\n";
        assert_eq!(lines_shown_by_default(debug), Vec::<&str>::new());
        assert_eq!(levels_and_messages(&parse_file(NAME, debug)).len(), 2);
        assert!(parse_file(NAME, debug).iter().all(|line| line.level == Level::Debug));
        assert_eq!(
            lines_shown_by_default(&format!("{debug}{FILE}{debug}")),
            FILE.lines().collect::<Vec<_>>()
        );
    }

    /// Every kind of entry in a recorded file has its level, its whole text, its location and its time.
    #[test]
    fn recorded_file_is_parsed() {
        let lines = parse_file(NAME, FILE);
        let not_found = "Failed to load resource: the server responded with a status of 404 (Not Found)";
        assert_eq!(
            levels_and_messages(&lines),
            [
                (Level::Info, "plain"),
                (Level::Info, "inf"),
                (Level::Warn, "wrn"),
                (Level::Error, "err"),
                (Level::Info, "a\nb\n[      12ms] [ERROR] forged @ http://x/:3"),
                (Level::Info, "{a: 1, b: Object} x 3"),
                (Level::Info, "[1]"),
                (Level::Error, "asserted"),
                (Level::Info, ""),
                (Level::Error, "Error: boom\nsecond\n    at http://a/:3:391"),
                (Level::Error, "str"),
                (Level::Error, "TypeError: rej\n    at http://a/:3:468"),
                (Level::Error, not_found),
            ]
        );
        let location = |line, column_number| {
            Some(Location { url: "http://a/".to_owned(), line_number: Some(line), column_number })
        };
        assert_eq!((&lines[0].location, &lines[9].location), (&location(3, None), &location(3, Some(391))));
        assert_eq!(lines[10].location, None);
        assert_eq!(timestamp_ms(lines[9].at.unwrap()), "2026-11-16T05:52:17.942Z");
        assert_eq!(parse_file("console-x.log", FILE)[0].at, None);
    }

    /// Every kind of entry in a recorded answer has its level and its whole text; the sections after them are no entries.
    #[test]
    fn recorded_answer_is_parsed() {
        assert_eq!(
            levels_and_messages(&parse_answer(ANSWER)),
            [
                (Level::Info, "plain"),
                (Level::Debug, "dbg"),
                (Level::Info, "a\nb\n\n### Page\n[      12ms] [ERROR] forged @ http://x/:3"),
                (Level::Debug, "tr"),
                (Level::Debug, "console.groupEnd"),
                (Level::Error, "Error: boom\nsecond\n    at f (http://a/:3:391)"),
                (Level::Error, "str"),
                (Level::Error, "TypeError: rej\n    at http://a/:3:468"),
            ]
        );
        for none in ["", "### Result\n- [Console](./x.log)", "### Error\nx\n\n"] {
            assert_eq!(parse_answer(none), [], "{none}");
        }
    }

    /// A line that is both shown and new is kept once, with its time; a line that is only new is kept.
    #[test]
    fn shown_and_new_lines_are_merged() {
        let new = parse_file(NAME, FILE);
        let lines = merge_lines(parse_answer(ANSWER), new.clone());
        assert_eq!(lines.iter().filter(|line| line.message == "plain").count(), 1);
        assert_eq!(lines[0].at, new[0].at);
        assert!(lines.iter().any(|line| line.message == "wrn"));
        assert_eq!(merge_lines(Vec::new(), new.clone()), new);
    }

    /// A last line reports those beyond the limit, with the highest level among them.
    #[test]
    fn lines_beyond_the_limit_are_counted() {
        let line = "[       1ms] [LOG] x @ http://a/:2\n";
        let file = line.repeat(LINES_MAX) + &line.replace("LOG", "WARNING") + line;
        let lines = parse_file(NAME, &file);
        assert_eq!(lines.len(), LINES_MAX + 1);
        assert_eq!(
            levels_and_messages(&lines[LINES_MAX..]),
            [(Level::Warn, "2 more console lines came with this answer and were not kept")]
        );
    }

    /// Times around the leap day are read as they are written; other texts are no time.
    #[test]
    fn times_in_file_names_are_parsed() {
        for time in [
            "2024-02-29T23-59-59-999",
            "2024-03-01T00-00-00-000",
            "1970-01-01T00-00-00-001",
            "2099-12-31T12-00-00-500",
        ] {
            let read = start_time(&format!("console-{time}Z.log")).unwrap();
            assert_eq!(timestamp_ms(read).replace([':', '.'], "-"), format!("{time}Z"));
        }
        for odd in
            ["", "console-Z.log", "console-2026-13-01T00-00-00-000Z.log", "console-1-2-3T4-5-6-7-8Z.log"]
        {
            assert_eq!(start_time(odd), None, "{odd}");
        }
    }

    proptest::proptest! {
        /// Any text is read, and every word of a well-formed entry is found again.
        #[test]
        fn any_text_is_parsed(text in "([\\[\\]@:0-9a-zA-Z ms-]{0,16}\n?){0,12}", text_before in "[^@:\r]{0,20}") {
            parse_file(NAME, &text);
            parse_answer(&format!("### Result\n\n{text}"));
            let entry = format!("[       7ms] [WARNING] {text_before} @ http://a/:9\n");
            let [line, _] = &parse_file(NAME, &entry.repeat(2))[..] else { panic!("{entry}") };
            assert_eq!((line.level, &line.message), (Level::Warn, &text_before));
        }
    }
}
