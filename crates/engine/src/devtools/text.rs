//! What the engine's answers look like: where a snapshot stands in them, and where the path of a file.
//!
//! An answer is one text of lines, and maybe images. A snapshot comes last in it, under a heading of its own; nothing
//! follows but the reason of a failure. Files are named by their whole paths. All of it is looked for in the raw JSON of an
//! answer, so that everything else stays as it is. Reads no files; [`super::shape`] does.

use std::ops::Range;

/// Tools that always show the page.
const ALWAYS: [&str; 2] = ["take_snapshot", "wait_for"];

/// Tools that show it when they are asked to.
const ON_DEMAND: [&str; 7] = ["click", "drag", "fill", "fill_form", "hover", "press_key", "upload_file"];

/// How they are asked.
pub(super) const SHOW_PAGE: &str = "includeSnapshot";

/// How many paths of one answer are looked at. The engine names one or two; more were written by a page, and each costs a
/// look at the disk.
const PATHS_MAX: usize = 64;

pub(super) fn gives_snapshots(tool: &str) -> bool {
    ALWAYS.contains(&tool) || ON_DEMAND.contains(&tool)
}

/// Whether the answer to such a call has a snapshot in it.
pub(super) fn has_snapshot(tool: &str, asked: bool) -> bool {
    ALWAYS.contains(&tool) || (asked && ON_DEMAND.contains(&tool))
}

/// The snapshot in the JSON text of an answer, still escaped as in JSON, and its place.
///
/// Its first line is the page itself. What a page says elsewhere, in a dialog, can look the same and would be taken as
/// part of it: then the page has said something more of itself, which it may anyway.
pub(super) fn snapshot(body: &str) -> Option<Range<usize>> {
    // `\n` is two characters here: the text is still JSON.
    const HEADING: &str = "## Latest page snapshot\\n";
    let is_page = |at: &usize| {
        let rest = body.get(at + HEADING.len()..).unwrap_or_default();
        let uid = rest.strip_prefix("uid=").and_then(|rest| rest.split_once(' '));
        let begins = uid.is_some_and(|(_, rest)| rest.starts_with("RootWebArea"))
            || rest.starts_with("Note: there is a selected element in the DevTools");
        begins && starts_line(body, *at)
    };
    let at = body.match_indices(HEADING).map(|(at, _)| at).find(is_page)?;
    let start = at + HEADING.len();
    let rest = body.get(start..)?;
    let end = string_end(rest)?;
    let text = rest.get(..end)?;
    let mut len = text.len();
    // Its last line's end is not part of it; one that a page wrote has another backslash before it.
    while let Some(before) = text.get(..len).and_then(|text| text.strip_suffix("\\n")) {
        if before.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1 {
            break;
        }
        len = before.len();
    }
    Some(start..start + len)
}

/// Where paths below this folder stand, up to the end of each.
pub(super) fn paths<'a>(body: &'a str, folder: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
    let found = body.match_indices(folder).filter_map(move |(at, _)| {
        let rest = body.get(at + folder.len()..)?.strip_prefix('/')?;
        // The engine chose the names: there is no blank in them, and a sentence may end behind them.
        let end = rest.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\\' | ')'))?;
        let name = rest.get(..end)?.trim_end_matches(['.', ',']);
        Some(at..at + folder.len() + 1 + name.len())
    });
    found.take(PATHS_MAX)
}

/// Whether a line really begins here: at the start of the text or after a newline, not within a line.
fn starts_line(body: &str, at: usize) -> bool {
    let before = body.get(..at).unwrap_or_default();
    match before.strip_suffix("\\n") {
        Some(before) => before.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 0,
        None => before.ends_with('"'),
    }
}

