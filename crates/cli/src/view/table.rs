//! A table for a terminal: columns as wide as their content, the last one as wide as the rest of the line.

use super::{
    terminal::{Terminal, TextStyle},
    text::{escape, shorten, width},
};

/// Separates two columns.
const GAP: &str = "  ";

/// The widest that any column but the last gets on a terminal, so that one long id leaves room for the others.
const COLUMNS_MAX: usize = 32;

/// The least width of the last column, however narrow the terminal: less shows nothing useful, and lines may wrap.
const LAST_COLUMNS_MIN: usize = 16;

/// Separates the two texts of a [`Cell::Pair`].
const PAIR_SEPARATOR: &str = " · ";

#[derive(Debug, Clone)]
pub enum Cell {
    Text(TextStyle, String),
    /// Aligned to the right.
    Number(String),
    /// Two texts; where they do not fit, both are cut at the end. Only in the last column.
    Pair(String, String),
}

impl Cell {
    pub fn plain(text: impl Into<String>) -> Self {
        Self::Text(TextStyle::Plain, text.into())
    }

    fn natural(&self) -> String {
        self.fitted(usize::MAX)
    }

    /// The text as shown, escaped so that it cannot control the terminal.
    fn fitted(&self, columns: usize) -> String {
        match self {
            Self::Text(_, text) | Self::Number(text) => shorten(&escape(text), columns),
            Self::Pair(one, other) => pair(&escape(one), &escape(other), columns),
        }
    }
}

/// Renders a table, every line indented. An empty cell of the last column leaves no spaces at the line's end.
pub fn table(heads: &[&str], rows: &[Vec<Cell>], indent: &str, terminal: Terminal) -> String {
    let Some(last) = heads.len().checked_sub(1) else { return String::new() };
    let widest = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| width(&cell.natural()));
        let natural = cells.max().unwrap_or(0);
        let bound = terminal.columns.map_or(usize::MAX, |_| COLUMNS_MAX);
        natural.min(bound).max(width(heads[column]))
    };
    let mut widths: Vec<usize> = (0..last).map(widest).collect();
    let before: usize = widths.iter().map(|width| width + GAP.len()).sum::<usize>() + indent.len();
    let left = terminal.columns.map_or(usize::MAX, |columns| columns.saturating_sub(before));
    widths.push(left.max(LAST_COLUMNS_MIN));

    let mut text = String::new();
    let numbers = |column: usize| rows.iter().any(|row| matches!(row.get(column), Some(Cell::Number(_))));
    let titles = heads.iter().enumerate().map(|(column, head)| {
        let cell = if numbers(column) { Cell::Number((*head).to_owned()) } else { Cell::plain(*head) };
        (TextStyle::Dim, cell)
    });
    line(&mut text, titles, &widths, indent, terminal);
    for row in rows {
        let cells = row.iter().map(|cell| match cell {
            Cell::Text(style, _) => (*style, cell.clone()),
            _ => (TextStyle::Plain, cell.clone()),
        });
        line(&mut text, cells, &widths, indent, terminal);
    }
    text
}

fn line(
    text: &mut String,
    cells: impl Iterator<Item = (TextStyle, Cell)>,
    widths: &[usize],
    indent: &str,
    terminal: Terminal,
) {
    let mut line = indent.to_owned();
    for (column, ((style, cell), columns)) in cells.zip(widths).enumerate() {
        let fitted = cell.fitted(*columns);
        let is_last = column + 1 == widths.len();
        let padding = if is_last { 0 } else { columns.saturating_sub(width(&fitted)) };
        let styled = terminal.styled(style, &fitted);
        line += if column > 0 { GAP } else { "" };
        line += &match cell {
            Cell::Number(_) => format!("{:padding$}{styled}", ""),
            _ => format!("{styled}{:padding$}", ""),
        };
    }
    *text += line.trim_end();
    text.push('\n');
}

/// Two texts in this many columns: the second gets what it needs up to half, the first gets the rest.
fn pair(one: &str, other: &str, columns: usize) -> String {
    if one.is_empty() || other.is_empty() {
        return shorten(&format!("{one}{other}"), columns);
    }
    let room = columns.saturating_sub(width(PAIR_SEPARATOR));
    let for_one = width(one).min((room - room / 2).max(room.saturating_sub(width(other))));
    format!("{}{PAIR_SEPARATOR}{}", shorten(one, for_one), shorten(other, room.saturating_sub(for_one)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<Cell>> {
        let row = |id: &str, calls: &str, title: &str, url: &str| {
            vec![
                Cell::plain(id),
                Cell::Number(calls.to_owned()),
                Cell::Pair(title.to_owned(), url.to_owned()),
            ]
        };
        vec![
            row("prices", "12", "Tea shop", "http://localhost:8000/a/rather/long/path?with=a&query=too"),
            row("茶", "0", "", "about:blank"),
            row(&"long-".repeat(10), "3", "茶の店のとても長い題名です", "http://tea.test/"),
            row("bare", "0", "", ""),
        ]
    }

    fn at(columns: Option<usize>) -> String {
        table(&["ID", "CALLS", "PAGE"], &rows(), "  ", Terminal { columns, rows: None, colour: false })
    }

    /// Without a limit nothing is cut; columns line up by what a terminal shows, not by characters.
    #[test]
    fn table_without_a_column_limit_is_not_cut() {
        insta::assert_snapshot!(at(None));
    }

    /// On a terminal no line is wider than it, and a cut text has a mark.
    #[test]
    fn lines_fit_the_terminal() {
        for columns in [60, 80, 120] {
            for line in at(Some(columns)).lines() {
                assert!(width(line) <= columns, "{line}");
            }
        }
        insta::assert_snapshot!(at(Some(72)));
    }

    /// A terminal too narrow for any table gets one all the same.
    #[test]
    fn narrow_terminal_gets_a_table() {
        for columns in 0..40 {
            assert_eq!(at(Some(columns)).lines().count(), 5);
        }
    }

    /// A table with colours has the same text as one without.
    #[test]
    fn coloured_table_has_the_same_text() {
        let cells = vec![vec![Cell::Text(TextStyle::Green, "idle".to_owned()), Cell::plain("x")]];
        let show = |colour| table(&["STATE", "X"], &cells, "", Terminal { colour, ..Terminal::default() });
        let coloured = show(true);
        assert_eq!(coloured, "\x1b[2mSTATE\x1b[0m  \x1b[2mX\x1b[0m\n\x1b[32midle\x1b[0m   x\n");
        assert_eq!(
            coloured.replace("\x1b[2m", "").replace("\x1b[32m", "").replace("\x1b[0m", ""),
            show(false)
        );
    }
}
