//! Shortens texts that are too long to be sent whole.
//!
//! A snapshot is a tree in lines: deeper lines belong to the line above. The end of a page matters as much as
//! its beginning, so [`cut`] does not remove the end but repetition: a parent shows the first few of its
//! children of one kind, and a line `# … 480 more (lines 121–1560)` stands for the rest. How many it shows is
//! chosen so that the whole fits. A shown line keeps its ancestors and its refs. These marks number lines
//! from 1, so a number is `offset` + 1. Of a text that is no tree, [`head`] keeps the beginning. Both take
//! one pass. `render.rs` calls them.

use std::fmt::Write as _;

use super::{
    tokens::{estimate, exceeds},
    tree::{TreeLine, depth, lines_of},
};

/// The part of a long text that is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShortenedText {
    /// Ends with a newline, unless it is cut within a line.
    pub(crate) text: String,
    /// How many lines of the original are shown, the last perhaps in part.
    pub(crate) lines_shown: usize,
    pub(crate) lines_total: usize,
    /// About how many tokens are left out.
    pub(crate) tokens_left: usize,
}

/// About how many tokens a mark costs, with numbers of five digits: `# … 480 more (lines 12100–15600)`.
const MARK_TOKENS: usize = 15;

/// Groups of up to this many children of one kind are folded last: the cells of a row, the buttons of a bar. A few
/// whole rows say more than many rows without their ends.
const SMALL_GROUP_MAX: usize = 12;

/// How many entries of a long list are shown at least while the short lists are whole: a single entry would not look
/// like a list.
const KEPT_MIN: usize = 2;

/// Folds a snapshot so that it has about `tokens_max` tokens at most. `None` if it has no more than that.
pub(crate) fn cut(snapshot: &str, tokens_max: usize) -> Option<ShortenedText> {
    if !exceeds(snapshot, tokens_max) {
        return None;
    }
    let lines = lines_of(snapshot);
    let costs: Vec<usize> = lines.iter().map(|line| cost(line.text)).collect();
    let folding = Folding::new(&lines, SMALL_GROUP_MAX);
    if let Some(children_shown) =
        folding.greatest(&costs, tokens_max).filter(|children_shown| *children_shown >= KEPT_MIN)
    {
        return Some(folding.fold(&costs, children_shown, tokens_max));
    }
    let folding = Folding::new(&lines, 0);
    Some(match folding.greatest(&costs, tokens_max) {
        Some(children_shown) => folding.fold(&costs, children_shown, tokens_max),
        // Not even one child of each kind fits, so the fold adds one more mark, at the end.
        None => folding.fold(&costs, 1, tokens_max.saturating_sub(MARK_TOKENS)),
    })
}

/// Keeps the beginning of a text, up to about `tokens_max` tokens. `None` if it has no more than that.
///
/// The part ends at a line's end, unless the lines that fit leave most of the room empty: then it contains the
/// beginning of the next line.
pub(crate) fn head(text: &str, tokens_max: usize) -> Option<ShortenedText> {
    let total = estimate(text);
    if total <= tokens_max {
        return None;
    }
    let mut bytes = 0;
    let mut tokens = 0;
    let mut lines_shown = 0;
    for line in text.split_inclusive('\n') {
        let next = cost(line);
        if tokens + next > tokens_max {
            if tokens < tokens_max / 2 {
                let part = prefix(line, tokens_max - tokens);
                bytes += part.len();
                lines_shown += usize::from(!part.is_empty());
            }
            break;
        }
        bytes += line.len();
        tokens += next;
        lines_shown += 1;
    }
    let text_shown = &text[..bytes];
    Some(ShortenedText {
        text: text_shown.to_owned(),
        lines_shown,
        lines_total: text.split_inclusive('\n').count(),
        tokens_left: total.saturating_sub(estimate(text_shown)),
    })
}

/// How many tokens a line costs, with its indentation and its newline: two blanks are a token only after a
/// newline.
fn cost(line: &str) -> usize {
    estimate(line) + usize::from(depth(line) == 2)
}

/// The longest beginning of `line` that has about `tokens_max` tokens at most.
fn prefix(line: &str, tokens_max: usize) -> &str {
    // Double the length first: the part is usually short and the line may be a megabyte.
    let fits = |bytes: usize| !exceeds(&line[..line.floor_char_boundary(bytes)], tokens_max);
    let mut too_many = tokens_max.saturating_add(1);
    while too_many < line.len() && fits(too_many) {
        too_many = too_many.saturating_mul(2);
    }
    let mut enough = 0;
    let mut too_many = too_many.min(line.len());
    while too_many - enough > 1 {
        let middle = enough + (too_many - enough) / 2;
        if fits(middle) {
            enough = middle;
        } else {
            too_many = middle;
        }
    }
    &line[..line.floor_char_boundary(enough)]
}

