//! Compares two lists of lines, and returns the hunks in which they differ, in order.
//!
//! Lines of a snapshot have refs, so most of them are unique. Lines that occur equally often on both sides are paired
//! first; between two pairs a library finds the rest. The library alone would take minutes on two long texts that have
//! little in common, or that repeat a few lines, and a hostile page can have such a text. So the library's work is
//! limited; the rest counts as replaced. The script is then longer than necessary, never wrong. [`super::diff`] calls
//! it.

use std::ops::Range;

use imara_diff::{Algorithm, IndentHeuristic, IndentLevel, InternedInput, Token};

/// A place where lines of the second text replace lines of the first. Either side may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hunk {
    pub(super) before: Range<usize>,
    pub(super) after: Range<usize>,
}

/// The most work for one script: lines on one side times lines on the other, summed over all places. This much
/// takes about 50 ms at worst. Pages that have changed in a few places need some thousands.
const COMPARISONS_MAX: usize = 50_000_000;

/// The hunks in which the lines differ. At least one equal line is between two hunks.
pub(super) fn hunks<'a>(
    before: impl Iterator<Item = &'a str>,
    after: impl Iterator<Item = &'a str>,
) -> Vec<Hunk> {
    let mut input = InternedInput::default();
    input.update_before(before);
    input.update_after(after);
    let mut script = DiffBuilder { input: &input, hunks: Vec::new(), comparisons_left: COMPARISONS_MAX };
    let whole = Hunk { before: 0..input.before.len(), after: 0..input.after.len() };
    let Some(rest) = script.trimmed(whole) else { return Vec::new() };
    let mut before = rest.before.start;
    let mut after = rest.after.start;
    for (one, other) in anchor_pairs(&input, &rest) {
        script.add_range(Hunk { before: before..one, after: after..other });
        before = one + 1;
        after = other + 1;
    }
    script.add_range(Hunk { before: before..rest.before.end, after: after..rest.after.end });
    script.hunks
}

/// Pairs of equal lines on both sides of `place`, no two of which cross.
///
/// They are lines that occur equally often on both sides, the first paired with the first, and so on.
fn anchor_pairs(input: &InternedInput<&str>, place: &Hunk) -> Vec<(usize, usize)> {
    let before = &input.before[place.before.clone()];
    let after = &input.after[place.after.clone()];
    let tokens = input.interner.num_tokens() as usize;
    let count = |lines: &[Token]| {
        let mut counts = vec![0_usize; tokens];
        lines.iter().for_each(|line| counts[line.0 as usize] += 1);
        counts
    };
    let counts = count(before);
    let counts_after = count(after);
    // The numbers of all lines of the first side in one list: those of equal lines together, in order.
    let mut next: Vec<usize> = counts
        .iter()
        .scan(0, |sum, count| {
            *sum += count;
            Some(*sum - count)
        })
        .collect();
    let mut numbers = vec![0_usize; before.len()];
    let firsts = next.clone();
    for (number, line) in before.iter().enumerate() {
        numbers[next[line.0 as usize]] = place.before.start + number;
        next[line.0 as usize] += 1;
    }
    let mut next = firsts;
    let mut pairs = Vec::new();
    for (number, line) in after.iter().enumerate() {
        let line = line.0 as usize;
        if counts[line] == counts_after[line] {
            pairs.push((numbers[next[line]], place.after.start + number));
            next[line] += 1;
        }
    }
    longest_rising(&pairs)
}

/// The longest selection of pairs whose first numbers rise. The second numbers rise already.
fn longest_rising(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // For each length, the pair with the least first number that ends a selection of that length; and for each pair its
    // predecessor in the selection.
    let mut ends: Vec<usize> = Vec::new();
    let mut previous: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (at, (one, _)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end].0 < *one);
        previous.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        if length == ends.len() {
            ends.push(at);
        } else {
            ends[length] = at;
        }
    }
    let last = ends.last().copied();
    let mut chosen: Vec<_> = std::iter::successors(last, |at| previous[*at]).map(|at| pairs[at]).collect();
    chosen.reverse();
    chosen
}

/// A script while it is written.
struct DiffBuilder<'a> {
    input: &'a InternedInput<&'a str>,
    hunks: Vec<Hunk>,
    comparisons_left: usize,
}

