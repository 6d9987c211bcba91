//! A text as a tree of lines: a line's children are the deeper lines below it.
//!
//! The parser needs no particular format: any indented text has this form, and a text without indentation is a list.
//! Of snapshots it knows only that a line begins with `- ` and a role, or with `uid=…` and a role, which is the kind
//! of a child. [`super::fold`] and [`super::diff`] call it.

/// A line and its place in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TreeLine<'a> {
    /// Without its newline.
    pub(super) text: &'a str,
    /// Its indentation. A blank line has the depth of the line above.
    pub(super) depth: usize,
    /// The number of its parent line, from 0.
    pub(super) parent: Option<usize>,
    /// The number of its previous sibling, if there is one.
    pub(super) previous_sibling: Option<usize>,
    /// Its position among its parent's children of its kind, from 0.
    pub(super) rank: usize,
    /// How many children of that kind the parent has.
    pub(super) kind_count: usize,
}

/// How many kinds of children of one parent are distinguished; all others are one kind. Pages have at most some 20
/// roles below one parent, and searching a short list is quicker than hashing.
const KINDS_MAX: usize = 24;

/// How deep a line stands. A tab counts as a blank: only comparisons matter.
pub(super) fn depth(line: &str) -> usize {
    line.bytes().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// The lines of `text`, each with its position in the tree.
pub(super) fn lines_of(text: &str) -> Vec<TreeLine<'_>> {
    let mut lines: Vec<TreeLine<'_>> = Vec::with_capacity(text.len() / 32);
    // The open line at each depth, from the root down.
    let mut path =
        Vec::from([OpenNode { depth: None, number: None, kinds: Vec::new(), previous_sibling: None }]);
    let mut spare: Vec<Vec<SiblingKind<'_>>> = Vec::new();
    let mut depth_above = 0;
    for text in text.lines() {
        let depth = if text.trim_ascii().is_empty() { depth_above } else { depth(text) };
        depth_above = depth;
        while path.len() > 1 && path.last().is_some_and(|open| open.depth >= Some(depth)) {
            spare.extend(path.pop().map(|open| open.kinds));
        }
        let number = lines.len();
        let Some(parent) = path.last_mut() else { break };
        let previous_sibling = parent.previous_sibling.replace(number);
        let above = parent.number;
        let siblings = parent.kind(kind(text), number);
        let first = siblings.first;
        lines.push(TreeLine {
            text,
            depth,
            parent: above,
            previous_sibling,
            rank: siblings.count,
            kind_count: first,
        });
        siblings.count += 1;
        // Until the loop ends, the first line of a kind holds the count, and the others the number of that first line.
        lines[first].kind_count = siblings.count;
        let mut kinds = spare.pop().unwrap_or_default();
        kinds.clear();
        path.push(OpenNode { depth: Some(depth), number: Some(number), kinds, previous_sibling: None });
    }
    // Copy the count from the first line of each kind to the others.
    for number in 0..lines.len() {
        if lines[number].rank > 0 {
            lines[number].kind_count = lines[lines[number].kind_count].kind_count;
        }
    }
    lines
}

/// A line whose children are being read.
struct OpenNode<'a> {
    /// `None` for the root, which is above every line.
    depth: Option<usize>,
    number: Option<usize>,
    kinds: Vec<SiblingKind<'a>>,
    previous_sibling: Option<usize>,
}

/// Children of one kind.
struct SiblingKind<'a> {
    name: &'a str,
    count: usize,
    /// The number of the first.
    first: usize,
}

impl<'a> OpenNode<'a> {
    /// The entry for this kind of children, with one more child counted.
    fn kind(&mut self, name: &'a str, number: usize) -> &mut SiblingKind<'a> {
        let place = self.kinds.iter().position(|kind| kind.name == name).unwrap_or_else(|| {
            if self.kinds.len() < KINDS_MAX {
                self.kinds.push(SiblingKind { name, count: 0, first: number });
            }
            self.kinds.len() - 1
        });
        &mut self.kinds[place]
    }
}

/// The role of a snapshot's node; any other line has the unnamed kind.
fn kind(line: &str) -> &str {
    let line = line.trim_start_matches([' ', '\t']);
    if let Some(node) = line.strip_prefix("- ") {
        return node.trim_start_matches(['\'', '"']).split([' ', ':']).next().unwrap_or_default();
    }
    match line.strip_prefix("uid=").and_then(|node| node.split_once(' ')) {
        // A node without a role is text, in quotes.
        Some((_, node)) if node.starts_with('"') => "text",
        Some((_, node)) => node.split(' ').next().unwrap_or_default(),
        None => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each line is counted among its parent's children of its kind.
    #[test]
    fn lines_are_ranked_within_their_kind() {
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
        let places: Vec<_> = lines_of(text)
            .iter()
            .map(|line| (line.depth, line.parent, line.previous_sibling, line.rank, line.kind_count))
            .collect();
        let expected = [
            (0, None, None, 0, 2),
            (2, Some(0), None, 0, 2),
            (2, Some(0), Some(1), 1, 2),
            (4, Some(2), None, 0, 1),
            (4, Some(2), Some(3), 0, 1),
            (4, Some(2), Some(4), 0, 1),
            (2, Some(0), Some(2), 0, 1),
            (0, None, Some(0), 1, 2),
            (2, Some(7), None, 0, 1),
            (0, None, Some(7), 0, 1),
        ];
        assert_eq!(places, expected);
    }

    /// Nodes are distinguished by their roles, in either format.
    #[test]
    fn kinds_follow_roles() {
        for (line, expected) in [
            ("  - button \"Go\" [ref=e1]", "button"),
            ("- 'link \"a: b\"':", "link"),
            ("  uid=1_4 button \"Go\"", "button"),
            ("uid=1_3 \"some text\"", "text"),
            ("uid=1_3 form", "form"),
            ("plain", ""),
        ] {
            assert_eq!(kind(line), expected, "{line}");
        }
    }

    /// Children of too many kinds are counted together, so that they can still be folded.
    #[test]
    fn too_many_kinds_are_counted_together() {
        let text: String = (0..100).map(|n| format!("- k{n}\n")).collect();
        let most = lines_of(&text).iter().map(|line| line.rank).max();
        assert_eq!(most, Some(100 - KINDS_MAX));
        assert_eq!(lines_of(&text)[50].kind_count, 101 - KINDS_MAX);
    }
}
