//! Writes `docs/BENCHMARKS.md`: a header, one table over all measurements, and a paragraph per measurement.

use std::fmt::Write;

/// The result of one measurement.
#[derive(Debug)]
pub struct Section {
    pub title: &'static str,
    pub rows: Vec<Row>,
    /// How it was measured, and how to read the figures.
    pub how: String,
}

/// One line of the table. Figures are text with their units.
#[derive(Debug)]
pub struct Row {
    pub what: String,
    pub greenroom: String,
    /// The figure of the engine without greenroom; empty where there is nothing to compare with.
    pub alone: String,
    pub ratio: String,
    pub goal: Goal,
}

/// The goal, and whether it is met.
#[derive(Debug)]
pub enum Goal {
    None,
    Met(&'static str),
    Missed(&'static str),
}

impl Goal {
    pub fn check(goal: &'static str, met: bool) -> Self {
        if met { Self::Met(goal) } else { Self::Missed(goal) }
    }
}

impl Row {
    pub fn new(what: impl Into<String>, greenroom: String, alone: String) -> Self {
        Self { what: what.into(), greenroom, alone, ratio: String::new(), goal: Goal::None }
    }

    pub fn ratio(mut self, ratio: f64) -> Self {
        self.ratio = if ratio >= 0.995 { format!("{ratio:.1}") } else { format!("1/{:.1}", 1.0 / ratio) };
        self
    }

    pub fn goal(mut self, goal: Goal) -> Self {
        self.goal = goal;
        self
    }
}

/// The sections' rows as one table.
pub fn table(sections: &[Section]) -> String {
    let mut text = String::from(
        "| what | greenroom | engine alone | ratio | goal | met |\n|---|---:|---:|---:|---|---|\n",
    );
    for row in sections.iter().flat_map(|section| &section.rows) {
        let (goal, met) = match row.goal {
            Goal::None => ("", ""),
            Goal::Met(goal) => (goal, "yes"),
            Goal::Missed(goal) => (goal, "**no**"),
        };
        let Row { what, greenroom, alone, ratio, .. } = row;
        writeln!(text, "| {what} | {greenroom} | {alone} | {ratio} | {goal} | {met} |").unwrap();
    }
    text
}

/// A separate small table, for figures that have no goal and no comparison with the engine alone. Each row
/// has a name and a figure per column.
pub fn comparison_table<'a, const N: usize>(
    columns: &[&str],
    rows: impl Iterator<Item = (&'a str, [String; N])>,
) -> String {
    let mut text = format!("| {} |\n|---|{}\n", columns.join(" | "), "---:|".repeat(N));
    for (what, figures) in rows {
        writeln!(text, "| {what} | {} |", figures.join(" | ")).unwrap();
    }
    text.trim_end().to_owned()
}

/// The whole page.
pub fn page(header: &str, sections: &[Section]) -> String {
    let mut text = format!("# Benchmarks\n\n{header}\n\n{}\n## How it is measured\n", table(sections));
    for Section { title, how, .. } in sections {
        write!(text, "\n**{title}.** {how}\n").unwrap();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of its own has as many figures in a row as it has columns for them.
    #[test]
    fn comparison_table_has_a_column_per_figure() {
        let rows = [("a look", ["12 ms".to_owned(), "9 ms".to_owned()])];
        let expected = "| what | one | other |\n|---|---:|---:|\n| a look | 12 ms | 9 ms |";
        assert_eq!(comparison_table(&["what", "one", "other"], rows.into_iter()), expected);
    }

    /// The page has one row per figure, says whether goals are met, and leaves blank what has no comparison.
    #[test]
    fn page_has_a_row_per_figure() {
        let rows = vec![
            Row::new("a call", "90 µs".into(), "30 µs".into()).ratio(3.0).goal(Goal::check("≤ 100 µs", true)),
            Row::new("a start", "50 ms".into(), "500 ms".into())
                .ratio(0.1)
                .goal(Goal::check("≤ 1/20", false)),
            Row::new("memory", "9 MB".into(), String::new()),
        ];
        let section = Section { title: "Calls", rows, how: "By counting.".into() };
        let expected = "\
# Benchmarks

A header.

| what | greenroom | engine alone | ratio | goal | met |
|---|---:|---:|---:|---|---|
| a call | 90 µs | 30 µs | 3.0 | ≤ 100 µs | yes |
| a start | 50 ms | 500 ms | 1/10.0 | ≤ 1/20 | **no** |
| memory | 9 MB |  |  |  |  |

## How it is measured

**Calls.** By counting.
";
        assert_eq!(page("A header.", &[section]), expected);
    }
}