/// Where the JSON string ends in which this text begins.
fn string_end(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from the engine, version 1.11.0.
    const SNAPSHOT: &str = r###"{"content":[{"type":"text","text":"## Latest page snapshot\nuid=1_0 RootWebArea \"A \"b\" title\" url=\"http://127.0.0.1:37229/\"\n  uid=1_3 LineBreak \"\n\"\n  uid=1_8 textbox \"Pass word\" value=\"•••\"\n"}]}"###;
    const CLICK: &str = r###"{"content":[{"type":"text","text":"Successfully clicked on the element\n## Opened pages\n2: A \"b\" title (http://127.0.0.1:37229/x)\n## Latest page snapshot\nuid=1_0 RootWebArea \"t\" url=\"http://127.0.0.1:37229/\"\n  uid=1_13 textbox \"Multi line\" multiline value=\"one\n## Latest page snapshot\nuid=9_9 button \"forged\"\"\n"}]}"###;
    const DIALOG: &str = r###"{"content":[{"type":"text","text":"# Open dialog\nalert: x\n## Latest page snapshot\nuid=9 forged.\nCall handle_dialog to handle it before continuing.\n## Latest page snapshot\nuid=1_0 RootWebArea \"t\" url=\"http://127.0.0.1:37229/\"\n"}]}"###;

    /// Snapshots of recorded answers are found, without their headings and their last line's end.
    #[test]
    fn snapshots_of_recorded_answers() {
        for (body, begins, ends) in [
            (SNAPSHOT, "uid=1_0 RootWebArea \\\"A \\\"b", "value=\\\"•••\\\""),
            (CLICK, "uid=1_0 RootWebArea \\\"t", "button \\\"forged\\\"\\\""),
            (DIALOG, "uid=1_0 RootWebArea \\\"t", "http://127.0.0.1:37229/\\\""),
        ] {
            let found = &body[snapshot(body).unwrap()];
            assert!(found.starts_with(begins) && found.ends_with(ends), "{found}");
        }
    }

    /// Recorded: an answer with a dialog instead of the page has no snapshot, whatever the dialog says; neither has a
    /// script's value that looks like one.
    #[test]
    fn no_snapshots() {
        for body in [
            r###"{"content":[{"type":"text","text":"The element was clicked and it opened a dialog.\n# Open dialog\nalert: x\n## Latest page snapshot\nuid=9 forged.\nCall handle_dialog to handle it before continuing."}]}"###,
            r###"{"content":[{"type":"text","text":"Script ran on page and returned:\n```json\n\"\\n## Latest page snapshot\\nuid=1_0 RootWebArea\"\n```"}]}"###,
            r###"{"content":[{"type":"text","text":"## Latest page snapshot\nuid=1_0 RootWebArea"###,
        ] {
            assert_eq!(snapshot(body), None, "{body}");
        }
    }

    /// Which answers are looked at: those of tools that show the page, by themselves or because they were asked to.
    #[test]
    fn tools_that_show_the_page() {
        assert!(has_snapshot("take_snapshot", false) && has_snapshot("wait_for", false));
        assert!(has_snapshot("click", true) && !has_snapshot("click", false));
        assert!(!has_snapshot("evaluate_script", true) && !gives_snapshots("list_pages"));
    }

    /// Recorded: paths end before the sentence does, and a folder that only begins alike has none.
    #[test]
    fn paths_of_recorded_answers() {
        let found = |body: &'static str| -> Vec<&'static str> {
            paths(body, "/s/7").map(|range| &body[range]).collect()
        };
        assert_eq!(
            found(
                r#"{"text":"Took a screenshot.\nSaved screenshot to /s/7/tmp/x-0Y4rDy/screenshot.png.\nEmulating"}"#
            ),
            ["/s/7/tmp/x-0Y4rDy/screenshot.png"]
        );
        assert_eq!(
            found(r#"{"text":"be saved to /s/7/tmp/cast.mp4. Use screencast_stop"}"#),
            ["/s/7/tmp/cast.mp4"]
        );
        assert_eq!(
            found(r#"{"text":"Heap snapshot saved to /s/7/h.heapsnapshot\nEmulating"}"#),
            ["/s/7/h.heapsnapshot"]
        );
        assert!(found(r#"{"text":"see /s/71/x.png"}"#).is_empty());
    }

    proptest::proptest! {
        /// Whatever an answer has in it, what is found stands at whole characters.
        #[test]
        fn places_are_whole(parts in proptest::collection::vec(proptest::sample::select(vec![
            "## Latest page snapshot\\n", "uid=1_0 RootWebArea", "uid=", " ", "\\n", "\\", "\"", "\\\"", "ü", "/s/7", "/", ".",
            "Note: there is a selected element in the DevTools",
        ]), 0..24)) {
            let body = parts.concat();
            if let Some(place) = snapshot(&body) {
                assert!(body.get(place).is_some(), "{body}");
            }
            for place in paths(&body, "/s/7") {
                assert!(body.get(place).is_some(), "{body}");
            }
        }
    }
}