/// Decides which lines are shown if a parent shows a given number of children of each kind.
struct Folding<'a> {
    lines: &'a [TreeLine<'a>],
    /// Each line's rank among its siblings of its kind; 0 if its group is never folded.
    ranks: Vec<usize>,
    /// From which number of children on each line is shown: more than its rank, and than the rank of each ancestor.
    min_children_shown: Vec<usize>,
}

impl<'a> Folding<'a> {
    /// Groups of no more than `group_max` children are never folded.
    fn new(lines: &'a [TreeLine<'a>], group_max: usize) -> Self {
        let ranks: Vec<usize> =
            lines.iter().map(|line| if line.kind_count > group_max { line.rank } else { 0 }).collect();
        let mut min_children_shown: Vec<usize> = Vec::with_capacity(lines.len());
        for (line, rank) in lines.iter().zip(&ranks) {
            min_children_shown.push(line.parent.map_or(0, |parent| min_children_shown[parent]).max(rank + 1));
        }
        Self { lines, ranks, min_children_shown }
    }

    /// The greatest number of children of one kind with which everything fits, or `None` if not even one fits.
    ///
    /// It computes the cost of every number in one pass, by prefix sums, instead of trying one number after the other.
    fn greatest(&self, costs: &[usize], tokens_max: usize) -> Option<usize> {
        let most = *self.min_children_shown.iter().max()?;
        // How much more each number of children costs than the number before.
        let mut more = vec![0_usize; most + 2];
        let mut less = vec![0_usize; most + 2];
        for (number, line) in self.lines.iter().enumerate() {
            more[self.min_children_shown[number]] += costs[number];
            // A mark replaces a hidden line whose parent and whose previous sibling are shown.
            let parent_from = line.parent.map_or(1, |parent| self.min_children_shown[parent]);
            let from = parent_from
                .max(line.previous_sibling.map_or(0, |previous_sibling| self.ranks[previous_sibling] + 1));
            if from <= self.ranks[number] {
                more[from] += MARK_TOKENS;
                less[self.ranks[number] + 1] += MARK_TOKENS;
            }
        }
        let mut sum = 0;
        let mut best = None;
        for children_shown in 0..=most {
            sum = sum + more[children_shown] - less[children_shown];
            if children_shown > 0 && sum <= tokens_max {
                best = Some(children_shown);
            }
        }
        best
    }

    /// The lines that are shown with `children_shown` children of a kind, as far as they fit, and marks for the rest.
    fn fold(&self, costs: &[usize], children_shown: usize, tokens_max: usize) -> ShortenedText {
        let mut text = String::new();
        let mut tokens = 0;
        let mut tokens_shown = 0;
        let mut lines_shown = 0;
        let mut at = 0;
        while let Some(line) = self.lines.get(at) {
            let is_shown = self.min_children_shown[at] <= children_shown;
            let next = if is_shown { costs[at] } else { MARK_TOKENS };
            if tokens + next > tokens_max {
                mark(&mut text, 0, "", at + 1, self.lines.len());
                break;
            }
            tokens += next;
            if is_shown {
                text.push_str(line.text);
                text.push('\n');
                tokens_shown += costs[at];
                lines_shown += 1;
                at += 1;
            } else {
                let (all, siblings) = self.hidden(at, children_shown);
                mark(&mut text, line.depth, &format!(" {siblings} more"), at + 1, at + all);
                at += all;
            }
        }
        let total: usize = costs.iter().sum();
        ShortenedText { text, lines_shown, lines_total: self.lines.len(), tokens_left: total - tokens_shown }
    }

    /// How many lines a mark at the line `at` stands for, and how many siblings: all up to the next shown one.
    fn hidden(&self, at: usize, children_shown: usize) -> (usize, usize) {
        let parent = self.lines[at].parent;
        let above = parent.map(|parent| self.lines[parent].depth);
        let rest = self.lines[at..].iter().zip(&self.min_children_shown[at..]);
        rest.take_while(|(line, from)| **from > children_shown && Some(line.depth) > above)
            .fold((0, 0), |(all, siblings), (line, _)| {
                (all + 1, siblings + usize::from(line.parent == parent))
            })
    }
}

