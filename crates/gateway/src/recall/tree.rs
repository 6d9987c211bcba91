//! A text as a tree of lines: a line's children stand deeper below it.
//!
//! No format is asked for: whatever is indented has this form, and a text without indentation is a list. The only thing
//! known of snapshots is that a line begins with `- ` and a role, by which children are told apart in kinds.
//! Called by [`super::cut`] and [`super::diff`].

/// A line and its place in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Without its end.
    pub(super) text: &'a str,
    /// How far it is indented. A line of blanks stands where the line above does.
    pub(super) depth: usize,
    /// The number of the line that it belongs to, from 0.
    pub(super) parent: Option<usize>,
    /// Which it is of its parent's children of its kind, from 0.
    pub(super) rank: usize,
    /// The rank of the sibling above, if there is one.
    pub(super) elder_rank: Option<usize>,
    /// The least number of children of each kind with which this line is shown: more than its rank, and than the
    /// rank of each ancestor.
    pub(super) shown_from: usize,
    /// The same of its parent, and 1 where it has none.
    pub(super) parent_shown_from: usize,
}

/// Kinds of children that are told apart below one parent; all others are one kind. Pages have some 20 roles beside
/// each other at most; and looking for a kind in a short list is quicker than hashing it.
const KINDS_MAX: usize = 24;

/// How deep a line stands. A tab counts as a blank: only comparisons matter.
pub(super) fn depth(line: &str) -> usize {
    line.bytes().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// The lines of `text`, each with its place.
pub(super) fn lines_of(text: &str) -> Vec<Line<'_>> {
    let mut lines = Vec::with_capacity(text.len() / 32);
    // The line above on each depth, from the root down. Children of the root are counted in the first.
    let mut path =
        Vec::from([Open { depth: None, number: None, shown_from: 0, kinds: Vec::new(), elder_rank: None }]);
    let mut spare: Vec<Vec<(&str, usize)>> = Vec::new();
    let mut depth_above = 0;
    for text in text.lines() {
        let depth = if text.trim_ascii().is_empty() { depth_above } else { depth(text) };
        depth_above = depth;
        while path.len() > 1 && path.last().is_some_and(|open| open.depth >= Some(depth)) {
            spare.extend(path.pop().map(|open| open.kinds));
        }
        let Some(parent) = path.last_mut() else { break };
        let rank = parent.count(kind(text));
        let parent_shown_from = parent.shown_from;
        let shown_from = parent_shown_from.max(rank + 1);
        let elder_rank = parent.elder_rank.replace(rank);
        let (number, parent) = (Some(lines.len()), parent.number);
        lines.push(Line {
            text,
            depth,
            parent,
            rank,
            elder_rank,
            shown_from,
            parent_shown_from: parent_shown_from.max(1),
        });
        let mut kinds = spare.pop().unwrap_or_default();
        kinds.clear();
        path.push(Open { depth: Some(depth), number, shown_from, kinds, elder_rank: None });
    }
    lines
}

/// A line whose children are being read.
struct Open<'a> {
    /// `None` for the root, which is above every line.
    depth: Option<usize>,
    number: Option<usize>,
    shown_from: usize,
    kinds: Vec<(&'a str, usize)>,
    elder_rank: Option<usize>,
}

impl<'a> Open<'a> {
    /// How many children of this kind there were before this one.
    fn count(&mut self, kind: &'a str) -> usize {
        let place = self.kinds.iter().position(|(known, _)| *known == kind).unwrap_or_else(|| {
            if self.kinds.len() < KINDS_MAX {
                self.kinds.push((kind, 0));
            }
            self.kinds.len() - 1
        });
        let count = &mut self.kinds[place].1;
        *count += 1;
        *count - 1
    }
}

/// The role of a snapshot's node; any other line is of the kind without a name.
fn kind(line: &str) -> &str {
    let Some(node) = line.trim_start_matches([' ', '\t']).strip_prefix("- ") else { return "" };
    let node = node.trim_start_matches(['\'', '"']);
    node.split([' ', ':']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each line is counted among its parent's children of its kind, and is shown no sooner than its parent.
    #[test]
    fn ranks() {
        let text = "\
- list [ref=e1]:
  - item \"a\"
  - item:
    - text: x
    - /url: y
  - 'button \"b: c\"'
- list
  deeper
deepest
";
        let shown: Vec<(usize, usize, usize)> =
            lines_of(text).iter().map(|line| (line.depth, line.rank, line.shown_from)).collect();
        let expected = [
            (0, 0, 1),
            (2, 0, 1),
            (2, 1, 2),
            (4, 0, 2),
            (4, 0, 2),
            (2, 0, 1),
            (0, 1, 2),
            (2, 0, 2),
            (0, 0, 1),
        ];
        assert_eq!(shown, expected);
    }

    /// Children of too many kinds are counted together, so that they can be folded at all.
    #[test]
    fn many_kinds() {
        let text: String = (0..100).map(|n| format!("- k{n}\n")).collect();
        let most = lines_of(&text).iter().map(|line| line.rank).max();
        assert_eq!(most, Some(100 - KINDS_MAX));
    }
}
