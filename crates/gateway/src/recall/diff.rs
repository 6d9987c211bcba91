//! The changes between two snapshots, line by line, for a reader who has read the first.
//!
//! It shows only changes, `+ ` before a new line and `- ` before a removed one. Each change stands below its ancestors,
//! which are shown once, and next to at most one unchanged line; `… line 121` says where, counted from 1 in the new
//! snapshot. Removed lines cost tokens as well and are of little use: the top of a removed subtree stands for all of
//! it. If the diff is hardly shorter than the snapshot, the snapshot is shown instead. `get_content` and calls with
//! `mode: "diff"` use it.

use std::fmt::Write as _;

use greenroom_core::plural::count;

use super::{
    line_diff::hunks,
    tree::{TreeLine, lines_of},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SnapshotDiff {
    /// The snapshots are equal.
    Same,
    Changed(String),
    /// So much has changed that reading the new snapshot whole is better.
    TooDifferent,
}

/// A diff is sent only up to the length of the new snapshot divided by this, in bytes. A reader has to apply a
/// diff to what it read before, which is harder than plain reading; it must halve the text to be worth that.
const DIFF_RATIO: usize = 2;

/// How many removed siblings a diff names in one place. Up to this many may belong to one event, such as a
/// menu that has closed; more are a list that was replaced, and then their number is enough.
const REMOVED_SHOWN_MAX: usize = 10;

/// What has changed from `before` to `after`.
pub(crate) fn diff(before: &str, after: &str) -> SnapshotDiff {
    let bytes_max = after.len() / DIFF_RATIO;
    let before = lines_of(before);
    let after = lines_of(after);
    let mut page =
        DiffWriter { after: &after, text: String::new(), is_shown: vec![false; after.len()], passed: 0 };
    for hunk in hunks(before.iter().map(|line| line.text), after.iter().map(|line| line.text)) {
        let gone = &before[hunk.before];
        let added = &after[hunk.after.clone()];
        let tops = gone.first().into_iter().chain(added.first());
        let depth = tops.map(|line| line.depth).max().unwrap_or_default();
        page.place(hunk.after.start, depth);
        page.removed(gone);
        for number in hunk.after {
            page.line("+ ", number);
        }
        page.stayed(depth, !added.is_empty());
        if page.text.len() > bytes_max {
            return SnapshotDiff::TooDifferent;
        }
    }
    if page.text.is_empty() { SnapshotDiff::Same } else { SnapshotDiff::Changed(page.text) }
}

/// A diff while it is written.
struct DiffWriter<'a> {
    after: &'a [TreeLine<'a>],
    text: String,
    is_shown: Vec<bool>,
    /// The first line that is neither shown nor left out yet.
    passed: usize,
}

