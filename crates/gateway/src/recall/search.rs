//! Reads a kept text by its lines: a part of it, or what a search finds.
//!
//! A line ends at `\n`; the last one need not. Lines are counted from 0, as `offset` is. A search keeps the lines that
//! contain the words, with as many lines around them as the caller wants, and a line `--` stands for the lines left out
//! between two groups; then `offset` and `limit` count the lines that were found. Only the shown part is copied.
//! `get_content` calls it.

use std::ops::Range;

use memchr::{memchr_iter, memmem};

/// Which part of a text to read.
#[derive(Debug, Clone, Default)]
pub(crate) struct LineQuery<'a> {
    /// Only lines with these words, exactly as written.
    pub(crate) search_for: Option<&'a str>,
    /// Lines to show before and after each found line.
    pub(crate) before_lines: usize,
    pub(crate) after_lines: usize,
    /// Lines to skip.
    pub(crate) offset: usize,
    /// The most lines to show. `None`: all.
    pub(crate) limit: Option<usize>,
}

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundLines {
    /// Without its last newline.
    pub(crate) text: String,
    /// The number of the first shown line in the whole text. `None` if no line is shown.
    pub(crate) first_line: Option<usize>,
    /// Lines of the text that are shown, without the `--` between groups.
    pub(crate) lines_shown: usize,
    /// Lines that `offset` and `limit` count: with a search the found ones and their neighbours, otherwise all.
    pub(crate) lines_found: usize,
    pub(crate) lines_total: usize,
    /// Lines that match the search.
    pub(crate) matches: usize,
}

impl FoundLines {
    /// Where the next page begins, if there is one.
    pub(crate) fn next_offset(&self, offset: usize) -> Option<usize> {
        let next = offset.saturating_add(self.lines_shown);
        (next < self.lines_found && self.lines_shown > 0).then_some(next)
    }
}

/// Reads this part of `text`.
pub(crate) fn read(text: &str, reading: &LineQuery<'_>) -> FoundLines {
    let lines = LineIndex::new(text);
    let (groups, matches) = match reading.search_for {
        Some(words) => lines.search(words, reading.before_lines, reading.after_lines),
        None => (lines.all(), 0),
    };
    let has_neighbours = reading.before_lines > 0 || reading.after_lines > 0;
    let mut shown = FoundLines {
        text: String::new(),
        first_line: None,
        lines_shown: 0,
        lines_found: groups.iter().map(ExactSizeIterator::len).sum(),
        lines_total: lines.total(),
        matches,
    };
    let mut skip = reading.offset;
    let mut left = reading.limit.unwrap_or(usize::MAX);
    for group in groups {
        let from = group.start.saturating_add(skip).min(group.end);
        skip -= from - group.start;
        let until = from.saturating_add(left).min(group.end);
        if from == until {
            continue;
        }
        if shown.first_line.is_none() {
            shown.first_line = Some(from);
        } else {
            shown.text.push_str(if has_neighbours { "\n--\n" } else { "\n" });
        }
        shown.text.push_str(lines.text_of(from..until));
        shown.lines_shown += until - from;
        left -= until - from;
    }
    shown
}

/// A text and where its lines begin.
struct LineIndex<'a> {
    text: &'a str,
    /// One for each line.
    starts: Vec<usize>,
}

impl<'a> LineIndex<'a> {
    fn new(text: &'a str) -> Self {
        let after_ends = memchr_iter(b'\n', text.as_bytes()).map(|end| end + 1);
        let starts = std::iter::once(0).chain(after_ends).filter(|start| *start < text.len()).collect();
        Self { text, starts }
    }

    fn total(&self) -> usize {
        self.starts.len()
    }

    /// One group of all lines.
    fn all(&self) -> Vec<Range<usize>> {
        std::iter::once(0..self.total()).collect()
    }