fn mark(text: &mut String, depth: usize, what: &str, first: usize, last: usize) {
    let lines = if first == last { format!("line {first}") } else { format!("lines {first}–{last}") };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{:depth$}# …{what} ({lines})", "");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ORDERS: &str = include_str!("recorded/orders.yml");

    fn check(snapshot: &str, tokens_max: usize, expected: &str) {
        let cut = cut(snapshot, tokens_max).expect("it is too long");
        assert_eq!(cut.text, expected, "{tokens_max}");
        assert!(estimate(&cut.text) <= tokens_max, "{tokens_max}");
    }

    /// A form below a long table stays, with its refs; so do the page's other parts and the table's first rows.
    #[test]
    fn form_below_a_long_table_stays() {
        let cut = cut(ORDERS, 2_000).expect("it is too long");
        let row = ORDERS.lines().skip_while(|line| !line.contains("\"#1000\"")).take(12);
        assert!(cut.text.contains(&row.collect::<Vec<_>>().join("\n")), "a row is whole:\n{}", cut.text);
        for part in [
            "navigation \"Main\"",
            "link \"#1000\"",
            "textbox \"Customer\"",
            "button \"Place order\"",
            "Imprint",
        ] {
            let original = ORDERS.lines().find(|line| line.contains(part)).expect("the page has it");
            assert!(cut.text.lines().any(|line| line == original), "{part}\n{}", cut.text);
        }
        assert!(cut.text.contains(" more (lines "), "{}", cut.text);
        assert!(estimate(&cut.text) <= 2_000);
        let marks = cut.text.lines().filter(|line| line.trim_start().starts_with("# …")).count();
        assert_eq!(cut.lines_shown + marks, cut.text.lines().count());
        assert_eq!(cut.lines_total, ORDERS.lines().count());
        let shown = estimate(ORDERS) - cut.tokens_left;
        assert!((1_500..2_000).contains(&shown), "{shown}");
    }

    /// A text that fits stays as it is.
    #[test]
    fn short_texts_are_unchanged() {
        assert_eq!(cut(ORDERS, estimate(ORDERS)), None);
        assert_eq!(cut("", 0), None);
        assert_eq!(head("a\nb\n", 10), None);
    }

    /// Runs of siblings are folded, each kind by itself, and the mark says which lines it stands for.
    #[test]
    fn sibling_runs_are_folded() {
        let rows: String = (1..=50).map(|n| format!("  - row [ref=e{n}]:\n    - cell \"{n}\"\n")).collect();
        let snapshot = format!("- table:\n{rows}  - caption \"Rows\"\n- button \"Send\" [ref=e99]\n");
        let expected = "\
- table:
  - row [ref=e1]:
    - cell \"1\"
  - row [ref=e2]:
    - cell \"2\"
  # … 48 more (lines 6–101)
  - caption \"Rows\"
- button \"Send\" [ref=e99]
";
        check(&snapshot, 75, expected);
    }

    /// If not even one child of each kind fits, the beginning of that fold is shown.
    #[test]
    fn deep_trees_show_their_beginning() {
        let deep: String = (0..100).map(|n| format!("{:1$}- group\n", "", n * 2)).collect();
        let expected = "- group\n  - group\n    - group\n# … (lines 4–100)\n";
        check(&deep, 24, expected);
    }

    /// A text that is no tree is cut at a line's end, or within a line that is too long, between two characters.
    #[test]
    fn plain_texts_are_cut_at_lines() {
        let lines = "one two three\n".repeat(10);
        let cut = head(&lines, 10).expect("it is too long");
        assert_eq!(
            (cut.text.as_str(), cut.lines_shown, cut.lines_total),
            ("one two three\none two three\none two three\n", 3, 10)
        );
        assert_eq!(cut.tokens_left, 21);

        let long = format!("short\n{}", "äöü ".repeat(10_000));
        let cut = head(&long, 100).expect("it is too long");
        assert!((90..=100).contains(&estimate(&cut.text)), "{}", estimate(&cut.text));
        assert!(long.starts_with(&cut.text));
        assert_eq!((cut.lines_shown, cut.lines_total), (2, 2));
        assert_eq!(head(&long, 0).map(|cut| cut.text), Some(String::new()));
    }

    proptest! {
        /// For any input the result fits, shows lines of the original in order, none without its parent, and its marks
        /// stand for exactly the lines that are not shown.
        #[test]
        fn folded_lines_keep_their_ancestors(depths in prop::collection::vec((0_usize..5, 0_usize..3), 1..80), tokens_max in 30_usize..200) {
            let roles = ["row", "cell", "text"];
            let text: String = depths
                .iter()
                .enumerate()
                .map(|(n, (depth, role))| format!("{:1$}- {role} n{n}\n", "", depth * 2, role = roles[*role]))
                .collect();
            let Some(cut) = cut(&text, tokens_max) else { return Ok(()) };
            prop_assert!(estimate(&cut.text) <= tokens_max, "{}", cut.text);
            let original: Vec<&str> = text.lines().collect();
            let mut next = 0;
            let mut path: Vec<(usize, usize)> = Vec::new();
            for line in cut.text.lines() {
                if let Some((_, lines)) = line.trim_start().strip_prefix("# …").and_then(|rest| rest.split_once('(')) {
                    let numbers: Vec<usize> = lines.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
                    prop_assert_eq!(numbers.first(), Some(&(next + 1)));
                    next = *numbers.last().expect("a mark has numbers");
                    continue;
                }
                prop_assert_eq!(line, original[next]);
                // The parent in the original must be the parent in the result.
                let parent = (0..next).rev().find(|above| depth(original[*above]) < depth(line));
                path.retain(|(above, _)| *above < depth(line));
                prop_assert_eq!(path.last().map(|(_, number)| *number), parent);
                path.push((depth(line), next));
                next += 1;
            }
            prop_assert_eq!(next, original.len());
        }
    }
}