impl DiffWriter<'_> {
    /// Writes where the next change is: before the line `at`, at this depth.
    fn place(&mut self, at: usize, depth: usize) {
        let above = at.checked_sub(1);
        let mut context: Vec<usize> = Vec::new();
        // Show the sibling above, but not a deeper line above: the change would look like a child of something else.
        context.extend(above.filter(|above| self.after[*above].depth == depth));
        let mut depth = depth;
        let mut next = above;
        while let Some(number) = next {
            let line = &self.after[number];
            if line.depth < depth {
                context.push(number);
                depth = line.depth;
            }
            next = line.parent;
        }
        context.retain(|number| !self.is_shown[*number]);
        let between = context.iter().filter(|number| **number >= self.passed).count();
        if at - self.passed > between {
            // Writing to a string cannot fail.
            let _ = writeln!(self.text, "… line {}", at + 1);
        }
        for number in context.into_iter().rev() {
            self.line("  ", number);
        }
        self.passed = at;
    }

    /// Writes removed lines: the top of each subtree, and the first of many siblings.
    fn removed(&mut self, mut lines: &[TreeLine<'_>]) {
        let mut siblings = 0;
        let mut depth = None;
        while let [top, rest @ ..] = lines {
            let below = rest.iter().take_while(|line| line.depth > top.depth).count();
            siblings = if depth == Some(top.depth) { siblings + 1 } else { 1 };
            depth = Some(top.depth);
            if siblings > REMOVED_SHOWN_MAX {
                let others = lines.iter().take_while(|line| line.depth >= top.depth);
                let (all, more) = others
                    .fold((0, 0), |(all, more), line| (all + 1, more + usize::from(line.depth == top.depth)));
                let _ =
                    writeln!(self.text, "- {:1$}… and {more} more, {2}", "", top.depth, count(all, "line"));
                lines = &lines[all..];
                continue;
            }
            let _ = match below {
                0 => writeln!(self.text, "- {}", top.text),
                _ => writeln!(self.text, "- {} (and {} below)", top.text, count(below, "line")),
            };
            lines = &rest[below..];
        }
    }

    /// Writes the unchanged line below a change, unless its parent is not shown.
    fn stayed(&mut self, depth: usize, follows_added: bool) {
        let next = self.passed;
        if self.after.get(next).is_some_and(|line| follows_added || line.depth <= depth) {
            self.line("  ", next);
        }
    }

    fn line(&mut self, sign: &str, number: usize) {
        self.text.push_str(sign);
        self.text.push_str(self.after[number].text);
        self.text.push('\n');
        self.is_shown[number] = true;
        self.passed = self.passed.max(number + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDERS: &str = include_str!("recorded/orders.yml");

    /// A page so long that a small change is worth a diff.
    fn page(middle: &str) -> String {
        let items: String = (0..20).map(|n| format!("  - listitem \"{n}\" [ref=e{n}]\n")).collect();
        format!("- list:\n{items}- main:\n  - heading \"Cart\"\n{middle}  - button \"Pay\"\n- list:\n{items}")
    }

    fn check(before: &str, after: &str, expected: &str) {
        assert_eq!(diff(&page(before), &page(after)), SnapshotDiff::Changed(expected.to_owned()));
    }

    /// Changes stand below their ancestors and next to their neighbours.
    #[test]
    fn changes_show_ancestors_and_neighbours() {
        check(
            "  - text: 1 item\n",
            "  - text: 2 items\n",
            "… line 24\n  - main:\n    - heading \"Cart\"\n-   - text: 1 item\n+   - text: 2 items\n    - button \"Pay\"\n",
        );
        check(
            "",
            "  - alert:\n    - text: Saved\n",
            "… line 24\n  - main:\n    - heading \"Cart\"\n+   - alert:\n+     - text: Saved\n    - button \"Pay\"\n",
        );
    }

    /// The top of a removed subtree is named, and of many siblings the first.
    #[test]
    fn removed_subtrees_are_named() {
        let menu = "  - menu [ref=e90]:\n    - menuitem \"A\"\n    - menuitem \"B\"\n";
        let around = |middle: &str| {
            format!("… line 24\n  - main:\n    - heading \"Cart\"\n{middle}    - button \"Pay\"\n")
        };
        check(menu, "", &around("-   - menu [ref=e90]: (and 2 lines below)\n"));
        let rows: String = (0..15).map(|n| format!("  - row \"{n}\":\n    - cell\n")).collect();
        let named: String = (0..10).map(|n| format!("-   - row \"{n}\": (and 1 line below)\n")).collect();
        check(&rows, "", &around(&format!("{named}-   … and 5 more, 10 lines\n")));
    }

    /// Two changes below one parent name it once, and the lines between them are left out.
    #[test]
    fn shared_parents_are_named_once() {
        let after = ORDERS.replace("paid", "lost");
        let SnapshotDiff::Changed(text) = diff(ORDERS, &after) else { panic!("it is worth a diff") };
        for once in ["- table [ref=", "- main [ref="] {
            assert_eq!(text.matches(once).count(), 1, "{once}\n{text}");
        }
        assert_eq!(
            text.lines().filter(|line| line.starts_with("+ ")).count(),
            after.matches("\"lost\"").count()
        );
        let gaps = text.lines().filter(|line| line.starts_with("… line ")).count();
        assert!(gaps > 1, "{text}");
        for line in text.lines().filter_map(|line| line.strip_prefix("… line ")) {
            let number: usize = line.parse().expect("a number");
            assert!(after.lines().nth(number - 1).expect("a line").contains("lost"), "{number}");
        }
    }

    /// Equal snapshots are reported as the same, also if one lacks the last newline; very different pages are shown
    /// whole.
    #[test]
    fn equal_snapshots_are_unchanged_and_very_different_ones_whole() {
        assert_eq!(diff(ORDERS, ORDERS), SnapshotDiff::Same);
        assert_eq!(diff(ORDERS, ORDERS.trim_end()), SnapshotDiff::Same);
        assert_eq!(diff("", ""), SnapshotDiff::Same);
        assert_eq!(diff("", ORDERS), SnapshotDiff::TooDifferent);
        assert_eq!(diff(ORDERS, ""), SnapshotDiff::TooDifferent);
        assert_eq!(
            diff(include_str!("recorded/board.yml"), include_str!("recorded/article.yml")),
            SnapshotDiff::TooDifferent
        );
    }
}