    fn text_of(&self, lines: Range<usize>) -> &'a str {
        let start = self.starts.get(lines.start).copied().unwrap_or(self.text.len());
        let end = self.starts.get(lines.end).copied().unwrap_or(self.text.len());
        let text = &self.text[start..end];
        text.strip_suffix('\n').unwrap_or(text)
    }

    /// The groups of lines with `words` and their neighbours, in order and not overlapping, and how many lines contain
    /// the words.
    fn search(&self, words: &str, before: usize, after: usize) -> (Vec<Range<usize>>, usize) {
        if words.is_empty() {
            // Every line contains the empty text.
            return (self.all(), self.total());
        }
        let finder = memmem::Finder::new(words);
        let mut groups: Vec<Range<usize>> = Vec::new();
        let mut matches = 0;
        let mut from = 0;
        let mut line = 0;
        while let Some(found) = finder.find(&self.text.as_bytes()[from..]) {
            let first = from + found;
            let last = from + found + words.len() - 1;
            line = self.line_at(first, line);
            let end = self.line_at(last, line) + 1;
            matches += end - line;
            let group = line.saturating_sub(before)..end.saturating_add(after).min(self.total());
            match groups.last_mut() {
                Some(previous) if group.start <= previous.end => previous.end = group.end,
                _ => groups.push(group),
            }
            // Skip the rest of these lines: they are found already.
            let Some(next) = self.starts.get(end) else { break };
            from = *next;
            line = end;
        }
        (groups, matches)
    }

    /// The line that contains this byte; it is not before `from`.
    fn line_at(&self, byte: usize, from: usize) -> usize {
        from + self.starts[from..].partition_point(|start| *start <= byte).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "a\nb needle\nc\nd\ne\nf needle needle\ng needle\nh\n";

    fn check(reading: &LineQuery<'_>, expected: &str, first: Option<usize>, found: usize) {
        let shown = read(TEXT, reading);
        assert_eq!(shown.text, expected, "{reading:?}");
        assert_eq!((shown.first_line, shown.lines_found), (first, found), "{reading:?}");
        assert_eq!(shown.lines_total, 8);
    }

    /// Pages are cut at lines, and reading after the end returns nothing and is not an error.
    #[test]
    fn pages_are_cut_at_lines() {
        let page = |offset, limit| LineQuery { offset, limit, ..LineQuery::default() };
        check(&page(0, None), TEXT.trim_end(), Some(0), 8);
        check(&page(2, Some(2)), "c\nd", Some(2), 8);
        check(&page(7, Some(9)), "h", Some(7), 8);
        check(&page(8, Some(1)), "", None, 8);
        check(&page(usize::MAX, Some(usize::MAX)), "", None, 8);
        check(&page(0, Some(0)), "", None, 8);
    }

    /// A search shows lines with the words, their neighbours, and gaps; adjacent groups are one.
    #[test]
    fn search_shows_matches_and_neighbours() {
        let found = |before_lines, after_lines| LineQuery {
            search_for: Some("needle"),
            before_lines,
            after_lines,
            ..LineQuery::default()
        };
        check(&found(0, 0), "b needle\nf needle needle\ng needle", Some(1), 3);
        check(&found(1, 0), "a\nb needle\n--\ne\nf needle needle\ng needle", Some(0), 5);
        check(&found(0, 1), "b needle\nc\n--\nf needle needle\ng needle\nh", Some(1), 5);
        check(&found(usize::MAX, usize::MAX), TEXT.trim_end(), Some(0), 8);
        assert_eq!(read(TEXT, &found(2, 2)).matches, 3);
        check(
            &LineQuery { offset: 1, limit: Some(3), ..found(0, 1) },
            "c\n--\nf needle needle\ng needle",
            Some(2),
            5,
        );
        check(&LineQuery { search_for: Some("c\nd"), ..LineQuery::default() }, "c\nd", Some(2), 2);
        check(&LineQuery { search_for: Some("Needle"), ..LineQuery::default() }, "", None, 0);
        assert_eq!(read(TEXT, &LineQuery { search_for: Some(""), ..LineQuery::default() }).matches, 8);
    }

    /// Each page names the call for the next one, until nothing is left.
    #[test]
    fn note_names_the_next_page() {
        let shown = read(TEXT, &LineQuery { offset: 2, limit: Some(3), ..LineQuery::default() });
        assert_eq!(shown.next_offset(2), Some(5));
        let last = read(TEXT, &LineQuery { offset: 5, limit: Some(3), ..LineQuery::default() });
        assert_eq!(last.next_offset(5), None);
        assert_eq!(read("", &LineQuery::default()).next_offset(0), None);
    }

    proptest! {
        /// Pages put together are the text, whatever their size; and a search finds just the lines with the words.
        #[test]
        fn pages_concatenate_to_the_text(text in "[ab\n]{0,60}", limit in 1_usize..9) {
            let mut together: Vec<String> = Vec::new();
            let mut offset = Some(0);
            while let Some(at) = offset {
                let shown = read(&text, &LineQuery { offset: at, limit: Some(limit), ..LineQuery::default() });
                offset = shown.next_offset(at);
                together.extend((shown.lines_shown > 0).then_some(shown.text));
            }
            prop_assert_eq!(together.join("\n"), text.strip_suffix('\n').unwrap_or(&text));

            let found = read(&text, &LineQuery { search_for: Some("ab"), ..LineQuery::default() });
            let expected: Vec<&str> = text.split('\n').filter(|line| line.contains("ab")).collect();
            prop_assert_eq!(found.text, expected.join("\n"));
            prop_assert_eq!(found.matches, expected.len());
        }
    }
}