impl DiffBuilder<'_> {
    /// Adds the differences within this range of lines, which comes after all earlier ones.
    fn add_range(&mut self, place: Hunk) {
        let Some(place) = self.trimmed(place) else { return };
        let comparisons = place.before.len().saturating_mul(place.after.len());
        if comparisons == 0 || comparisons > self.comparisons_left {
            self.hunks.push(place);
            return;
        }
        self.comparisons_left -= comparisons;
        let line = |token: &Token| self.input.interner[*token];
        let mut input = InternedInput::default();
        input.update_before(self.input.before[place.before.clone()].iter().map(line));
        input.update_after(self.input.after[place.after.clone()].iter().map(line));
        let mut diff = imara_diff::Diff::compute(Algorithm::Histogram, &input);
        // Of equally short scripts, choose the one that replaces whole subtrees.
        let depth = |token| IndentLevel::for_ascii_line(str::bytes(input.interner[token]), 1);
        diff.postprocess_with_heuristic(&input, IndentHeuristic::new(depth));
        let moved = |range: Range<u32>, by: usize| by + range.start as usize..by + range.end as usize;
        self.hunks.extend(diff.hunks().map(|hunk| Hunk {
            before: moved(hunk.before, place.before.start),
            after: moved(hunk.after, place.after.start),
        }));
    }

    /// The range without the equal lines at its ends; `None` if nothing is left.
    fn trimmed(&self, place: Hunk) -> Option<Hunk> {
        let Hunk { mut before, mut after } = place;
        let same = |one: usize, other: usize| self.input.before[one] == self.input.after[other];
        while !before.is_empty() && !after.is_empty() && same(before.start, after.start) {
            before.start += 1;
            after.start += 1;
        }
        while !before.is_empty() && !after.is_empty() && same(before.end - 1, after.end - 1) {
            before.end -= 1;
            after.end -= 1;
        }
        (!before.is_empty() || !after.is_empty()).then_some(Hunk { before, after })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Makes the second text from the first.
    fn apply<'a>(before: &[&'a str], after: &[&'a str], hunks: &[Hunk]) -> Vec<&'a str> {
        let mut made = Vec::new();
        let mut at = 0;
        for hunk in hunks {
            made.extend(&before[at..hunk.before.start]);
            made.extend(&after[hunk.after.clone()]);
            at = hunk.before.end;
        }
        made.extend(&before[at..]);
        made
    }

    /// Lines from a small set, in random order, the same each time.
    fn noise(seed: u64, lines: usize) -> Vec<&'static str> {
        let mut state = seed;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            ["a", "b", "  c", "  d"][(state >> 20) as usize % 4]
        };
        (0..lines).map(|_| next()).collect()
    }

    /// Two long texts that repeat a few lines are not compared line by line: beyond the limit lines count as replaced,
    /// and the script is still right.
    #[test]
    fn repetitive_texts_stay_within_the_limit() {
        let before = noise(77, 100_000);
        let after = noise(991, 100_000);
        let hunks = hunks(before.iter().copied(), after.iter().copied());
        let comparisons = |hunk: &Hunk| hunk.before.len() * hunk.after.len();
        assert!(hunks.iter().any(|hunk| comparisons(hunk) > COMPARISONS_MAX), "{} hunks", hunks.len());
        assert_eq!(apply(&before, &after, &hunks), after);
    }

    /// Changes far apart in a long text are found where they are, also next to lines that repeat.
    #[test]
    fn distant_changes_are_found() {
        let names: Vec<String> = (0..20_000).map(|n| format!("link {n}")).collect();
        let before: Vec<&str> = names.iter().flat_map(|name| [name.as_str(), "  url"]).collect();
        let mut after = before.clone();
        after[20_000] = "new";
        after[30_001] = "  other";
        let found = hunks(before.iter().copied(), after.iter().copied());
        let expected = [20_000, 30_001].map(|at| Hunk { before: at..at + 1, after: at..at + 1 });
        assert_eq!(found, expected);
    }

    proptest! {
        /// The script, applied to the first text, makes the second.
        #[test]
        fn diff_applied_gives_the_second_text(before in "( {0,4}[abc]\n){0,40}", after in "( {0,4}[abc]\n){0,40}") {
            let before: Vec<&str> = before.lines().collect();
            let after: Vec<&str> = after.lines().collect();
            let hunks = hunks(before.iter().copied(), after.iter().copied());
            prop_assert!(hunks.is_sorted_by(|one, next| one.before.end < next.before.start));
            prop_assert_eq!(apply(&before, &after, &hunks), after);
        }
    }
}
